"""A plugin that was trained before the comparison: taken where its record says that it was trained as it would be here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from unplug.core import CheckpointError
from unplug.plugins import Checkpoint, weights_file
from unplug.sdk.diffusion import ControlRecipe

from .report import Training
from .setup import Setup


def stored_type(folder: Path) -> str:
    """Type of the numbers in a checkpoint's weight file, "F32" or "F16"; several are joined by a plus.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        with safe_open(weights_file(folder), framework="pt") as handle:
            types = {str(handle.get_slice(name).get_dtype()) for name in handle.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(str(folder), f"its weights are no safetensors file ({error})", "Train it again") from error
    return "+".join(sorted(kind for kind in types if kind.startswith(("F", "BF"))))


def given_rate(setup: Setup, plugin: Checkpoint) -> float:
    """The learning rate among those asked for that the plugin stands for; the first, where its record names none of them."""
    rates, recipe = setup.request.rates_of("plugin"), plugin.record.get("recipe")
    own = recipe.get("lr") if isinstance(recipe, dict) else None
    return own if own in rates else rates[0]


def given_training(setup: Setup, plugin: Checkpoint, recipe: ControlRecipe) -> Training:
    """The plugin's training, from its record.

    Raises:
        CheckpointError: it was trained otherwise than with `recipe` on the setup's data, or its record does not say.
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
        found, training = _recorded(plugin)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        why = f"its record does not say how it was trained ({type(error).__name__}: {error})"
        raise CheckpointError(str(plugin.path), why, "Give a plugin of `unplug train plugin`, or leave --plugin out") from error
    different = [name for name in sorted({*wanted, *found}) if wanted.get(name) != found.get(name)]
    if different:
        why = f"it was trained otherwise than the others would be ({', '.join(different)} differ)"
        raise CheckpointError(str(plugin.path), why, "Give the options that it was trained with, or leave --plugin out")
    return training


def _recorded(plugin: Checkpoint) -> tuple[dict[str, Any], Training]:
    record = plugin.record
    found = {
        "role": record["role"],
        "base": record["base"]["sha256"],
        "data": record["data"]["digest"],
        "split": record["split"]["sha256"],
        "prompts": record["captions"],
        "seed": record["seed"],
        "condition": record["condition"]["kind"],
        "settings of the condition": record["condition"]["identity"]["settings"],
        "samples seen": record["cost"]["forward"],  # before batches were shared, several GPUs saw more a step
        **record["recipe"],
    }
    validation = record["metrics"].get("validation")
    training = Training(
        seed=int(record["seed"]), lr=float(record["recipe"]["lr"]), wall_s=float(record["cost"]["wall_s"]),
        loss=float(record["history"][-1]["loss"]), validation=None if validation is None else float(validation["loss"]),
        device=str(record["cost"]["device"]), sha256=plugin.sha256, stored=stored_type(plugin.path), given=True,
    )  # fmt: skip
    return found, training
