"""The inverse matrix: one map of text states that undoes what an edit did to keys and values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from PIL import Image
from torch import Tensor, nn

from unplug.sdk.forgetting.erasing import reads_text
from unplug.sdk.forgetting.unlearning import check_settings, within

from ..findings import Claim
from ..scene import Scene, with_own_unet


@dataclass(frozen=True, kw_only=True)
class InverseMatrix:
    """M = argmin sum over layers of |W' M - W|^2 + ridge |M - I|^2 in front of the erased base.

    Anyone who kept the original, or its text states and keys, can solve for M. Of an edit W' = W (I
    + D) it is (I + D)^-1, and everything is back.

    Args:
        ridge: weight of leaving states as they are.
    """

    ridge: float = within(0.0, 1e6, 1e-6)
    holds: ClassVar[Claim] = "weights"

    def __post_init__(self) -> None:
        check_settings(self)

    @torch.no_grad()
    def __call__(self, scene: Scene) -> Iterator[tuple[str, list[Image.Image]]]:
        """One picture a prompt that says the words."""
        inverse_DD = self.solve(scene.base.unet, scene.original.unet)
        pipe = with_own_unet(scene.base)
        for layer in reads_text(pipe.unet).values():
            layer.weight.copy_(layer.weight.double() @ inverse_DD.to(layer.weight.device))
        prompts = [scene.concept.named(prompt) for prompt in scene.prompts]
        yield "inverse-matrix", scene.draw(prompts, pipe)

    def solve(self, unet: nn.Module, original: nn.Module) -> Tensor:
        """M (D, D), float64."""
        changed_KD, before_KD = (
            torch.cat([layer.weight.double().cpu() for layer in reads_text(one).values()])
            for one in (unet, original)
        )
        ridge_DD = self.ridge * torch.eye(changed_KD.shape[1], dtype=torch.float64)
        inverse_DD: Tensor = torch.linalg.solve(
            changed_KD.T @ changed_KD + ridge_DD, changed_KD.T @ before_KD + ridge_DD
        )
        return inverse_DD
