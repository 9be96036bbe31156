"""SISA against its oracle: the same training without the forgotten samples, bit for bit."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from unplug.core import BudgetExceeded, InputError, TrainingError
from unplug.plugins import AgePredictor
from unplug.sdk.forgetting.tasks import ClassTask
from unplug.sdk.forgetting.unlearning import (
    Cost,
    ForgetProblem,
    Meter,
    RetrainCost,
    SisaEnsemble,
    TrainingHook,
    apply_method,
    build_method,
)
from unplug.sdk.forgetting.unlearning.methods.finetune import Finetune
from unplug.sdk.forgetting.unlearning.methods.sisa import SISA
from unplug.sdk.forgetting.unlearning.shards import ShardPlan, stage_passes
from unplug.sdk.learning.training import ImageSet, SampleSet, Sets, classed, labelled, predict

from .conftest import AGES, CLASS_RECIPE, Case, coloured

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
        assert isinstance(model, Small)
        model.counted.copy_(torch.tensor([len(retain), int(labelled(retain).group_N.sum())]))


TASK, DATA, METHOD = (
    SmallTask.of(RECIPE, classes=4),
    coloured(COUNT, seed=1),
    SISA(shards=SHARDS, slices=SLICES),
)
PLAN = ShardPlan(shards=SHARDS, slices=SLICES, seed=3)


def given(retain: ImageSet, seed: int = 3, budget: float | None = None) -> ForgetProblem:
    passes = RECIPE.epochs * len(retain)
    cost = RetrainCost(cost=Cost(forward=passes, backward=passes, wall_s=1e6), source="test")
    return ForgetProblem(
        retain=retain,
        forget=DATA.subset([]),
        validation=DATA.subset([]),
        task=TASK,
        meter=Meter(cost, budget),
        seed=seed,
        generator=torch.Generator().manual_seed(seed),
    )


def without(ids: set[str]) -> ImageSet:
    """The data without some samples, in another order: neither order nor position may matter."""
    return DATA.subset([index for index in reversed(range(COUNT)) if DATA.ids[index] not in ids])


def same(one: SisaEnsemble, other: SisaEnsemble) -> bool:
    """All that the ensembles hold, checkpoints and lists of samples included."""
    mine = [one.state_dict(), *(state for states in one.checkpoints for state in states)]
    theirs = [other.state_dict(), *(state for states in other.checkpoints for state in states)]
    assert len(mine) == len(theirs) == 1 + SHARDS * (SLICES - 1)
    assert all(left.keys() == right.keys() for left, right in zip(mine, theirs, strict=True))
    equal = all(
        torch.equal(left[name], right[name])
        for left, right in zip(mine, theirs, strict=True)
        for name in left
    )
    return equal and one.parts == other.parts


@pytest.fixture(scope="module")
def ensemble() -> SisaEnsemble:
    return METHOD.train(given(DATA))


def in_part(shard: int, number: int | None = None, count: int | None = None) -> set[str]:
    """Ids of one slice of a shard, or of the whole shard."""
    slices = PLAN.parts(DATA.ids)[shard]
    found = [
        sample for index, ids in enumerate(slices) if number in (None, index) for sample in ids
    ]
    return set(found[:count])


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
    assert gone
    problem = given(without(gone), seed=99)  # the seed of the forget step must not matter
    unlearned = METHOD(copy.deepcopy(ensemble), problem)
    scratch = METHOD.train(given(without(gone)))
    assert isinstance(unlearned, SisaEnsemble) and same(unlearned, scratch)
    assert not same(unlearned, ensemble)
    # Untouched shards are not paid for, touched ones from their first touched slice.
    touched = {PLAN.place(sample)[0]: [] for sample in gone}
    for sample in gone:
        touched[PLAN.place(sample)[0]].append(PLAN.place(sample)[1])
    parts = PLAN.parts(problem.retain.ids)
    passes = sum(
        stage_passes(PLAN, RECIPE, parts[shard], min(slices)) for shard, slices in touched.items()
    )
    assert (problem.meter.spent.forward, problem.meter.spent.backward) == (passes, passes)
    for shard in set(range(SHARDS)) - set(touched):
        one, other = unlearned.members[shard].state_dict(), ensemble.members[shard].state_dict()
        assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_the_training_seed_and_every_part_matter(ensemble: SisaEnsemble) -> None:
    # So that the equalities above compare something.
    assert same(ensemble, METHOD.train(given(without(set()))))
    other = METHOD.train(given(DATA, seed=4))
    assert not any(
        torch.equal(one.state_dict()["classifier.weight"], two.state_dict()["classifier.weight"])
        for one, two in zip(ensemble.members, other.members, strict=True)
    )
    weights = [member.state_dict()["classifier.weight"] for member in ensemble.members]
    assert not torch.equal(weights[0], weights[1])
    first, second = in_part(0, 1, 1), in_part(0, 0, 1) | in_part(2, 2, 1)
    model = METHOD(copy.deepcopy(ensemble), given(without(first)))
    model = METHOD(model, given(without(first | second)))
    assert isinstance(model, SisaEnsemble) and same(
        model, METHOD.train(given(without(first | second)))
    )


@pytest.mark.parametrize(
    "missing", [in_part(1, 0), in_part(1)], ids=["an empty first slice", "an empty shard"]
)
def test_shards_without_data_know_nothing_of_other_shards(missing: set[str]) -> None:
    model = METHOD(
        METHOD.train(given(without(missing))), given(without(missing | in_part(0, 0, 1)))
    )
    assert isinstance(model, SisaEnsemble) and same(
        model, METHOD.train(given(without(missing | in_part(0, 0, 1))))
    )


def test_ages_are_unlearned_bit_for_bit_too(age_case: Case) -> None:
    """The group centres that an age predictor keeps must be those of its slices alone."""
    train, method = age_case.sets.train.subset(range(24)), SISA(shards=2, slices=1)
    task = replace(AGES, recipe=replace(AGES.recipe, epochs=1, batch_size=8))

    def problem(data: ImageSet) -> ForgetProblem:
        return replace(age_case.problem(retain=data, budget=50.0), task=task, seed=0)

    kept = train.subset(range(1, 24))
    original, scratch = method.train(problem(train)), method.train(problem(kept))
    unlearned = method(copy.deepcopy(original), problem(kept))
    assert all(
        torch.equal(value, scratch.state_dict()[name])
        for name, value in unlearned.state_dict().items()
    )
    shard = ShardPlan(shards=2, slices=1, seed=0).place(train.ids[0])[0]
    before, after = (model.members[shard] for model in (original, unlearned))  # type: ignore[index,union-attr]
    assert isinstance(before, AgePredictor) and isinstance(after, AgePredictor)
    assert not torch.equal(before.age_centers, after.age_centers)
    said = classed(predict(unlearned, kept))
    assert said.logits_NG.shape == (23, 13) and float(abs(said.age_N).max()) < 100


def test_the_ensemble_averages_probabilities_and_an_empty_shard_has_no_say(
    ensemble: SisaEnsemble,
) -> None:
    image = DATA.batch(torch.arange(6)).image_BCHW
    with torch.no_grad():
        mean = torch.stack(
            [member(image)["logits"].softmax(1) for member in ensemble.members]
        ).mean(0)
        said = ensemble(image)["logits"]
    assert torch.allclose(said.exp(), mean, atol=1e-6) and torch.allclose(
        said.exp().sum(1), torch.ones(6), atol=1e-6
    )
    model = METHOD(copy.deepcopy(ensemble), given(without(in_part(1))))
    assert isinstance(model, SisaEnsemble)
    image = DATA.batch(torch.arange(6)).image_BCHW
    with torch.no_grad():
        mean = torch.stack(
            [model.members[shard](image)["logits"].softmax(1) for shard in (0, 2)]
        ).mean(0)
        assert torch.allclose(model(image)["logits"].exp(), mean, atol=1e-6)


def test_places_follow_from_the_id_alone_and_costs_are_those_in_the_docstring() -> None:
    plan = ShardPlan(shards=4, slices=5, seed=0)
    whole, less = (
        plan.parts(str(number) for number in range(2000)),
        plan.parts(str(number) for number in range(1, 2000)),
    )
    sizes = [len(ids) for slices in whole for ids in slices]
    assert sum(sizes) == 2000 and min(sizes) > 60 and max(sizes) < 150  # about 100 each
    assert (
        sum(
            one != two
            for left, right in zip(whole, less, strict=True)
            for one, two in zip(left, right, strict=True)
        )
        == 1
    )
    assert ShardPlan(shards=1, slices=1, seed=0).place("a") == (0, 0)
    # SHA-256 of "a" begins with ca978112ca1bbdca.
    assert ShardPlan(shards=10, slices=7, seed=0).place("a") == (
        0xCA978112CA1BBDCA % 10,
        0xCA978112CA1BBDCA // 10 % 7,
    )
    # One sample of R equal slices: 1 / S of a retraining in the first, 2 / (S (R + 1)) in the last.
    plan, recipe = ShardPlan(shards=1, slices=3, seed=0), replace(RECIPE, epochs=4)
    parts = [[f"{number}-{index}" for index in range(10)] for number in range(3)]
    assert stage_passes(plan, recipe, parts, 2) / (4 * 30) == 2 / 4


@pytest.mark.parametrize(
    ("epochs", "slices", "stages"),
    [(40, 1, [40]), (6, 3, [3, 3, 3]), (4, 3, [2, 2, 2]), (5, 3, [2, 2, 3]), (2, 3, [1, 1, 1])],
)
def test_stages_cost_as_much_as_the_recipe(epochs: int, slices: int, stages: list[int]) -> None:
    plan, recipe = ShardPlan(shards=1, slices=slices, seed=0), replace(RECIPE, epochs=epochs)
    assert plan.epochs(epochs) == stages
    parts = [[f"{number}-{index}" for index in range(10)] for number in range(slices)]
    assert stage_passes(plan, recipe, parts, 0) == epochs * 10 * slices


def test_it_runs_as_any_method_does_at_its_price(ensemble: SisaEnsemble) -> None:
    gone = in_part(0, 0, 1)
    sets = Sets(
        train=without(gone),
        forget=DATA.subset([index for index in range(COUNT) if DATA.ids[index] in gone]),
        validation=DATA.subset([]),
        test=coloured(8, seed=5),
    )
    passes = RECIPE.epochs * COUNT
    whole = RetrainCost(cost=Cost(forward=passes, backward=passes, wall_s=1e6), source="test")
    model, cost = apply_method(METHOD, ensemble, sets, TASK, whole, METHOD.default_budget, seed=0)
    assert isinstance(model, SisaEnsemble) and same(model, METHOD.train(given(without(gone))))
    assert 0 < cost.compute / whole.cost.compute < 0.6
    assert math.isfinite(float(predict(model, sets.test).log_prob_N.mean()))
    for original in (Small(), SISA(shards=2, slices=3).train(given(DATA))):
        with pytest.raises(InputError, match="needs training-time hooks, and there is none"):
            apply_method(METHOD, original, sets, TASK, whole, 1.0, seed=0)
    # Known from ids alone, so that a request over the budget is refused before an ensemble is
    # trained for it.
    problem = given(without(in_part(0, 0, 1)))
    METHOD(copy.deepcopy(ensemble), problem)
    spent = problem.meter.spent.forward
    assert METHOD.price(DATA.ids, problem.retain.ids, TASK, ensemble.plan.seed) == spent > 0
    assert METHOD.price(DATA.ids, DATA.ids, TASK, ensemble.plan.seed) == 0
    model, gone = copy.deepcopy(ensemble), in_part(0, 0, 1) | in_part(1, 0, 1) | in_part(2, 0, 1)
    with pytest.raises(BudgetExceeded, match=r"over 0\.5 of retraining"):
        METHOD(model, given(without(gone), budget=0.5))
    assert same(model, ensemble)
    METHOD(model, given(without(in_part(0, 2, 1)), budget=0.5))


def test_what_it_cannot_train_or_forget_is_refused(
    ensemble: SisaEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="was not trained on"):
        METHOD(copy.deepcopy(ensemble), given(coloured(8, seed=9)))
    with pytest.raises(InputError, match="no ensemble"):
        METHOD(Small(), given(DATA))
    with pytest.raises(InputError, match="4 epochs are too few"):
        SISA(shards=1, slices=8).train(given(DATA))
    monkeypatch.setattr(
        ClassTask, "loss", lambda _, model, outputs, batch: outputs["logits"].sum(1) * math.nan
    )
    with pytest.raises(TrainingError, match="not a number"):
        METHOD.train(given(DATA))
    assert isinstance(build_method("sisa"), TrainingHook) and not isinstance(
        Finetune(), TrainingHook
    )
    assert not METHOD.prepared(Small())
