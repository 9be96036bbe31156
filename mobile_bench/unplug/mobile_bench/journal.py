"""Cold starts as lines of a journal, so that a benchmark that ended early goes on where it stood."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from unplug.core import STRICT, json_sha256

from .bench_report import Repeat, TimedUntil, Window
from .devices.bench_device import BenchJob, DeviceInfo, Plan

SCHEMA = "unplug-bench-journal/1"
CHANGING = ("battery_percent", "charging")
"""What a device says of itself that may be another the next time."""


@dataclass(frozen=True, kw_only=True)
class JournalRecord:
    """One cold start.

    Args:
        job, turn: which; turns count from 1.
        repeat, curve: the measurement.
        nodes_delegated, nodes_total, partitions: see `unplug.export.runtime.base.Placement`.
        timed_until: see `BenchRow`.
        gate: the result of waiting for a cool device before it.
        interruptions: faults on the way to it.
        adapter: see `unplug.export.runtime.base.Placement`.
    """

    __pydantic_config__: ClassVar = STRICT

    job: int
    turn: int
    repeat: Repeat
    curve: tuple[Window, ...] = ()
    nodes_delegated: int | None = None
    nodes_total: int | None = None
    partitions: int | None = None
    timed_until: TimedUntil = "return"
    adapter: str | None = None
    gate: str | None = None
    interruptions: tuple[str, ...] = ()


def journal_head(
    place: str, info: DeviceInfo, jobs: Sequence[BenchJob], plan: Plan
) -> dict[str, str]:
    """What makes a benchmark the same: its place and device, its settings, its files and what they
    should compute.
    """
    facts: dict[str, Any] = {
        "place": place,
        "device": {name: value for name, value in asdict(info).items() if name not in CHANGING},
        "plan": asdict(plan),
        "jobs": [job.facts() for job in jobs],
    }
    return {"schema": SCHEMA, "digest": json_sha256(facts)}


def records_of(found: Iterable[Any], jobs: int, starts: int) -> tuple[JournalRecord, ...]:
    """The cold starts among a journal's lines; a line that is none of this benchmark's is passed
    over.
    """
    adapter, records = TypeAdapter(JournalRecord), list[JournalRecord]()
    for value in found:
        with contextlib.suppress(ValidationError, RecursionError):
            record = adapter.validate_json(json.dumps(value))
            if 0 <= record.job < jobs and 1 <= record.turn <= starts:
                records.append(record)
    return tuple(records)
