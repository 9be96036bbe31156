"""What a benchmark has measured so far, line by line, so that a run that ended early goes on where it stood."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import IO, Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from unplug.export.schema import STRICT
from unplug.export.tensors import digest_inputs
from unplug.plugins.errors import InputError, OutputError
from unplug.plugins.files import atomic_path

from .devices.base import DeviceInfo, Job, Plan
from .report import Repeat, TimedUntil, Window

SCHEMA = "unplug-bench-journal/1"
MAX_BYTES = 2**30
CHANGING = ("battery_percent", "charging")
"""What a device says of itself that may be another the next time."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One cold start.

    Args:
        job, turn: which; turns count from 1.
        repeat, curve: what was measured.
        nodes_delegated, nodes_total, partitions: see `unplug.export.runtime.base.Placement`.
        timed_until: see `BenchRow`.
        gate: what waiting for a cool device came to before it.
        interruptions: what went wrong on the way to it.
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


class Journal:
    """A file of records; without a path it keeps nothing."""

    def __init__(self, path: Path | None, records: tuple[Record, ...], held: IO[str] | None = None) -> None:
        self.path, self.records = path, records
        self._held = held  # locked for as long as this lives

    @classmethod
    def open(
        cls, path: Path | None, place: str, info: DeviceInfo, jobs: Sequence[Job], plan: Plan, say: Callable[[str], None]
    ) -> Journal:
        """Reads the records of the same benchmark, or begins anew; those of another one are set aside.

        Args:
            path: the file, or None.
            place, info, jobs, plan: what makes a benchmark the same.
            say: takes a line for the user.
        """
        if path is None:
            return cls(None, ())
        own = {"schema": SCHEMA, "digest": _digest(place, info, jobs, plan)}
        held = _hold(path)
        records = _read(path, own, len(jobs), plan.starts)
        lines = [json.dumps(own), *(json.dumps(asdict(record), allow_nan=False) for record in records)]
        try:
            if not records and path.is_file() and len(path.read_text(encoding="utf-8", errors="replace").splitlines()) > 1:
                aside = next(old for number in count(1) if not (old := path.with_name(f"{path.name}.old{number}")).exists())
                path.replace(aside)
                say(f"{path} is of another benchmark (other files, settings or device): kept as {aside.name}")
            # Anew and whole: behind a line that a killed run left unfinished nothing could be read.
            with atomic_path(path) as temporary:
                temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
        except OSError as error:
            raise OutputError(str(path), str(error.strerror), "Choose another --out") from error
        return cls(path, records, held)

    def add(self, record: Record) -> None:
        """Appends one line."""
        if self.path is None:
            return
        try:
            with self.path.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(asdict(record), allow_nan=False) + "\n")
        except OSError as error:
            raise OutputError(
                str(self.path), str(error.strerror), "Free some space; what was measured so far is kept"
            ) from error


def _hold(path: Path) -> IO[str] | None:
    """A lock beside the journal, so that no two benchmarks write one report.

    Raises:
        InputError: another one does.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.with_name(f".{path.name}.lock").open("w", encoding="utf-8")
    except OSError as error:
        raise OutputError(str(path), str(error.strerror), "Choose another --out") from error
    try:
        import fcntl
    except ImportError:  # Windows has another kind of lock, and nobody measures there yet
        return handle
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise InputError(str(path), "another benchmark writes it now", "Wait for it, or choose another --out") from error
    return handle


def _digest(place: str, info: DeviceInfo, jobs: Sequence[Job], plan: Plan) -> str:
    facts: dict[str, Any] = {
        "place": place,
        "device": {name: value for name, value in asdict(info).items() if name not in CHANGING},
        "plan": asdict(plan),
        "jobs": [
            (
                job.artifact.card.sha256, job.runtime, job.runtime_version, job.delegate, digest_inputs(job.inputs),
                None if job.reference is None else job.reference.checkpoint_sha256,
            )
            for job in jobs
        ],
    }  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _read(path: Path, own: dict[str, str], jobs: int, starts: int) -> tuple[Record, ...]:
    """Records up to the first line that is not whole: a run may have been killed while it wrote it."""
    if not path.is_file() or path.stat().st_size > MAX_BYTES:
        return ()
    head, *lines = path.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
    if head != json.dumps(own):
        return ()
    adapter, found = TypeAdapter(Record), list[Record]()
    for line in lines:
        try:
            record = adapter.validate_json(line)
        except ValidationError:
            break
        if 0 <= record.job < jobs and 1 <= record.turn <= starts:
            found.append(record)
    return tuple(found)
