"""Names of files in a bundle: one spelling, the same file on every system, never out of the folder."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .refused import Refused

MANIFEST, SIGNATURE = "manifest.json", "model.sig"
"""What a bundle says of itself, and the signature over all of it, which covers every file but itself."""
MAX_FILES = 4096
MAX_PATH = 400
_PART = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.+-]{0,198}[A-Za-z0-9_+-])?")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)


def is_safe(name: str) -> bool:
    """Whether a path means one file of the folder on every system.

    Parts of ASCII letters, digits and ``_.+-``, that begin with a letter or digit and do not end with a dot: so nothing is
    absolute, leads upwards, is hidden, has a drive, a stream or a backslash, or is spelled in two ways by Unicode. No part is
    a device of Windows.

    Example:
        >>> [is_safe(name) for name in ("artifacts/age.tflite", "../a", "/a", "a//b", "nul.txt", "a.", ".git/config", "C:a")]
        [True, False, False, False, False, False, False, False]
    """
    parts = name.split("/")
    return len(name) <= MAX_PATH and all(_PART.fullmatch(part) and not _DEVICE.fullmatch(part) for part in parts)


def check_names(names: Sequence[str], where: str) -> None:
    """Refuses names of which one is unsafe, or two are one file where case does not count.

    Args:
        names: paths with forward slashes, in the order in which they are judged.
        where: what names them.

    Raises:
        Refused: ``too-many``, ``unsafe-name`` or ``collision``.
    """
    if len(names) > MAX_FILES + 2:
        raise Refused("too-many", where, f"it names more than {MAX_FILES} files")
    known: dict[str, str] = {}
    for name in names:
        if not is_safe(name):
            raise Refused("unsafe-name", where, f"it names an unsafe file {name[:80]!r}")
        for prefix in _prefixes(name):
            if known.setdefault(prefix.lower(), prefix) != prefix:
                why = f"{prefix[:80]!r} and {known[prefix.lower()][:80]!r} are one file where case does not count"
                raise Refused("collision", where, why)


def _prefixes(name: str) -> list[str]:
    """The folders on the way to a file, and itself."""
    parts = name.split("/")
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]
