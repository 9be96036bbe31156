"""Lens, unplug's own method: answer for the forget set as the original does when it cannot rely on the pixels it memorised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from unplug.sdk.train.augment import augment_as_drawn, draw_augment

from ..descent import Descent, Optimizer, norms_fixed, plan
from ..distil import divergence
from ..method import ForgetProblem, Need
from ..settings import check_descent, check_range


@dataclass(frozen=True, kw_only=True)
class Lens:
    """theta <- theta - lr grad [ L(D_r) + weight KL( p(T x; theta_0) || p(x; theta) ) over x in D_f ].

    What a network memorised of a picture is tied to its very pixels: seen through a lens T (one random rotation, shift,
    zoom and change of light), a forget sample gets about the answer that a network that never saw it would give, wrong in
    the way that this picture invites. Those answers are the targets. T is drawn once a run and shared by the whole forget
    set, so that runs differ from each other as retrained models do: in a direction that all samples share. The retain set
    holds everything else in place. Batch norm stays as it is throughout: with batch statistics in one term and running
    ones in the other, the network learns to answer differently in the two modes.

    The labels of the forget set are never read.

    Args:
        lenses: draws of T, whose logits are averaged, 1 to 64. More give steadier and less varied targets.
        strength: how many random changes make one lens, 1 to 8; it must reach beyond what the recipe trains with.
        weight: of the forget term, 0 to 100.
        lr: peak learning rate of a cosine.
        batch_size: of the retain batches, at least 2.
        forget_size: of the forget batches, at least 1.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.

    Reference:
        Ours. Targets from the model's own outside view of a sample instead of noise, random labels or a random teacher
        (Chundawat et al., Can Bad Teaching Induce Forgetting?, 2023); docs/leaderboard.md has the ablation.
    """

    lenses: int = 2
    strength: int = 1
    weight: float = 1.0
    lr: float = 7e-4
    batch_size: int = 24
    forget_size: int = 8
    optimizer: Optimizer = "adamw"

    needs: ClassVar[tuple[Need, ...]] = ("retain data", "forget data", "labels")
    default_budget: ClassVar[float | None] = 0.05

    def __post_init__(self) -> None:
        check_descent(self.lr, self.batch_size, self.optimizer)
        check_range("lens", 1, 64, lenses=self.lenses)
        check_range("lens", 1, 8, strength=self.strength)
        check_range("lens", 0.0, 100.0, weight=self.weight)
        check_range("lens", 1, 65_536, forget_size=self.forget_size)

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Unlearns in place."""
        target_FG = self.targets(model, problem)
        size = min(self.forget_size, len(problem.forget))
        retain, forget = problem.batches(problem.retain, self.batch_size), self._forget(problem, target_FG, size)

        def loss() -> Tensor:
            with norms_fixed(model):
                kept = problem.loss(model, next(retain))
                image_BCHW, wanted_BG = next(forget)
                says_BG = problem.logits(model, image_BCHW)
            return kept + self.weight * divergence(says_BG, wanted_BG, 1.0).mean()

        steps = plan(problem, 3.0 * (min(self.batch_size, len(problem.retain)) + size))
        return Descent(lr=self.lr, optimizer=self.optimizer)(model, problem, loss, steps=steps)

    @torch.no_grad()
    def targets(self, model: nn.Module, problem: ForgetProblem) -> Tensor:
        """Logits (F, G) of the original for the forget set, seen through `lenses` lenses."""
        model.eval()
        draws = [[draw_augment(1, problem.generator) for _ in range(self.strength)] for _ in range(self.lenses)]
        index_F = torch.arange(len(problem.forget), device=problem.forget.age_N.device)
        rows = []
        for index_B in index_F.split(problem.recipe.batch_size):
            batch = problem.forget.batch(index_B)
            seen = [problem.logits(model, through(batch.image_BCHW, draw)) for draw in draws]
            rows.append(torch.stack(seen).mean(dim=0))
        return torch.cat(rows)

    def _forget(self, problem: ForgetProblem, target_FG: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Endless batches of forget images, augmented as in training, with their targets."""
        while True:
            for index_B in problem.forget.shuffled(size, problem.generator):
                yield problem.view(problem.forget.batch(index_B)).image_BCHW, target_FG[index_B]


def through(image_BCHW: Tensor, draws: list[Tensor]) -> Tensor:
    """Every image changed in the same way: one (1, 7) draw of `draw_augment` per change."""
    for draw in draws:
        image_BCHW = augment_as_drawn(image_BCHW, "standard", draw.expand(len(image_BCHW), -1))
    return image_BCHW
