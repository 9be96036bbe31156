"""What a method is shown, what is refused, and requests at the edges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from unplug.core import InputError, TrainingError
from unplug.sdk.cli.options import NEEDS as CLI_NEEDS
from unplug.sdk.tasks import NEEDS, Need
from unplug.sdk.training import AgeTask, ImageSet
from unplug.sdk.unlearning import Cost, ForgetProblem, RetrainCost, apply_method, forget
from unplug.sdk.unlearning.access import check_needs, shown_to
from unplug.sdk.unlearning.methods.finetune import Finetune
from unplug.sdk.unlearning.methods.msg import MSG

from ..conftest import CPU, RECIPE, World
from .methods.conftest import AGES

METHODS = ("finetune", "msg", "acu")  # one that never reads the forget set, one that does, one in closed form


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


# What is shown


@pytest.mark.parametrize("need", ["retain data", "forget data", "validation data", None])
def test_a_set_that_was_not_declared_is_empty(world: World, need: Need | None) -> None:
    problem = shown(world, *([need] if need else []))
    sets = {"retain data": problem.retain, "forget data": problem.forget, "validation data": problem.validation}
    theirs = {"retain data": world.sets.train, "forget data": world.sets.forget, "validation data": world.sets.validation}
    for name, data in sets.items():
        assert data.ids == (theirs[name].ids if name == need else ())
        assert len(data.image_NCHW) == len(data.age_N) == len(data.group_N) == len(data.subject_N) == len(data)
        assert bool((data.group_N == -1).all()) and bool(data.age_N.isnan().all())  # labels were not declared either
    if need:
        assert torch.equal(sets[need].image_NCHW, theirs[need].image_NCHW)


def test_what_is_shown_is_what_was_declared(world: World) -> None:
    labelled, aged = shown(world, "retain data", "labels").retain, shown(world, "retain data", "ages").retain
    assert torch.equal(labelled.group_N, world.sets.train.group_N) and torch.equal(labelled.age_N, world.sets.train.age_N)
    assert bool((aged.group_N == -1).all()) and torch.equal(aged.age_N, world.sets.train.age_N)
    assert bool((world.sets.train.group_N >= 0).all()), "the caller's own data was changed"
    sets = shown_to(Looks(needs=NEEDS[:5]), world.sets, world.original.model)
    assert len(sets.test) == 0 and len(sets.train) == len(world.sets.train)
    sets = shown_to(Finetune(), world.sets, world.original.model, withhold=["forget data", "validation data", "ages"])
    assert sets.train.ids == world.sets.train.ids and len(sets.forget) == len(sets.validation) == 0
    assert CLI_NEEDS == NEEDS


# What is refused


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
    ]
    assert {need for need, _ in cases} == set(NEEDS)
    for need, without in cases:
        with pytest.raises(InputError, match=f"method Looks: it needs {need}, and there is none"):
            shown_to(Looks(needs=(need,)), without, model)
        others = tuple(other for other in NEEDS[:5] if other != need)
        shown_to(Looks(needs=others), without, model)


def test_what_a_whole_kind_lacks_is_named_together() -> None:
    with pytest.raises(InputError) as caught:
        check_needs(Looks(needs=("labels", "class logits")), ["ages", "class logits", "training-time hooks"])
    assert str(caught.value) == (
        "method Looks: it needs class logits, and there is none. "
        "`unplug list methods --without 'ages' --without 'class logits'` lists the methods that work without."
    )
    check_needs(Looks(needs=("labels",)), ["ages", "class logits"], withhold=["forget data"])


def step(world: World, out: Path, method: str = "finetune", **options: Any) -> Any:
    options = {"budget": 0.6, "ids": world.forget_ids, **options}
    ids = options.pop("ids")
    return forget(world.original, world.dataset, ids, method, out, device=CPU, show=False, **options)


@pytest.mark.long
def test_forget_refuses_before_it_writes(world: World, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it needs forget data, which is withheld"):
        step(world, tmp_path / "out", "msg", withhold=["forget data"])
    with pytest.raises(InputError, match=r"needs training-time hooks, and there is none\. Train the original with"):
        step(world, tmp_path / "out", "sisa")
    assert list(tmp_path.iterdir()) == []
    done = step(world, tmp_path / "out", "finetune", withhold=["forget data"])
    assert done.record["forget"]["needs"] == ["retain data", "labels"]


# Requests at the edges: each done, or refused with the reason


def members(world: World, request_name: str) -> list[str]:
    train = [world.dataset.samples[int(index)] for index in world.dataset.indices(world.split.train)]
    if request_name == "one sample":
        return [train[0].id]
    if request_name == "one subject":
        return [sample.id for sample in train if sample.subject == train[0].subject]
    ages = {sample.id: sample.age for sample in train}
    return [name for name, age in ages.items() if age is not None and 20 <= age < 30]


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("request_name", ["one sample", "one class", "one subject"])
def test_small_and_lopsided_requests_are_done(world: World, tmp_path: Path, method: str, request_name: str) -> None:
    ids = members(world, request_name)
    assert len(ids) == {"one sample": 1, "one subject": 3}.get(request_name, len(ids)) and ids
    done = step(world, tmp_path / "out", method, ids=ids)
    metrics = done.record["metrics"]
    assert metrics["forget"]["n"] == len(ids) and metrics["retain"]["n"] == len(world.split.train) - len(ids)
    groups = {row["ages"]: row["n"] for row in metrics["retain"]["per_group"]}
    assert (groups["20-30"] == 0) == (request_name == "one class")


@pytest.mark.long
@pytest.mark.parametrize("method", ["finetune", "ct"])
def test_a_loss_of_nan_saves_nothing(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    whole = AgeTask.loss
    monkeypatch.setattr(AgeTask, "loss", lambda *arguments: whole(*arguments) * float("nan"))
    with pytest.raises(TrainingError, match="the loss is not a number"):
        step(world, tmp_path / "out", method)
    assert list(tmp_path.iterdir()) == []
