"""Numbers of configurations that strangers write, held to bounds before memory is asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from unplug.core import InputError

MAX_PARAMETERS = 50_000_000
"""The limit for a plugin: eight times the budget."""
MAX_ACTIVATION = 2**29
"""Numbers in a plugin's largest tensor inside; Stable Diffusion XL's 1024 pixels need 2**25."""


def is_whole(value: object, low: int, high: int) -> bool:
    """Whether a value is an integer from `low` to `high`; JSON's true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Raises `InputError`, naming the argument, unless `value` is a whole number within bounds."""
    if not is_whole(value, low, high):
        raise InputError(f"{name} {str(value)[:200]}", "out of range", f"Use {low} to {high}")


def check_list(name: str, values: Any, low: int, high: int, *, least: int, most: int) -> None:
    """Raises `InputError`, naming the argument, unless `values` are `least` to `most` whole numbers
    within bounds.
    """
    if not isinstance(values, list | tuple) or not least <= len(values) <= most:
        wanted = str(most) if least == most else f"{least} to {most}"
        raise InputError(
            f"{name} {str(values)[:200]}",
            "not a list of the right length",
            f"Give {wanted} numbers",
        )
    for value in values:
        check_whole(name, value, low, high)


def check_at_most(config: Mapping[str, Any], limits: Mapping[str, int]) -> None:
    """Refuses settings that ask for more than any base has; `InputError` names the first."""
    for name, most in limits.items():
        if not is_whole(value := config.get(name, 1), 1, most):
            fix = f"Use a whole number from 1 to {most}"
            raise InputError(f"{name} {str(value)[:200]}", "out of range", fix)


def check_plugin(config: Mapping[str, Any], side: int, told: str) -> None:
    """What all plugins ask of their configurations.

    Args:
        config: the constructor's arguments.
        side: pixels of the condition that have to divide `image_size`.
        told: advice if `downscale` is not a power of two.

    Raises:
        InputError: names the argument that is out of range.
    """
    check_list("stem", config["stem"], 4, 512, least=1, most=8)
    check_whole("condition_channels", config["condition_channels"], 1, 16)
    if config["downscale"] & (config["downscale"] - 1):
        raise InputError(f"downscale {config['downscale']}", "not a power of two", told)
    if config["image_size"] % side:
        raise InputError(
            f"image_size {config['image_size']}", f"not a multiple of {side}", "Use a multiple"
        )
    if not _rises(span := config["input_range"]):
        raise InputError(
            f"input_range {str(span)[:200]}",
            "not a rising pair of numbers",
            "Give for example [0, 1]",
        )
    if not isinstance(config["condition"], str) or not 1 <= len(config["condition"]) <= 64:
        raise InputError(
            "condition", "it is not a name", "Give the name of a condition, for example canny"
        )


def _rises(span: Any) -> bool:
    return (
        isinstance(span, list | tuple)
        and len(span) == 2
        and all(isinstance(end, int | float) and math.isfinite(end) for end in span)
        and span[0] < span[1]
    )


def check_memory(parameters: int, largest: int) -> None:
    """Refuses a plugin of more than `MAX_PARAMETERS`, or with a larger tensor inside than
    `MAX_ACTIVATION`: `InputError`.
    """
    for why, count, most in (
        ("it would have about {:,} parameters", parameters, MAX_PARAMETERS),
        ("a tensor of up to {:,} numbers inside", largest, MAX_ACTIVATION),
    ):
        if count > most:
            raise InputError("plugin", why.format(count), f"Stay below {most:,}")
