"""The weights that come with the package, by name."""

from __future__ import annotations

from pathlib import Path

from unplug.core import CheckpointError

WEIGHTS = Path(__file__).parent.parent / "weights"
PARTS = {"small/text_encoder": "text_encoder", "small/unet": "unet", "small/vae": "vae"}
"""Parts of the base that phones run, by name."""


def shipped_plugins() -> list[str]:
    """Names of the plugins that ship.

    Example:
        >>> shipped_plugins()
        ['canny', 'face_landmark']
    """
    return sorted(item.parent.name for item in WEIGHTS.glob("*/config.json"))


def shipped_folder(name: str) -> Path:
    """The folder of a plugin or of a part of the base that ships, by its name; else the folder that was given.

    Of equal names the one that ships: a folder called canny does not change what ``canny`` means, ``./canny`` is it.

    Example:
        >>> shipped_folder("canny") == WEIGHTS / "canny", shipped_folder("my/canny")
        (True, PosixPath('my/canny'))
        >>> shipped_folder("small/unet") == WEIGHTS / "base" / "unet"
        True
    """
    if name in PARTS:
        return WEIGHTS / "base" / PARTS[name]
    return WEIGHTS / name if name in shipped_plugins() else Path(name)


def find_plugin(name: str) -> Path:
    """The folder of a plugin, by the name that it ships under or by its path; see `shipped_folder`.

    Raises:
        CheckpointError: no such plugin.
    """
    path = shipped_folder(name)
    if not path.exists():
        shipped = ", ".join(shipped_plugins())
        known = f"one of: {shipped}" if shipped else "install a release of unplug: this installation ships none"
        raise CheckpointError(name, "no such plugin", f"Give the folder that `unplug train plugin` wrote, or {known}")
    return path
