"""Training a control for a frozen base."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unplug.sdk.learning.training import seeded

from .base_training import use_fast_attention
from .control import Control, predict_noise
from .control_set import ControlDraws, ControlSet
from .noise import add_noise, draw_steps, level_weight, noise_like, sample_loss
from .recipe import ControlRecipe, Timesteps, Weighting
from .steps import Trained, state_at, train_steps


class ControlLoss(nn.Module):
    """L = w_t |e - e'(x_t, t, c; control(condition))|^2, with the base's UNet frozen outside of
    this module.

    Args:
        control: its kind.
        network: the network to train.
        base: the frozen pipeline.
        timesteps, weighting: see `ControlRecipe`.
    """

    def __init__(
        self,
        control: Control,
        network: nn.Module,
        base: Any,
        timesteps: Timesteps,
        weighting: Weighting,
    ) -> None:
        super().__init__()
        self.network = network
        # In a tuple: the frozen UNet must enter neither the state nor the average.
        self.frozen = (control, base.unet, base.scheduler, timesteps, weighting)

    def __deepcopy__(self, memo: dict[int, Any]) -> ControlLoss:
        twin = ControlLoss.__new__(ControlLoss)
        nn.Module.__init__(twin)
        twin.network, twin.frozen = copy.deepcopy(self.network, memo), self.frozen
        return twin

    def forward(
        self,
        latent_Bchw: Tensor,
        text_BLD: Tensor,
        condition_BCHW: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        """The mean loss of a batch at random noise levels."""
        control, unet, scheduler, timesteps, weighting = self.frozen
        total = int(scheduler.config.num_train_timesteps)
        step_B = draw_steps(len(latent_Bchw), total, timesteps, generator).to(latent_Bchw.device)
        noised = add_noise(scheduler, latent_Bchw, step_B, noise_like(latent_Bchw, generator))

        def predict(noisy_Bchw: Tensor, at_B: Tensor) -> Tensor:
            return predict_noise(
                control, self.network, unet, noisy_Bchw, at_B, text_BLD, condition_BCHW
            )

        return (sample_loss(predict, noised) * level_weight(scheduler, step_B, weighting)).mean()


def fit_control(
    control: Control,
    base: Any,
    data: ControlSet,
    recipe: ControlRecipe,
    *,
    condition: str,
    image_size: int,
    seed: int,
    device: torch.device,
    state_path: Path | None = None,
    facts: dict[str, Any] | None = None,
    start: nn.Module | None = None,
    on_sample: Callable[[nn.Module, int], None] | None = None,
    sample_every: int = 0,
    zero_rate: float = 1.0,
    show: bool = True,
) -> Trained:
    """Trains a new control on a set.

    Args:
        control: its kind.
        base: the frozen pipeline.
        data: training samples.
        recipe: how.
        condition: name of the condition, for the control's configuration.
        image_size: side of the condition in pixels.
        seed: the seed of weights, order, noise and noise levels; two controls with the same seed
            see the same batches.
        device: the device to compute on.
        state_path: the file for the state.
        facts: further facts that decide the weights, for the fingerprint of the state.
        start: a network of this kind whose weights are gone on from; None draws new ones from the
            seed.
        on_sample: called with the averaged network and the step.
        sample_every: steps.
        zero_rate: factor on the learning rate of kernels that start at zero, which are a
            ControlNet's and a plugin's last ones.
        show: progress bar.

    Returns:
        ``model.network`` is the averaged network.
    """
    with seeded(seed, 31):
        network = control.build(base.unet, condition=condition, image_size=image_size)
    if start is not None:
        network.load_state_dict(start.state_dict())
    use_fast_attention(base.unet, device)
    if hasattr(network, "set_attn_processor"):
        use_fast_attention(network, device)
    # A plugin's convolutions were measured 1.6 times faster in training so.
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model = ControlLoss(control, network.train(), base, recipe.timesteps, recipe.weighting)
    marks = {"condition": condition} | (facts or {})
    if zero_rate != 1.0:
        marks["zero_rate"] = zero_rate
    state = state_at(state_path, control.label, recipe, seed, marks)
    draws = ControlDraws(data, recipe.drop_text, device, clutter=recipe.clutter)
    preview = (
        None if on_sample is None else lambda averaged, step: on_sample(averaged.network, step)
    )
    if recipe.checkpointing:
        base.unet.enable_gradient_checkpointing()
    try:
        return train_steps(
            model,
            draws,
            recipe,
            seed=seed + 1,
            device=device,
            state=state,
            on_sample=preview,
            sample_every=sample_every,
            show=show,
            label=control.label,
            parts=recipe.accumulate,
            zero_rate=zero_rate,
        )
    finally:
        if recipe.checkpointing:
            base.unet.disable_gradient_checkpointing()
