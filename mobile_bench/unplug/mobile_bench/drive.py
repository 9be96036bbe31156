"""Driving a device: cold starts of all artifacts in turn, parity on every run, resumable, refused
rows kept and marked.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from threading import Event

import numpy as np

from unplug.core import Array, ArtifactError, ConversionError, DeviceError, DeviceLost, JsonLines

from .bench_report import BenchRow, Repeat
from .devices.bench_device import (
    BenchJob,
    DeviceInfo,
    DeviceOrder,
    DeviceTiming,
    Driven,
    Plan,
    State,
    Untimed,
)
from .jobs import plan_jobs
from .journal import JournalRecord, journal_head, records_of
from .parity import judge
from .rows import Taken, measured_row, stopped_row
from .statistics import summarize
from .validity import THROTTLING

MAX_TRIES = 3
"""The most tries of one cold start on a device that vanishes; then it is the artifact's doing."""
AGAIN_S = 1.0
SOFTWARE = re.compile(r"swiftshader|llvmpipe|lavapipe|adapterType=CPU", re.IGNORECASE)


@dataclass(kw_only=True)
class DriveEntry:
    """What has been measured of one job so far.

    Args:
        job: the job measured.
        failure: the error that ended it, or None.
        untimed: the pass for memory and outputs.
        records: cold starts by their turn.
        resumed: how many of them are of an earlier run.
        interruptions: faults since the last record.
    """

    job: BenchJob
    failure: str | None = None
    untimed: Untimed | None = None
    records: dict[int, JournalRecord] = field(default_factory=dict)
    resumed: int = 0
    interruptions: list[str] = field(default_factory=list)


def drive(device: Driven, order: DeviceOrder, place: str) -> tuple[BenchRow, ...]:
    """Measures an order on one device.

    Each artifact first runs once untimed, for its memory and its outputs. Then each repeat times
    all of them, in an order drawn anew, so that a drifting clock does not favour one. What was
    timed stands in the journal at once.

    Args:
        device: it is driven from here.
        order: the order to measure.
        place: name of the device for the journal.

    Returns:
        One row an artifact and delegate. Where the device vanished and did not come back, rows that
        miss cold starts say so.

    Raises:
        DeviceError: the device cannot do it, and nothing has been measured yet.
        InputError: a runtime or delegate that is not here, or a journal that another benchmark
            writes.
        OutputError: the journal cannot be written.
    """
    info, load = device.describe(), _load()
    entries = [DriveEntry(job=job) for job in plan_jobs(device, order)]
    head = journal_head(place, info, [entry.job for entry in entries], order.plan)
    with JsonLines(order.journal, head, order.say) as journal:
        run = _DriveRun(device, order, info, entries, journal)
        run.all()
    after = run.state_or_nothing()
    return tuple(run.row(entry, after, load) for entry in entries)


class _DriveRun:
    """One pass over the jobs of an order."""

    def __init__(
        self,
        device: Driven,
        order: DeviceOrder,
        info: DeviceInfo,
        entries: list[DriveEntry],
        journal: JsonLines,
    ) -> None:
        self.device, self.order, self.plan = device, order, order.plan
        self.info, self.entries = info, entries
        self.begun = time.monotonic()
        self.lost: str | None = None
        self.journal = journal
        records = records_of(journal.found, len(entries), self.plan.starts)
        for record in records:
            entries[record.job].records[record.turn] = record
        for entry in entries:
            entry.resumed = len(entry.records)
        if records:
            order.say(f"{order.journal}: {len(records)} cold starts of an earlier run are kept")

    def all(self) -> None:
        """Every turn of every job, until the device is lost for good."""
        generator = np.random.default_rng(self.plan.seed)
        total, done = len(self.entries) * (self.plan.starts + 1), 0
        for turn in range(self.plan.starts + 1):
            order = (
                generator.permutation(len(self.entries)) if turn else np.arange(len(self.entries))
            )
            for index in map(int, order):
                self._one(index, turn)
                done += 1
                if self.order.progress is not None:
                    self.order.progress(done, total, self.entries[index].job.artifact.path.name)

    def _one(self, index: int, turn: int) -> None:
        entry = self.entries[index]
        if entry.job.not_run or entry.failure or turn in entry.records:
            return
        for _ in range(MAX_TRIES):
            if self.lost or self.order.cancel.is_set():
                return
            try:
                self._measure(entry, index, turn)
                return
            except DeviceLost as error:
                self._wait_for_it(entry, turn, error)
            except (ArtifactError, ConversionError) as error:
                # A crash is a result of this artifact: its row says so, and the other artifacts are
                # still timed.
                entry.failure = str(error)
                return
            except DeviceError as error:
                if not any(other.records for other in self.entries):
                    raise
                # what was measured before is worth more than an early end
                entry.failure = str(error)
                return
        entry.failure = (
            f"the device vanished {MAX_TRIES} times during the same cold start; it may be this "
            "file that ends it"
        )

    def _wait_for_it(self, entry: DriveEntry, turn: int, error: DeviceLost) -> None:
        """Waits for a device that vanished; where it stays away, nothing more is measured."""
        when = f"cold start {turn}" if turn else "the untimed run"
        self.order.say(f"{error} Waiting for it, {self.plan.away_s:.0f} s at most")
        started = time.monotonic()
        while not self.order.cancel.is_set():
            left = self.plan.away_s - (time.monotonic() - started)
            try:
                if self.device.returned(max(left, 0.0)):
                    waited = time.monotonic() - started
                    entry.interruptions.append(
                        f"the device vanished in {when} ({error.why}) and was back after "
                        f"{waited:.0f} s"
                    )
                    return
            except DeviceError:  # gone again while it was set up
                self.order.cancel.wait(AGAIN_S)
            if left <= 0.0:
                break
        self.lost = (
            f"the device vanished in {when} ({error.why}) and did not come back within "
            f"{self.plan.away_s:.0f} s"
        )

    def _measure(self, entry: DriveEntry, index: int, turn: int) -> None:
        if turn == 0:
            entry.untimed = self.device.untimed(entry.job, self.plan)
            return
        state, gate = cool(self.device, self.plan, self.order.cancel)
        if self.order.cancel.is_set():
            return
        started = time.monotonic() - self.begun
        timing = self.device.timed(entry.job, self.plan)
        after = self.device.state()
        placed = timing.placement
        record = JournalRecord(
            job=index,
            turn=turn,
            repeat=_repeat(entry, timing, (state, after), started),
            curve=timing.curve,
            gate=gate,
            interruptions=tuple(entry.interruptions),
            nodes_delegated=placed.nodes_delegated,
            nodes_total=placed.nodes_total,
            partitions=placed.partitions,
            timed_until=timing.timed_until,
            adapter=placed.adapter,
        )
        entry.interruptions.clear()
        entry.records[turn] = record
        self.journal.add(asdict(record))

    def state_or_nothing(self) -> State:
        """The device's state at the end, as far as it is there to be asked."""
        try:
            return State() if self.lost else self.device.state()
        except DeviceError:
            return State()

    def row(self, entry: DriveEntry, after: State, load: float | None) -> BenchRow:
        """What was measured of one job."""
        records = [entry.records[turn] for turn in sorted(entry.records)]
        told = [text for record in records for text in record.interruptions] + entry.interruptions
        if entry.resumed:
            told.append(
                f"{entry.resumed} of {self.plan.starts} cold starts are of an earlier run of the "
                "same command"
            )
        stopped = (
            entry.job.not_run
            or entry.failure
            or (self.lost if len(records) < self.plan.starts else None)
        )
        if not records:
            return stopped_row(
                self.info, entry.job, self.plan, stopped or "nothing was measured", told
            )
        first = records[0]
        taken = Taken(
            repeats=tuple(record.repeat for record in records),
            curve=first.curve,
            untimed=entry.untimed,
            after=after,
            placement={
                name: getattr(first, name)
                for name in ("nodes_delegated", "nodes_total", "partitions", "timed_until")
            },
            gate=worst([record.gate for record in records if record.gate]),
            interruptions=tuple(told),
            load=load,
            peak_flops=self.device.peak_flops(entry.job.artifact, self.plan, entry.job.delegate),
        )
        row = measured_row(_with_adapter(self.info, first.adapter), entry.job, self.plan, taken)
        if stopped is None:
            return row
        reason = f"{len(records)} of {self.plan.starts} cold starts were timed: {stopped}"
        return replace(row, status="failed", valid=False, reasons=(reason, *row.reasons))


def _with_adapter(info: DeviceInfo, adapter: str | None) -> DeviceInfo:
    """The GPU that was chosen belongs to the row; one that is software makes its times mean
    nothing.
    """
    if adapter is None:
        return info
    return replace(
        info, gpu_driver=adapter, where="emulated" if SOFTWARE.search(adapter) else info.where
    )


def _repeat(
    entry: DriveEntry, timing: DeviceTiming, states: tuple[State, State], started: float
) -> Repeat:
    kept = (
        "init_ms",
        "first_inference_ms",
        "latencies_ms",
        "enqueue_ms",
        "read_back_ms",
        "pending_ms",
        "energy_mj",
        "compared",
    )
    before, after = states
    return Repeat(
        **{name: getattr(timing, name) for name in kept},
        **asdict(before),
        thermal_after=after.thermal,
        temperature_after_c=after.temperature_c,
        started_s=round(started, 3),
        summary=timing.summary or summarize(timing.latencies_ms),
        delegate_got=timing.placement.delegate_got,
        **asdict(judge(entry.job, _wanted(entry), timing.outputs)),
    )


def _wanted(entry: DriveEntry) -> Mapping[str, Array]:
    if entry.job.reference is not None:
        return entry.job.reference.outputs
    if entry.untimed is None:
        raise ValueError("a timed run without an untimed one before it")
    return entry.untimed.outputs


def _load() -> float | None:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


POLL_S = 2.0
ORDER = ("gave up", "waited", "open")
"""How outcomes begin, the worst first."""


def cool(device: Driven, plan: Plan, cancel: Event) -> tuple[State, str | None]:
    """The device's state when the wait is over, and what it came to; None where the device tells
    nothing.
    """
    state, started = device.state(), time.monotonic()
    while is_hot(state, plan) and not cancel.is_set():
        waited = time.monotonic() - started
        if waited >= plan.cool_down_s:
            return state, f"gave up after {waited:.0f} s at {_heat(state)}"
        cancel.wait(min(POLL_S, max(plan.cool_down_s - waited, 0.0)))
        state = device.state()
    if (waited := time.monotonic() - started) > POLL_S:
        return state, f"waited {waited:.0f} s until {_heat(state)}"
    told = state.thermal is not None or state.temperature_c is not None
    return state, "open" if told else None


def is_hot(state: State, plan: Plan) -> bool:
    """Whether a cold start must wait."""
    limit = plan.max_temperature_c
    too_warm = limit is not None and state.temperature_c is not None and state.temperature_c > limit
    return too_warm or state.thermal in THROTTLING


def worst(outcomes: list[str]) -> str | None:
    """The worst of several cold starts' outcomes.

    Example:
        >>> worst(["open", "waited 9 s until 38.0 °C", "open"])
        'waited 9 s until 38.0 °C'
    """
    return next(
        (outcome for word in ORDER for outcome in outcomes if outcome.startswith(word)), None
    )


def _heat(state: State) -> str:
    parts = [f"{state.temperature_c:.1f} °C"] if state.temperature_c is not None else []
    return ", ".join([*parts, *([f"status {state.thermal}"] if state.thermal else [])])
