"""A plugin as the forget step and the audit see it: packed samples in, the loss of predicting their noise out.

A sample is one row of floats (latent, text embedding, condition, noise, timestep), so that everything made for images (a
batch, a part of it, one sample under `vmap`) works on it unchanged.

Shapes: B batch, K floats of a packed sample, T noise levels.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.training import Augment, Batch, LossPredictions, TensorSet

from .control import Control, predict_noise
from .control_set import ControlSet
from .control_training import ControlRecipe
from .load import image_size_of
from .measure import LEVELS, batch_size_of, fixed_noise, fixed_steps, level_mean, losses
from .noise import add_noise, draw_steps, level_weight, noise_like, sample_loss
from .recipe import Timesteps, Weighting


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What all samples of one base share.

    Args:
        control: kind of the network.
        base: the frozen pipeline.
        shapes: of latent, text embedding, condition and noise, in the order in which they are packed; a timestep follows.
        timesteps: how training draws them.
        weighting: whose squared error training takes.
        drop_text: share of prompts that training leaves out.
        fast: compute in bfloat16 where gradients are taken, as training did.
    """

    control: Control
    base: Any
    shapes: tuple[tuple[int, ...], ...]
    timesteps: Timesteps
    weighting: Weighting
    drop_text: float
    fast: bool

    @property
    def floats(self) -> int:
        """K."""
        return sum(math.prod(shape) for shape in self.shapes) + 1

    def unpack(self, packed_BK: Tensor) -> tuple[list[Tensor], Tensor]:
        """Latent, text, condition and noise, and the timesteps (B,)."""
        parts = packed_BK[:, :-1].split([math.prod(shape) for shape in self.shapes], dim=1)
        tensors = [part.reshape(-1, *shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return tensors, packed_BK[:, -1].round().long()


class Steered(nn.Module):
    """A plugin beside its frozen base: packed samples to the loss of each.

    Args:
        network: the plugin; the only part with weights here.
        frame: the base and the layout of samples.
    """

    def __init__(self, network: nn.Module, frame: Frame) -> None:
        super().__init__()
        self.network = network
        self.frozen = (frame,)  # behind a tuple: the base must enter neither the weights nor a copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Steered:
        return Steered(copy.deepcopy(self.network, memo), self.frozen[0])

    def forward(self, packed_BK: Tensor) -> dict[str, Tensor]:
        """``loss`` (B,): squared error of the predicted noise, weighted as in training."""
        (frame,) = self.frozen
        (latent_Bchw, text_BLD, condition_BCHW, noise_Bchw), step_B = frame.unpack(packed_BK)
        noised = add_noise(frame.base.scheduler, latent_Bchw, step_B, noise_Bchw)
        fast = (
            torch.autocast(packed_BK.device.type, torch.bfloat16)
            if frame.fast and self.training and torch.is_grad_enabled()
            else None
        )

        def predict(noisy_Bchw: Tensor, at_B: Tensor) -> Tensor:
            with fast or contextlib.nullcontext():
                return predict_noise(frame.control, self.network, frame.base.unet, noisy_Bchw, at_B, text_BLD, condition_BCHW)

        weight_B = level_weight(frame.base.scheduler, step_B, frame.weighting)
        return {"loss": sample_loss(predict, noised) * weight_B}


@dataclass(frozen=True, kw_only=True)
class NoiseTask:
    """Predicting noise or velocity. log p(x) is -loss up to a constant, as in the evidence bound of a diffusion model.

    Reference:
        Ho et al., Denoising Diffusion Probabilistic Models, 2020, section 3.4.
    """

    output: ClassVar[str] = "loss"

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """Training loss (B,)."""
        return outputs["loss"]

    def log_prob(self, outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """-loss (B,)."""
        return -outputs["loss"]

    def logits(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """There are none."""
        raise InputError("a plugin", "it says no class logits", "Choose a method that needs none")

    def ignorance(self, classes: int) -> float:
        """1: about the error of predicting no noise, or no velocity, at all."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class SteeredSet(TensorSet):
    """Samples of a `ControlSet`, packed on demand; `image_NCHW` holds their thumbnails' place only (N, 3, 0, 0).

    Args:
        control_set: the samples, in the order of `ids`.
        frame: the base and the layout.
        known: what was computed once and is the same for every plugin.
    """

    control_set: ControlSet
    frame: Frame
    known: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False, compare=False)

    has_classes: ClassVar[bool] = False

    @property
    def eval_batch(self) -> int:
        """By the size of the base's latents."""
        return batch_size_of(self.frame.base)

    @classmethod
    def of(cls, data: ControlSet, frame: Frame, device: torch.device) -> SteeredSet:
        """All samples of a `ControlSet`."""
        count = len(data)
        return cls(
            ids=data.ids,
            image_NCHW=torch.zeros((count, 3, 0, 0), dtype=torch.uint8),
            age_N=torch.full((count,), float("nan"), device=device),
            group_N=torch.zeros(count, dtype=torch.long, device=device),
            subject_N=data.subject[data.rows],
            control_set=data,
            frame=frame,
        )

    def subset(self, index: Sequence[int] | Tensor) -> SteeredSet:
        """The samples at `index` as a set of their own."""
        places = torch.as_tensor(index, dtype=torch.long).cpu()
        ids = [self.ids[int(place)] for place in places]
        part = self.of(self.control_set.subset(ids), self.frame, self.age_N.device)
        chosen = places.to(self.age_N.device)
        return replace(part, age_N=self.age_N[chosen], group_N=self.group_N[chosen])

    def batch(self, index_B: Tensor) -> Batch:
        """The samples at `index_B` at fixed noise: that of level n mod T for the sample at place n."""
        index_B = index_B.cpu()
        clean = self.control_set.batch(index_B, self.age_N.device)
        steps = fixed_steps(int(self.frame.base.scheduler.config.num_train_timesteps))
        level = [int(place) % LEVELS for place in index_B]
        shape = clean["latent_Bchw"].shape[1:]
        known = {item: fixed_noise(shape, 0, item) for item in set(level)}
        noise_Bchw = torch.stack([known[item] for item in level]) if level else torch.zeros(0, *shape)
        step_B = torch.tensor([float(steps[item]) for item in level])
        parts = (clean["latent_Bchw"], clean["text_BLD"], clean["condition_BCHW"], noise_Bchw)
        packed_BK = torch.cat(
            [*(part.to(self.age_N.device).flatten(1) for part in parts), step_B[:, None].to(self.age_N)], dim=1
        )
        where = index_B.to(self.age_N.device)
        return Batch(image_BCHW=packed_BK, age_B=self.age_N[where], group_B=self.group_N[where])

    def view(self, batch: Batch, kind: Augment, generator: torch.Generator) -> Batch:
        """The batch as training sees it: at random noise and noise levels, some prompts left out."""
        frame = self.frame
        (latent_Bchw, text_BLD, condition_BCHW, _), _ = frame.unpack(batch.image_BCHW)
        count, total = len(latent_Bchw), int(frame.base.scheduler.config.num_train_timesteps)
        step_B = draw_steps(count, total, frame.timesteps, generator)
        noise_Bchw = noise_like(latent_Bchw, generator)
        gone_B = (torch.rand(count, generator=generator) < frame.drop_text).to(text_BLD.device)
        empty = torch.from_numpy(np.array(self.control_set.empty)).to(text_BLD)
        text_BLD = torch.where(gone_B[:, None, None], empty, text_BLD)
        parts = [part.flatten(1) for part in (latent_Bchw, text_BLD, condition_BCHW, noise_Bchw)]
        return replace(batch, image_BCHW=torch.cat([*parts, step_B[:, None].to(latent_Bchw)], dim=1))

    def predictions(self, model: nn.Module) -> LossPredictions:
        """Mean loss of each sample over all fixed noise levels, with and without the plugin, in full precision."""
        assert isinstance(model, Steered)
        frame, device = self.frame, self.age_N.device
        own_NT = losses(frame.control, model.network, frame.base, self.control_set, device=device)
        return LossPredictions.of(level_mean(own_NT, frame.base, frame.weighting).numpy(), self.plain())

    def plain(self) -> NDArray[Any]:
        """Mean loss of each sample without any plugin (N,), computed once."""
        if "plain" not in self.known:
            plain_NT = losses(None, None, self.frame.base, self.control_set, device=self.age_N.device)
            self.known["plain"] = level_mean(plain_NT, self.frame.base, self.frame.weighting).numpy()
        return self.known["plain"]


def frame_of(control: Control, base: Any, recipe: ControlRecipe, *, fast: bool) -> Frame:
    """The layout of a base's samples."""
    side, image = int(base.unet.config.sample_size), image_size_of(base)
    latent = (int(base.vae.config.latent_channels), side, side)
    text = (int(base.tokenizer.model_max_length), int(base.text_encoder.config.hidden_size))
    shapes = (latent, text, (3, image, image), latent)
    return Frame(
        control=control, base=base, shapes=shapes, timesteps=recipe.timesteps, weighting=recipe.weighting,
        drop_text=recipe.drop_text, fast=fast,
    )  # fmt: skip
