"""A plugin as the forget step and the audit see it: samples and noise in, the loss of predicting
that noise out.

Shapes: B batch, T noise levels, c h w a latent's channels and sides, L D a prompt's tokens and
    features.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unplug.sdk.learning.training import Augment, Batch, LossPredictions, SampleSet

from .control import Control, predict_noise
from .control_set import ControlSet, clutter
from .load import image_size_of
from .measure import LEVELS, batch_size_of, fixed_noise, fixed_steps, level_mean, losses
from .noise import add_noise, draw_steps, level_weight, noise_like, sample_loss
from .recipe import ControlRecipe, Weighting


@dataclass(frozen=True, kw_only=True)
class NoiseFrame:
    """What all samples of one base share.

    Args:
        control: kind of the network.
        base: the frozen pipeline.
        recipe: how training draws noise levels, weighs errors, leaves out prompts and changes
            conditions.
        fast: compute in bfloat16 where gradients are taken, as training did.
    """

    control: Control
    base: Any
    recipe: ControlRecipe
    fast: bool

    @property
    def weighting(self) -> Weighting:
        """The error whose square training takes."""
        return self.recipe.weighting

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of latent, text embedding, condition and noise."""
        base, image = self.base, image_size_of(self.base)
        side = int(base.unet.config.sample_size)
        latent = (int(base.vae.config.latent_channels), side, side)
        text = (int(base.tokenizer.model_max_length), int(base.text_encoder.config.hidden_size))
        return (latent, text, (3, image, image), latent)

    @property
    def floats(self) -> int:
        """Numbers that a sample is made of, its timestep among them."""
        return sum(math.prod(shape) for shape in self.shapes) + 1

    def example(self, count: int, device: torch.device) -> tuple[Tensor, ...]:
        """Inputs of `Steered` for `count` samples, all zeros, for measuring memory."""
        step_B = torch.zeros(count, dtype=torch.long, device=device)
        return (*(torch.zeros(count, *shape, device=device) for shape in self.shapes), step_B)


class Steered(nn.Module):
    """A plugin with its frozen base: samples and noise (see `NoiseBatch`) to the loss of each.

    Args:
        network: the plugin; the only part with weights here.
        frame: the base and how the loss is taken.
    """

    def __init__(self, network: nn.Module, frame: NoiseFrame) -> None:
        super().__init__()
        self.network = network
        self.frozen = (frame,)  # in a tuple: the base must enter neither the weights nor a copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Steered:
        return Steered(copy.deepcopy(self.network, memo), self.frozen[0])

    def forward(
        self,
        latent_Bchw: Tensor,
        text_BLD: Tensor,
        condition_BCHW: Tensor,
        noise_Bchw: Tensor,
        step_B: Tensor,
    ) -> dict[str, Tensor]:
        """``loss`` (B,): squared error of the predicted noise, weighted as in training."""
        (frame,) = self.frozen
        noised = add_noise(frame.base.scheduler, latent_Bchw, step_B, noise_Bchw)
        fast = (
            torch.autocast(latent_Bchw.device.type, torch.bfloat16)
            if frame.fast and self.training and torch.is_grad_enabled()
            else None
        )

        def predict(noisy_Bchw: Tensor, at_B: Tensor) -> Tensor:
            with fast or contextlib.nullcontext():
                return predict_noise(
                    frame.control,
                    self.network,
                    frame.base.unet,
                    noisy_Bchw,
                    at_B,
                    text_BLD,
                    condition_BCHW,
                )

        weight_B = level_weight(frame.base.scheduler, step_B, frame.weighting)
        return {"loss": sample_loss(predict, noised) * weight_B}


@dataclass(frozen=True, kw_only=True)
class NoiseBatch(Batch):
    """Latents, text embeddings and conditions (in [0, 1]), and what noise at which timestep is to
    be predicted.
    """

    latent_Bchw: Tensor
    text_BLD: Tensor
    condition_BCHW: Tensor
    noise_Bchw: Tensor
    step_B: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """All five: a `Steered` plugin computes its own loss."""
        return (self.latent_Bchw, self.text_BLD, self.condition_BCHW, self.noise_Bchw, self.step_B)


@dataclass(frozen=True, kw_only=True)
class NoiseSet(SampleSet):
    """Samples of a `ControlSet` for one base; they are mapped from disk and have neither ages
    nor classes.

    Args:
        control_set: the samples, in the order of `ids`.
        frame: the base and how noise is drawn.
        place: the device that batches are made on.
        known: values computed once that are the same for every plugin.
    """

    control_set: ControlSet
    frame: NoiseFrame
    place: torch.device
    known: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, data: ControlSet, frame: NoiseFrame, device: torch.device) -> NoiseSet:
        """All samples of a `ControlSet`."""
        return cls(
            ids=data.ids,
            subject_N=data.subject[data.rows],
            control_set=data,
            frame=frame,
            place=device,
        )

    @property
    def device(self) -> torch.device:
        """The device that batches are made on, `place`."""
        return self.place

    @property
    def eval_batch(self) -> int:
        """The batch size, by the size of the base's latents."""
        return batch_size_of(self.frame.base)

    def holds(self) -> frozenset[str]:
        """Labels: the noise is the truth that is predicted, and it is always at hand."""
        return frozenset({"labels"})

    def shown(self, *, labels: bool, ages: bool) -> NoiseSet:
        """The set itself: it holds nothing that could be kept back."""
        return self

    def subset(self, index: Sequence[int] | Tensor) -> NoiseSet:
        """The samples at `index` as a set of their own."""
        places = torch.as_tensor(index, dtype=torch.long).cpu()
        return self.of(
            self.control_set.subset([self.ids[int(place)] for place in places]),
            self.frame,
            self.place,
        )

    def batch(self, index_B: Tensor) -> NoiseBatch:
        """The samples at `index_B` at fixed noise: that of level n mod T for the sample at place n."""
        index_B = index_B.cpu()
        clean = self.control_set.batch(index_B, self.place)
        steps = fixed_steps(int(self.frame.base.scheduler.config.num_train_timesteps))
        # Each sample at one level, all levels alike often: gradients see the whole schedule.
        levels = [int(place) % LEVELS for place in index_B]
        shape = clean["latent_Bchw"].shape[1:]
        noise_Bchw = torch.zeros(len(levels), *shape)
        for level in set(levels):
            noise_Bchw[torch.tensor(levels) == level] = fixed_noise(shape, 0, level)
        step_B = torch.tensor([steps[level] for level in levels], dtype=torch.long)
        return NoiseBatch(
            # the condition's pixels lie channels last
            **{name: value.contiguous() for name, value in clean.items()},
            noise_Bchw=noise_Bchw.to(self.place),
            step_B=step_B.to(self.place),
        )

    def view(self, batch: NoiseBatch, kind: Augment, generator: torch.Generator) -> NoiseBatch:
        """The batch as training sees it: at random noise and noise levels, some prompts left out."""
        recipe, text_BLD, condition_BCHW = self.frame.recipe, batch.text_BLD, batch.condition_BCHW
        total = int(self.frame.base.scheduler.config.num_train_timesteps)
        step_B = draw_steps(len(batch), total, recipe.timesteps, generator)
        noise_Bchw = noise_like(batch.latent_Bchw, generator)
        gone_B = torch.rand(len(batch), generator=generator) < recipe.drop_text
        empty = torch.from_numpy(np.array(self.control_set.empty)).to(text_BLD)
        text_BLD = torch.where(gone_B.to(text_BLD.device)[:, None, None], empty, text_BLD)
        if recipe.clutter:
            condition_BCHW = clutter(condition_BCHW, recipe.clutter, generator)
        return replace(
            batch,
            text_BLD=text_BLD,
            condition_BCHW=condition_BCHW,
            noise_Bchw=noise_Bchw,
            step_B=step_B.to(batch.device),
        )

    def predictions(self, model: nn.Module) -> LossPredictions:
        """Mean loss of each sample over all fixed noise levels, with and without the plugin, in
        full precision.
        """
        assert isinstance(model, Steered)
        return LossPredictions.of(self._losses(self.frame.control, model.network), self.plain())

    def _losses(self, control: Control | None, network: nn.Module | None) -> NDArray[Any]:
        base = self.frame.base
        loss_NT = losses(control, network, base, self.control_set, device=self.place)
        return np.asarray(level_mean(loss_NT, base, self.frame.weighting).numpy())

    def plain(self) -> NDArray[Any]:
        """Mean loss of each sample without any plugin (N,), computed once."""
        if "plain" not in self.known:
            self.known["plain"] = self._losses(None, None)
        return self.known["plain"]
