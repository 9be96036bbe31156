"""What a reader has seen of update metadata: the highest versions, which the caller keeps outside of the app's data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import STRICT, InputError, read_dataclass, write_json

MAX_BYTES = 65_536


@dataclass(frozen=True, kw_only=True)
class Seen:
    """``unplug-updates-seen/1``: the highest versions, and who signed them.

    A version counts as long as those who signed it still could: keys that were taken away may have signed any number
    (a fast-forward), and what they said then is forgotten with them.

    Args:
        root, timestamp, snapshot, targets: versions.
        timestamp_keys, snapshot_keys: ids of the keys whose signatures on those two files held.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    root: int
    timestamp: int
    snapshot: int
    targets: int
    timestamp_keys: tuple[str, ...]
    snapshot_keys: tuple[str, ...]
    schema: Literal["unplug-updates-seen/1"] = "unplug-updates-seen/1"


def read_seen(path: Path) -> Seen | None:
    """What was kept; None where nothing was yet.

    Raises:
        InputError: the file is of another form; nothing is forgotten silently.
    """
    return read_dataclass(Seen, path, InputError, max_bytes=MAX_BYTES) if path.exists() else None


def write_seen(path: Path, seen: Seen) -> None:
    """Keeps it, atomically."""
    write_json(path, asdict(seen))
