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


def plugin_folder(given: Path) -> Path:
    """The folder of a plugin that ships where its name is given and no such folder is here; else what was given.

    Example:
        >>> plugin_folder(Path("canny")) == WEIGHTS / "canny", plugin_folder(Path("my/canny"))
        (True, PosixPath('my/canny'))
    """
    named = len(given.parts) == 1 and given.name in shipped_plugins() and not given.exists()
    return WEIGHTS / given.name if named else given
