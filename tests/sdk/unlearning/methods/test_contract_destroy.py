"""What the methods that destroy, dampen or guide promise, in both worlds: run once each, as `unplug forget` runs it."""

from __future__ import annotations

import copy

import pytest
import torch

from unplug.core import BudgetExceeded, InputError
from unplug.sdk.unlearning import build_method

from .conftest import Case, changed, snapshot

BOTH = ("fcs", "cfw", "prmq", "kde", "rni", "ssd", "ssd-label-free", "unsir", "iau", "laf")
AGES_ALONE = ("blindspot", "gaussian-amnesiac")
RUNS = [*((name, world) for name in BOTH for world in ("age", "class")), *((name, "age") for name in AGES_ALONE)]
BOTH_BY_IMAGE = tuple(name for name in BOTH if name not in ("cfw", "prmq", "unsir"))  # those read labels first
DETERMINED = ("ssd", "ssd-label-free", "iau")  # nothing in them is random while the budget pays for whole sets
BUDGET = 0.6
SMALL = {"batch_size": "16"}  # a few steps of each phase


def options(name: str) -> dict[str, str]:
    if name in ("ssd", "ssd-label-free"):  # so few samples that nothing matters as much more as the defaults ask for
        return {"alpha": "1.4"}
    return {} if name in DETERMINED else SMALL


@pytest.mark.long
@pytest.mark.parametrize(("name", "world_name"), RUNS)
def test_contract(request: pytest.FixtureRequest, name: str, world_name: str) -> None:
    case: Case = request.getfixturevalue(f"{world_name}_case")
    before = snapshot(case.original)
    method = build_method(name, options(name))
    assert 0 < (method.default_budget or 0) <= 0.05
    model, cost = case.apply(method, budget=BUDGET)
    assert all(bool(torch.isfinite(value).all()) for value in model.state_dict().values())
    assert not model.training and all(parameter.requires_grad for parameter in model.parameters())
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    whole = case.whole().cost.compute
    assert 0.3 * BUDGET < cost.compute / whole <= BUDGET
    assert not changed(before, case.original), "the original was changed"
    assert changed(before, model)
    again, _ = case.apply(method, budget=BUDGET)
    assert not changed(model, again), "the same seed gave other weights"
    if name not in DETERMINED:
        other, _ = case.apply(method, budget=BUDGET, seed=1)
        assert changed(model, other), "the seed does nothing"


@pytest.mark.long
@pytest.mark.parametrize(("name", "world_name"), RUNS)
def test_what_is_not_declared_is_not_read(request: pytest.FixtureRequest, name: str, world_name: str) -> None:
    case: Case = request.getfixturevalue(f"{world_name}_case")
    method = build_method(name, options(name))
    unlearned = method(case.model(), case.problem(needs=method.needs, budget=BUDGET))
    assert all(bool(torch.isfinite(value).all()) for value in unlearned.state_dict().values())


@pytest.mark.parametrize("name", ["cfw", "prmq", "kde", "rni"])
def test_winners_from_the_third_place_on_never_read_the_forget_set(name: str) -> None:
    assert "forget data" not in build_method(name).needs


@pytest.mark.long
@pytest.mark.parametrize("name", [*BOTH_BY_IMAGE, *AGES_ALONE])
def test_every_declared_set_is_read(age_case: Case, name: str) -> None:
    """So that nothing is declared that the method could do without."""
    method = build_method(name, options(name))
    for need in {"retain data", "forget data", "validation data"} & set(method.needs):
        with pytest.raises(AssertionError, match="was read"):
            method(
                age_case.model(), age_case.problem(needs=tuple(item for item in method.needs if item != need), budget=BUDGET)
            )


@pytest.mark.long
@pytest.mark.parametrize("name", [*BOTH, *AGES_ALONE])
def test_a_single_forget_sample_is_enough(age_case: Case, name: str) -> None:
    one = age_case.sets.forget.subset([0])
    unlearned = build_method(name, options(name))(age_case.model(), age_case.problem(forget=one, budget=BUDGET))
    assert all(bool(torch.isfinite(value).all()) for value in unlearned.state_dict().values())


@pytest.mark.parametrize("name", BOTH)
def test_a_budget_below_one_step_is_refused(class_case: Case, name: str) -> None:
    with pytest.raises(BudgetExceeded):
        build_method(name)(copy.deepcopy(class_case.original), class_case.problem(budget=1e-4))


@pytest.mark.parametrize("name", AGES_ALONE)
def test_regression_methods_refuse_classes(class_case: Case, name: str) -> None:
    with pytest.raises(InputError, match="needs ages"):
        class_case.apply(build_method(name))


@pytest.mark.parametrize("name", [*BOTH, *AGES_ALONE])
def test_settings_out_of_range_are_refused(name: str) -> None:
    settings = {"lr": "0"} if "lr" in build_method(name).__dict__ else {"alpha": "0"}
    for setting in [settings, dict.fromkeys(settings, "nan"), dict.fromkeys(settings, "-1")]:
        with pytest.raises(InputError, match="out of range"):
            build_method(name, setting)
