"""What erasures that take gradient steps have in common: which layers learn, how long, on what."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.drawing.diffusion import StepRecipe, base_digest, state_at, train_steps
from unplug.sdk.forgetting.unlearning import check_settings, within

from .problem import EraseProblem
from .text_map import CROSS

Tuned = Literal["cross", "all"]


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Gradient steps on a UNet.

    Args:
        steps: of the optimizer.
        batch_size: samples a step.
        lr: peak learning rate of AdamW.
        layers: "cross" changes keys and values of cross-attention, "all" the whole UNet.
        pictures: that the original draws for it, one a prompt.

    Raises:
        InputError: a setting out of range.
    """

    steps: int = within(1, 1_000_000, 40)
    batch_size: int = within(1, 4096, 12)
    lr: float = within(1e-8, 1.0, 1e-4)
    layers: Tuned = "all"
    pictures: int = within(1, 100_000, 96)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.layers not in ("cross", "all"):
            raise InputError(f"layers {self.layers!r}", "no such choice", "Use cross or all")

    def prompts(self, problem: EraseProblem) -> tuple[str, ...]:
        """The first prompts of a problem, as many as pictures are drawn."""
        return problem.prompts[: self.pictures]

    def fit(
        self,
        problem: EraseProblem,
        loss: Callable[[Any], nn.Module],
        draw: Callable[[torch.Generator, int], Any],
    ) -> None:
        """Trains the UNet of ``problem.base``.

        Args:
            problem: whose base is changed.
            loss: makes the module whose forward is the loss, around the UNet that learns as its
                ``unet``.
            draw: see `train_steps`.
        """
        label = type(self).__name__.lower()
        unet = copy.deepcopy(problem.base.unet).requires_grad_(False)
        for name, parameter in unet.named_parameters():
            parameter.requires_grad_(
                self.layers == "all" or name.rpartition(".")[0].endswith(CROSS)
            )
        recipe = StepRecipe(
            steps=self.steps,
            batch_size=self.batch_size,
            lr=self.lr,
            warmup=min(5, self.steps),
            weight_decay=0.0,
            ema=0.9,
        )
        facts = {
            "base": base_digest(problem.base),
            "method": asdict(self),
            "pairs": problem.pairs(),
            "retained": problem.retained_prompts,
        }
        work = problem.work
        path = None if work is None else work / f"{label}.safetensors"
        done = train_steps(
            loss(unet),
            draw,
            recipe,
            seed=problem.seed,
            device=problem.device,
            state=state_at(path, label, recipe, problem.seed, facts),
            show=problem.show,
            label=label,
        )
        problem.base.unet.load_state_dict(done.model.unet.state_dict())


class Beside(nn.Module):
    """A network that learns, beside frozen ones that enter neither its state nor its average.

    Args:
        unet: learns.
        frozen: what its loss reads besides.
    """

    def __init__(self, unet: Any, **frozen: Any) -> None:
        super().__init__()
        self.unet = unet
        self.frozen = (frozen,)  # behind a tuple: a module would be registered

    def __deepcopy__(self, memo: dict[int, Any]) -> Beside:
        return type(self)(copy.deepcopy(self.unet, memo), **self.frozen[0])

    def __getattr__(self, name: str) -> Any:
        frozen = self.__dict__.get("frozen", ({},))[0]
        return frozen[name] if name in frozen else super().__getattr__(name)


def picked(generator: torch.Generator, count: int, among: int) -> Tensor:
    """Row numbers (count,) drawn with repetition."""
    return torch.randint(among, (count,), generator=generator)
