"""What every gradient-based method promises, in both worlds: run once each, as `unplug forget` runs it."""

from __future__ import annotations

import copy

import pytest
import torch

from unplug.core import BudgetExceeded, InputError
from unplug.sdk.unlearning import build_method

from .conftest import Case, changed, snapshot

METHODS = (
    "cf-k", "eu-k", "neggrad", "neggrad+", "scrub", "scrub+r", "salun", "l1-sparse", "bad-teacher", "distil-to-delete", "rurk",
)  # fmt: skip
BUDGET = 0.6


@pytest.mark.long
@pytest.mark.parametrize("name", METHODS)
def test_contract(case: Case, name: str) -> None:
    before = snapshot(case.original)
    method = build_method(name)
    assert 0 < (method.default_budget or 0) <= 0.05
    model, cost = case.apply(method, budget=BUDGET)
    assert all(bool(torch.isfinite(value).all()) for value in model.state_dict().values())
    assert not model.training and all(parameter.requires_grad for parameter in model.parameters())
    assert not any(module._forward_pre_hooks for module in model.modules())
    whole = case.whole().cost.compute
    assert 0.3 * BUDGET < cost.compute / whole <= BUDGET  # within the budget, and the budget is used
    assert not changed(before, case.original), "the original was changed"
    assert changed(before, model)
    again, _ = case.apply(method, budget=BUDGET)
    assert not changed(model, again), "the same seed gave other weights"
    other, _ = case.apply(method, budget=BUDGET, seed=1)
    assert changed(model, other), "the seed does nothing"


@pytest.mark.long
@pytest.mark.parametrize("name", METHODS)
def test_what_is_not_declared_is_not_read(case: Case, name: str) -> None:
    method = build_method(name)
    unlearned = method(case.model(), case.problem(needs=method.needs))
    assert all(bool(torch.isfinite(value).all()) for value in unlearned.state_dict().values())


@pytest.mark.parametrize("name", METHODS)
def test_every_declared_set_is_read(class_case: Case, name: str) -> None:
    """So that nothing is declared that the method could do without."""
    method = build_method(name)
    for need in {"retain data", "forget data", "validation data"} & set(method.needs):
        with pytest.raises(AssertionError, match="was read"):
            method(class_case.model(), class_case.problem(needs=tuple(item for item in method.needs if item != need)))


@pytest.mark.long
@pytest.mark.parametrize("name", METHODS)
def test_a_single_forget_sample_is_enough(class_case: Case, name: str) -> None:
    """Batch norm cannot train on one sample."""
    one = class_case.sets.forget.subset([0])
    unlearned = build_method(name)(class_case.model(), class_case.problem(forget=one))
    assert all(bool(torch.isfinite(value).all()) for value in unlearned.state_dict().values())


@pytest.mark.parametrize("name", METHODS)
def test_a_budget_below_one_step_is_refused(class_case: Case, name: str) -> None:
    with pytest.raises(BudgetExceeded):
        build_method(name)(copy.deepcopy(class_case.original), class_case.problem(budget=1e-4))


@pytest.mark.parametrize(
    ("name", "option"),
    [
        *((name, option) for name in METHODS for option in ("lr=0", "lr=nan", "batch_size=1", "optimizer=lion")),
        ("cf-k", "k=0"), ("eu-k", "k=0"), ("neggrad", "ceiling=0"), ("neggrad", "ceiling=nan"), ("neggrad+", "alpha=1.1"),
        ("neggrad+", "alpha=nan"), ("neggrad+", "ceiling=-1"), ("scrub", "alpha=-1"), ("scrub", "gamma=nan"),
        ("scrub", "temperature=0"), ("scrub", "rounds=0"), ("scrub+r", "samples=0"), ("salun", "ratio=0"),
        ("salun", "ratio=1.5"), ("salun", "alpha=-0.1"), ("l1-sparse", "gamma=-1e-4"), ("bad-teacher", "retain_share=0"),
        ("bad-teacher", "temperature=0"), ("bad-teacher", "batch_size=2"), ("distil-to-delete", "alpha=2"),
        ("distil-to-delete", "features=-1"), ("rurk", "epsilon=-0.1"), ("rurk", "epsilon=nan"), ("rurk", "copies=0"),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(name: str, option: str) -> None:
    key, _, text = option.partition("=")
    with pytest.raises(InputError, match=r"out of range|no such choice"):
        build_method(name, {key: text})
