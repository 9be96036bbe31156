"""How long stages of a release took on this machine, whatever was released: what a plan knows before
the first run in a work folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal

from unplug.core import (
    STRICT,
    InputError,
    OutputError,
    ReportError,
    cache_dir,
    json_sha256,
    make_folder,
    read_dataclass,
    write_json,
)

FILE = "stage-seconds.json"
MOST = 500
"""Kinds of stages that are kept; those that ran longest ago go first."""
MAX_BYTES = 2**20


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One run of a kind of stage: its wall time, and how many samples the data had."""

    seconds: float
    samples: int


@dataclass(frozen=True, kw_only=True)
class Timings:
    """``unplug-stage-seconds/1``, in the cache: kinds of stages, by a hash of what makes two alike."""

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-stage-seconds/1"] = "unplug-stage-seconds/1"
    stages: dict[str, Timed] = field(default_factory=dict)


def recall(kind: Mapping[str, Any]) -> Timed | None:
    """The last run of a kind of stage on this machine; None where there was none."""
    return _known().stages.get(_key(kind))


def remember(kind: Mapping[str, Any], timed: Timed) -> None:
    """Keeps a run. Where the cache cannot be written, nothing is kept: no plan is worth an error."""
    known, key = _known(), _key(kind)
    others = [(name, item) for name, item in known.stages.items() if name != key]
    with contextlib.suppress(OutputError, OSError):
        make_folder(cache_dir())
        stages = dict([*others, (key, timed)][-MOST:])
        write_json(cache_dir() / FILE, asdict(replace(known, stages=stages)))


def _known() -> Timings:
    with contextlib.suppress(InputError, OSError):  # none yet, or not whole
        return read_dataclass(Timings, cache_dir() / FILE, ReportError, max_bytes=MAX_BYTES)
    return Timings()


def _key(kind: Mapping[str, Any]) -> str:
    return json_sha256(dict(kind))[:16]
