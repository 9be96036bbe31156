"""What a critic asks beyond the sets of a split: views, other pictures, heads, shares, the threat
model, and refusals.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.intervals import ends

from unplug.core import DataError, InputError
from unplug.sdk.evidence.auditing import (
    Lacks,
    Signals,
    check_different,
    gather,
    threat_model,
    untested,
)
from unplug.sdk.evidence.auditing.attack import Inside
from unplug.sdk.evidence.auditing.attacks.features import FeaturesAttack, fit_probe
from unplug.sdk.evidence.auditing.attacks.head_difference import HeadDifferenceAttack, reconstruct
from unplug.sdk.evidence.auditing.attacks.other_pictures import OtherPicturesAttack
from unplug.sdk.evidence.auditing.checks import check_split
from unplug.sdk.evidence.auditing.evidence import CROPS, SHIFTS, AuditEvidence, drawn_again, moved
from unplug.sdk.evidence.auditing.measure import run_attacks
from unplug.sdk.evidence.auditing.usage import usage
from unplug.sdk.evidence.auditing.white_box import look_inside
from unplug.sdk.evidence.statistics import NotGiven, auc
from unplug.sdk.learning.data import load_dataset, parse_spec
from unplug.sdk.learning.training import pictures

from ...conftest import World
from .planted import says
from .test_attacks import signals
from .test_audit import AGES, asked, run


def test_no_view_is_the_picture(world: World) -> None:
    views = list(moved(pictures(world.sets.forget)))
    assert len(views) == len(SHIFTS) + len(CROPS) == 10
    for view in views:
        same = (view.image_NCHW == world.sets.forget.image_NCHW).flatten(1).all(dim=1)
        assert not same.any() and view.ids == world.sets.forget.ids


def test_other_pictures_of_procedural_people_are_drawn_and_new(world: World) -> None:
    people = ["subject person-3", "subject person-11"]
    drawn = drawn_again(world.dataset, people)
    assert [sample.person for sample in drawn.samples] == [people[0]] * 2 + [people[1]] * 2
    # the same people, with more pictures
    more = parse_spec("synth:n=400,subjects=80,seed=0").listing().samples
    ages = {sample.payload: (sample.age, sample.subject) for sample in more}
    assert all(ages[sample.payload] == (sample.age, sample.subject) for sample in drawn.samples)
    known = {world.dataset.pixels([row]).tobytes() for row in range(len(world.dataset))}
    assert not known & {drawn.pixels([row]).tobytes() for row in range(len(drawn))}
    result = gather(world.sets, world.dataset, AGES).others
    for part, ours in zip(result, (world.sets.forget, world.sets.test), strict=True):
        assert set(part.subject_N.tolist()) == set(ours.subject_N.tolist())


def test_other_pictures_that_are_given_must_be_new_and_of_everybody(
    world: World, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="are in the data too"):
        gather(world.sets, world.dataset, AGES, others=world.dataset)
    # drawn with other people's numbers
    strangers = load_dataset("synth:n=20,subjects=20,seed=0", 32, show=False)
    nobody = replace(strangers, rows=strangers.rows[:0], samples=())
    few = gather(world.sets, world.dataset, AGES, others=nobody)
    assert few.others is None and "has 0 of" in few.missing["others"]
    (tmp_path / "a").mkdir()
    for shade in range(2):
        pixels = np.full((40, 40, 3), 50 * shade, np.uint8)
        Image.fromarray(pixels).save(tmp_path / "a" / f"{shade}.png")
    photographs = load_dataset(f"imagefolder:{tmp_path}", 32, show=False)
    assert drawn_again(photographs, ["subject a"]) is None


def test_a_probe_finds_a_direction_and_judges_only_people_it_did_not_see() -> None:
    rng = np.random.default_rng(0)
    one, zero = rng.normal(size=(60, 40)), rng.normal(size=(90, 40))
    one[:, 7] += 2.5
    probe = fit_probe(one[:40], zero[:60])
    assert np.abs(probe.weight_C).argmax() == 7
    assert auc(probe(one[40:]), probe(zero[60:])) > 0.8
    # Features that name the person tell nothing of other people: held out by picture they would
    # tell all.
    person = np.repeat(np.arange(20), 3)
    forget, unseen = (np.repeat(rng.normal(size=(20, 40)), 3, axis=0) for _ in range(2))
    head = {"weight_KC": np.zeros((1, 40)), "bias_K": np.zeros(1)}
    inside = Inside(forget_FC=forget, unseen_UC=unseen, population_ZC=unseen, **head)
    ours = replace(signals(1), person_F=person, person_U=person, inside=inside)
    assert 0.25 < auc(*FeaturesAttack()(ours, [])) < 0.75
    with pytest.raises(InputError, match="needs 5 people"):
        FeaturesAttack()(replace(ours, person_F=person % 4), [])


def ridge(x_NC: np.ndarray, y_NK: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    x_NP = np.concatenate([x_NC, np.ones((len(x_NC), 1))], axis=1)
    gram = x_NP.T @ x_NP + penalty * np.diag([*np.ones(x_NC.shape[1]), 0.0])
    theta = np.linalg.solve(gram, x_NP.T @ y_NK)
    return theta[:-1].T, theta[-1]


def heads(gone: int, seed: int = 0, people: int = 400) -> tuple[Signals, np.ndarray]:
    """A ridge head before and after `gone` samples left it, with population samples of the
    attacker's own.
    """
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(10, 10)) / 3
    x_NC, unseen, population = (
        np.maximum(rng.normal(size=(n, 10)) @ mix + 0.3, 0) for n in (people, 100, 4000)
    )
    y_NK = rng.normal(size=(people, 4)) + x_NC[:, :4]
    layers = [ridge(x, y, 1e-6) for x, y in ((x_NC, y_NK), (x_NC[gone:], y_NK[gone:]))]
    old, new = (
        Inside(
            forget_FC=x_NC[:gone],
            unseen_UC=unseen,
            population_ZC=population,
            weight_KC=weight,
            bias_K=bias,
        )
        for weight, bias in layers
    )
    answers = says(np.zeros(gone)), says(np.zeros(100))
    ours = Signals(
        forget=answers[0], unseen=answers[1], population=answers[1], retain=answers[1], inside=new
    )
    return replace(ours, before=replace(ours, inside=old)), x_NC[:gone]


def test_one_deletion_from_a_linear_head_is_reconstructed() -> None:
    for seed in range(5):
        ours, x_1C = heads(1, seed)
        guess = reconstruct(ours.before.inside, ours.inside)
        assert np.corrcoef(guess, x_1C[0])[0, 1] > 0.95
        forget_F, unseen_U = HeadDifferenceAttack()(ours, [])
        assert forget_F[0] > np.quantile(unseen_U, 0.98)
    # Batches hide each other.
    aucs = [
        np.mean([auc(*HeadDifferenceAttack()(heads(size, seed)[0], [])) for seed in range(10)])
        for size in (1, 10, 60)
    ]
    assert aucs == sorted(aucs, reverse=True) and aucs[0] > 0.98 > 0.85 > aucs[-1]


def test_heads_that_say_nothing_are_lacking() -> None:
    ours, _ = heads(3)
    moved_on = replace(ours.inside, unseen_UC=ours.inside.unseen_UC + 1.0)
    for changes, words in (
        ({"inside": ours.before.inside}, "its head is the old one"),
        ({"inside": moved_on}, "layers in front of its head changed"),
        ({"before": None}, "an old and a new version"),
    ):
        with pytest.raises(Lacks, match=words):
            HeadDifferenceAttack()(replace(ours, **changes), [])


def test_what_the_last_layer_reads_is_what_it_answers_from(world: World) -> None:
    model = world.original.model
    result = look_inside(model, world.sets)
    batch = world.sets.test.batch(torch.arange(len(world.sets.test)))
    with torch.no_grad():
        logits = model(*batch.inputs)["age_logits"].double().numpy()
    np.testing.assert_allclose(
        result.unseen_UC @ result.weight_KC.T + result.bias_K, logits, atol=1e-4
    )
    assert look_inside(torch.nn.Conv2d(3, 3, 1), world.sets) is None


def test_the_last_layer_is_the_one_that_runs_last(world: World) -> None:
    """A design over a network of others registers its head before their layers."""

    class Over(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = torch.nn.Linear(5, 2)
            self.trunk = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(5))
            self.unused = torch.nn.Linear(5, 3)

        def forward(self, image_BCHW: torch.Tensor) -> torch.Tensor:
            answer: torch.Tensor = self.head(self.trunk(image_BCHW))
            return answer

    model = Over()
    model(torch.zeros(1, 3, 32, 32))
    result = look_inside(model, world.sets)
    assert result.weight_KC.shape == (2, 5) and result.forget_FC.shape[1] == 5


def shares(forget: float, retain: float, seed: int = 0) -> Any:
    """A model that knows so much of each set: members' phi is 3 higher, half of unseen ones are
    above 0.
    """
    rng = np.random.default_rng(seed)

    def part(count: int, share: float) -> Any:
        return says(rng.normal(size=count) + 6.0 * (rng.random(count) < share))

    return Signals(
        forget=part(300, forget),
        unseen=part(300, 0.0),
        population=part(50, 0.0),
        retain=part(600, retain),
    )


def test_shares_used_are_found_and_need_an_original_that_remembers() -> None:
    counts = {"forget": 300, "test": 300, "train": 600}
    sets: Any = SimpleNamespace(
        **{name: SimpleNamespace(subject_N=np.arange(count)) for name, count in counts.items()}
    )
    original = shares(1.0, 1.0)
    for forget, retain in ((0.0, 1.0), (0.5, 0.9), (0.0, 0.0)):
        used = usage(shares(forget, retain, seed=1), original, sets)
        for share, truth in ((used.forget, forget), (used.retain, retain)):
            low, high = ends(share)
            assert abs(share.value - truth) < 0.08 and low - 0.02 <= truth <= high + 0.02
    blind = usage(shares(0.0, 0.0, seed=1), shares(0.0, 0.0, seed=2), sets)
    assert isinstance(blind, NotGiven) and "even in the original" in blind.reason


def test_an_attack_is_left_out_for_the_model_that_lacks_it_and_for_all_without_the_oracle() -> None:
    whole, bare = signals(1), replace(signals(2), inside=None)
    attacks: Any = {"features": FeaturesAttack(), "other-pictures": OtherPicturesAttack()}
    names = ["unlearned", "age.tflite", "retrained"]
    both = ["features", "other-pictures"]

    def ran(models: list[Signals], oracle: int | None = None) -> tuple[list[list[str]], Any]:
        scores, unable = run_attacks(attacks, models, [], names=names, oracle=oracle)
        return [sorted(row) for row in scores], unable

    rows, unable = ran([whole, bare, signals(3)], 2)
    assert rows == [both, both[1:], both]
    assert "weights are not at hand" in unable["features on age.tflite"]
    rows, unable = ran([whole, signals(3), bare], 2)
    assert rows == [both[1:]] * 3 and "of retrained" in unable["features"]
    lonely = replace(whole, others=replace(whole.others, person_F=np.zeros(60, int)))
    assert "29 people have no other picture" in ran([lonely])[1]["other-pictures"]


def test_predictions_of_another_split_and_models_given_twice_are_refused(world: World) -> None:
    (model,) = asked(world, "unlearned")
    says = model.signals(world.sets)
    check_split("model", says, world.sets)
    with pytest.raises(InputError, match=r"something of \d+ forget samples, the split has"):
        check_split("model", replace(says, forget=says.unseen), world.sets)
    turned = replace(says.unseen, true_group_N=says.unseen.true_group_N[::-1].copy())
    with pytest.raises(InputError, match="labels of its test samples are not those of the split"):
        check_split("model", replace(says, unseen=turned), world.sets)
    with pytest.raises(InputError, match="numbers 1 and 3 say the same of every sample"):
        check_different("models", [np.zeros(3), np.ones(3), np.zeros(3)])


def test_the_threat_model_follows_what_ran(world: World) -> None:
    models = asked(world, "original", "unlearned", "retrained")
    whole = run(world, *models, evidence=gather(world.sets, world.dataset, AGES))
    rows = {row.holds: row for row in whole.threats}
    assert whole.threats == threat_model(whole)
    for holds, attacks in {
        "the weights": ("features",),
        "the old file as well": ("two-versions",),
        "the file and a picture that is cut a little differently": ("views", "best-view"),
        "the file and other pictures of a person, none of them trained on": ("other-pictures",),
    }.items():
        assert rows[holds].covered == attacks
    closed = rows["the old weights as well, of a linear head over a fixed trunk"]
    assert closed.covered == () and "changed as well" in closed.missing["head-difference"]
    assert "0 given" in rows["the file, and data to train models of their own"].missing["rmia"]
    planted = next(row for row in whole.threats if "planted" in row.holds)
    assert planted.holds in untested(whole.threats) and "canaries" in planted.missing["not tested"]
    assert {"the weights", "the old file as well"} <= set(untested(run(world, *models).threats))
    missing = AuditEvidence(missing={"views": "no pictures", "others": "no pictures"})
    none = run(world, *models, evidence=missing)
    assert none.skipped["views"] == none.skipped["other-pictures"] == "no pictures"
