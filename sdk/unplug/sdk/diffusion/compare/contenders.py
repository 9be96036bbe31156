"""The trained controls of a comparison: made once, kept as checkpoint folders, found again by the next call."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from unplug.plugins.checkpoint import RECORD, Checkpoint, load_checkpoint, load_weights, save_checkpoint, weights_file
from unplug.plugins.errors import CheckpointError
from unplug.plugins.files import read_json, sha256_file
from unplug.sdk.train.device import describe_device
from unplug.sdk.train.run import check_place, training_dir
from unplug.sdk.train.state import fingerprint
from unplug.sdk.versions import versions

from ..base import use_fast_attention
from ..control import CONTROLS, Control
from ..fit_control import fit_control
from .report import Training
from .setup import Setup

SCHEMA = "unplug-control/1"


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A trained control on disk.

    Args:
        name: of `CONTROLS`. control: its kind. folder: its checkpoint. sha256: of the weights.
        training: how it came about.
    """

    name: str
    control: Control
    folder: Path
    sha256: str
    training: Training

    def load(self, setup: Setup) -> nn.Module:
        """The network in eval mode on the setup's device.

        Raises:
            CheckpointError: the folder is broken.
        """
        if self.training.given:
            network: nn.Module = load_checkpoint(self.folder, expect="plugin").model
        else:
            network = build(setup, self.control)
            load_weights(network, weights_file(self.folder))
        if hasattr(network, "set_attn_processor"):
            use_fast_attention(network, setup.device)
        return nn.Module.to(network, setup.device).eval()  # diffusers' own `to` warns for no reason


def build(setup: Setup, control: Control) -> nn.Module:
    """A new network of a kind for the setup's base."""
    return control.build(setup.base.unet, condition=setup.request.condition, image_size=setup.dataset.size)


def facts(setup: Setup) -> dict[str, Any]:
    """What decides a control's weights besides its kind, recipe and seed."""
    settings = {key: value for key, value in setup.condition.items() if key != "versions"}
    return {
        "data": setup.dataset.digest,
        "split": setup.split.sha256,
        "base": setup.base_sha256,
        "condition_settings": settings,
    }


def contender(setup: Setup, name: str, seed: int) -> Contender:
    """The control `name` trained with `seed`: the one that was given, the finished one in the folder, or a new one.

    Raises:
        CheckpointError: what lies in its place was trained otherwise, or cannot be read.
        TrainingError, OutputError: see `fit_control` and `save_checkpoint`.
    """
    control: Control = CONTROLS.get(name)()
    if name == "plugin" and setup.plugin is not None and seed == setup.request.seed:
        return _given(setup, control)
    folder = setup.request.out / "controls" / f"{name}-seed{seed}"
    marks = fingerprint(kind=name, recipe=setup.request.recipe_of(name).to_dict(), seed=seed, **facts(setup))
    if not (folder / RECORD).is_file():
        _train(setup, control, name, seed, folder, marks)
    record = read_json(folder / RECORD)
    if not isinstance(record, dict) or record.get("fingerprint") != marks:
        why = "it was trained on another base or other data, or with another recipe"
        raise CheckpointError(str(folder), why, "Give another --out, or remove that folder")
    training = Training(
        seed=seed, lr=float(record["recipe"]["lr"]), wall_s=float(record["cost"]["wall_s"]), loss=float(record["loss"]),
        device=str(record["cost"]["device"]), sha256=sha256_file(weights_file(folder)), given=False,
    )  # fmt: skip
    return Contender(name=name, control=control, folder=folder, sha256=training.sha256, training=training)


def _train(setup: Setup, control: Control, name: str, seed: int, folder: Path, marks: str) -> None:
    check_place(folder)
    recipe, work = setup.request.recipe_of(name), training_dir(folder)
    setup.say(
        f"training {control.label}, seed {seed}: {recipe.steps} steps of {recipe.batch_size}, learning rate {recipe.lr:g}"
    )
    done = fit_control(
        control, setup.base, setup.train, recipe, condition=setup.request.condition, image_size=setup.dataset.size, seed=seed,
        device=setup.device, state_path=work / "state.safetensors", facts=facts(setup), show=setup.show,
    )  # fmt: skip
    record = {
        "schema": SCHEMA,
        "kind": name,
        "fingerprint": marks,
        "seed": seed,
        "recipe": recipe.to_dict(),
        "facts": facts(setup),
        "loss": done.history[-1]["loss"],
        "history": list(done.history),
        "cost": {
            "forward": done.samples,
            "backward": done.samples,
            "wall_s": done.wall_s,
            "device": describe_device(setup.device),
        },
        "versions": versions(),
    }
    trained: Any = done.model
    save_checkpoint(trained.network.cpu(), folder, record=record, card=_CARD.format(label=control.label, **record["facts"]))
    shutil.rmtree(work, ignore_errors=True)


_CARD = """\
# {label}, trained by `unplug compare-control`

Beside the frozen base of SHA-256 `{base:.16}`, on data of digest `{data:.16}`. `unplug.json` has the recipe.
"""


def _given(setup: Setup, control: Control) -> Contender:
    """The plugin that was passed in, if it was trained as it would be here."""
    plugin, request = setup.plugin, setup.request
    assert plugin is not None
    wanted = {
        "role": "original",
        "base": setup.base_sha256,
        "data": setup.dataset.digest,
        "split": setup.split.sha256,
        "seed": request.seed,
        "condition": request.condition,
        "settings of the condition": dict(request.options),
        **request.recipe_of("plugin").to_dict(),
    }
    try:
        found, training = _recorded(plugin)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        why = f"its record does not say how it was trained ({type(error).__name__}: {error})"
        raise CheckpointError(str(plugin.path), why, "Give a plugin of `unplug train plugin`, or leave --plugin out") from error
    different = [name for name in sorted({*wanted, *found}) if wanted.get(name) != found.get(name)]
    if different:
        why = f"it was trained otherwise than the others would be ({', '.join(different)} differ)"
        raise CheckpointError(str(plugin.path), why, "Give the options that it was trained with, or leave --plugin out")
    return Contender(name="plugin", control=control, folder=plugin.path, sha256=plugin.sha256, training=training)


def _recorded(plugin: Checkpoint) -> tuple[dict[str, Any], Training]:
    record = plugin.record
    found = {
        "role": record["role"],
        "base": record["base"]["sha256"],
        "data": record["data"]["digest"],
        "split": record["split"]["sha256"],
        "seed": record["seed"],
        "condition": record["condition"]["kind"],
        "settings of the condition": record["condition"]["settings"],
        **record["recipe"],
    }
    training = Training(
        seed=int(record["seed"]), lr=float(record["recipe"]["lr"]), wall_s=float(record["cost"]["wall_s"]),
        loss=float(record["history"][-1]["loss"]), device=str(record["cost"]["device"]), sha256=plugin.sha256, given=True,
    )  # fmt: skip
    return found, training
