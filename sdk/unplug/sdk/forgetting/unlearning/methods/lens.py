"""Lens, unplug's own method: answer for the forget set as the original does when it cannot rely on
the pixels it memorised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from unplug.sdk.learning.training import draw_augment, pictures, through

from ..fitted import Fitted
from ..method import ForgetProblem
from ..settings import within


@dataclass(frozen=True, kw_only=True)
class Lens(Fitted):
    """Minimise L(D_r) + weight KL( q || p_theta ) over D_f, q(x) = softmax( clear z_0(x) + (1 -
    clear) z_0(T x) ).

    What a network memorised of a picture is tied to its very pixels: through a lens T (a random
    rotation, shift, zoom and change of light) it answers without. A retrained model answers between
    the two. T is drawn once a run and shared by the forget set, so that runs differ in a direction
    that all samples share. The retain set holds the rest in place. Batch norm stays as it is, or
    the network learns to answer differently in its two modes. Forget labels are never read.

    Args:
        lenses: draws of T, whose logits are averaged, 1 to 64. More give steadier and less varied
            targets.
        strength: random changes that make one lens, beyond the one that a recipe with "standard"
            views trains with, 1 to 8.
        clear: share of the undistorted picture in a target's logits, 0 to 1.
        weight, lr, batch_size, forget_size, optimizer: see `Fitted`.

    Raises:
        InputError: a value out of range.

    Reference:
        Ours; docs/results/leaderboard.md has the ablation.
    """

    lenses: int = within(1, 64, 1)
    strength: int = within(1, 8, 1)
    clear: float = within(0.0, 1.0, 0.25)

    needs = ("retain data", "forget data", "labels", "class logits")

    @torch.no_grad()
    def targets(self, model: nn.Module, problem: ForgetProblem) -> Tensor:
        """Logits (F, G) of q for the forget set."""
        model.eval()
        # one that it trains with hides nothing from it
        changes = self.strength + (problem.recipe.augment == "standard")
        lenses = [self.lens(problem, changes) for _ in range(self.lenses)]
        rows = []
        everybody_F = torch.arange(len(problem.forget), device=problem.forget.device)
        for index_B in everybody_F.split(problem.recipe.batch_size):
            batch, seen = pictures(problem.forget.batch(index_B)), []
            for lens in lenses:
                view_BCHW = through(batch.image_BCHW, [draw[index_B] for draw in lens])
                seen.append(problem.logits(model, replace(batch, image_BCHW=view_BCHW)))
            plain_BG = problem.logits(model, batch)
            rows.append(torch.lerp(torch.stack(seen).mean(dim=0), plain_BG, self.clear))
        return torch.cat(rows)

    def lens(self, problem: ForgetProblem, changes: int) -> list[Tensor]:
        """The draw (F, 7) of each change: the same for every sample."""
        return [
            draw_augment(1, problem.generator).expand(len(problem.forget), -1)
            for _ in range(changes)
        ]
