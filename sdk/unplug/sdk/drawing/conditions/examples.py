"""Drawn conditions that ship, to try a plugin with before anybody has one of their own."""

from __future__ import annotations

from pathlib import Path

from unplug.core import InputError

HERE = Path(__file__).resolve().parent / "drawn"


def example_condition(kind: str) -> Path:
    """The drawn condition that ships for plugins of a kind: of a procedural face, 128 pixels wide.

    Raises:
        InputError: none ships for this kind.

    Example:
        >>> example_condition("face_landmark").name
        'face_landmark.png'
    """
    if kind not in (known := sorted(path.stem for path in HERE.glob("*.png"))):
        why = f"there is one of {', '.join(known)}, and none of {kind}"
        raise InputError(
            "condition example", why, "Draw one with `unplug condition`, or give a photograph"
        )
    return HERE / f"{kind}.png"
