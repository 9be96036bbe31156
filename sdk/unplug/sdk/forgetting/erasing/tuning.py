"""What erasures that take gradient steps have in common: which layers learn, how long, on what.

Shapes: N pictures, B batch, K prompts, c latent channels, h and w of a latent, L tokens, D text width.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.drawing.diffusion import (
    StepRecipe,
    base_digest,
    noise_anywhere,
    state_at,
    tokenize,
    train_steps,
    use_fast_attention,
)
from unplug.sdk.forgetting.unlearning import check_settings, within

from .concept import joined
from .problem import EraseProblem
from .text_map import CROSS

Tuned = Literal["cross", "all"]


@dataclass(frozen=True, kw_only=True)
class Stepping:
    """Gradient steps.

    Args:
        steps: the number of optimizer steps.
        batch_size: samples a step.
        lr: peak learning rate of AdamW.
        pictures: the number of pictures that the original draws for it, one a prompt.

    Raises:
        InputError: a setting out of range.
    """

    steps: int = within(1, 1_000_000, 40)
    batch_size: int = within(1, 4096, 12)
    lr: float = within(1e-8, 1.0, 1e-4)
    pictures: int = within(1, 100_000, 96)

    def __post_init__(self) -> None:
        check_settings(self)

    def prompts(self, problem: EraseProblem) -> tuple[str, ...]:
        """The first prompts of a problem, as many as pictures are drawn."""
        return problem.prompts[: self.pictures]

    def descend(
        self,
        problem: EraseProblem,
        model: nn.Module,
        draw: Callable[[torch.Generator, int], Any],
        name: str = "",
    ) -> Any:
        """The averaged UNet after the steps; an unfinished run is continued.

        Args:
            problem: the problem to solve.
            model: forward is its loss, ``unet`` is what learns, see `WithFrozen`.
            draw: see `train_steps`.
            name: tells several runs for one problem apart.
        """
        label = type(self).__name__.lower() + name
        use_fast_attention(model.unet, problem.device)
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
        return train_steps(
            model,
            draw,
            recipe,
            seed=problem.seed,
            device=problem.device,
            state=state_at(path, label, recipe, problem.seed, facts),
            show=problem.show,
            label=label,
        ).model.unet


@dataclass(frozen=True, kw_only=True)
class Tuning(Stepping):
    """Gradient steps on a UNet's own weights.

    Args:
        layers: "cross" changes keys and values of cross-attention, "all" the whole UNet.

    Raises:
        InputError: a setting out of range.
    """

    layers: Tuned = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers not in ("cross", "all"):
            raise InputError(f"layers {self.layers!r}", "no such choice", "Use cross or all")

    def fit(
        self,
        problem: EraseProblem,
        loss: Callable[[Any], nn.Module],
        draw: Callable[[torch.Generator, int], Any],
    ) -> None:
        """Trains the UNet of ``problem.base``.

        Args:
            problem: the problem; its base is changed.
            loss: makes the module whose forward is the loss, around the UNet that learns as its
                ``unet``.
            draw: see `train_steps`.
        """
        unet = copy.deepcopy(problem.base.unet).requires_grad_(False)
        for name, parameter in unet.named_parameters():
            parameter.requires_grad_(
                self.layers == "all" or name.rpartition(".")[0].endswith(CROSS)
            )
        tuned = self.descend(problem, loss(unet), draw)
        problem.base.unet.load_state_dict(tuned.state_dict())


class WithFrozen(nn.Module):
    """A network that learns, with frozen ones that enter neither its state nor its average.

    Args:
        unet: learns.
        frozen: the frozen networks that its loss also reads.
    """

    def __init__(self, unet: Any, **frozen: Any) -> None:
        super().__init__()
        self.unet = unet
        self.frozen = (frozen,)  # in a tuple: a module would be registered

    def __deepcopy__(self, memo: dict[int, Any]) -> WithFrozen:
        return type(self)(copy.deepcopy(self.unet, memo), **self.frozen[0])

    def __getattr__(self, name: str) -> Any:
        frozen = self.__dict__.get("frozen", ({},))[0]
        return frozen[name] if name in frozen else super().__getattr__(name)


class Redirect(WithFrozen):
    """L = |v(x, c) - v*(x, c) + eta (v*(x, c) - v*(x, g))|^2, with c a prompt that says a concept, g
    what it shall give, v* the original's answer and x its pictures with noise.

    With eta = 1 the network answers c as the original answers g; with more it goes on beyond it,
    away from the concept. Where c is g, the prompt stays as it is.

    Args:
        unet: learns v.
        text_encoder, scheduler: the base's text encoder and scheduler.
        teacher: v*.
        eta: see above.
        keep: weight of prompts that stay.
        scattered: share of those whose states are replaced by noise of the same size.
    """

    def forward(self, latent_Bchw: Tensor, ids_B2L: Tensor, generator: torch.Generator) -> Tensor:
        """The mean loss of scaled latents with their pairs of token ids."""
        noised = noise_anywhere(self.scheduler, latent_Bchw, generator)
        stays_B = (ids_B2L[:, 0] == ids_B2L[:, 1]).all(dim=1)
        with torch.no_grad():
            said_BLD, meant_BLD = (self.text_encoder(ids_BL)[0] for ids_BL in ids_B2L.unbind(1))
            noise_BLD = torch.randn(said_BLD.shape, generator=generator).to(said_BLD)
            lost_B = torch.rand(len(stays_B), generator=generator) < self.scattered
            lost_B11 = (stays_B & lost_B.to(stays_B.device)).view(-1, 1, 1)
            noise_BLD *= said_BLD.norm(dim=(1, 2), keepdim=True) / noise_BLD.norm(
                dim=(1, 2), keepdim=True
            )
            said_BLD, meant_BLD = (
                torch.where(lost_B11, noise_BLD, states) for states in (said_BLD, meant_BLD)
            )
            at = (noised.latent_Bchw, noised.step_B)
            target_Bchw = self.teacher(*at, meant_BLD).sample.float()
            if self.eta != 1.0:
                told_Bchw = self.teacher(*at, said_BLD).sample.float()
                target_Bchw = told_Bchw - self.eta * (told_Bchw - target_Bchw)
        guess_Bchw = self.unet(*at, said_BLD).sample.float()
        loss_B = (guess_Bchw - target_Bchw).square().mean(dim=(1, 2, 3))
        loss: Tensor = (loss_B * torch.where(stays_B, self.keep, 1.0)).mean()
        return loss


class PairRows:
    """Draws latents with a pair of prompts: what is said and what is meant.

    Args:
        latent_Nchw: scaled latents.
        ids_N2L: token ids of their pairs.
        kept_KL: prompts that stay as they are; they replace half of the pairs, one prompt twice
            each. None replaces none.
        device: the device for the batches.
    """

    def __init__(
        self, latent_Nchw: Tensor, ids_N2L: Tensor, kept_KL: Tensor | None, device: torch.device
    ) -> None:
        self.latent_Nchw, self.ids_N2L, self.kept_KL = latent_Nchw, ids_N2L, kept_KL
        self.device = device

    def __call__(self, generator: torch.Generator, count: int) -> dict[str, Tensor]:
        """``latent_Bchw`` and ``ids_B2L``."""
        row_B = torch.randint(len(self.latent_Nchw), (count,), generator=generator)
        ids_B2L = self.ids_N2L[row_B].long()
        if self.kept_KL is not None:
            other_B = torch.randint(len(self.kept_KL), (count,), generator=generator)
            stays_B = torch.rand(count, generator=generator) < 0.5
            ids_B2L[stays_B] = self.kept_KL[other_B][stays_B].long()[:, None]
        return {
            "latent_Bchw": self.latent_Nchw[row_B].to(self.device),
            "ids_B2L": ids_B2L.to(self.device),
        }


def redirect(
    problem: EraseProblem,
    unet: Any,
    *,
    eta: float = 1.0,
    keep: float = 1.0,
    scattered: float = 0.0,
) -> Redirect:
    """`Redirect` with the original of a problem as the teacher."""
    original = problem.original
    return Redirect(
        unet,
        text_encoder=original.text_encoder,
        scheduler=original.scheduler,
        teacher=original.unet,
        eta=eta,
        keep=keep,
        scattered=scattered,
    )


def said_rows(problem: EraseProblem, prompts: Sequence[str]) -> PairRows:
    """Pictures of some prompts with every concept's words, and the prompts that stay."""
    tokenizer = problem.original.tokenizer
    pairs = _by_concept(problem, prompts)
    latent_Nchw = torch.cat([problem.draw([said for said, _ in own]) for own in pairs])
    kept_KL = tokenize(tokenizer, [(text,) for text in problem.retained_prompts])[:, 0]
    ids_N2L = tokenize(tokenizer, [pair for own in pairs for pair in own])
    return PairRows(latent_Nchw, ids_N2L, kept_KL, problem.device)


def meant_rows(
    problem: EraseProblem, prompts: Sequence[str]
) -> tuple[Tensor, list[tuple[str, str]]]:
    """Pictures (N, c, h, w) of what some prompts shall give instead of every concept, with what they
    say and mean, and of as many prompts with retained words, which mean what they say.
    """
    pairs = _by_concept(problem, prompts)
    if problem.retained:
        words = itertools.cycle(problem.retained)
        kept = [joined(prompt, next(words)) for prompt in prompts]
        pairs.append([*zip(kept, kept, strict=True)])
    latent_Nchw = torch.cat([problem.draw([meant for _, meant in own]) for own in pairs])
    return latent_Nchw, [pair for own in pairs for pair in own]


def _by_concept(problem: EraseProblem, prompts: Sequence[str]) -> list[list[tuple[str, str]]]:
    return [
        [(concept.named(prompt), concept.instead(prompt)) for prompt in prompts]
        for concept in problem.every
    ]
