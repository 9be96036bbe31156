"""The trained controls of a comparison: made once, or given, kept as checkpoint folders, found
again by the next call.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import nn

from unplug.core import CheckpointError, read_json, versions, write_json
from unplug.plugins import (
    BINDING,
    RECORD,
    Checkpoint,
    check_binding,
    load_weights,
    save_checkpoint,
    weights_file,
    weights_sha256,
)
from unplug.sdk.drawing.diffusion import (
    CONTROLS,
    Control,
    ControlRecipe,
    Weighting,
    fit_control,
    mean_loss,
)
from unplug.sdk.learning.training import check_place, describe_device, fingerprint, training_dir

from .setup import Setup
from .trainings import CurvePoint, Training

SCHEMA = "unplug-control/1"
VALIDATED = 128
"""Validation samples, at most, over which a training's loss is averaged: with the same noise for
all, so that rates compare.
"""
ON_THE_WAY = 48
"""The same for each point of a curve."""
ATTENTION = "AttnProcessor2_0"
"""diffusers' fused attention, with which everything but training is computed. The plain products
with which a CPU trains are slower where nothing goes backward: a step of the small UNet in fp32
took 39.3 ms against 35.4 at batch 1 and 54.9 against 47.0 at batch 2, which is one picture with
guidance (one thread, process time, medians of 65 in turns).
"""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A trained control on disk.

    Args:
        setup: what it belongs to. name: of `CONTROLS`. control: its kind. folder: its checkpoint.
            training: how it came about.
    """

    setup: Setup
    name: str
    control: Control
    folder: Path
    training: Training

    @cached_property
    def network(self) -> nn.Module:
        """The network in eval mode on the setup's device, loaded once.

        Raises:
            CheckpointError: the folder is broken.
        """
        setup = self.setup
        network: nn.Module
        if self.training.given and setup.plugin is not None:
            network = setup.plugin.model
        else:
            network = self.control.build(
                setup.base.unet, condition=setup.request.condition, image_size=setup.dataset.size
            )
            load_weights(network, weights_file(self.folder))
        use_sampling_attention(network)
        return nn.Module.to(network, setup.device).eval()  # diffusers' own `to` warns for no reason


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """A control of the comparison.

    Args:
        own: its trainings, one a seed. tried: the first seed's with each pair of rates, where there
            were several.
    """

    own: tuple[Contender, ...]
    tried: tuple[Training, ...]


def use_sampling_attention(network: Any) -> None:
    """Sets `ATTENTION` where the network has any."""
    if hasattr(network, "set_attn_processor"):
        from diffusers.models import attention_processor

        network.set_attn_processor(getattr(attention_processor, ATTENTION)())


def enter(setup: Setup, name: str) -> Entrant:
    """Trains or finds the control `name` with each seed; of several rates, those that serve the
    first seed best.

    Raises:
        CheckpointError, TrainingError, OutputError: see `contender`.
    """
    request = setup.request
    trials, seeds = request.trials_of(name), request.training_seeds
    several = len(trials) > 1
    tried = (
        [contender(setup, name, seeds[0], *trial, search=True) for trial in trials]
        if several
        else []
    )
    best = min(tried, key=lambda one: one.training.validation or 0.0).training if several else None
    lr, zero_rate = trials[0] if best is None else (best.lr, best.zero_rate)
    trained = tuple(contender(setup, name, seed, lr, zero_rate) for seed in seeds)
    return Entrant(own=trained, tried=tuple(one.training for one in tried))


def facts(setup: Setup) -> dict[str, Any]:
    """What decides a control's weights besides its kind, recipe and seed."""
    settings = {key: value for key, value in setup.condition.items() if key != "versions"}
    return {
        "data": setup.dataset.digest,
        "split": setup.split.sha256,
        "captions": setup.captions,
        "base": setup.base_sha256,
        "condition_settings": settings,
    }


def contender(
    setup: Setup, name: str, seed: int, lr: float, zero_rate: float = 1.0, *, search: bool = False
) -> Contender:
    """The control `name` trained with `seed` and rates: the one that was given, the finished one in
    the folder, or a new one.

    Args:
        setup: what it belongs to.
        name: of `CONTROLS`.
        seed: of the training.
        lr, zero_rate: its rates.
        search: with the steps of the search, where the request has any.

    Raises:
        CheckpointError: what lies in its place was trained otherwise, or cannot be read.
        TrainingError, OutputError: see `fit_control` and `save_checkpoint`.
    """
    control = CONTROLS.get(name)()
    recipe = setup.request.recipe_with(name, lr, search=search)
    if (given := setup.plugin) is not None and _stands_for(
        setup, given, name, seed, recipe, zero_rate
    ):
        training = given_training(setup, given, recipe)
        return Contender(
            setup=setup, name=name, control=control, folder=given.path, training=training
        )
    zero = {} if zero_rate == 1.0 else {"zero_rate": zero_rate}
    parts = [name, f"seed{seed}", f"lr{lr:g}", *(f"zero{rate:g}" for rate in zero.values())]
    short = [f"steps{recipe.steps}"] if recipe.steps != setup.request.recipe.steps else []
    folder = setup.request.out / "controls" / "-".join([*parts, *short])
    marks = fingerprint(kind=name, recipe=recipe.to_dict(), seed=seed, **zero, **facts(setup))
    if not (folder / RECORD).is_file():
        _train(setup, control, name, seed, recipe, zero_rate, folder, marks)
    training = _recorded(folder, marks, seed, recipe, zero_rate)
    return Contender(setup=setup, name=name, control=control, folder=folder, training=training)


def _recorded(
    folder: Path, marks: str, seed: int, recipe: ControlRecipe, zero_rate: float
) -> Training:
    """What a folder says of its training; `CheckpointError` where that was another one."""
    record = read_json(folder / RECORD)
    if not isinstance(record, dict) or record.get("fingerprint") != marks:
        why = "it was trained on another base or other data, or with another recipe"
        raise CheckpointError(str(folder), why, "Give another --out, or remove that folder")
    check_binding(record.get(BINDING), weights_sha256(folder), folder / RECORD)
    try:
        return Training(
            seed=seed,
            lr=recipe.lr,
            wall_s=float(record["cost"]["wall_s"]),
            loss=float(record["loss"]),
            validation=record["validation"],
            device=str(record["cost"]["device"]),
            sha256=record[BINDING],
            stored=stored_type(folder),
            given=False,
            steps=recipe.steps,
            zero_rate=zero_rate,
            curve=tuple(CurvePoint(**point) for point in record.get("curve", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        why = f"its unplug.json does not say how it was trained ({type(error).__name__}: {error})"
        raise CheckpointError(str(folder), why, "Remove that folder") from error


class _Curve:
    """The validation loss of a training on its way, kept in a file, so that a killed run has its
    first points still.
    """

    def __init__(self, setup: Setup, control: Control, weighting: Weighting, path: Path) -> None:
        self.setup, self.control, self.weighting, self.path = setup, control, weighting, path
        self.started, self.spent_s = time.perf_counter(), 0.0
        self.points: list[dict[str, Any]] = read_json(path) if path.is_file() else []
        self.before = self.points[-1]["wall_s"] if self.points else 0.0

    def __call__(self, network: nn.Module | None, step: int) -> None:
        """Measures a network, or the bare base."""
        began = time.perf_counter()
        value = self.loss(network, ON_THE_WAY)
        wall_s = self.before + began - self.started - self.spent_s
        self.points = [point for point in self.points if point["step"] < step]
        self.points.append({"step": step, "wall_s": round(wall_s, 1), "validation": value})
        write_json(self.path, self.points)
        self.spent_s += time.perf_counter() - began

    def loss(self, network: nn.Module | None, most: int) -> float:
        setup = self.setup
        control = None if network is None else self.control
        return mean_loss(
            control,
            network,
            setup.base,
            setup.validation,
            weighting=self.weighting,
            device=setup.device,
            most=most,
        )


def _train(
    setup: Setup,
    control: Control,
    name: str,
    seed: int,
    recipe: ControlRecipe,
    zero_rate: float,
    folder: Path,
    marks: str,
) -> None:
    check_place(folder)
    work = training_dir(folder)
    rates = f"learning rate {recipe.lr:g}" + (
        "" if zero_rate == 1.0 else f", times {zero_rate:g} where kernels start at zero"
    )
    setup.say(
        f"training {control.label}, seed {seed}: {recipe.steps} steps of {recipe.batch_size}, "
        f"{rates}"
    )
    curve = _Curve(setup, control, recipe.weighting, work / "curve.json")
    every = setup.request.curve_every if len(setup.validation) else 0
    if every and not curve.points:
        curve(None, 0)
    done = fit_control(
        control,
        setup.base,
        setup.train,
        recipe,
        condition=setup.request.condition,
        image_size=setup.dataset.size,
        seed=seed,
        device=setup.device,
        state_path=work / "state.safetensors",
        facts=facts(setup),
        show=setup.show,
        zero_rate=zero_rate,
        on_sample=curve if every else None,
        sample_every=every,
    )
    trained: Any = done.model
    validation = curve.loss(trained.network, VALIDATED)
    record = {
        "schema": SCHEMA,
        "kind": name,
        "fingerprint": marks,
        "seed": seed,
        "recipe": recipe.to_dict(),
        "facts": facts(setup),
        "loss": done.history[-1]["loss"],
        "validation": validation if len(setup.validation) else None,
        "history": list(done.history),
        "curve": curve.points,
        "cost": {
            "forward": done.samples,
            "backward": done.samples,
            "wall_s": done.wall_s,
            "device": describe_device(setup.device),
        },
        "versions": versions(),
    }
    save_checkpoint(
        trained.network.cpu(),
        folder,
        record=record,
        card=_CARD.format(label=control.label, **record["facts"]),
    )
    shutil.rmtree(work, ignore_errors=True)


_CARD = """\
# {label}, trained by `python -m benchmarks.studies compare`

Beside the frozen base of SHA-256 `{base:.16}`, on data of digest `{data:.16}`. `unplug.json` has the recipe.
"""


def stored_type(folder: Path) -> str:
    """Type of the numbers in a checkpoint's weight file, "F32" or "F16"; several are joined by a
    plus.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        with safe_open(weights_file(folder), framework="pt") as handle:
            types = {str(handle.get_slice(name).get_dtype()) for name in handle.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            str(folder), f"its weights are no safetensors file ({error})", "Train it again"
        ) from error
    return "+".join(sorted(kind for kind in types if kind.startswith(("F", "BF"))))


def _stands_for(
    setup: Setup,
    plugin: Checkpoint,
    name: str,
    seed: int,
    recipe: ControlRecipe,
    zero_rate: float,
) -> bool:
    """Whether the given plugin is the contender of that name, seed and rates."""
    usual = zero_rate == 1.0 and recipe.steps == setup.request.recipe.steps
    first = seed == setup.request.seed and recipe.lr == given_rate(setup, plugin)
    return name == "plugin" and usual and first


def given_rate(setup: Setup, plugin: Checkpoint) -> float:
    """The learning rate among those asked for that the plugin stands for; the first, where its
    record names none of them.
    """
    rates, recipe = setup.request.rates_of("plugin"), plugin.record.get("recipe")
    lr = recipe.get("lr") if isinstance(recipe, dict) else None
    return lr if lr in rates else rates[0]


def given_training(setup: Setup, plugin: Checkpoint, recipe: ControlRecipe) -> Training:
    """The plugin's training, from its record.

    Raises:
        CheckpointError: it was trained otherwise than with `recipe` on the setup's data, or its
            record does not say.
    """
    request = setup.request
    wanted = {
        "role": "original",
        "base": setup.base_sha256,
        "data": setup.dataset.digest,
        "split": setup.split.sha256,
        "prompts": setup.captions,
        "seed": request.seed,
        "condition": request.condition,
        "settings of the condition": setup.condition["settings"],
        "samples seen": recipe.passes(len(setup.train)),
        **recipe.to_dict(),
    }
    try:
        marks, training = _told_by(plugin)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        why = f"its record does not say how it was trained ({type(error).__name__}: {error})"
        raise CheckpointError(
            str(plugin.path), why, "Give a plugin of `unplug train plugin`, or leave --plugin out"
        ) from error
    different = [name for name in sorted({*wanted, *marks}) if wanted.get(name) != marks.get(name)]
    if different:
        why = f"it was trained otherwise than the others would be ({', '.join(different)} differ)"
        raise CheckpointError(
            str(plugin.path),
            why,
            "Give the options that it was trained with, or leave --plugin out",
        )
    return training


def _told_by(plugin: Checkpoint) -> tuple[dict[str, Any], Training]:
    record = plugin.record
    marks = {
        "role": record["role"],
        "base": record["base"]["sha256"],
        "data": record["data"]["digest"],
        "split": record["split"]["sha256"],
        "prompts": record["captions"],
        "seed": record["seed"],
        "condition": record["condition"]["kind"],
        "settings of the condition": record["condition"]["identity"]["settings"],
        # before batches were shared, several GPUs saw more a step
        "samples seen": record["cost"]["forward"],
        **record["recipe"],
    }
    validation = record["metrics"].get("validation")
    training = Training(
        seed=int(record["seed"]),
        lr=float(record["recipe"]["lr"]),
        wall_s=float(record["cost"]["wall_s"]),
        loss=float(record["history"][-1]["loss"]),
        validation=None if validation is None else float(validation["loss"]),
        device=str(record["cost"]["device"]),
        sha256=plugin.sha256,
        stored=stored_type(plugin.path),
        given=True,
    )
    return marks, training
