"""Shards: people in their places, the tails' mean in one network, prices by hand, many requests in
sequence.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from unplug.core import InputError, TrainingError
from unplug.sdk.forgetting.unlearning import Shards, build_design
from unplug.sdk.forgetting.unlearning.designs.shards import MIDDLE, SPREAD, Tails
from unplug.sdk.forgetting.unlearning.shards import ShardPlan

from .conftest import World, same


@pytest.fixture
def sharded(worlds: dict[str, World]) -> World:
    return worlds["shards"]


def loaded(world: World) -> tuple[Shards, Tails]:
    return world.form, world.form.load(world.original)


def test_all_pictures_of_a_person_are_in_one_place(sharded: World) -> None:
    form, kept = loaded(sharded)
    plan = ShardPlan(shards=form.shards, slices=form.slices, seed=0)
    assert set(kept.place) == set(sharded.split.retain)
    for sample in sharded.personal.samples:
        if sample.id in kept.place:
            assert kept.place[sample.id] == plan.place(f"subject {sample.subject}")


def test_the_network_says_the_mean_of_the_tails(sharded: World) -> None:
    """By hand from each tail's own numbers, on features that were not rounded."""
    form, kept = loaded(sharded)
    model, hidden = sharded.original.model, form.hidden
    image_BCHW = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        z_BC = (model.pooled(image_BCHW) - kept.mean_C) / kept.spread_C
        told = model(image_BCHW)
    channels, outputs, answers = z_BC.shape[1], model.groups + 1, []
    for tail_P in kept.after_SRP[:, -1]:
        first, bias, last, final = tail_P.split(
            [hidden * channels, hidden, outputs * hidden, outputs]
        )
        answers.append(
            (z_BC @ first.view(hidden, channels).T + bias).relu() @ last.view(outputs, hidden).T
            + final
        )
    mean_BK = torch.stack(answers).mean(0)
    assert torch.allclose(told["age_logits"], mean_BK[:, :-1], atol=1e-4)
    assert torch.allclose(
        told["expected_age"][:, 0], (MIDDLE + SPREAD * mean_BK[:, -1]).clamp(0, 100), atol=1e-2
    )
    assert not torch.equal(kept.after_SRP[0, -1], kept.after_SRP[1, -1])


def test_requests_in_sequence_leave_what_training_on_the_rest_gives(sharded: World) -> None:
    """Person after person until four are left, each step against a fit from scratch: every slice of
    every tail.
    """
    form, kept = loaded(sharded)
    model, rows = sharded.original.model, sharded.rows
    position, untouched = {name: index for index, name in enumerate(rows.ids)}, 0
    people = np.random.default_rng(0).permutation(sorted(set(rows.people)))
    for person in people[:-4]:
        gone = [name for name, owner in zip(rows.ids, rows.people, strict=True) if owner == person]
        before = kept.after_SRP.clone()
        kept = form.take(
            model, kept, gone, rows.part([position[name] for name in form.reads(kept, gone)]), 0
        )
        rest = rows.part([position[name] for name in sorted(kept.place)])
        fresh = form.fit(model, kept, rest, 0)
        assert torch.equal(kept.after_SRP, fresh.after_SRP)
        assert kept.place == fresh.place and kept.committed == fresh.committed
        changed = [
            shard
            for shard in range(form.shards)
            if not torch.equal(before[shard], kept.after_SRP[shard])
        ]
        assert len(changed) == 1
        untouched += bool(torch.equal(before[changed[0], 0], kept.after_SRP[changed[0], 0]))
    assert untouched > 0  # people of the second slice left the first as it was
    empty = [shard for shard, sizes in enumerate(kept.sizes()) if sum(sizes) == 0]
    assert empty and all(torch.equal(kept.after_SRP[shard, -1], kept.warm_P) for shard in empty)


def test_everybody_of_a_shard_leaves_without_any_picture(sharded: World, tmp_path: Path) -> None:
    form, kept = loaded(sharded)
    gone = [name for name, (shard, _) in kept.place.items() if shard == 2]
    assert gone and form.reads(kept, gone) == []
    assert form.price(sharded.original, sharded.personal, gone) == 0.0
    left = sharded.without(gone, tmp_path / "left")
    assert same(left, sharded.without(gone, tmp_path / "refit", "retrain"))
    assert left.record["forget"]["cost"]["compute_fraction"] == 0.0
    assert torch.equal(form.load(left).after_SRP[2, -1], kept.warm_P)


def test_other_requests_in_another_order_cost_and_give_the_same(sharded: World) -> None:
    """How many threads there are decides nothing."""
    form, kept = loaded(sharded)
    model, rows = sharded.original.model, sharded.rows
    shuffled = rows.part(
        torch.randperm(len(rows.ids), generator=torch.Generator().manual_seed(1)).tolist()
    )
    torch.set_num_threads(2)
    try:
        assert torch.equal(form.fit(model, kept, shuffled, 0).after_SRP, kept.after_SRP)
    finally:
        torch.set_num_threads(1)
    assert not torch.equal(form.fit(model, kept, rows, 1).after_SRP, kept.after_SRP)


def placed(place: dict[str, tuple[int, int]], shards: int, slices: int) -> Tails:
    """A state without weights."""
    nothing = torch.zeros(1)
    return Tails(
        committed=dict.fromkeys(place, b""),
        place=place,
        warm_P=nothing,
        mean_C=nothing,
        spread_C=nothing,
        after_SRP=torch.zeros(shards, slices, 1),
    )


def test_prices_by_hand() -> None:
    """Two shards of two slices with 2 samples each, 3 epochs: stages of 2 and 2 epochs over 2 and 4
    samples, 12 a shard.
    """
    form = Shards(shards=2, slices=2, hidden=1, epochs=3)
    assert ShardPlan(shards=2, slices=2, seed=0).epochs(3) == [2, 2]
    names = [f"{number:03b}" for number in range(8)]
    kept = placed({name: (int(name[0]), int(name[1])) for name in names}, 2, 2)
    assert form.work(kept, []) == (0, 24)
    assert form.work(kept, ["000"]) == (2 * 1 + 2 * 3, 8 + 12)  # first slice: both stages again
    assert form.work(kept, ["010"]) == (2 * 3, 4 + 6 + 12)  # second slice: the last stage alone
    assert form.work(kept, ["010", "100"]) == (6 + 8, 10 + 8)
    assert form.reads(kept, ["010", "011"]) == ["000", "001"]


@pytest.mark.parametrize(("people", "expected"), [(1, 0.04), (5, 0.18), (20, 0.55)])
def test_one_person_costs_about_four_percent(people: int, expected: float) -> None:
    """Of twenty shards, over all people of a large set (SISA, section VII)."""
    form, plan = Shards(), ShardPlan(shards=20, slices=3, seed=0)
    names = [str(number) for number in range(3000)]
    kept = placed({name: plan.place(f"sample {name}") for name in names}, 20, 3)
    generator, prices = np.random.default_rng(0), []
    for _ in range(200):
        step, whole = form.work(kept, list(generator.choice(names, people, replace=False)))
        prices.append(step / whole)
    assert np.mean(prices) == pytest.approx(expected, abs=0.015 + 0.03 * (people == 20))


def test_settings_out_of_range() -> None:
    for settings, why in (
        ("shards=0", "out of range"),
        ("shards=100 slices=3", "out of range"),
        ("hidden=0", "out of range"),
        ("hidden=300", "shards x hidden is 6000"),
        ("lr=0", "out of range"),
        ("epochs=1", "too few"),
    ):
        with pytest.raises(InputError, match=why):
            build_design("shards", dict(pair.split("=") for pair in settings.split()))


def test_a_loss_that_is_no_number_is_told(sharded: World) -> None:
    form, kept = loaded(sharded)
    model, rows = sharded.original.model, sharded.rows
    with pytest.raises(TrainingError, match="not a number"):
        form.fit(model, kept, replace(rows, pooled_NC=rows.pooled_NC * float("nan")), 0)


def test_samples_without_a_name_stand_alone(sharded: World) -> None:
    sample = sharded.personal.samples[0]
    assert replace(sample, subject=None).person == f"sample {sample.id}"
