"""One-dimensional adapters with latent anchoring, fused into the weights without their gate."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch

from unplug.plugins import LORA_LAYERS
from unplug.sdk.drawing.diffusion import add_low_rank, updates_of
from unplug.sdk.forgetting.unlearning import within

from ..problem import EraseProblem
from ..text_map import CROSS
from ..tuning import Tuned, Tuning, redirect, said_rows

TRANSFORMER = tuple(kind for kind in LORA_LAYERS if "conv" not in kind)


@dataclass(frozen=True, kw_only=True)
class SPM(Tuning):
    """W' = W + b a^T in every layer of the transformer blocks, trained by L = |v(x, c) - v*(x, g) +
    (eta - 1) (v*(x, c) - v*(x, g))|^2 + anchoring |v(x, s) - v*(x, s)|^2, see `Redirect`, with s the
    states of other prompts and noise in the place of states.

    **The gate of the original is lost.** It weighs the adapters of every prompt anew by how alike
    prompt and concept are, which no stock weights can do: fused they act on every prompt, and
    anchoring alone holds the others. Therefore half of the anchors are prompts, where the original's
    are all noise. x is a drawn picture of the concept with noise, not a half-drawn one, g the prompt
    without the words, not the empty one, and all concepts share one adapter.

    Args:
        eta: negative guidance; 1 answers as without the words. Published: 2, as counted here.
        anchoring: weight of what stays. Published: 1000.
        layers: "cross" adapts keys and values of cross-attention, "all" the transformer blocks.
        steps, batch_size, lr, pictures: see `Tuning`. Published: 3,000 of 1 at 1e-4.

    Reference:
        Lyu et al., One-dimensional Adapter to Rule Them All: Concepts, Diffusion Models and Erasing
        Applications, 2024.
    """

    steps: int = within(1, 1_000_000, 30)
    lr: float = within(1e-8, 1.0, 2e-2)
    pictures: int = within(1, 100_000, 32)
    layers: Tuned = "cross"
    eta: float = within(0.0, 100.0, 1.2)
    anchoring: float = within(0.0, 1e6, 10.0)

    def __call__(self, problem: EraseProblem) -> None:
        """Trains the adapters on all concepts, earlier ones too, and fuses them."""
        unet = copy.deepcopy(problem.base.unet).requires_grad_(False)
        add_low_rank(unet, 1, CROSS if self.layers == "cross" else TRANSFORMER, problem.seed)
        model = redirect(problem, unet, eta=self.eta, keep=self.anchoring, scattered=0.5)
        tuned = self.descend(problem, model, said_rows(problem, self.prompts(problem)))
        with torch.no_grad():
            for name, change in updates_of(tuned).items():
                problem.base.unet.get_submodule(name).weight += change
