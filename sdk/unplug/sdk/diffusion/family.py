"""Plugins as a family: how one is built and trained beside its base, for the forget step and the audit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from unplug.sdk.training import Fit, SampleSet, StateFile

from .control_training import fit_control
from .recipe import ControlRecipe
from .task import Frame, NoiseSet, NoiseTask, Steered


@dataclass(frozen=True, kw_only=True)
class PluginFamily:
    """Conditioning plugins beside one base.

    Args:
        recipe: how they are trained.
        frame: the base.
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

    def build(self, train: SampleSet) -> nn.Module:
        """A plugin whose projections are zero."""
        network = self.frame.control.build(self.frame.base.unet, condition=self.condition, image_size=self.image_size)
        return Steered(network, self.frame)

    def task(self, model: nn.Module) -> NoiseTask:
        """The task of predicting the noise that was added to a latent."""
        return NoiseTask()

    def refresh(self, model: nn.Module, retain: SampleSet) -> None:
        """Nothing is kept beside the weights."""

    def fit(
        self, train: SampleSet, validation: SampleSet, *, seed: int, state: StateFile | None, show: bool, label: str
    ) -> Fit:
        """Trains by steps, as `unplug train plugin` does."""
        assert isinstance(train, NoiseSet)
        path: Path | None = None if state is None else state.path
        done = fit_control(
            self.frame.control, self.frame.base, train.control_set, self.recipe, condition=self.condition,
            image_size=self.image_size, seed=seed, device=train.device, state_path=path,
            facts=None if state is None else {"run": state.fingerprint}, show=show,
        )  # fmt: skip
        model = Steered(done.model.network, self.frame).requires_grad_(True)  # an average is not trained, a model may be
        return Fit(model=model.eval(), history=done.history, passes=done.samples, wall_s=done.wall_s)
