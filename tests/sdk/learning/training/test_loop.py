"""The loop: averages by the formula, resuming to the bit, NaN stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from unplug.core import CheckpointError, TrainingError
from unplug.plugins import AGE_EDGES
from unplug.sdk.forgetting.tasks import AgeTask
from unplug.sdk.learning.data import Dataset
from unplug.sdk.learning.training import (
    Fit,
    ImageSet,
    Recipe,
    StateFile,
    decay_groups,
    fit,
    fit_new,
    new_model,
    seeded,
    to_tensors,
    update_average,
)

EDGES = tuple(map(float, AGE_EDGES))
MIDDLES = tuple((low + high) / 2 for low, high in pairwise(EDGES))


@pytest.fixture
def sets(make_dataset: Callable[..., Dataset]) -> tuple[ImageSet, ImageSet]:
    dataset = make_dataset(30)
    data = to_tensors(dataset, dataset.ids, AGE_EDGES, torch.device("cpu"))
    return data.subset(range(22)), data.subset(range(22, 30))


def train(sets: tuple[ImageSet, ImageSet], recipe: Recipe, *, seed: int = 0, **options: Any) -> Fit:
    return fit_new(AgeTask(recipe=recipe, edges=EDGES), *sets, seed=seed, **options)


def weights(fit: Fit) -> bytes:
    return b"".join(value.numpy().tobytes() for value in fit.model.state_dict().values())


def history(fit: Fit) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "wall_s"} for row in fit.history]


class Killed(Exception):
    """Stands for the end of the process."""


def kill_after(epoch: int) -> Callable[[dict[str, Any]], None]:
    def on_epoch(row: dict[str, Any]) -> None:
        if row["epoch"] == epoch:
            raise Killed

    return on_epoch


@pytest.mark.long
@pytest.mark.parametrize("killed_after", [1, 3])
def test_a_killed_run_goes_on_to_the_same_bytes(
    sets: Any, recipe: Recipe, tmp_path: Path, killed_after: int
) -> None:
    straight = train(sets, recipe)
    state = StateFile(path=tmp_path / "state.safetensors", fingerprint="f")
    with pytest.raises(Killed):
        train(sets, recipe, state=state, on_epoch=kill_after(killed_after))
    torch.rand(7)  # whatever else the process drew must not matter
    epochs: list[int] = []
    resumed = train(sets, recipe, state=state, on_epoch=lambda row: epochs.append(row["epoch"]))
    assert epochs == list(range(killed_after + 1, 5)), "finished epochs are not trained again"
    assert weights(resumed) == weights(straight)
    assert history(resumed) == history(straight) and resumed.passes == straight.passes == 4 * 22
    assert resumed.wall_s == pytest.approx(resumed.history[-1]["wall_s"], abs=1e-3), (
        "both parts count"
    )


def test_a_state_of_another_run_or_a_damaged_one_is_refused(
    sets: Any, recipe: Recipe, tmp_path: Path
) -> None:
    path = tmp_path / "state.safetensors"
    with pytest.raises(Killed):
        train(sets, recipe, state=StateFile(path=path, fingerprint="f"), on_epoch=kill_after(1))
    with pytest.raises(CheckpointError, match=r"another recipe, data or seed.*`restart`"):
        train(sets, recipe, state=StateFile(path=path, fingerprint="g"))
    with pytest.raises(CheckpointError, match="cannot go on from it"):
        train(sets, replace(recipe, size="small"), state=StateFile(path=path, fingerprint="f"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="cannot go on from it"):
        train(sets, recipe, state=StateFile(path=path, fingerprint="f"))


@pytest.mark.long
def test_training_lowers_the_loss(sets: Any, recipe: Recipe) -> None:
    fit = train(sets, replace(recipe, epochs=12, augment="none", dropout=0.0))
    losses = [row["train_loss"] for row in fit.history]
    assert losses[-1] < 0.75 * losses[0]
    assert not fit.model.training


def test_a_loss_that_is_no_number_ends_the_run(sets: Any, recipe: Recipe) -> None:
    train_set, validation = sets
    age_N = train_set.age_N.clone()
    age_N[3] = torch.nan
    broken = replace(train_set, age_N=age_N)
    task = AgeTask(recipe=recipe, edges=EDGES)
    model = new_model(task, sets[0], seed=0)
    with pytest.raises(TrainingError, match="the loss is nan in epoch 1"):
        fit(model, broken, validation, task, seed=0)


def test_weights_that_break_in_the_last_step_end_the_run(
    sets: Any, recipe: Recipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The training loss of that epoch is still finite: nothing may be saved all the same."""
    from unplug.sdk.learning.training import loop

    def broken(average: nn.Module, *_: Any) -> None:
        for parameter in average.parameters():
            parameter.data.fill_(torch.nan)

    monkeypatch.setattr(loop, "update_average", broken)
    state = StateFile(path=tmp_path / "state.safetensors", fingerprint="f")
    with pytest.raises(TrainingError, match="validation loss is nan in epoch 1"):
        train(sets, recipe, state=state)
    assert not state.path.exists()


def test_one_sample_is_too_few(sets: Any, recipe: Recipe) -> None:
    with pytest.raises(TrainingError, match="1 sample: too few"):
        train((sets[0].subset([0]), sets[1]), recipe)


def test_rows_of_the_history_hold_the_last_rate_of_their_epoch(sets: Any, recipe: Recipe) -> None:
    rows = train(sets, replace(recipe, schedule="cosine", lr=0.004, epochs=2)).history
    # 22 samples in batches of 6 are four steps an epoch: steps 3 and 7 of 8
    assert [row["lr"] for row in rows] == pytest.approx(
        [0.004 * 0.6913417, 0.004 * 0.0380602], rel=1e-5
    )


@pytest.mark.parametrize(
    ("decay", "step", "keep"),
    [(0.99, 0, 0.1), (0.99, 8, 0.5), (0.99, 10_000, 0.99), (0.0, 100, 0.0)],
)
def test_averages_follow_the_formula(decay: float, step: int, keep: float) -> None:
    torch.manual_seed(0)
    average, model = (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)) for _ in range(2))
    model(torch.randn(5, 3))
    before = {name: value.double().clone() for name, value in average.state_dict().items()}
    update_average(average, model, decay, step)
    for name, value in average.state_dict().items():
        theirs = model.state_dict()[name].double()
        expected = (
            keep * before[name] + (1 - keep) * theirs if value.is_floating_point() else theirs
        )
        assert torch.allclose(value.double(), expected, rtol=0, atol=1e-6), name
    assert average.state_dict()["1.num_batches_tracked"].item() == 1


def test_without_averaging_the_model_itself_is_kept(sets: Any, recipe: Recipe) -> None:
    plain = replace(recipe, ema=0.0, epochs=1)
    task = AgeTask(recipe=plain, edges=EDGES)
    model = new_model(task, sets[0], seed=0)
    done = fit(model, *sets, task, seed=0)
    assert done.model is not model
    for name, value in done.model.state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name


def test_seeding_is_local_and_keys_differ() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    draws = []
    for key in ((0, 1), (1, 0), (0, 2), (0, -1), (0, 1)):
        with seeded(*key) as generator:
            draws.append((torch.rand(1, generator=generator).item(), torch.rand(1).item()))
    assert torch.equal(torch.rand(3), expected), "the caller's generator is left alone"
    assert draws[0] == draws[-1] and len(set(draws)) == 4


def test_every_epoch_has_an_order_of_its_own(
    sets: Any, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    real = ImageSet.batch

    def batch(self: ImageSet, index_B: torch.Tensor) -> Any:
        if len(self) == 22:  # not the validation set
            seen.extend(index_B.tolist())
        return real(self, index_B)

    monkeypatch.setattr(ImageSet, "batch", batch)
    train(sets, replace(recipe, epochs=3))
    orders = [tuple(seen[start : start + 22]) for start in (0, 22, 44)]
    assert len(seen) == 66 and len(set(orders)) == 3
    assert all(sorted(order) == list(range(22)) for order in orders)


def test_decay_spares_norms_and_biases() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2))
    decayed, spared = decay_groups(net, 0.05)
    assert {id(p) for p in decayed["params"]} == {id(net[0].weight), id(net[2].weight)}
    assert len(spared["params"]) == 4
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.05, 0.0)
