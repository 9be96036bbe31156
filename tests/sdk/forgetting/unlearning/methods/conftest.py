"""Two small worlds for the methods: the age predictor of `world` and a classifier on coloured
noise.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.plugins import AGE_EDGES
from unplug.sdk.forgetting.tasks import AgeTask, ClassTask
from unplug.sdk.forgetting.unlearning import (
    Cost,
    Descent,
    ForgetProblem,
    Meter,
    Method,
    RetrainCost,
    apply_method,
)
from unplug.sdk.learning.training import ImageBatch, ImageSet, Recipe, Sets, Task, fit_new

from ....conftest import RECIPE, World

CLASSES, SIDE = 4, 32
AGES = AgeTask(recipe=RECIPE, edges=tuple(map(float, AGE_EDGES)))
CLASS_RECIPE = Recipe(
    size="resnet18",
    image_size=SIDE,
    loss="ce",
    epochs=3,
    batch_size=16,
    augment="none",
    dropout=0.0,
    lr=3e-3,
    ema=0.0,
)
COLOURS = ClassTask.of(CLASS_RECIPE, "abcd", width=8)
State = dict[str, Tensor]


def retraining(passes: int) -> RetrainCost:
    """With a wall time that stops nobody."""
    return RetrainCost(cost=Cost(forward=passes, backward=passes, wall_s=1e6), source="test")


class Poisoned(ImageSet):
    """A set that must not be looked at."""

    def batch(self, index_B: Tensor) -> ImageBatch:
        raise AssertionError("a set that was not declared was read")

    def shuffled(self, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
        raise AssertionError("a set that was not declared was read")

    def subset(self, index: object) -> ImageSet:
        raise AssertionError("a set that was not declared was read")


def poisoned(like: ImageSet) -> Poisoned:
    """As many samples as `like` has, without pixels or labels."""
    empty = torch.empty(0)
    return Poisoned(
        ids=like.ids, image_NCHW=empty, age_N=empty, group_N=empty, subject_N=np.empty(0)
    )


def unlabelled(data: ImageSet) -> ImageSet:
    """As a method sees a set whose labels it did not declare."""
    return data.shown(labels=False, ages=False)


def coloured(count: int, seed: int, classes: int = CLASSES) -> ImageSet:
    """Noise whose brightness in one quadrant tells the class: learned in a few steps, remembered in
    some more.
    """
    draw = torch.Generator().manual_seed(seed)
    image_NCHW = torch.randint(0, 160, (count, 3, SIDE, SIDE), generator=draw)
    group_N, half = torch.arange(count) % classes, SIDE // 2
    for index, group in enumerate(group_N.tolist()):
        top, left = (half * place for place in divmod(group % 4, 2))
        image_NCHW[index, :, top : top + half, left : left + half] += 60
    return ImageSet(
        ids=tuple(f"{seed}-{index}" for index in range(count)),
        image_NCHW=image_NCHW.to(torch.uint8).contiguous(memory_format=torch.channels_last),
        age_N=torch.full((count,), float("nan")),
        group_N=group_N,
        subject_N=np.arange(count),
    )


@dataclass(frozen=True, kw_only=True)
class Case:
    """A trained original with its sets; tests work on copies."""

    original: nn.Module
    sets: Sets
    task: Task

    def model(self) -> nn.Module:
        """A copy of the original that may be changed."""
        return copy.deepcopy(self.original).eval()

    def whole(self) -> RetrainCost:
        return retraining(self.task.recipe.epochs * len(self.sets.train))

    def problem(
        self,
        *,
        budget: float | None = 0.5,
        seed: int = 0,
        needs: tuple[str, ...] | None = None,
        recipe: dict[str, Any] | None = None,
        compute: float | None = None,
        **sets: ImageSet,
    ) -> ForgetProblem:
        """What a method is given.

        Args:
            budget: of retraining.
            seed: of everything random; the caller seeds torch's global generator where it matters.
            needs: what the method declares: sets beyond it are poisoned and labels withheld. None
                shows everything.
            recipe: fields of the recipe to change (``weight_decay=0.0``, say).
            compute: samples that may be trained on, in all; in place of `budget`.
            sets: retain, forget or validation to use instead of the case's own.
        """
        whole = {"retain": self.sets.train, "forget": self.sets.forget}
        shown: dict[str, Any] = whole | {"validation": self.sets.validation} | sets
        outside_FG = self.outside(len(shown["forget"]))
        if needs is not None:
            for name, data in shown.items():
                seen = data if "labels" in needs else unlabelled(data)
                shown[name] = seen if f"{name} data" in needs else poisoned(data)
        meter = Meter(self.whole(), budget)
        if compute is not None:
            meter = Meter(retraining(compute), None)
        return ForgetProblem(
            **shown,
            task=replace(self.task, recipe=replace(self.task.recipe, **(recipe or {}))),
            seed=seed,
            outside_FG=outside_FG if needs is None or "out-of-fold answers" in needs else None,
            meter=meter,
            generator=torch.Generator().manual_seed(seed),
        )

    def apply(
        self, method: Method, *, budget: float | None = 0.6, seed: int = 0
    ) -> tuple[nn.Module, Cost]:
        """The method as `unplug forget` runs it, on a copy."""
        answers = "out-of-fold answers" in method.needs
        return apply_method(
            method,
            self.original,
            self.sets,
            self.task,
            self.whole(),
            budget,
            seed=seed,
            outside_FG=self.outside(len(self.sets.forget)) if answers else None,
        )

    def outside(self, count: int) -> Tensor:
        """Stands for what models that never saw them say of forget samples (F, G): made up, and
        near the uniform.
        """
        draw = torch.Generator().manual_seed(5)
        return torch.randn(count, len(self.task.edges) - 1, generator=draw)

    def step(
        self, method: Method, loss: Callable[[nn.Module], Tensor], lr: float = 0.1, **given: Any
    ) -> ForgetProblem:
        """What the method was given, once its one step of SGD was `loss`'s, with `PLAIN` recipe."""
        problem = self.problem(recipe=PLAIN, **given)
        expected = sgd_step(self.original, loss, lr)
        assert_weights(method(self.model(), problem), expected, self.original)
        return problem


@functools.cache
def _classifier() -> Case:
    train, validation = coloured(96, seed=1), coloured(24, seed=2)
    gone = range(0, 32, 2)  # two of the four classes
    sets = Sets(
        train=train.subset([index for index in range(96) if index not in gone]),
        forget=train.subset(gone),
        validation=validation,
        test=coloured(24, seed=3),
    )
    model = fit_new(COLOURS, train, validation, seed=0).model
    return Case(original=model, sets=sets, task=COLOURS)


@pytest.fixture(scope="session")
def age_case(world: World) -> Case:
    """Synthetic faces and a nano age predictor."""
    return Case(original=world.original.model, sets=world.sets, task=AGES)


@pytest.fixture(scope="session")
def class_case() -> Case:
    """Coloured noise and a thin ResNet-18: 80 samples to keep, 16 (of classes 0 and 2) to forget."""
    return _classifier()


@pytest.fixture(params=["age", "class"])
def case(request: pytest.FixtureRequest) -> Case:
    """Each of the two worlds."""
    return request.getfixturevalue(f"{request.param}_case")


def snapshot(model: nn.Module) -> State:
    """A copy of all weights and buffers."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def changed(before: nn.Module | State, after: nn.Module | State) -> set[str]:
    """Names of the weights and buffers that are not bit for bit the same."""
    one, other = (
        held.state_dict() if isinstance(held, nn.Module) else held for held in (before, after)
    )
    assert one.keys() == other.keys()
    return {name for name, value in one.items() if not torch.equal(value, other[name])}


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One descent of a method: its rate, how it was called, and the weights around it."""

    lr: float
    how: dict[str, Any]
    model: nn.Module
    before: State
    after: State


def watch(patch: pytest.MonkeyPatch, runs: Callable[[int], bool] = lambda _: True) -> list[Phase]:
    """Every descent from now on; the n-th of them is left out where `runs(n)` is false."""
    seen, real = list[Phase](), Descent.__call__

    def spy(self: Descent, model: Any, problem: Any, loss: Any, **how: Any) -> Any:
        before = snapshot(model)
        if runs(len(seen)):
            real(self, model, problem, loss, **how)
        seen.append(Phase(lr=self.lr, how=how, model=model, before=before, after=snapshot(model)))
        return model

    patch.setattr(Descent, "__call__", spy)
    return seen


def sgd_step(model: nn.Module, loss: Callable[[nn.Module], Tensor], lr: float) -> State:
    """theta - lr grad loss(theta), by autograd on a copy: what one step of plain SGD must give."""
    model = copy.deepcopy(model)
    named = dict(model.named_parameters())
    gradients = torch.autograd.grad(loss(model), list(named.values()), allow_unused=True)
    return {
        name: (value - lr * gradient if gradient is not None else value).detach()
        for (name, value), gradient in zip(named.items(), gradients, strict=True)
    }


def whole_batch(data: ImageSet) -> ImageBatch:
    """Every sample, in order."""
    return data.batch(torch.arange(len(data)))


def says(model: nn.Module, data: ImageBatch | Tensor, *, train: bool = False) -> Tensor:
    """Class logits in one of the two modes."""
    image = data if isinstance(data, Tensor) else data.image_BCHW
    return model.train(train)(image)["logits"]


def error(model: nn.Module, batch: ImageBatch, *, train: bool = False) -> Tensor:
    """Mean -ln p_y in one of the two modes."""
    return F.cross_entropy(says(model, batch, train=train), batch.group_B)


def losses(model: nn.Module, data: ImageSet) -> Tensor:
    """-ln p_y (N,) in eval mode."""
    with torch.no_grad():
        outputs = model.eval()(whole_batch(data).image_BCHW)
    logits_NG = outputs.get("age_logits", outputs.get("logits"))
    return F.cross_entropy(logits_NG, data.group_N, reduction="none")


PLAIN = {"weight_decay": 0.0, "augment": "none"}
"""A recipe whose steps can be written down: no decay, no random views."""
STEP_TOLERANCE = 1e-5
"""Of a step at lr .1 in float32 against autograd on the same batch in another order."""


def assert_weights(model: nn.Module, expected: State, before: nn.Module) -> None:
    """The parameters are those expected, and not because nothing moved."""
    start, moved = dict(before.named_parameters()), 0.0
    for name, value in model.named_parameters():
        wanted = expected[name].detach()
        difference = float((value.detach() - wanted).abs().max())
        assert difference <= STEP_TOLERANCE * (1.0 + float(wanted.abs().max())), (name, difference)
        moved = max(moved, float((wanted - start[name].detach()).abs().max()))
    assert moved > 100 * STEP_TOLERANCE
