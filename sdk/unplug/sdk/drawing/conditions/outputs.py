"""Condition files: PNG with a stamp that says what they were made of."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, PngImagePlugin

from unplug.core import OutputError, temporary_folder
from unplug.plugins.conditions import Picture
from unplug.sdk.learning.data import DECODER_ERRORS

FAMILY = "unplug-condition/"
SCHEMA = f"{FAMILY}1"
PNG_END = b"IEND\xaeB`\x82"


@contextlib.contextmanager
def scratch_folder(place: Path) -> Iterator[Path]:
    """A hidden folder for half-written files: a child that is killed cannot clean up after itself,
    its parent can.
    """
    stack = contextlib.ExitStack()
    try:
        place.mkdir(parents=True, exist_ok=True)
        made = stack.enter_context(temporary_folder(".unplug-", place))
    except OSError as error:
        raise _unwritable(place, error) from error
    with stack:
        yield made


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        str(path),
        error.strerror or str(error),
        "Free some space, or choose an `out` that you can write to",
    )


def _stamp(target: Path) -> str | None:
    """The stamp of a condition that any version of us drew; "" where it is cut short, None where
    the file is none of ours.
    """
    if target.is_symlink() or not target.is_file():
        return None
    try:
        with Image.open(target, formats=("PNG",)) as image:
            stamp = str(image.info.get("unplug", ""))
        with target.open("rb") as file:
            # Pillow opens a picture that is cut short without a word; its last chunk tells.
            file.seek(-len(PNG_END), os.SEEK_END)
            whole = file.read() == PNG_END
    except DECODER_ERRORS:
        return None
    return (stamp if whole else "") if FAMILY in stamp else None


def drawn_before(target: Path, stamp: str) -> bool:
    """Whether a whole condition with this stamp is there already.

    Raises:
        OutputError: a file is there that is not a condition of ours.
    """
    if not target.exists() and not target.is_symlink():
        return False
    if (there := _stamp(target)) is None:
        raise OutputError(
            str(target),
            "it exists and is not a condition that unplug drew",
            "Choose another `out` or remove it",
        )
    return there == stamp


def remove_outdated(target: Path) -> None:
    """Removes the condition of a picture that was replaced by one without a condition: it would
    pass for the new one's.
    """
    if _stamp(target) is not None:
        target.unlink()


def save(drawn_HWC: Picture, target: Path, stamp: str, scratch: Path) -> None:
    """Writes a condition with its stamp by way of `scratch`, so that it appears at once.

    Raises:
        OutputError: the place is taken by something that is not a file, cannot be written, or the
            disk is full.
    """
    text = PngImagePlugin.PngInfo()
    text.add_text("unplug", stamp)
    if target.exists() and not target.is_file():
        raise OutputError(
            str(target), "it is a folder, a device or a pipe", "Choose an `out` that is a file"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = scratch / f"{secrets.token_hex(8)}.png"
        Image.fromarray(drawn_HWC).save(temporary, "PNG", pnginfo=text)
        os.replace(temporary, target)
    except OSError as error:
        raise _unwritable(target, error) from error
