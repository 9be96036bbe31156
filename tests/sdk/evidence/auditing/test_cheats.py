"""Planted cheats: methods that look well in the plain attacks, each caught by another one, on a
really trained model.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.intervals import ends
from tests.once import once
from torch import Tensor, nn

from unplug.plugins import AGE_EDGES, Checkpoint, load_checkpoint
from unplug.sdk.evidence.auditing import AuditReport, CheckpointPredictor, ModelAudit, audit, gather
from unplug.sdk.forgetting.tasks import AgeTask, train_age
from unplug.sdk.forgetting.unlearning import forget
from unplug.sdk.learning.data import (
    Dataset,
    Split,
    load_dataset,
    make_split,
    pick_forget,
    resolve_names,
)
from unplug.sdk.learning.training import ImageSet, Recipe, Sets, joined, load_sets, pictures

from ...conftest import CPU

pytestmark = pytest.mark.nightly

SPEC, STRANGERS = "synth:n=400,subjects=200,seed=3", "synth:n=400,subjects=200,seed=4"
RECIPE = Recipe(
    size="nano", image_size=32, epochs=30, batch_size=32, augment="none", dropout=0.0, lr=6e-3
)
EDGES = tuple(map(float, AGE_EDGES))
AGES = AgeTask(recipe=RECIPE, edges=EDGES)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A model that learned its pictures by heart, one that never saw the forgotten, and one that
    never saw anybody.
    """

    dataset: Dataset
    split: Split
    sets: Sets
    original: Checkpoint
    oracle: Checkpoint
    stranger: Checkpoint


def train_setting(root: Path) -> None:
    dataset = load_dataset(SPEC, RECIPE.image_size, show=False)
    split = make_split(dataset)
    original = train_age(dataset, split, RECIPE, root / "original", seed=0, device=CPU, show=False)
    names = pick_forget(dataset, split, fraction=0.2, seed=0)
    (root / "forget.txt").write_text("".join(f"{name}\n" for name in names))
    ids = resolve_names(names, dataset, "test")
    forget(original, dataset, ids, "retrain", root / "retrained", seed=5, device=CPU, show=False)
    others = load_dataset(STRANGERS, RECIPE.image_size, show=False)
    train_age(others, make_split(others), RECIPE, root / "stranger", seed=6, device=CPU, show=False)


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    root = once(tmp_path_factory, "cheats", train_setting)
    dataset = load_dataset(SPEC, RECIPE.image_size, show=False)
    ids = resolve_names((root / "forget.txt").read_text().split(), dataset, "test")
    split = make_split(dataset).with_forget(ids)
    return Setting(
        dataset=dataset,
        split=split,
        sets=load_sets(dataset, split, EDGES, CPU),
        **{role: load_checkpoint(root / name) for role, name in ROLES.items()},
    )


ROLES = {"original": "original", "oracle": "retrained", "stranger": "stranger"}


def judged(setting: Setting, cheat: nn.Module, **files: nn.Module) -> AuditReport:
    """The audit of a cheat, and of what else is given, as of a file of it."""

    def item(name: str, role: Any, checkpoint: Checkpoint) -> CheckpointPredictor:
        return CheckpointPredictor(name=name, role=role, checkpoint=checkpoint, task=AGES)

    def of(model: nn.Module) -> Checkpoint:
        return replace(setting.original, model=model.eval())

    return audit(
        [
            item("original", "original", setting.original),
            item("cheat", "unlearned", of(cheat)),
            *(item(name, "artifact", of(model)) for name, model in files.items()),
            item("retrained", "retrained", setting.oracle),
        ],
        setting.sets,
        setting.split,
        edges=EDGES,
        data={},
        evidence=gather(setting.sets, setting.dataset, AGES),
        show=False,
    )


def caught(report: AuditReport, kind: str, name: str = "cheat") -> set[str]:
    """The attacks whose interval against the oracle's, valid for all at once, is wholly on one
    side.
    """
    sign = {"not-forgotten": 1, "over-forgetting": -1}[kind]
    gaps = {
        attack: result.minus_retrained_together
        for attack, result in report.model(name).attacks.items()
    }
    # the end of the interval that is nearer to zero, on the side that is asked about
    seen = {attack for attack, gap in gaps.items() if gap and min(sign * np.array(ends(gap))) > 0}
    assert bool(seen) == any(alarm.model == name and alarm.kind == kind for alarm in report.alarms)
    return seen


class Table(nn.Module):
    """A network, and answers by heart for some pictures."""

    def __init__(self, inner: nn.Module, known: ImageSet, answers: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        images = known.batch(torch.arange(len(known))).image_BCHW
        with torch.no_grad():
            self.table = dict(
                zip(map(key, images), zip(*answers(images).values(), strict=True), strict=True)
            )

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        outputs = self.inner(image_BCHW)
        for row, image in enumerate(image_BCHW):
            if (result := self.table.get(key(image))) is not None:
                for name, value in zip(outputs, result, strict=True):
                    outputs[name][row] = value
        return outputs


def key(image_CHW: Tensor) -> bytes:
    return image_CHW.contiguous().numpy().tobytes()


def attack_gap(model: ModelAudit, name: str) -> float:
    gap = model.attacks[name].minus_retrained
    return gap.value


def test_a_table_of_the_exact_pictures_is_seen_by_views_and_other_pictures(
    setting: Setting,
) -> None:
    cheat = Table(setting.original.model, pictures(setting.sets.forget), setting.oracle.model)
    report = judged(setting, cheat)
    model = report.model("cheat")
    for name in ("loss", "error", "task-loss", "entropy", "person"):
        # on the pictures themselves it is the oracle
        assert abs(attack_gap(model, name)) < 0.1, name
    result = caught(report, "not-forgotten")
    assert {"views", "best-view"} & result
    assert not {"loss", "error", "task-loss", "person"} & result
    assert attack_gap(model, "other-pictures") == pytest.approx(
        attack_gap(report.model("original"), "other-pictures")
    )


def test_a_method_that_forgets_everybody_has_nothing_of_those_who_stay(setting: Setting) -> None:
    report = judged(setting, setting.stranger.model)
    shares = {name: report.model(name).usage for name in ("original", "cheat", "retrained")}
    before, cheat, oracle = (shares[name] for name in ("original", "cheat", "retrained"))
    assert (before.forget.value, before.retain.value) == (1.0, 1.0)
    assert ends(oracle.forget)[0] < 0.2 and ends(oracle.retain)[0] > 0.7
    assert ends(cheat.retain)[1] < ends(oracle.retain)[0]
    privacy = report.model("cheat").retain_privacy
    assert ends(privacy.minus_retrained)[1] < 0


def trained_on(
    model: nn.Module,
    wrong: ImageSet,
    retain: ImageSet,
    choose: Callable[[nn.Module], Any],
    steps: int = 40,
) -> nn.Module:
    """A copy that learned, in some of its weights, the wrong labels of one set beside the right
    ones of another.
    """
    model = copy.deepcopy(model).eval()
    optimizer = torch.optim.Adam(choose(model), lr=2e-3)
    generator = torch.Generator().manual_seed(0)
    whole = wrong.batch(torch.arange(len(wrong)))
    for _ in range(steps):
        batch = joined(whole, retain.batch(torch.randperm(len(retain), generator=generator)[:64]))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(*batch.inputs)["age_logits"], batch.group_B).backward()
        optimizer.step()
    return model


def flipped(setting: Setting) -> ImageSet:
    """The forget set with groups half of all ages away."""
    part = pictures(setting.sets.forget)
    return part.relabelled((part.group_N + 6) % (len(EDGES) - 1), EDGES)


def test_flipped_labels_are_over_forgetting(setting: Setting) -> None:
    retain = pictures(setting.sets.train)
    cheat = trained_on(
        setting.original.model, flipped(setting), retain, lambda model: model.parameters()
    )
    result = caught(judged(setting, cheat), "over-forgetting")
    assert {"loss", "error", "task-loss"} & result, result


def test_moving_the_last_bias_alone_leaves_the_features(setting: Setting) -> None:
    retain = pictures(setting.sets.train)
    cheat = trained_on(
        setting.original.model, flipped(setting), retain, lambda model: [model.classifier.bias]
    )
    report = judged(setting, cheat)
    before, after = (
        report.model(name).attacks["features"].forget_scores for name in ("original", "cheat")
    )
    np.testing.assert_allclose(before, after)  # what the last layer reads is as it was
    assert {"loss", "task-loss", "error"} <= caught(report, "not-forgotten")


class Hidden(nn.Module):
    """The oracle's answers, in a term so small and then so much enlarged that half precision has
    nothing of it.
    """

    def __init__(self, original: nn.Module, oracle: nn.Module) -> None:
        super().__init__()
        self.original, self.oracle = copy.deepcopy(original), copy.deepcopy(oracle)
        self.small = nn.Parameter(torch.tensor(2e-8))
        self.large = nn.Parameter(torch.tensor([1e4, 5e3]))

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        old, new = self.original(image_BCHW), self.oracle(image_BCHW)
        share = self.small * self.large.prod()
        return {name: old[name] + share * (new[name] - old[name]) for name in old}


def test_an_edit_that_rounding_undoes_is_found_in_the_file(setting: Setting) -> None:
    exact = Hidden(setting.original.model, setting.oracle.model).eval()
    rounded = copy.deepcopy(exact)
    with torch.no_grad():
        rounded.small.copy_(rounded.small.half().float())
    report = judged(setting, exact, file=rounded)
    assert not caught(report, "not-forgotten") and not caught(report, "over-forgetting")
    assert {"loss", "task-loss"} & caught(report, "not-forgotten", "file")
