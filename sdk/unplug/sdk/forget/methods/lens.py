"""Lens, unplug's own method: answer for the forget set as the original does when it cannot rely on the pixels it memorised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from unplug.sdk.train.augment import draw_augment, through
from unplug.sdk.train.tensors import Batch

from ..descent import Descent, norms_fixed, plan
from ..distil import divergence
from ..method import ForgetProblem, Need
from ..settings import Stepped, check_range


@dataclass(frozen=True, kw_only=True)
class Lens(Stepped):
    """theta <- theta - lr grad [ L(D_r) + weight KL( p(T x; theta_0) || p(x; theta) ) over x in D_f ].

    What a network memorised of a picture is tied to its very pixels: through a lens T (a random rotation, shift, zoom and
    change of light) it answers without. Those answers are the targets. T is drawn once a run and shared by the forget set,
    so that runs differ in a direction that all samples share. The retain set holds the rest in place.
    Batch norm stays as it is: with batch statistics in one term and running ones in the other, the network learns to
    answer differently in the two modes. The labels of the forget set are never read.

    Args:
        lenses: draws of T, whose logits are averaged, 1 to 64. More give steadier and less varied targets.
        strength: random changes that make one lens, beyond the one that a recipe with "standard" views trains with, 1 to 8.
        weight: of the forget term, 0 to 100.
        lr, batch_size, optimizer: see `Stepped`; the batches are those of the retain set.
        forget_size: of the forget batches, at least 1.

    Raises:
        InputError: a value out of range.

    Reference:
        Ours; docs/leaderboard.md has the ablation.
    """

    lenses: int = 2
    strength: int = 1
    weight: float = 1.0
    lr: float = 7e-4
    batch_size: int = 24
    forget_size: int = 8

    needs: ClassVar[tuple[Need, ...]] = ("retain data", "forget data", "labels")

    def __post_init__(self) -> None:
        super().__post_init__()
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
            with self.norms(model):
                kept = self.kept(model, problem, next(retain))
                image_BCHW, wanted_BG = next(forget)
                says_BG = problem.logits(model, image_BCHW)
            return kept + self.weight * divergence(says_BG, wanted_BG, 1.0).mean()

        steps = plan(problem, 3.0 * (min(self.batch_size, len(problem.retain)) + size))
        return Descent(lr=self.lr, optimizer=self.optimizer)(model, problem, loss, steps=steps)

    def norms(self, model: nn.Module) -> AbstractContextManager[None]:
        """How batch norm is held."""
        return norms_fixed(model)

    def kept(self, model: nn.Module, problem: ForgetProblem, batch: Batch) -> Tensor:
        """The retain term."""
        return problem.loss(model, batch)

    @torch.no_grad()
    def targets(self, model: nn.Module, problem: ForgetProblem) -> Tensor:
        """Logits (F, G) of the original for the forget set, seen through `lenses` lenses."""
        model.eval()
        changes = self.strength + (problem.recipe.augment == "standard")  # one that it trains with hides nothing from it
        draws = [[draw_augment(1, problem.generator) for _ in range(changes)] for _ in range(self.lenses)]
        rows = []
        for index_B in torch.arange(len(problem.forget), device=problem.forget.age_N.device).split(problem.recipe.batch_size):
            image_BCHW = problem.forget.batch(index_B).image_BCHW
            rows.append(torch.stack([problem.logits(model, through(image_BCHW, draw)) for draw in draws]).mean(dim=0))
        return torch.cat(rows)

    def _forget(self, problem: ForgetProblem, target_FG: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Endless batches of forget images, augmented as in training, with their targets."""
        while True:
            for index_B in problem.forget.shuffled(size, problem.generator):
                yield problem.view(problem.forget.batch(index_B)).image_BCHW, target_FG[index_B]
