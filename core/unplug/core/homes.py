"""Places of the user's own, and what stands for them where a user has no home: in a container, say,
or under another's name.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from .errors import InputError, OutputError


def home() -> Path | None:
    """The user's home; None where HOME is not set and the system knows none either."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def expanded(path: str | Path) -> Path:
    """A path with ``~`` and ``~NAME`` written out.

    Raises:
        InputError: it begins so, and there is no such home.

    Example:
        >>> expanded("faces")
        PosixPath('faces')
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        why = "no home is known that it begins with"
        raise InputError(str(path), why, "Write the whole path, or set HOME") from error


def is_there(path: Path) -> bool:
    """Whether something is at a path, as far as this user can see: not what lies in a folder of
    somebody else.
    """
    try:
        return path.exists()
    except PermissionError:
        return False


def is_writable(folder: Path) -> bool:
    """Whether a folder can be written in, or made; nothing is made to find out."""
    try:
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    except OSError:  # one of them may not be looked into
        return False
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def lasting_place(what: str, variable: str, base: str, below: str) -> Path:
    """The folder for what must last: ``$BASE/unplug``, or ``~/BELOW/unplug``.

    Args:
        what: the thing that lies there, for the message.
        variable: the environment variable that names another place for it alone.
        base: the variable of the XDG base directories.
        below: the path below the home folder, used if that variable is not set.

    Raises:
        OutputError: it is not set, and there is no home.
    """
    if given := os.environ.get(base):
        return Path(given) / "unplug"
    if (place := home()) is None:
        why = "it must last, and there is no home to keep it in (HOME is not set)"
        raise OutputError(
            what, why, f"Set {variable} to a file, or {base} to a folder, on a disk that stays"
        )
    return place / below / "unplug"


LEDGER = "UNPLUG_LEDGER"
"""The environment variable that names the ledger."""


def ledger_place() -> str:
    """``$UNPLUG_LEDGER``, or ``$XDG_DATA_HOME/unplug/ledger.db``, or
    ``~/.local/share/unplug/ledger.db``.

    Raises:
        OutputError: there is no home.
    """
    if explicit := os.environ.get(LEDGER):
        return explicit
    return str(lasting_place("the ledger", LEDGER, "XDG_DATA_HOME", ".local/share") / "ledger.db")


def ledger_is_there() -> bool:
    """Whether a file is where the ledger lies, or the ledger is a database elsewhere."""
    with contextlib.suppress(OutputError):
        place = ledger_place()
        return "://" in place or is_there(expanded(place))
    return False
