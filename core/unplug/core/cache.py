"""The cache: what can be made again, decoded faces among it; private to its owner, shown and emptied by ``unplug cache``."""

from __future__ import annotations

import os
from pathlib import Path

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700


def cache_dir() -> Path:
    """``$UNPLUG_CACHE``, or ``$XDG_CACHE_HOME/unplug``, or ``~/.cache/unplug``."""
    if explicit := os.environ.get("UNPLUG_CACHE"):
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unplug"


def in_cache(path: Path) -> bool:
    """Whether a path is the cache or lies in it."""
    return Path(path).resolve().is_relative_to(cache_dir().resolve())
