"""Driving a device: cold starts of all artifacts in turn, parity on every run, resumable, refused rows kept and marked."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from unplug.export.child import Array
from unplug.export.metrics import Difference, compare, verdict
from unplug.plugins.errors import ArtifactError, ConversionError, DeviceLost

from .devices.base import DeviceInfo, Driven, Job, Order, State, Timing, Untimed
from .jobs import plan_jobs
from .journal import Journal, Record
from .report import BenchRow, Repeat
from .rows import measured_row, stopped_row
from .statistics import summarize
from .validity import THROTTLING, parity_floor

MAX_TRIES = 3
"""Of one cold start on a device that vanishes; then it is the artifact's doing."""
POLL_S = 2.0
SOFTWARE = re.compile(r"swiftshader|llvmpipe|lavapipe|adapterType=CPU", re.IGNORECASE)


@dataclass(kw_only=True)
class Entry:
    """What has been measured of one job so far."""

    job: Job
    failure: str | None = None
    untimed: Untimed | None = None
    records: dict[int, Record] = field(default_factory=dict)
    interruptions: list[str] = field(default_factory=list)


def drive(device: Driven, order: Order, place: str) -> tuple[BenchRow, ...]:
    """Measures an order on one device.

    Each artifact first runs once untimed, for its memory and its outputs. Then each repeat times all of them, in an order drawn
    anew, so that a drifting clock does not favour one. What was timed stands in the journal at once.

    Args:
        device: it is driven from here.
        order: what is asked for.
        place: name of the device for the journal.

    Returns:
        One row an artifact and delegate. Where the device vanished and did not come back, rows that miss cold starts say so.
    """
    info, load = device.describe(), _load()
    run = _Run(device, order, info, [Entry(job=job) for job in plan_jobs(device, order)], place)
    run.all()
    after = run.state_or_nothing()
    return tuple(run.row(entry, after, load) for entry in run.entries)


class _Run:
    """One pass over the jobs of an order."""

    def __init__(self, device: Driven, order: Order, info: DeviceInfo, entries: list[Entry], place: str) -> None:
        self.device, self.order, self.plan, self.info, self.entries = device, order, order.plan, info, entries
        self.begun = time.monotonic()
        self.gates: list[str] = []
        self.lost: str | None = None
        self.journal = Journal.open(order.journal, place, info, [entry.job for entry in entries], self.plan)
        for record in self.journal.records:
            entries[record.job].records[record.turn] = record
        if self.journal.records:
            order.say(f"{order.journal}: {len(self.journal.records)} cold starts of an earlier run are kept")

    def all(self) -> None:
        """Every turn of every job, until the device is lost for good."""
        generator = np.random.default_rng(self.plan.seed)
        total, done = len(self.entries) * (self.plan.starts + 1), 0
        for turn in range(self.plan.starts + 1):
            order = generator.permutation(len(self.entries)) if turn else np.arange(len(self.entries))
            for index in map(int, order):
                self._one(index, turn)
                done += 1
                if self.order.progress is not None:
                    self.order.progress(done, total, self.entries[index].job.artifact.path.name)

    def _one(self, index: int, turn: int) -> None:
        entry = self.entries[index]
        if entry.job.not_run or entry.failure or self.lost or turn in entry.records or self.order.cancel.is_set():
            return
        for _ in range(MAX_TRIES):
            try:
                self._measure(entry, index, turn)
                return
            except DeviceLost as error:
                if not self._back(entry, turn, error):
                    return
            except (ArtifactError, ConversionError) as error:
                # A crash is a result of this artifact: its row says so, and the other artifacts are still timed.
                entry.failure = str(error)
                return
        entry.failure = f"the device vanished {MAX_TRIES} times during the same cold start; it may be this file that ends it"

    def _back(self, entry: Entry, turn: int, error: DeviceLost) -> bool:
        """Waits for a device that vanished; where it stays away, nothing more is measured."""
        when = f"cold start {turn}" if turn else "the untimed run"
        self.order.say(f"{error} Waiting for it, {self.plan.away_s:.0f} s at most")
        started = time.monotonic()
        if self.device.returned(self.plan.away_s):
            waited = time.monotonic() - started
            entry.interruptions.append(f"the device vanished in {when} ({error.why}) and was back after {waited:.0f} s")
            return True
        self.lost = f"the device vanished in {when} ({error.why}) and did not come back within {self.plan.away_s:.0f} s"
        return False

    def _measure(self, entry: Entry, index: int, turn: int) -> None:
        if turn == 0:
            entry.untimed = self.device.untimed(entry.job, self.plan)
            return
        state = self._cool()
        started = time.monotonic() - self.begun
        timing = self.device.timed(entry.job, self.plan)
        record = Record(
            job=index, turn=turn, repeat=_repeat(entry, timing, state, started), curve=timing.curve,
            nodes_delegated=timing.placement.nodes_delegated, nodes_total=timing.placement.nodes_total,
            partitions=timing.placement.partitions, timed_until=timing.timed_until, adapter=timing.placement.adapter,
        )  # fmt: skip
        self.journal.add(record)
        entry.records[turn] = record

    def _cool(self) -> State:
        """Waits until the device is cool enough for an honest cold start."""
        state, started = self.device.state(), time.monotonic()
        while self._hot(state):
            waited = time.monotonic() - started
            if waited >= self.plan.cool_down_s:
                self.gates.append(f"gave up after {waited:.0f} s at {_heat(state)}")
                return state
            time.sleep(min(POLL_S, max(self.plan.cool_down_s - waited, 0.0)))
            state = self.device.state()
        if (waited := time.monotonic() - started) > POLL_S:
            self.gates.append(f"waited {waited:.0f} s until {_heat(state)}")
        elif state.thermal is not None or state.temperature_c is not None:
            self.gates.append("open")
        return state

    def _hot(self, state: State) -> bool:
        limit = self.plan.max_temperature_c
        too_warm = limit is not None and state.temperature_c is not None and state.temperature_c > limit
        return too_warm or state.thermal in THROTTLING

    def state_or_nothing(self) -> State:
        """The device's state at the end, as far as it is there to be asked."""
        try:
            return State() if self.lost else self.device.state()
        except DeviceLost:
            return State()

    def row(self, entry: Entry, after: State, load: float | None) -> BenchRow:
        """What was measured of one job."""
        records = [entry.records[turn] for turn in sorted(entry.records)]
        missing = self.plan.starts - len(records)
        stopped = entry.job.not_run or entry.failure or (self.lost if missing else None)
        if not records:
            return stopped_row(self.info, entry.job, self.plan, stopped or "nothing was measured", entry.interruptions)
        first = records[0]
        row = measured_row(
            _with_adapter(self.info, first.adapter),
            entry.job,
            self.plan,
            [record.repeat for record in records],
            untimed=entry.untimed,
            placement={name: getattr(first, name) for name in ("nodes_delegated", "nodes_total", "partitions", "timed_until")},
            curve=first.curve,
            peak_flops=self.device.peak_flops(entry.job.artifact, self.plan, entry.job.delegate),
            after=after,
            gate=next((gate for word in ("gave up", "waited", "open") for gate in self.gates if gate.startswith(word)), None),
            interruptions=entry.interruptions,
            load=load,
            cores=os.cpu_count() or 1,
        )
        if stopped is None:
            return row
        reason = f"{len(records)} of {self.plan.starts} cold starts were timed: {stopped}"
        return replace(row, status="failed", valid=False, reasons=(reason, *row.reasons))


def _with_adapter(info: DeviceInfo, adapter: str | None) -> DeviceInfo:
    """The GPU that was chosen belongs to the row; one that is software makes its times mean nothing."""
    if adapter is None:
        return info
    return replace(info, gpu_driver=adapter, where="emulated" if SOFTWARE.search(adapter) else info.where)


def _repeat(entry: Entry, timing: Timing, state: State, started: float) -> Repeat:
    differences = _differences(entry, timing)
    ratios = [difference.psnr_db for difference in differences.values() if difference.psnr_db is not None]
    summary = timing.summary or summarize(timing.latencies_ms)
    kept = ("init_ms", "first_inference_ms", "latencies_ms", "enqueue_ms", "read_back_ms", "pending_ms", "energy_mj")
    return Repeat(
        **{name: getattr(timing, name) for name in kept},
        **asdict(state),
        started_s=round(started, 3),
        summary=summary,
        delegate_got=timing.placement.delegate_got,
        parity_db=min(ratios, default=None),
        parity_reason=_parity_reason(entry.job, differences),
    )


def _differences(entry: Entry, timing: Timing) -> dict[str, Difference]:
    if timing.outputs is None:
        return {}
    wanted = _wanted(entry)
    sample = timing.sample
    return {name: compare(wanted[name][sample : sample + 1], output) for name, output in timing.outputs.items()}


def _wanted(entry: Entry) -> Mapping[str, Array]:
    if entry.job.reference is not None:
        return entry.job.reference.outputs
    if entry.untimed is None:
        raise ValueError("a timed run without an untimed one before it")
    return entry.untimed.outputs


def _parity_reason(job: Job, differences: Mapping[str, Difference]) -> str | None:
    card, reference = job.artifact.card, job.reference
    if reference is not None and reference.checkpoint_sha256 != card.checkpoint_sha256:
        return f"the artifact was exported from other weights ({card.checkpoint_sha256[:12]})"
    threshold = parity_floor(card.precision, job.delegate)
    reasons = {name: verdict(difference, threshold) for name, difference in differences.items()}
    return "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason) or None


def _load() -> float | None:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def _heat(state: State) -> str:
    parts = [f"{state.temperature_c:.1f} °C"] if state.temperature_c is not None else []
    return ", ".join([*parts, *([f"status {state.thermal}"] if state.thermal else [])])
