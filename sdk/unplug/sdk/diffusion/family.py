"""Plugins as a family: how one is built and trained beside its base, for the forget step and the audit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from unplug.sdk.training import Fit, StateFile, TensorSet

from .control_training import ControlRecipe, fit_control
from .task import Frame, NoiseTask, Steered, SteeredSet


@dataclass(frozen=True, kw_only=True)
class PluginFamily:
    """Conditioning plugins beside one base.

    Args:
        recipe: how they are trained.
        frame: the base and the layout of samples.
        condition: name of the condition.
        image_size: side of the condition in pixels.
    """

    recipe: ControlRecipe
    frame: Frame
    condition: str
    image_size: int

    @property
    def edges(self) -> tuple[float, ...]:
        """One class: none to tell apart."""
        return (0.0, 1.0)

    def build(self, train: TensorSet) -> nn.Module:
        """A plugin whose projections are zero."""
        network = self.frame.control.build(self.frame.base.unet, condition=self.condition, image_size=self.image_size)
        return Steered(network, self.frame)

    def task(self, model: nn.Module) -> NoiseTask:
        """Predicting noise."""
        return NoiseTask()

    def refresh(self, model: nn.Module, retain: TensorSet) -> None:
        """Nothing is kept beside the weights."""

    def fit(
        self, train: TensorSet, validation: TensorSet, *, seed: int, state: StateFile | None, show: bool, label: str
    ) -> Fit:
        """Trains by steps, as `unplug train plugin` does."""
        assert isinstance(train, SteeredSet)
        path: Path | None = None if state is None else state.path
        done = fit_control(
            self.frame.control, self.frame.base, train.control_set, self.recipe, condition=self.condition,
            image_size=self.image_size, seed=seed, device=train.age_N.device, state_path=path,
            facts=None if state is None else {"run": state.fingerprint}, show=show,
        )  # fmt: skip
        model = Steered(done.model.network, self.frame).requires_grad_(True)  # an average is not trained, a model may be
        return Fit(model=model.eval(), history=done.history, passes=done.samples, wall_s=done.wall_s)


def example(frame: Frame, count: int, device: torch.device) -> Tensor:
    """Packed samples of zeros (count, K), for measuring memory."""
    return torch.zeros(count, frame.floats, device=device)
