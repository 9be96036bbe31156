"""Devices by a short name: "pixel-7" for "Google Pixel 7"."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from unplug.core import InputError

MAKERS = frozenset(
    {"google", "samsung", "apple", "qualcomm", "xiaomi", "oneplus", "motorola", "nvidia"}
)
HOST = "host"


def device_slug(name: str) -> str:
    """A device's name in small letters and dashes, without its maker and without what stands in
    brackets.

    Example:
        >>> device_slug("Google Pixel 7"), device_slug("Samsung Galaxy S24 (8 Gen 3)"), device_slug("iPhone 14 Pro")
        ('pixel-7', 'galaxy-s24', 'iphone-14-pro')
    """
    words = re.findall(r"[a-z0-9.+]+", re.sub(r"\([^)]*\)", " ", name.lower()))
    kept = words[1:] if len(words) > 1 and words[0] in MAKERS else words
    return "-".join(kept) or "unknown"


def pick_device(asked: str, known: Iterable[str]) -> str:
    """The one of the `known` short names that is meant.

    Args:
        asked: a short name or a full one.
        known: short names.

    Raises:
        InputError: it is none of them; names near ones.

    Example:
        >>> pick_device("Google Pixel 7", ["pixel-7", "pixel-7-pro"])
        'pixel-7'
    """
    names, slug = sorted(set(known)), device_slug(asked)
    if slug in names:
        return slug
    near = difflib.get_close_matches(slug, names, n=3)
    listed = f"Known: {', '.join(names)}" if names else "Give measured rows of it as `rows`"
    hint = f"Did you mean {' or '.join(near)}? {listed}" if near else listed
    raise InputError(
        f"device {asked[:60]!r}",
        "no measured row that was given and no published number is of it",
        hint,
    )
