"""The weights that come with the package, by name."""

from __future__ import annotations

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights"


def shipped_plugins() -> list[str]:
    """Names of the plugins that ship.

    Example:
        >>> shipped_plugins()
        ['canny', 'face_landmark']
    """
    return sorted(item.parent.name for item in WEIGHTS.glob("*/config.json"))


def plugin_folder(name: str) -> Path:
    """The folder of a plugin that ships, by its name; else the folder that was given.

    Of equal names the one that ships: a folder called canny does not change what ``canny`` means, ``./canny`` is it.

    Example:
        >>> plugin_folder("canny") == WEIGHTS / "canny", plugin_folder("my/canny")
        (True, PosixPath('my/canny'))
    """
    return WEIGHTS / name if name in shipped_plugins() else Path(name)
