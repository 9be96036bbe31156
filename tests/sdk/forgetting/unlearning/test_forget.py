"""The forget step from a request to a checkpoint: what a method is shown, what is refused, what is
recorded.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from unplug.core import (
    BudgetExceeded,
    CheckpointError,
    DataError,
    InputError,
    OutputError,
    TrainingError,
    operator_key,
)
from unplug.plugins import Checkpoint
from unplug.sdk.forgetting.tasks import NEEDS, AgeTask, Need, task_of, train_age
from unplug.sdk.forgetting.unlearning import (
    ForgetProblem,
    apply_method,
    build_method,
    check_oracle,
    forget,
    request_split,
    retrain_cost,
)
from unplug.sdk.forgetting.unlearning.access import check_needs, shown_to
from unplug.sdk.forgetting.unlearning.methods.finetune import Finetune
from unplug.sdk.forgetting.unlearning.methods.msg import MSG
from unplug.sdk.learning.data import load_dataset
from unplug.sdk.learning.training import ImageSet, Sets, split_of

from ...conftest import CPU, RECIPE, World
from .methods.conftest import AGES, changed, retraining


def step(world: World, out: Path, method: str = "finetune", **options: Any) -> Checkpoint:
    options = {"budget": 0.6, "seed": 0, **options}
    ids = options.pop("ids", world.forget_ids)
    original = options.pop("original", world.original)
    dataset = options.pop("dataset", world.dataset)
    return forget(original, dataset, ids, method, out, device=CPU, show=False, **options)


@pytest.mark.long
@pytest.mark.parametrize("name", ["finetune", "msg"])
def test_saved_record_is_complete(world: World, tmp_path: Path, name: str) -> None:
    done = step(world, tmp_path / "out", name, options={"lr": "0.001"})
    record, count = (
        json.loads((tmp_path / "out" / "unplug.json").read_text()),
        len(world.forget_ids),
    )
    assert record == done.record
    told = [record[key] for key in ("schema", "role", "seed")]
    assert told == ["unplug-checkpoint/1", "unlearned", 0]
    facts, cost = record["forget"], record["forget"]["cost"]
    assert (facts["method"], facts["samples"], facts["settings"]["lr"]) == (name, count, 0.001)
    assert cost["compute_fraction"] <= cost["budget"] == 0.6
    assert cost["wall_s"] > 0 and "timed just before" in cost["retrain"]["source"]
    sha256, held = world.original.sha256, sorted(record["split"]["forget"])
    original = {"original": str(world.original.path), "original_sha256": sha256}
    assert record["lineage"] == {**original, "held": {sha256: held}}
    assert set(record["metrics"]) == {"retain", "forget", "test"}
    assert record["metrics"]["forget"]["n"] == count
    assert record["data"]["digest"] == world.dataset.digest
    assert done.model.iospec == world.original.model.iospec
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"Forgotten: {count} samples by `{name}`" in card
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.long
def test_who_was_held_out_as_well_is_in_no_set_any_more(world: World, tmp_path: Path) -> None:
    ids = (*world.forget_ids, world.split.validation[0], world.split.test[0])
    alone, both = (
        step(world, tmp_path / str(len(asked)), ids=asked) for asked in (world.forget_ids, ids)
    )
    assert not changed(alone.model, both.model), "no weights were trained on them"
    left = split_of(both, world.dataset)
    assert left == world.split.with_forget(ids)
    assert not {*ids[-2:]} & {*left.train, *left.held_out}
    assert both.record["forget"]["samples"] == len(world.forget_ids)
    assert [done.record["forget"]["held_out"] for done in (alone, both)] == [0, 2]
    assert both.record["metrics"]["test"]["n"] == len(world.split.test) - 1
    assert "2 more were held out and never trained on" in (both.path / "README.md").read_text()


@pytest.mark.long
def test_retrain_is_training_from_scratch_on_the_retain_set(world: World, tmp_path: Path) -> None:
    """The oracle's slow oracle: `train_age` on a split without the forget set, same seed, bit for
    bit.
    """
    split = world.split.with_forget(world.forget_ids)
    scratch = train_age(
        world.dataset, split, RECIPE, tmp_path / "scratch", seed=5, device=CPU, show=False
    )
    assert not changed(scratch.model, world.oracle.model)
    assert world.oracle.record["role"] == "retrained"
    assert world.oracle.record["forget"]["cost"]["compute_fraction"] == pytest.approx(1.0)


def test_requests_that_cannot_be_met_leave_nothing(world: World, tmp_path: Path) -> None:
    other = load_dataset("synth:n=12,subjects=6,seed=9", 32, show=False)
    refusals: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (BudgetExceeded, "does not cover one step", {"budget": 0.01}),
        (DataError, "it is empty", {"ids": ()}),
        (DataError, "were not trained on", {"ids": world.split.test[:1]}),
        (DataError, "the whole train set", {"ids": world.split.train}),
        (DataError, "digest differs", {"dataset": other}),
        # an unlearned model is no oracle, whatever its split says
        (CheckpointError, "retain set", {"oracle": world.unlearned}),
        (
            InputError,
            "it needs forget data, which is withheld",
            {"method": "msg", "withhold": ["forget data"]},
        ),
        (
            InputError,
            r"needs training-time hooks, and there is none\. Train the original with",
            {"method": "sisa"},
        ),
        (
            InputError,
            "needs out-of-fold answers, and there is none.*unplug references",
            {"method": "folds"},
        ),
        (OutputError, "one of the models that this step reads", {"out": world.original.path}),
        (InputError, "`base=small`: an age predictor has none", {"base": "small"}),
    ]
    for kind, message, given in refusals:
        with pytest.raises(kind, match=message):
            step(world, given.pop("out", tmp_path / "out"), **given)
        assert list(tmp_path.iterdir()) == []


def test_an_oracle_of_another_recipe_or_retain_set(world: World) -> None:
    split, fewer = (
        request_split(world.original, world.dataset, ids)
        for ids in (world.forget_ids, world.forget_ids[:-1])
    )
    check_oracle(world.oracle, split, RECIPE)
    with pytest.raises(CheckpointError, match="another recipe"):
        check_oracle(world.oracle, split, replace(RECIPE, epochs=4))
    with pytest.raises(CheckpointError, match="retain set"):
        check_oracle(world.oracle, fewer, RECIPE)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("finetune", {"learning_rate": "1"}, "no setting 'learning_rate'. Known: lr, batch_size"),
        ("retrain", {"lr": "1"}, "Known: none"),
        ("finetune", {"lr": "fast"}, "not a value of type float"),
        ("finetune", {"batch_size": "1.5"}, "not a value of type int"),
        ("fintune", {}, "Did you mean finetune"),
    ],
)
def test_wrong_settings(method: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_method(method, options)


def test_a_taken_place_is_refused_before_the_work(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "unplug.sdk.forgetting.unlearning.forgetting.apply_method",
        lambda *_a, **_k: pytest.fail("the work was done first"),
    )
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="Choose another `out`"):
        step(world, tmp_path / "out")
    assert (tmp_path / "out" / "thesis.txt").read_text() == "mine"


@pytest.mark.long
def test_retrain_cost_is_timed_here_and_the_oracles_own_time_is_shown(world: World) -> None:
    split = request_split(world.original, world.dataset, world.forget_ids)
    passes = RECIPE.epochs * len(split.retain)
    model, task = world.original.model, task_of(world.original, device=CPU)
    before = copy.deepcopy(model.state_dict())
    cost = retrain_cost(model, split, task, world.sets)
    assert (cost.cost.forward, cost.cost.backward, cost.recorded_wall_s) == (passes, passes, None)
    # How near it comes is the machine's affair: what else runs there changes from second to second.
    told_ms = float(cost.source.split(" ms")[0])
    assert 0.0 < cost.cost.wall_s == pytest.approx(told_ms * passes / 1e3, rel=0.01)
    assert not changed(before, model) and not model.training, "timing changed the model"
    shown = retrain_cost(model, split, task, world.sets, world.oracle)
    assert shown.recorded_wall_s == world.oracle.record["cost"]["wall_s"]


@dataclass(frozen=True, kw_only=True)
class Looks:
    """A method that keeps what it was shown."""

    needs: tuple[Need, ...] = ()
    default_budget: float | None = None

    def __call__(self, model: Any, problem: ForgetProblem) -> Any:
        seen.append(problem)
        return model


class Classless(ImageSet):
    """Samples of a model that says no class logits, as a plugin's are."""

    def holds(self) -> frozenset[str]:
        return super().holds() - {"class logits"}


seen: list[ForgetProblem] = []


def shown(world: World, *needs: Need) -> dict[str, ImageSet]:
    cost = retraining(RECIPE.epochs * len(world.sets.train))
    apply_method(Looks(needs=needs), world.original.model, world.sets, AGES, cost, None, seed=0)
    return by_need(seen[-1].retain, seen.pop())


def by_need(retain: Any, held: Sets | ForgetProblem) -> dict[str, ImageSet]:
    return {
        "retain data": retain,
        "forget data": held.forget,
        "validation data": held.validation,
    }


@pytest.mark.parametrize("need", ["retain data", "forget data", "validation data", None])
def test_a_set_that_was_not_declared_is_empty(world: World, need: Need | None) -> None:
    given, whole = shown(world, *([need] if need else [])), by_need(world.sets.train, world.sets)
    for name, data in given.items():
        assert data.ids == (whole[name].ids if name == need else ())
        parts = (data.image_NCHW, data.age_N, data.group_N, data.subject_N)
        assert {len(part) for part in parts} == {len(data)}
        # labels were not declared either
        assert bool((data.group_N == -1).all()) and bool(data.age_N.isnan().all())
    if need:
        assert torch.equal(given[need].image_NCHW, whole[need].image_NCHW)


def test_what_is_shown_is_what_was_declared(world: World) -> None:
    train, model = world.sets.train, world.original.model
    labelled, aged = (
        shown(world, "retain data", need)["retain data"] for need in ("labels", "ages")
    )
    assert torch.equal(labelled.group_N, train.group_N)
    assert torch.equal(labelled.age_N, train.age_N) and torch.equal(aged.age_N, train.age_N)
    assert bool((aged.group_N == -1).all())
    assert bool((train.group_N >= 0).all()), "the caller's own data was changed"
    sets = shown_to(Looks(needs=NEEDS[:5]), world.sets, model)
    assert len(sets.test) == 0 and len(sets.train) == len(train)
    unread: list[Need] = ["forget data", "validation data", "ages"]
    sets = shown_to(Finetune(), world.sets, model, withhold=unread)
    assert sets.train.ids == train.ids and len(sets.forget) == len(sets.validation) == 0


@pytest.mark.parametrize("need", MSG.needs)
def test_what_is_withheld_but_needed_is_refused(world: World, need: Need) -> None:
    with pytest.raises(InputError) as caught:
        shown_to(MSG(), world.sets, world.original.model, withhold=[need])
    assert str(caught.value) == (
        f"method MSG: it needs {need}, which is withheld. "
        f"`unplug list methods --without '{need}'` lists the methods that work without."
    )


def test_what_is_missing_but_needed_is_refused(world: World) -> None:
    sets, model = world.sets, world.original.model
    nameless = replace(sets.train, group_N=torch.full_like(sets.train.group_N, -1))
    ageless = replace(sets.forget, age_N=torch.full_like(sets.forget.age_N, float("nan")))
    cases: dict[Need, Sets] = {
        "retain data": replace(sets, train=sets.train.subset([])),
        "forget data": replace(sets, forget=sets.forget.subset([])),
        "validation data": replace(sets, validation=sets.validation.subset([])),
        "labels": replace(sets, train=nameless),
        "ages": replace(sets, forget=ageless),
        "training-time hooks": sets,
        "class logits": replace(sets, train=Classless(**vars(sets.train))),
        "out-of-fold answers": sets,
    }
    assert set(cases) == set(NEEDS)
    for need, without in cases.items():
        with pytest.raises(InputError, match=f"method Looks: it needs {need}, and there is none"):
            shown_to(Looks(needs=(need,)), without, model)
        others = tuple(other for other in NEEDS[:5] if other != need)
        shown_to(Looks(needs=others), without, model)


def test_what_a_whole_kind_lacks_is_named_together() -> None:
    lacks: list[Need] = ["ages", "class logits", "training-time hooks"]
    with pytest.raises(InputError) as caught:
        check_needs(Looks(needs=("labels", "class logits")), lacks)
    assert str(caught.value) == (
        "method Looks: it needs class logits, and there is none. "
        "`unplug list methods --without 'ages' --without 'class logits'` lists the methods that "
        "work without."
    )
    check_needs(Looks(needs=("labels",)), lacks, withhold=["forget data"])


@pytest.mark.nightly
@pytest.mark.long
# one that never reads the forget set, one that does, one in closed form
@pytest.mark.parametrize("method", ["finetune", "msg", "acu"])
def test_a_request_of_a_whole_class_is_done(world: World, tmp_path: Path, method: str) -> None:
    ages = {sample.id: sample.age or 0 for sample in world.dataset.samples}
    ids = [name for name in world.split.train if 21 <= ages[name] < 30]
    metrics = step(world, tmp_path / "out", method, ids=ids).record["metrics"]
    assert metrics["forget"]["n"] == len(ids) > 0
    assert metrics["retain"]["n"] == len(world.split.train) - len(ids)
    groups = {row["ages"]: row["n"] for row in metrics["retain"]["per_group"]}
    assert groups["21-25"] == groups["25-30"] == 0


@pytest.mark.long
@pytest.mark.parametrize("method", ["finetune", "ct"])
def test_a_loss_of_nan_saves_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    whole = AgeTask.loss
    monkeypatch.setattr(AgeTask, "loss", lambda *arguments: whole(*arguments) * float("nan"))
    with pytest.raises(TrainingError, match="the loss is not a number"):
        step(world, tmp_path / "out", method)
    assert list(tmp_path.iterdir()) == []


def test_a_later_request_never_trains_on_those_who_were_forgotten_before(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows them from digests, under a key."""
    told = json.dumps(world.unlearned.record["split"])
    assert not any(name in told for name in world.dataset.ids)
    second = world.split.with_forget(world.forget_ids).retain[:2]
    again = request_split(world.unlearned, world.dataset, second)
    assert again == world.split.with_forget((*world.forget_ids, *second))
    monkeypatch.setenv("UNPLUG_KEY", str(tmp_path / "key"))
    why = "no key is there, and a record names people by digests under the key"
    with pytest.raises(InputError, match=why):
        step(world, tmp_path / "out", "msg", ids=second, original=world.unlearned)
    operator_key()  # another one
    with pytest.raises(InputError, match="it is the key"):
        check_oracle(world.oracle, world.split.with_forget(world.forget_ids), RECIPE)
