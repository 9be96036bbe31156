"""What every method promises, in the worlds that it is made for, run as `unplug forget` runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from unplug.core import BudgetExceeded, InputError
from unplug.sdk.forgetting.tasks import NEEDS
from unplug.sdk.forgetting.unlearning import METHODS, Method, build_method
from unplug.sdk.forgetting.unlearning.anatomy import layers
from unplug.sdk.forgetting.unlearning.methods.cf_k import CFk
from unplug.sdk.forgetting.unlearning.methods.finetune import Finetune
from unplug.sdk.forgetting.unlearning.methods.l1_sparse import L1Sparse
from unplug.sdk.forgetting.unlearning.methods.neggrad_plus import NegGradPlus
from unplug.sdk.learning.training import ImageSet

from .conftest import Case, changed, poisoned, snapshot, unlabelled

AGES_ALONE = ("blindspot", "gaussian-amnesiac")
NAMES = sorted(set(METHODS) - {"sisa"})  # which needs an original of its own: test_sisa.py
BOTH = [name for name in NAMES if name not in AGES_ALONE]
WHOLE_SETS = ("acu", "ssd", "ssd-label-free", "iau")
"""Closed forms: nothing in them is random while the budget pays for whole sets, and nothing is
repeated until it is gone.
"""
# so few samples that no weight stands out more
OPTIONS = {name: {"alpha": "1.4"} for name in ("ssd", "ssd-label-free")}
OPTIONS |= {
    name: {"batch_size": "16"}
    for name in ("fcs", "cfw", "prmq", "kde", "rni", "unsir", "laf", *AGES_ALONE)
}
BUDGET = 0.6
RUNS = [
    *((name, "class") for name in BOTH),
    *((name, "age") for name in AGES_ALONE),
    *(pytest.param(name, "age", marks=pytest.mark.long) for name in BOTH),
]


def assert_usable(model: nn.Module) -> None:
    assert all(bool(torch.isfinite(value).all()) for value in model.state_dict().values())
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())


Worlds = Callable[[str], Case]


@pytest.fixture
def world_of(request: pytest.FixtureRequest) -> Worlds:
    """The world by its name, or that in which a method works."""
    return lambda name: request.getfixturevalue(
        f"{'age' if name in AGES_ALONE else name if name == 'age' else 'class'}_case"
    )


def built(name: str) -> Method:
    return build_method(name, OPTIONS.get(name, {}))


def budget_of(name: str) -> float | None:
    return None if name == "retrain" else BUDGET


@pytest.mark.parametrize(("name", "world_name"), RUNS)
def test_contract(world_of: Worlds, name: str, world_name: str) -> None:
    case, method, budget = world_of(world_name), built(name), budget_of(name)
    before = snapshot(case.original)
    assert set(method.needs) <= set(NEEDS)
    assert (method.default_budget is None) == (name == "retrain")
    assert 0 < (method.default_budget or 0.05) <= 0.05
    model, cost = case.apply(method, budget=budget)
    assert_usable(model)
    assert not model.training and all(parameter.grad is None for parameter in model.parameters())
    assert getattr(model, "iospec", None) == getattr(case.original, "iospec", None)
    limit = budget or 1.0  # held, and used
    least = 0.0 if name in WHOLE_SETS else 0.3 * limit
    assert least < cost.compute / case.whole().cost.compute <= limit
    assert not changed(before, case.original), "the original was changed"
    assert changed(before, model)
    again, _ = case.apply(method, budget=budget)
    assert not changed(model, again), "the same seed gave other weights"
    if name not in WHOLE_SETS:
        other, _ = case.apply(method, budget=budget, seed=1)
        assert changed(model, other), "the seed does nothing"


@pytest.mark.long
@pytest.mark.parametrize(("name", "world_name"), RUNS)
def test_what_is_not_declared_is_not_read_and_one_sample_will_do(
    world_of: Worlds, name: str, world_name: str
) -> None:
    """Batch norm cannot train on one sample, and what is not declared raises."""
    case, method = world_of(world_name), built(name)
    one = (
        {}
        if name in OPTIONS and world_name == "class"
        else {"forget": case.sets.forget.subset([0])}
    )
    given = case.problem(needs=method.needs, budget=budget_of(name), **one)
    assert_usable(method(case.model(), given))


# three of them read labels first
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("cfw", "prmq", "unsir")])
def test_every_declared_set_is_read(world_of: Worlds, name: str) -> None:
    """So that nothing is declared that the method could do without, and the poison above is known
    to work.
    """
    case, method = world_of(name), built(name)
    for need in {"retain data", "forget data", "validation data"} & set(method.needs):
        left = tuple(other for other in method.needs if other != need)
        with pytest.raises(AssertionError, match="was read"):
            method(case.model(), case.problem(needs=left, budget=budget_of(name)))


@pytest.mark.parametrize("name", BOTH)
def test_a_budget_below_one_step_is_refused(class_case: Case, name: str) -> None:
    with pytest.raises(BudgetExceeded):
        build_method(name)(class_case.model(), class_case.problem(budget=1e-4))


def without_labels(data: ImageSet) -> ImageSet:
    ages, groups = torch.full_like(data.age_N, 99.0), torch.zeros_like(data.group_N)
    return replace(data, age_N=ages, group_N=groups)


def without_pixels(data: ImageSet) -> ImageSet:
    return replace(data, image_NCHW=torch.zeros_like(data.image_NCHW))


@pytest.mark.parametrize(
    ("name", "harm", "parts"),
    [
        *((name, without_labels, ["forget"]) for name in (*AGES_ALONE, "lens", "folds")),
        ("ssd-label-free", unlabelled, ["retain", "forget"]),
        ("unsir", without_pixels, ["forget"]),
    ],
)
def test_what_they_leave_unread_makes_no_difference(
    world_of: Worlds, name: str, harm: Callable[[ImageSet], ImageSet], parts: list[str]
) -> None:
    case, method = world_of(name), built(name)
    whole = {"retain": case.sets.train, "forget": case.sets.forget}
    harmed = {part: harm(whole[part]) for part in parts}
    one, other = (
        method(case.model(), case.problem(budget=BUDGET, **given)) for given in ({}, harmed)
    )
    assert not changed(one, other) and changed(case.original, one)


def test_at_their_limits_they_are_finetuning_bit_for_bit(case: Case) -> None:
    tuned = Finetune(lr=1e-3)(case.model(), case.problem())
    assert changed(case.original, tuned)
    for method in (
        CFk(k=len(layers(case.original)), lr=1e-3),
        L1Sparse(gamma=0.0, lr=1e-3),
        NegGradPlus(alpha=1.0, lr=1e-3),
    ):
        unread = {"forget": poisoned(case.sets.forget)} if isinstance(method, NegGradPlus) else {}
        assert not changed(tuned, method(case.model(), case.problem(**unread))), method


STEPS = "lr=0 lr=nan lr=-1 batch_size=1 optimizer=lion"
REPAIR = "lr=0 lr=-1 lr=nan lr=inf batch_size=0 batch_size=-4"
WRONG = {
    "noise": f"{STEPS} sigma=-0.1 sigma=101 sigma=nan",
    "cf-k": f"{STEPS} k=0",
    "eu-k": f"{STEPS} k=0",
    "neggrad": f"{STEPS} ceiling=0 ceiling=nan",
    "rurk": f"{STEPS} epsilon=-0.1 epsilon=nan copies=0",
    "neggrad+": f"{STEPS} alpha=1.1 alpha=nan ceiling=-1",
    "scrub": f"{STEPS} alpha=-1 gamma=nan temperature=0 rounds=0",
    "scrub+r": f"{STEPS} samples=0",
    "salun": f"{STEPS} ratio=0 ratio=1.5 alpha=-0.1",
    "l1-sparse": f"{STEPS} gamma=-1e-4",
    "bad-teacher": f"{STEPS} retain_share=0 temperature=0 batch_size=2",
    "distil-to-delete": f"{STEPS} alpha=2 features=-1",
    "folds": f"{STEPS} weight=-1 weight=101 weight=nan forget_size=0",
    "lens": f"{STEPS} weight=101 forget_size=0 lenses=0 lenses=65 strength=0 clear=-0.1 clear=1.1",
    **dict.fromkeys(("finetune", "short-retrain", "ct"), REPAIR),
    "msg": f"{REPAIR} ratio=0 ratio=1 ratio=nan keep=-0.1 keep=1.5",
    **dict.fromkeys(
        ("fcs", "cfw", "prmq", "kde", "rni", "unsir", "iau", "laf", *AGES_ALONE),
        "lr=0 lr=nan lr=-1",
    ),
    **dict.fromkeys(("ssd", "ssd-label-free"), "alpha=0 alpha=nan alpha=-1"),
    "acu": "ridge=0 ridge=1e308 ridge=1e-320 ridge=nan ridge=-1 batch_size=0",
    "sisa": "shards=0 slices=0 shards=100 slices=-1",
}


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"retrain"}))
def test_settings_out_of_range_are_refused(class_case: Case, name: str) -> None:
    for option in WRONG[name].split():
        with pytest.raises(InputError, match=r"out of range|no such choice"):
            build_method(name, dict([option.split("=")]))(class_case.model(), class_case.problem())
