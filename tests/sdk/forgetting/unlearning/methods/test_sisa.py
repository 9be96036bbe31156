"""SISA against its oracle: the same training without the forgotten samples, bit for bit."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from unplug.core import BudgetExceeded, InputError, TrainingError
from unplug.sdk.forgetting.tasks import ClassTask
from unplug.sdk.forgetting.unlearning import (
    ForgetProblem,
    Meter,
    SisaEnsemble,
    TrainingHook,
    apply_method,
    build_method,
)
from unplug.sdk.forgetting.unlearning.methods.sisa import SISA
from unplug.sdk.forgetting.unlearning.shards import ShardPlan, stage_passes
from unplug.sdk.learning.training import ImageSet, SampleSet, Sets, classed, labelled, predict

from .conftest import AGES, CLASS_RECIPE, Case, changed, coloured, retraining

COUNT, SHARDS, SLICES = 48, 3, 3
RECIPE = replace(CLASS_RECIPE, epochs=4, batch_size=4, augment="standard", dropout=0.3, ema=0.9)


class Small(nn.Module):
    """Enough to notice any difference in order, augmentation, dropout and batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, stride=4)
        self.norm = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(0.3)
        self.classifier = nn.Linear(4, 4)
        self.register_buffer("counted", torch.zeros(2))

    counted: Tensor

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        x_BCHW = self.norm(self.convolution(image_BCHW)).relu()
        return {"logits": self.classifier(self.dropout(x_BCHW.mean(dim=(2, 3))))}


class SmallTask(ClassTask):
    """Of `Small`, which keeps a count of its training data beside its weights, as the age predictor
    does.
    """

    def build(self, train: SampleSet) -> nn.Module:
        model = Small()
        self.refresh(model, train)
        return model

    def refresh(self, model: nn.Module, retain: SampleSet) -> None:
        model.counted.copy_(torch.tensor([len(retain), int(labelled(retain).group_N.sum())]))


TASK, METHOD = SmallTask.of(RECIPE, "abcd"), SISA(shards=SHARDS, slices=SLICES)
DATA, PLAN = coloured(COUNT, seed=1), ShardPlan(shards=SHARDS, slices=SLICES, seed=3)
WHOLE = retraining(RECIPE.epochs * COUNT)


def given(retain: ImageSet, seed: int = 3, budget: float | None = None) -> ForgetProblem:
    nobody = DATA.subset([])
    return ForgetProblem(
        retain=retain,
        forget=nobody,
        validation=nobody,
        task=TASK,
        meter=Meter(WHOLE, budget),
        seed=seed,
        generator=torch.Generator().manual_seed(seed),
    )


def without(ids: set[str]) -> ImageSet:
    """The data without some samples, in another order: neither order nor position may matter."""
    return DATA.subset([index for index in reversed(range(COUNT)) if DATA.ids[index] not in ids])


def scratch(gone: set[str]) -> SisaEnsemble:
    return METHOD.train(given(without(gone)))


def unlearned(
    start: SisaEnsemble, gone: set[str], *, seed: int = 3, budget: float | None = None
) -> tuple[SisaEnsemble, ForgetProblem]:
    """A copy after forgetting, and what it was given."""
    problem = given(without(gone), seed, budget)
    model = METHOD(copy.deepcopy(start), problem)
    return model, problem


def same(one: SisaEnsemble, other: SisaEnsemble) -> bool:
    """All that the ensembles hold, checkpoints and lists of samples included."""
    mine, theirs = (
        [held.state_dict(), *(state for states in held.checkpoints for state in states)]
        for held in (one, other)
    )
    assert len(mine) == len(theirs) == 1 + SHARDS * (SLICES - 1)
    pairs = zip(mine, theirs, strict=True)
    return not any(changed(left, right) for left, right in pairs) and one.parts == other.parts


@pytest.fixture(scope="module")
def ensemble() -> SisaEnsemble:
    return METHOD.train(given(DATA))


def in_part(shard: int, number: int | None = None, count: int | None = None) -> set[str]:
    """Ids of one slice of a shard, or of the whole shard."""
    slices = PLAN.parts(DATA.ids)[shard]
    chosen = [ids for index, ids in enumerate(slices) if number in (None, index)]
    return set([sample for ids in chosen for sample in ids][:count])


REQUESTS = {
    "one sample of a first slice": in_part(0, 0, 1),
    "one sample of a middle slice": in_part(1, 1, 1),
    "two samples of a last slice": in_part(2, 2, 2),
    "two slices of one shard": in_part(0, 1, 1) | in_part(0, 2, 1),
    "several shards": in_part(0, 2, 1) | in_part(2, 1, 2),
    "all shards": in_part(0, 0, 1) | in_part(1, 1, 1) | in_part(2, 2, 1),
    "a whole slice": in_part(1, 0),
    "a whole shard": in_part(1),
}


@pytest.mark.long
@pytest.mark.parametrize("request_name", REQUESTS)
def test_unlearning_equals_training_without_bit_for_bit(
    ensemble: SisaEnsemble, request_name: str
) -> None:
    gone = REQUESTS[request_name]
    # the seed of the forget step must not matter
    model, problem = unlearned(ensemble, gone, seed=99)
    assert gone and same(model, scratch(gone)) and not same(model, ensemble)
    # Untouched shards are not paid for, touched ones from their first touched slice.
    first: dict[int, int] = {}
    for shard, number in map(PLAN.place, gone):
        first[shard] = min(number, first.get(shard, number))
    parts = PLAN.parts(problem.retain.ids)
    passes = sum(stage_passes(PLAN, RECIPE, parts[shard], start) for shard, start in first.items())
    spent = problem.meter.spent
    assert (spent.forward, spent.backward) == (passes, passes)
    # known from ids alone, so that a request over the budget is refused before an ensemble is
    # trained for it
    assert METHOD.price(DATA.ids, problem.retain.ids, TASK, PLAN.seed) == passes
    assert (passes == 0) == (request_name == "a whole shard")
    for shard in {*range(SHARDS)} - {*first}:
        assert not changed(model.members[shard], ensemble.members[shard])


def test_the_training_seed_and_every_part_matter(ensemble: SisaEnsemble) -> None:
    """So that the equalities above compare something."""
    assert same(ensemble, scratch(set()))
    other = METHOD.train(given(DATA, seed=4))
    for one, two in (*zip(ensemble.members, other.members, strict=True), ensemble.members[:2]):
        assert "classifier.weight" in changed(one, two)
    first, second = in_part(0, 1, 1), in_part(0, 0, 1) | in_part(2, 2, 1)
    twice, _ = unlearned(unlearned(ensemble, first)[0], first | second)
    assert same(twice, scratch(first | second))


@pytest.mark.parametrize(
    "missing", [in_part(1, 0), in_part(1)], ids=["an empty first slice", "an empty shard"]
)
def test_shards_without_data_know_nothing_of_other_shards(missing: set[str]) -> None:
    gone = missing | in_part(0, 0, 1)
    assert same(unlearned(scratch(missing), gone)[0], scratch(gone))


def test_ages_are_unlearned_bit_for_bit_too(age_case: Case) -> None:
    """The group centres that an age predictor keeps must be those of its slices alone."""
    train, method = age_case.sets.train.subset(range(24)), SISA(shards=2, slices=1)
    task = replace(AGES, recipe=replace(AGES.recipe, epochs=1, batch_size=8))

    def problem(data: ImageSet) -> ForgetProblem:
        return replace(age_case.problem(retain=data, budget=50.0), task=task, seed=0)

    kept = train.subset(range(1, 24))
    original = method.train(problem(train))
    model = method(copy.deepcopy(original), problem(kept))
    assert not changed(model, method.train(problem(kept)))
    shard, _ = ShardPlan(shards=2, slices=1, seed=0).place(train.ids[0])
    assert f"members.{shard}.age_centers" in changed(original, model)
    answers = classed(predict(model, kept))
    assert answers.logits_NG.shape == (23, 13) and float(abs(answers.age_N).max()) < 100


def test_the_ensemble_averages_probabilities_and_an_empty_shard_has_no_say(
    ensemble: SisaEnsemble,
) -> None:
    image = DATA.batch(torch.arange(6)).image_BCHW
    for model, shards in ((ensemble, (0, 1, 2)), (unlearned(ensemble, in_part(1))[0], (0, 2))):
        with torch.no_grad():
            each = [model.members[shard](image)["logits"].softmax(1) for shard in shards]
            answer = model(image)["logits"].exp()
        assert torch.allclose(answer, torch.stack(each).mean(0), atol=1e-6)


def test_places_follow_from_the_id_alone() -> None:
    plan = ShardPlan(shards=4, slices=5, seed=0)
    whole, less = (
        [ids for slices in plan.parts(map(str, range(start, 2000))) for ids in slices]
        for start in (0, 1)
    )
    sizes = [len(ids) for ids in whole]
    assert sum(sizes) == 2000 and min(sizes) > 60 and max(sizes) < 150  # about 100 each
    assert sum(one != two for one, two in zip(whole, less, strict=True)) == 1
    # SHA-256 of "a" begins with ca978112ca1bbdca.
    number = 0xCA978112CA1BBDCA
    assert ShardPlan(shards=10, slices=7, seed=0).place("a") == (number % 10, number // 10 % 7)


@pytest.mark.parametrize(
    ("epochs", "slices", "stages"),
    [(40, 1, [40]), (6, 3, [3, 3, 3]), (4, 3, [2, 2, 2]), (5, 3, [2, 2, 3]), (2, 3, [1, 1, 1])],
)
def test_stages_cost_as_much_as_the_recipe(epochs: int, slices: int, stages: list[int]) -> None:
    plan, recipe = ShardPlan(shards=1, slices=slices, seed=0), replace(RECIPE, epochs=epochs)
    assert plan.epochs(epochs) == stages
    parts = [[f"{number}-{index}" for index in range(10)] for number in range(slices)]
    assert stage_passes(plan, recipe, parts, 0) == epochs * 10 * slices
    # one sample of a last slice costs 2 / (S (R + 1)) of a retraining, where all stages are alike
    last = stages[-1] * 10 * slices
    assert stage_passes(plan, recipe, parts, slices - 1) == last


def test_it_runs_as_any_method_does_at_its_price(ensemble: SisaEnsemble) -> None:
    gone = in_part(0, 0, 1)
    sets = Sets(
        train=without(gone),
        forget=DATA.subset([index for index in range(COUNT) if DATA.ids[index] in gone]),
        validation=DATA.subset([]),
        test=coloured(8, seed=5),
    )
    model, cost = apply_method(METHOD, ensemble, sets, TASK, WHOLE, METHOD.default_budget, seed=0)
    assert same(model, scratch(gone))
    assert 0 < cost.compute / WHOLE.cost.compute < 0.6
    assert math.isfinite(float(predict(model, sets.test).log_prob_N.mean()))
    for original in (Small(), SISA(shards=2, slices=3).train(given(DATA))):
        with pytest.raises(InputError, match="needs training-time hooks, and there is none"):
            apply_method(METHOD, original, sets, TASK, WHOLE, 1.0, seed=0)


def test_a_budget_is_held_before_the_work(ensemble: SisaEnsemble) -> None:
    model, gone = copy.deepcopy(ensemble), in_part(0, 0, 1) | in_part(1, 0, 1) | in_part(2, 0, 1)
    with pytest.raises(BudgetExceeded, match=r"over 0\.5 of retraining"):
        METHOD(model, given(without(gone), budget=0.5))
    assert same(model, ensemble)
    unlearned(ensemble, in_part(0, 2, 1), budget=0.5)


def test_what_it_cannot_train_or_forget_is_refused(
    ensemble: SisaEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="was not trained on"):
        METHOD(copy.deepcopy(ensemble), given(coloured(8, seed=9)))
    with pytest.raises(InputError, match="not an ensemble"):
        METHOD(Small(), given(DATA))
    with pytest.raises(InputError, match="4 epochs are too few"):
        SISA(shards=1, slices=8).train(given(DATA))
    monkeypatch.setattr(
        ClassTask, "loss", lambda _, model, outputs, batch: outputs["logits"].sum(1) * math.nan
    )
    with pytest.raises(TrainingError, match="not a number"):
        METHOD.train(given(DATA))
    hooked = [isinstance(build_method(name), TrainingHook) for name in ("sisa", "finetune")]
    assert hooked == [True, False]
