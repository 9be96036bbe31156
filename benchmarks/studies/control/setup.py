"""What is compared, and what all rows share: the base, the data, which pictures are made, and what
they are held against.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unplug.core import DataError, InputError
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.plugins.conditions import build_condition, identity
from unplug.sdk.drawing.conditions import with_exact
from unplug.sdk.drawing.diffusion import (
    CONTROLS,
    ControlRecipe,
    ControlSet,
    Sampling,
    StepRecipe,
    base_digest,
    image_size_of,
    load_base,
    load_control_set,
    sampling_of,
)
from unplug.sdk.learning.data import Dataset, OnBad, Split, load_dataset, load_split, make_split
from unplug.sdk.learning.training import split_of

JUDGE_RECIPE = StepRecipe(
    steps=1600, batch_size=64, lr=4e-3, warmup=100, weight_decay=0.02, ema=0.99
)
"""About two minutes on two cores that multiply bf16 in hardware."""
REFERENCE = "controlnet"
"""The control that the others are compared with, where it is among them."""
LEARNING_RATES: Mapping[str, float] = MappingProxyType(
    {"controlnet": 3e-4, "t2i-adapter": 1e-3, "plugin": 1e-3}
)
"""Peak learning rates: what starts from trained weights takes smaller steps. Others have the
recipe's.
"""


RANGES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "seeds": (1, 100),
        "pictures": (4, 100_000),
        "sampling_steps": (1, 1000),
        "guidance": (1, 100),
        "rounds": (1, 1000),
        "search_steps": (1, 100_000_000),
        "curve_every": (0, 100_000_000),
    }
)
"""Smallest and largest values of a request's numbers."""


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
        lrs: peak learning rates by control, instead of `LEARNING_RATES`; of several, each is
            trained and the one with the lowest loss on the validation set is measured.
        zero_rates: factors by control on the learning rate of kernels that start at zero; of
            several, each is tried with each learning rate.
        steps: optimizer steps by control, instead of the recipe's: a control that starts late may
            need several times as many.
        search_steps: steps of the trainings that only choose among rates; None trains each to the
            end.
        curve_every: steps between two points of the validation curve; 0 keeps none.
        seed: of the first training, the pictures and the judge.
        seeds: trainings of each control, from `seed` on.
        pictures: of each row, at least 4.
        sampling_steps, guidance: of every picture; None takes what suits the base, see
            `sampling_of`.
        rounds: of timing.
        judge: how the judge is trained.
        plugin: a plugin of ``unplug train plugin`` to take instead of training one; refused unless
            it was trained so.
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
    zero_rates: Mapping[str, Sequence[float]] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    search_steps: int | None = None
    curve_every: int = 0
    seed: int = 0
    seeds: int = 1
    pictures: int = 512
    sampling_steps: int | None = None
    guidance: float | None = None
    rounds: int = 7
    judge: StepRecipe = JUDGE_RECIPE
    plugin: Path | None = None
    split: Path | None = None
    on_bad: OnBad = "error"

    def __post_init__(self) -> None:
        for name in self.controls:
            CONTROLS.get(name)
        if not self.controls or len(set(self.controls)) != len(self.controls):
            raise InputError(
                "--controls", "it names none, or one twice", f"Name some of {', '.join(CONTROLS)}"
            )
        self._check_rates()
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and low <= value <= high):
                raise InputError(f"{name} {value}", "out of range", f"Use {low} to {high}")
        if self.plugin is not None and "plugin" not in self.controls:
            raise InputError(
                "--plugin",
                "plugin is not among --controls",
                "Add it there, or leave the folder out",
            )
        for name in self.controls:
            for lr in self.rates_of(name):
                self.recipe_with(name, lr)

    def _check_rates(self) -> None:
        """Refuses options that name a control which is not compared, or no usable rate."""
        for option, rates_by in (("--lr", self.lrs), ("--zero-rate", self.zero_rates)):
            if empty := sorted(name for name, rates in rates_by.items() if not rates):
                raise InputError(
                    f"{option} {empty[0]}=",
                    "it names no rate",
                    f"Write for example {option} {empty[0]}=0.3,1",
                )
        for option, named in (
            ("--lr", self.lrs),
            ("--zero-rate", self.zero_rates),
            ("--control-steps", self.steps),
        ):
            if idle := sorted(set(named) - set(self.controls)):
                raise InputError(
                    f"{option} {idle[0]}=...",
                    "that control is not among --controls",
                    "Add it there, or leave it out",
                )
        if bad := [
            factor
            for rates in self.zero_rates.values()
            for factor in rates
            if not 0 < factor <= 1000
        ]:
            raise InputError(
                f"--zero-rate {bad[0]:g}", "out of range", "Use more than 0, and 1000 at most"
            )

    @property
    def training_seeds(self) -> tuple[int, ...]:
        """The seeds of the trainings, one each."""
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
        return tuple(
            dict.fromkeys(self.lrs.get(control, (LEARNING_RATES.get(control, self.recipe.lr),)))
        )

    def trials_of(self, control: str) -> tuple[tuple[float, float], ...]:
        """Learning rates, each with each factor for the kernels that start at zero."""
        factors = tuple(dict.fromkeys(self.zero_rates.get(control, (1.0,))))
        return tuple((lr, factor) for lr in self.rates_of(control) for factor in factors)

    def recipe_with(self, control: str, lr: float, *, search: bool = False) -> ControlRecipe:
        """The recipe of a control with a learning rate; with the steps of the search where it is
        one.
        """
        recipe = replace(self.recipe, lr=lr, steps=self.steps.get(control, self.recipe.steps))
        if not search or self.search_steps is None:
            return recipe
        return replace(
            recipe, steps=self.search_steps, warmup=min(recipe.warmup, self.search_steps)
        )


HELD_OUT = 0.05
"""Share of the samples for validation and for test, as in ``unplug train plugin``."""
FEWEST_SUBJECTS = 4
"""Of each side of a distance: its halves then have two."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A comparison before anything was trained.

    Args:
        request: what was asked for.
        base: the frozen pipeline. base_sha256: of its weights. sampling: how every picture is
            drawn.
        dataset, split: the data.
        train: what every control is trained on.
        validation: what learning rates are chosen on.
        sources: M test samples: their conditions, first prompts and pictures are what rows are made
            from.
        others: held-out samples of other subjects: the real pictures of the distances.
        missing: samples without the condition.
        condition: its identity (settings, versions).
        plugin: the checkpoint that was given.
        device: where to compute.
        show: progress bars.
        say: takes progress lines.
    """

    request: CompareRequest
    base: Any
    base_sha256: str
    sampling: Sampling
    dataset: Dataset
    split: Split
    train: ControlSet
    validation: ControlSet
    sources: ControlSet
    others: ControlSet
    missing: int
    condition: dict[str, Any]
    plugin: Checkpoint | None
    device: torch.device
    show: bool
    say: Callable[[str], None]

    @cached_property
    def source_NHWC(self) -> NDArray[np.uint8]:
        """The M source pictures (M, size, size, 3) that conditions were made from."""
        return self.dataset.pixels(self.dataset.indices(self.sources.ids))

    @cached_property
    def other_NHWC(self) -> NDArray[np.uint8]:
        """The held-out pictures that no condition was made from."""
        return self.dataset.pixels(self.dataset.indices(self.others.ids))

    @cached_property
    def condition_NHWC(self) -> NDArray[np.uint8]:
        """The conditions (M, size, size, 3) of the source pictures."""
        return np.asarray(self.sources.condition[self.sources.rows])

    @cached_property
    def captions(self) -> str:
        """SHA-256 of all prompts of the data: other prompts are other trainings and other pictures."""
        return self.train.captions_sha256

    @property
    def prompts(self) -> list[str]:
        """The first prompt of each source."""
        return [self.sources.prompts[index] for index in self.sources.prompt[self.sources.rows, 0]]

    @property
    def picture_seeds(self) -> list[int]:
        """Of the noise that each picture starts from, the same in every row."""
        return [self.request.seed + index for index in range(len(self.sources))]

    def subjects(self, data: ControlSet) -> NDArray[np.int64]:
        """Subject numbers of a set's samples."""
        return np.asarray(data.subject[data.rows])


def prepare(
    request: CompareRequest, *, device: torch.device, show: bool, say: Callable[[str], None]
) -> Setup:
    """Loads the base and the data; conditions, latents and text come from the cache or go into it.

    Raises:
        InputError, DataError, CheckpointError: what the base, the data, the split and the plugin's
            checkpoint raise; fewer held-out samples than pictures, or too few people among them.
    """
    base = load_base(request.base, device=device)
    dataset = load_dataset(request.spec, image_size_of(base), on_bad=request.on_bad, show=show)
    request = replace(request, options=with_exact(request.condition, request.options, dataset))
    plugin = None if request.plugin is None else load_checkpoint(request.plugin, expect="plugin")
    split = _split(request, dataset, plugin)
    data, missing = load_control_set(
        base,
        dataset,
        request.condition,
        request.options,
        captions=request.recipe.captions,
        seed=request.seed,
        show=show,
    )
    test = data.subset(split.test)
    if len(test) < request.pictures:
        why = f"the test set has {len(test)} samples with the condition"
        raise InputError(
            f"--pictures {request.pictures}", why, f"Ask for {len(test)} at most, or give more data"
        )
    validation = data.subset(split.validation)
    if not len(validation) and any(len(request.trials_of(name)) > 1 for name in request.controls):
        raise InputError(
            "--lr",
            "no validation sample has the condition, so no rate can be chosen",
            "Give one rate a control",
        )
    sources = test.subset(first_of_each(test)[: request.pictures])
    others = data.subset(of_other_subjects((*test.ids, *split.validation), data, sources))
    for part, name in (
        (sources, "pictures that rows are made from"),
        (others, "other held-out pictures"),
    ):
        if (people := len(np.unique(part.subject[part.rows]))) < FEWEST_SUBJECTS:
            why = f"they are of {people} people, and distances need {FEWEST_SUBJECTS}"
            raise InputError(
                f"{len(part)} {name}", why, "Ask for fewer --pictures, or give more data"
            )
    return Setup(
        request=request,
        base=base,
        base_sha256=base_digest(base),
        sampling=_sampling(request),
        dataset=dataset,
        split=split,
        train=data.subset(split.retain),
        validation=validation,
        sources=sources,
        others=others,
        missing=missing,
        condition=identity(build_condition(request.condition, request.options).resolve()),
        plugin=plugin,
        device=device,
        show=show,
        say=say,
    )


def _sampling(request: CompareRequest) -> Sampling:
    usual = sampling_of(request.base)
    return replace(
        usual,
        steps=request.sampling_steps or usual.steps,
        guidance=request.guidance or usual.guidance,
    )


def _split(request: CompareRequest, dataset: Dataset, plugin: Checkpoint | None) -> Split:
    if request.split is not None:
        split = load_split(request.split)
    elif plugin is not None:
        split = split_of(plugin, dataset)
    else:
        return make_split(dataset, seed=request.seed, validation=HELD_OUT, test=HELD_OUT)
    if split.data_digest != dataset.digest:
        raise DataError(
            f"data {dataset.spec}",
            "the split was made from other data (digest differs)",
            "Make the split again",
        )
    return split


def first_of_each(data: ControlSet) -> tuple[str, ...]:
    """Ids, one of each subject first, then a second one of each that has it, and so on; else in the
    set's order.
    """
    turns: Counter[int] = Counter()
    order = []
    for position, subject in enumerate(data.subject[data.rows].tolist()):
        order.append((turns[subject], position))
        turns[subject] += 1
    return tuple(data.ids[position] for _, position in sorted(order))


def of_other_subjects(ids: Sequence[str], data: ControlSet, sources: ControlSet) -> list[str]:
    """Those of `ids` whose subject is in no source: a second picture of the same person is not an
    independent one.
    """
    taken = set(sources.subject[sources.rows].tolist())
    subject_of = dict(zip(data.ids, data.subject[data.rows].tolist(), strict=True))
    return [name for name in ids if name in subject_of and subject_of[name] not in taken]
