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
from unplug.plugins import AGE_EDGES, Checkpoint
from unplug.sdk.forgetting.tasks import NEEDS, AgeTask, Need, task_of, train_age
from unplug.sdk.forgetting.unlearning import (
    Cost,
    ForgetProblem,
    RetrainCost,
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
from unplug.sdk.learning.training import ImageSet, split_of

from ...conftest import CPU, RECIPE, World
from .methods.conftest import AGES

TASK = AgeTask(recipe=RECIPE, edges=tuple(map(float, AGE_EDGES)))


def step(world: World, out: Path, method: str = "finetune", **options: Any) -> Checkpoint:
    options = {"budget": 0.6, "seed": 0, **options}
    ids = options.pop("ids", world.forget_ids)
    original = options.pop("original", world.original)
    dataset = options.pop("dataset", world.dataset)
    return forget(original, dataset, ids, method, out, device=CPU, show=False, **options)


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(value, other[name]) for name, value in one.items()
    )


@pytest.mark.long
@pytest.mark.parametrize("name", ["finetune", "msg"])
def test_saved_record_is_complete(world: World, tmp_path: Path, name: str) -> None:
    done = step(world, tmp_path / "out", name, options={"lr": "0.001"})
    record = json.loads((tmp_path / "out" / "unplug.json").read_text())
    assert record == done.record
    assert (record["schema"], record["role"], record["seed"]) == (
        "unplug-checkpoint/1",
        "unlearned",
        0,
    )
    facts = record["forget"]
    assert (facts["method"], facts["samples"], facts["settings"]["lr"]) == (
        name,
        len(world.forget_ids),
        0.001,
    )
    assert facts["cost"]["compute_fraction"] <= facts["cost"]["budget"] == 0.6
    assert facts["cost"]["wall_s"] > 0 and "timed just before" in facts["cost"]["retrain"]["source"]
    assert record["lineage"] == {
        "original": str(world.original.path),
        "original_sha256": world.original.sha256,
    }
    assert split_of(world.unlearned, world.dataset) == world.split.with_forget(world.forget_ids)
    assert set(record["metrics"]) == {"retain", "forget", "test"}
    assert record["metrics"]["forget"]["n"] == len(world.forget_ids)
    assert record["data"]["digest"] == world.dataset.digest
    assert done.model.iospec == world.original.model.iospec
    assert (
        f"Forgotten: {len(world.forget_ids)} samples by `{name}`"
        in (tmp_path / "out" / "README.md").read_text()
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


@pytest.mark.long
def test_who_was_held_out_as_well_is_in_no_set_any_more(world: World, tmp_path: Path) -> None:
    held = (world.split.validation[0], world.split.test[0])
    alone, both = (
        step(world, tmp_path / name, ids=ids)
        for name, ids in (("alone", world.forget_ids), ("both", (*world.forget_ids, *held)))
    )
    assert same(alone.model.state_dict(), both.model.state_dict()), (
        "no weights were trained on them"
    )
    left = split_of(both, world.dataset)
    assert left == world.split.with_forget((*world.forget_ids, *held)) and not {*held} & {
        *left.train,
        *left.held_out,
    }
    facts, measured = both.record["forget"], both.record["metrics"]
    assert (facts["samples"], facts["held_out"]) == (len(world.forget_ids), 2) and alone.record[
        "forget"
    ]["held_out"] == 0
    assert measured["test"]["n"] == len(world.split.test) - 1
    assert (
        "2 more were held out and never trained on" in (tmp_path / "both" / "README.md").read_text()
    )


@pytest.mark.long
def test_retrain_is_training_from_scratch_on_the_retain_set(world: World, tmp_path: Path) -> None:
    """The oracle's slow oracle: `train_age` on a split without the forget set, same seed, bit for
    bit.
    """
    split = world.split.with_forget(world.forget_ids)
    scratch = train_age(
        world.dataset, split, RECIPE, tmp_path / "scratch", seed=5, device=CPU, show=False
    )
    assert same(scratch.model.state_dict(), world.oracle.model.state_dict())
    assert world.oracle.record["role"] == "retrained"
    assert world.oracle.record["forget"]["cost"]["compute_fraction"] == pytest.approx(1.0)


def test_a_budget_that_ends_leaves_nothing(world: World, tmp_path: Path) -> None:
    with pytest.raises(BudgetExceeded, match="does not cover one step"):
        step(world, tmp_path / "out", budget=0.01)
    assert list(tmp_path.iterdir()) == []


def test_requests_that_cannot_be_forgotten_are_refused(world: World, tmp_path: Path) -> None:
    cases = {
        "it is empty": (),
        "were not trained on": (world.split.test[0],),
        "the whole train set": world.split.train,
    }
    for message, ids in cases.items():
        with pytest.raises(DataError, match=message):
            step(world, tmp_path / "out", ids=ids)
    assert list(tmp_path.iterdir()) == []
    other = load_dataset("synth:n=12,subjects=6,seed=9", 32, show=False)
    with pytest.raises(DataError, match="digest differs"):
        step(world, tmp_path / "out", dataset=other)
    split = request_split(world.original, world.dataset, world.forget_ids)
    check_oracle(world.oracle, split, RECIPE)
    with pytest.raises(CheckpointError, match="another recipe"):
        check_oracle(world.oracle, split, replace(RECIPE, epochs=4))
    fewer = request_split(world.original, world.dataset, world.forget_ids[:-1])
    with pytest.raises(CheckpointError, match="retain set"):
        check_oracle(world.oracle, fewer, RECIPE)
    with pytest.raises(
        CheckpointError, match="retain set"
    ):  # an unlearned model is no oracle, whatever its split says
        step(world, tmp_path / "out", oracle=world.unlearned)


def test_wrong_settings() -> None:
    for method, options, message in (
        ("finetune", {"learning_rate": "1"}, "no setting 'learning_rate'. Known: lr, batch_size"),
        ("retrain", {"lr": "1"}, "Known: none"),
        ("finetune", {"lr": "fast"}, "not a value of type float"),
        ("finetune", {"batch_size": "1.5"}, "not a value of type int"),
        ("fintune", {}, "Did you mean finetune"),
    ):
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
    before = copy.deepcopy(world.original.model.state_dict())
    model, task = world.original.model, task_of(world.original, device=CPU)
    cost = retrain_cost(model, split, task, world.sets)
    assert (cost.cost.forward, cost.cost.backward, cost.recorded_wall_s) == (passes, passes, None)
    # How near it comes is the machine's affair: what else runs there changes from second to second.
    told_ms = float(cost.source.split(" ms")[0])
    assert 0.0 < cost.cost.wall_s == pytest.approx(told_ms * passes / 1e3, rel=0.01)
    assert same(world.original.model.state_dict(), before), "timing changed the model"
    assert not world.original.model.training
    shown = retrain_cost(model, split, task, world.sets, world.oracle)
    assert shown.recorded_wall_s == world.oracle.record["cost"]["wall_s"]


# one that never reads the forget set, one that does, one in closed form
METHODS = (
    "finetune",
    "msg",
    "acu",
)


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


def shown(world: World, *needs: Need) -> ForgetProblem:
    passes = RECIPE.epochs * len(world.sets.train)
    cost = RetrainCost(cost=Cost(forward=passes, backward=passes, wall_s=1e6), source="test")
    apply_method(Looks(needs=needs), world.original.model, world.sets, AGES, cost, None, seed=0)
    return seen.pop()


@pytest.mark.parametrize("need", ["retain data", "forget data", "validation data", None])
def test_a_set_that_was_not_declared_is_empty(world: World, need: Need | None) -> None:
    problem = shown(world, *([need] if need else []))
    sets = {
        "retain data": problem.retain,
        "forget data": problem.forget,
        "validation data": problem.validation,
    }
    theirs = {
        "retain data": world.sets.train,
        "forget data": world.sets.forget,
        "validation data": world.sets.validation,
    }
    for name, data in sets.items():
        assert data.ids == (theirs[name].ids if name == need else ())
        assert (
            len(data.image_NCHW)
            == len(data.age_N)
            == len(data.group_N)
            == len(data.subject_N)
            == len(data)
        )
        # labels were not declared either
        assert bool((data.group_N == -1).all()) and bool(data.age_N.isnan().all())
    if need:
        assert torch.equal(sets[need].image_NCHW, theirs[need].image_NCHW)


def test_what_is_shown_is_what_was_declared(world: World) -> None:
    labelled, aged = (
        shown(world, "retain data", "labels").retain,
        shown(world, "retain data", "ages").retain,
    )
    assert torch.equal(labelled.group_N, world.sets.train.group_N) and torch.equal(
        labelled.age_N, world.sets.train.age_N
    )
    assert bool((aged.group_N == -1).all()) and torch.equal(aged.age_N, world.sets.train.age_N)
    assert bool((world.sets.train.group_N >= 0).all()), "the caller's own data was changed"
    sets = shown_to(Looks(needs=NEEDS[:5]), world.sets, world.original.model)
    assert len(sets.test) == 0 and len(sets.train) == len(world.sets.train)
    sets = shown_to(
        Finetune(),
        world.sets,
        world.original.model,
        withhold=["forget data", "validation data", "ages"],
    )
    assert sets.train.ids == world.sets.train.ids and len(sets.forget) == len(sets.validation) == 0


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
    cases: list[tuple[Need, Any]] = [
        ("retain data", replace(sets, train=sets.train.subset([]))),
        ("forget data", replace(sets, forget=sets.forget.subset([]))),
        ("validation data", replace(sets, validation=sets.validation.subset([]))),
        ("labels", replace(sets, train=nameless)),
        ("ages", replace(sets, forget=ageless)),
        ("training-time hooks", sets),
        ("class logits", replace(sets, train=Classless(**vars(sets.train)))),
        ("out-of-fold answers", sets),
    ]
    assert {need for need, _ in cases} == set(NEEDS)
    for need, without in cases:
        with pytest.raises(InputError, match=f"method Looks: it needs {need}, and there is none"):
            shown_to(Looks(needs=(need,)), without, model)
        others = tuple(other for other in NEEDS[:5] if other != need)
        shown_to(Looks(needs=others), without, model)


def test_what_a_whole_kind_lacks_is_named_together() -> None:
    with pytest.raises(InputError) as caught:
        check_needs(
            Looks(needs=("labels", "class logits")), ["ages", "class logits", "training-time hooks"]
        )
    assert str(caught.value) == (
        "method Looks: it needs class logits, and there is none. "
        "`unplug list methods --without 'ages' --without 'class logits'` lists the methods that "
        "work without."
    )
    check_needs(Looks(needs=("labels",)), ["ages", "class logits"], withhold=["forget data"])


@pytest.mark.long
def test_forget_refuses_before_it_writes(world: World, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it needs forget data, which is withheld"):
        step(world, tmp_path / "out", "msg", withhold=["forget data"])
    with pytest.raises(
        InputError, match=r"needs training-time hooks, and there is none\. Train the original with"
    ):
        step(world, tmp_path / "out", "sisa")
    assert list(tmp_path.iterdir()) == []
    done = step(world, tmp_path / "out", "finetune", withhold=["forget data"])
    assert done.record["forget"]["needs"] == ["retain data", "labels"]


def members(world: World, request_name: str) -> list[str]:
    train = [
        world.dataset.samples[int(index)] for index in world.dataset.indices(world.split.train)
    ]
    if request_name == "one sample":
        return [train[0].id]
    if request_name == "one subject":
        return [sample.id for sample in train if sample.subject == train[0].subject]
    ages = {sample.id: sample.age for sample in train}
    return [name for name, age in ages.items() if age is not None and 20 <= age < 30]


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("request_name", ["one sample", "one class", "one subject"])
def test_small_and_lopsided_requests_are_done(
    world: World, tmp_path: Path, method: str, request_name: str
) -> None:
    ids = members(world, request_name)
    assert len(ids) == {"one sample": 1, "one subject": 3}.get(request_name, len(ids)) and ids
    done = step(world, tmp_path / "out", method, ids=ids)
    metrics = done.record["metrics"]
    assert metrics["forget"]["n"] == len(ids) and metrics["retain"]["n"] == len(
        world.split.train
    ) - len(ids)
    groups = {row["ages"]: row["n"] for row in metrics["retain"]["per_group"]}
    assert (groups["20-29"] == 0) == (request_name == "one class")


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


def test_a_later_request_never_trains_on_those_who_were_forgotten_before(world: World) -> None:
    first, second = world.split.train[:3], world.split.train[5:7]
    once = replace(
        world.original,
        record=world.original.record | {"split": world.split.with_forget(first).to_dict()},
    )
    assert set(request_split(once, world.dataset, second).forget) == {*first, *second}


def test_a_later_request_knows_from_digests_whom_an_earlier_one_forgot(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not any(
        name in json.dumps(world.unlearned.record["split"]) for name in world.dataset.ids
    )
    second = world.split.with_forget(world.forget_ids).retain[:2]
    again = request_split(world.unlearned, world.dataset, second)
    assert again == world.split.with_forget((*world.forget_ids, *second))
    monkeypatch.setenv("UNPLUG_KEY", str(tmp_path / "key"))
    with pytest.raises(
        InputError, match=r"no key is there, and a record names people by digests under the key"
    ):
        forget(
            world.unlearned, world.dataset, second, "msg", tmp_path / "out", device=CPU, show=False
        )
    operator_key()  # another one
    with pytest.raises(InputError, match="it is the key"):
        check_oracle(world.oracle, world.split.with_forget(world.forget_ids), RECIPE)
