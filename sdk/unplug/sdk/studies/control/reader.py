"""What pictures look like to a network: features for the Fréchet distance, words for the prompt's attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from unplug.sdk.diffusion import to_image

from .attributes import named_words, words_of
from .judge import Judge, agreement, examine, parameters
from .report import JudgeFacts
from .setup import Setup
from .train_judge import train_judge

BATCH = 32
Pixels = NDArray[np.uint8]
Agreement = dict[str, list[float | None]]


class Reader(Protocol):
    """Sees pictures."""

    @property
    def name(self) -> str:
        """Of its features, for the report."""

    @property
    def judge(self) -> JudgeFacts | None:
        """Facts about it where it reads attributes."""

    def __call__(self, pictures_NHWC: Pixels) -> tuple[NDArray[np.float64], Agreement]:
        """Features (N, D) of the rows' pictures, and for each attribute whether it is read as the prompt names it."""

    def features(self, pictures_NHWC: Pixels) -> NDArray[np.float64]:
        """Features (N, D) of any pictures."""


@dataclass(frozen=True, kw_only=True)
class JudgeReader:
    """The judge, with the words that the prompts name."""

    net: Judge
    named: Sequence[Mapping[str, str]]
    device: torch.device
    judge: JudgeFacts | None
    name: str

    def __call__(self, pictures_NHWC: Pixels) -> tuple[NDArray[np.float64], Agreement]:
        """See `Reader`."""
        features, read = examine(self.net, pictures_NHWC, self.device)
        return features, agreement(read, self.named)

    def features(self, pictures_NHWC: Pixels) -> NDArray[np.float64]:
        """See `Reader`."""
        return examine(self.net, pictures_NHWC, self.device)[0]


@dataclass(frozen=True, kw_only=True)
class LatentReader:
    """The base's own autoencoder, for data that names no attributes."""

    vae: Any
    device: torch.device
    judge: JudgeFacts | None = None
    name: str = "latents of the base's autoencoder (posterior means)"

    def __call__(self, pictures_NHWC: Pixels) -> tuple[NDArray[np.float64], Agreement]:
        """See `Reader`; no attributes."""
        return self.features(pictures_NHWC), {}

    @torch.no_grad()
    def features(self, pictures_NHWC: Pixels) -> NDArray[np.float64]:
        """See `Reader`."""
        parts = []
        for start in range(0, len(pictures_NHWC), BATCH):
            image_BCHW = to_image(np.array(pictures_NHWC[start : start + BATCH]), self.device).to(self.vae.dtype)
            parts.append(self.vae.encode(image_BCHW).latent_dist.mean.flatten(1).double().cpu().numpy())
        return np.concatenate(parts)


def make_reader(setup: Setup) -> Reader:
    """The judge where the data names attributes, else the autoencoder."""
    words = words_of(setup.dataset)
    if words is None:
        return LatentReader(vae=setup.base.vae, device=setup.device)
    trained = train_judge(
        setup.dataset, words, setup.split.retain, setup.request.judge_recipe, device=setup.device, seed=setup.request.seed,
        show=setup.show,
    )  # fmt: skip
    named = [named_words(one) for one in words]
    held_out = setup.dataset.indices((*setup.sources.ids, *setup.others.ids))
    _, read = examine(trained.judge, setup.dataset.pixels(held_out), setup.device)
    right = {
        name: [value for value in values if value is not None]
        for name, values in agreement(read, [named[int(position)] for position in held_out]).items()
    }
    everything = [value for values in right.values() for value in values]
    facts = JudgeFacts(
        sha256=trained.sha256, parameters=parameters(trained.judge), samples=trained.samples, steps=setup.request.judge.steps,
        held_out=len(held_out), accuracy={name: float(np.mean(values)) for name, values in right.items() if values},
        overall=float(np.mean(everything)),
    )  # fmt: skip
    sources = setup.dataset.indices(setup.sources.ids)
    return JudgeReader(
        net=trained.judge, named=[named[int(position)] for position in sources], device=setup.device, judge=facts,
        name="judge: the layer in front of the heads of a small attribute classifier trained on held-in faces",
    )  # fmt: skip
