"""Where a project is: the folder that holds ``unplug.toml``, around the current one."""

from __future__ import annotations

from pathlib import Path

from unplug.core import InputError, is_there

FILE, HIDDEN = "unplug.toml", ".unplug"
"""What makes a folder a project, and the folder in it for what nobody edits."""


def find_project(start: Path | None = None) -> Path | None:
    """The folder of the project that a folder lies in; None where it lies in none.

    Args:
        start: the folder to start in; None takes the current folder.

    Raises:
        InputError: two projects lie one above the other, so that nobody can tell which is meant.
    """
    try:
        here = (start or Path.cwd()).resolve()
    except OSError:  # the current folder is gone
        return None
    found = [folder for folder in (here, *here.parents) if is_there(folder / FILE)]
    if len(found) > 1:
        why = f"another one lies above it, {found[1] / FILE}, and nobody can tell which is meant"
        raise InputError(str(found[0] / FILE), why, "Move one of the two elsewhere")
    return found[0] if found else None
