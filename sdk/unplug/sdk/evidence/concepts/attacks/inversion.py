"""Concept inversion: text states that are learned to mean the concept, in the place of words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from PIL import Image
from torch import Tensor, nn

from unplug.sdk.drawing.diffusion import (
    add_noise,
    draw_steps,
    encode,
    noise_like,
    sample_loss,
    train_steps,
)
from unplug.sdk.forgetting.unlearning import within

from ..findings import Claim
from ..practice import Practice
from ..scene import Scene, fresh

STATES = 4


@dataclass(frozen=True, kw_only=True)
class Inversion(Practice):
    """States (4, D) are put after those of each prompt and learned so that the frozen base denoises
    pictures of the concept: what words can no longer say, states may.

    Args:
        steps, batch_size, lr, pictures: see `Practice`.

    Reference:
        Pham et al., Circumventing Concept Erasure Methods for Text-to-Image Generative Models, 2024;
        there a token is learned, here the states that the UNet reads, which can do more.
    """

    steps: int = within(1, 100_000, 150)
    lr: float = within(1e-8, 10.0, 2e-2)
    holds: ClassVar[Claim] = "text states"

    def __call__(self, scene: Scene) -> Iterator[tuple[str, list[Image.Image]]]:
        """One picture a prompt, with the learned states after it."""
        prompts, latent_Nchw = self.shown(scene)
        base = scene.base
        with torch.no_grad():
            ids_NL = encode(base.tokenizer, list(prompts)).to(scene.device)
            text_NLD = base.text_encoder(ids_NL)[0]
        model = _Behind(base, text_NLD.std())

        def draw(generator: torch.Generator, count: int) -> dict[str, Tensor]:
            row_B = torch.randint(len(latent_Nchw), (count,), generator=generator)
            return {"latent_Bchw": latent_Nchw[row_B].to(scene.device), "text_BLD": text_NLD[row_B]}

        done = train_steps(
            model,
            draw,
            self.recipe(ema=0.9),
            seed=scene.seed,
            device=scene.device,
            show=scene.show,
            label="inversion",
        )
        encoder = _Encoder(base.text_encoder, done.model)
        yield "inversion", scene.draw(scene.prompts, fresh(base, text_encoder=encoder))


class _Behind(nn.Module):
    """The loss of a frozen base whose last text states are learned."""

    def __init__(self, base: Any, spread: Tensor) -> None:
        super().__init__()
        width = int(base.text_encoder.config.hidden_size)
        self.states = nn.Parameter(torch.zeros(STATES, width))
        self.frozen = (base, spread)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Behind:
        twin = _Behind(*self.frozen)  # the base is frozen: there is one
        twin.load_state_dict(self.state_dict())
        return twin

    def behind(self, text_BLD: Tensor) -> Tensor:
        """The states with the learned ones added to the last of them."""
        added_LD = nn.functional.pad(
            self.states * self.frozen[1], (0, 0, text_BLD.shape[1] - STATES, 0)
        )
        return text_BLD + added_LD

    def forward(self, latent_Bchw: Tensor, text_BLD: Tensor, generator: torch.Generator) -> Tensor:
        unet, scheduler = self.frozen[0].unet, self.frozen[0].scheduler
        total = int(scheduler.config.num_train_timesteps)
        step_B = draw_steps(len(latent_Bchw), total, "uniform", generator).to(latent_Bchw.device)
        noised = add_noise(scheduler, latent_Bchw, step_B, noise_like(latent_Bchw, generator))
        states = self.behind(text_BLD)
        return sample_loss(lambda x, t: unet(x, t, states).sample, noised).mean()


class _Encoder(nn.Module):
    """A text encoder whose answers to prompts, though not to the empty one, end in learned states."""

    def __init__(self, encoder: Any, behind: _Behind) -> None:
        super().__init__()
        self.encoder, self.states, self.config = encoder, behind, encoder.config

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("encoder"), name)

    def forward(self, ids_BL: Tensor, *rest: Any, **more: Any) -> tuple[Tensor]:
        text_BLD = self.encoder(ids_BL, *rest, **more)[0]
        empty_B = (ids_BL[:, 1:] == ids_BL[:, 1:2]).all(dim=1)
        return (torch.where(empty_B[:, None, None], text_BLD, self.states.behind(text_BLD)),)
