"""What to compare, on what, and how."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from unplug.core import InputError
from unplug.sdk.data import OnBad
from unplug.sdk.diffusion import CONTROLS, GUIDANCE, STEPS, ControlRecipe, StepRecipe

from .train_judge import RECIPE as JUDGE

REFERENCE = "controlnet"
"""The control that the others are compared with, where it is among them."""
LEARNING_RATES: Mapping[str, float] = MappingProxyType({"controlnet": 3e-4, "t2i-adapter": 1e-3, "plugin": 1e-3})
"""Peak learning rates: what starts from trained weights takes smaller steps. Others have the recipe's."""


@dataclass(frozen=True, kw_only=True)
class CompareRequest:
    """One comparison.

    Args:
        base: "small", a diffusers folder, or a name on the hub.
        spec: captioned data.
        condition, options: what steers, and its settings.
        out: folder of the comparison.
        controls: names of `CONTROLS`.
        recipe: of every control but for its learning rate.
        lrs: peak learning rates by control, instead of `LEARNING_RATES`; of several, each is trained and the one with the
            lowest loss on the validation set is measured.
        seed: of the first training, the pictures and the judge.
        seeds: trainings of each control, from `seed` on.
        pictures: of each row, at least 4.
        sampling_steps, guidance: of every picture.
        rounds: of timing.
        judge: how the judge is trained.
        plugin: a plugin of ``unplug train plugin`` to take instead of training one; refused unless it was trained so.
        split: a split file; default: the plugin's, else one is drawn.
        on_bad: what to do with unreadable pictures.

    Raises:
        InputError: a control that is not known or named twice, or a number out of range.
    """

    base: str
    spec: str
    condition: str
    out: Path
    options: Mapping[str, str] = field(default_factory=dict)
    controls: tuple[str, ...] = ("controlnet", "t2i-adapter", "plugin")
    recipe: ControlRecipe = field(default_factory=ControlRecipe)
    lrs: Mapping[str, Sequence[float]] = field(default_factory=dict)
    seed: int = 0
    seeds: int = 1
    pictures: int = 512
    sampling_steps: int = STEPS
    guidance: float = GUIDANCE
    rounds: int = 7
    judge: StepRecipe = JUDGE
    plugin: Path | None = None
    split: Path | None = None
    on_bad: OnBad = "error"

    def __post_init__(self) -> None:
        for name in self.controls:
            CONTROLS.get(name)
        if not self.controls or len(set(self.controls)) != len(self.controls):
            raise InputError("--controls", "it names none, or one twice", f"Name some of {', '.join(CONTROLS)}")
        if empty := sorted(name for name, rates in self.lrs.items() if not rates):
            raise InputError(f"--lr {empty[0]}=", "it names no rate", f"Write for example --lr {empty[0]}=0.0003,0.001")
        if idle := sorted(set(self.lrs) - set(self.controls)):
            raise InputError(
                f"--lr {idle[0]}=...", "that control is not among --controls", "Add it there, or leave the rate out"
            )
        ranges = {
            "seeds": (1, 100),
            "pictures": (4, 100_000),
            "sampling_steps": (1, 1000),
            "guidance": (1, 100),
            "rounds": (1, 1000),
        }
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise InputError(f"{name} {value}", "out of range", f"Use {low} to {high}")
        if self.plugin is not None and "plugin" not in self.controls:
            raise InputError("--plugin", "plugin is not among --controls", "Add it there, or leave the folder out")
        for name in self.controls:
            for lr in self.rates_of(name):
                self.recipe_with(lr)

    @property
    def training_seeds(self) -> tuple[int, ...]:
        """One a training."""
        return tuple(range(self.seed, self.seed + self.seeds))

    @property
    def reference(self) -> str | None:
        """The control that the others are compared with."""
        return REFERENCE if REFERENCE in self.controls else None

    @property
    def judge_recipe(self) -> StepRecipe:
        """The judge's, in the precision of the controls: accelerate takes one a process."""
        return replace(self.judge, precision=self.recipe.precision)

    def rates_of(self, control: str) -> tuple[float, ...]:
        """Peak learning rates that are tried."""
        return tuple(dict.fromkeys(self.lrs.get(control, (LEARNING_RATES.get(control, self.recipe.lr),))))

    def recipe_with(self, lr: float) -> ControlRecipe:
        """The recipe with a learning rate."""
        return replace(self.recipe, lr=lr)
