"""Timing artifacts on devices, side by side, into one report."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from unplug.core import (
    Array,
    InputError,
    IOSpec,
    Progress,
    UnplugError,
    git_revision,
    installed_versions,
)
from unplug.export import Artifact, Reference, check_inputs, random_inputs, reference_outputs
from unplug.plugins import view_of

from .bench_report import BenchReport, BenchRow
from .devices import DEVICES
from .devices.bench_device import BenchJob, DeviceInfo, DeviceOrder, Plan
from .rows import stopped_row

SAMPLES = 2
"""By default: a runtime that stops working leaves the outputs of the one before, which are wrong
for the other.
"""
MAX_RUNS = 1_000_000  # of one repeat; more would fill the report with raw samples


def bench_artifacts(
    artifacts: Sequence[Artifact],
    *,
    on: str | Sequence[str] = "host",
    plan: Plan | None = None,
    runtime: str | None = None,
    delegates: Sequence[str] = (),
    inputs: Mapping[str, Array] | None = None,
    checkpoint: Path | None = None,
    journal: Path | None = None,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> BenchReport:
    """Times artifacts side by side, on one device or on several at once.

    Args:
        artifacts: artifacts from `unplug.export`.
        on: names in DEVICES, with a place after a colon where there are several of one kind:
            ``"adb:SERIAL"``.
        plan: threads, warm-ups, runs, cold starts; default: `Plan()`.
        runtime: the runtime that runs them (default: each target's own).
        delegates: each artifact on each of them that its runtime has, on every device; default: the
            runtime's first, in a browser all.
        inputs: name to array of N samples, taken in turn; default: two random samples a model.
        checkpoint: its outputs are the parity reference; default: the artifact's own untimed run.
        journal: a file that keeps every cold start at once: the same call goes on where an earlier
            one ended. The caller deletes it when the report is written (`journals`).
        progress: called with (cold starts done, cold starts in all, file name), of the first
            device.
        say: takes a line for the user.

    Raises:
        InputError: an unknown device, runtime or delegate, a number out of range, or a wrong input.
        DeviceError: a device is not there, or does not let us in.
        OutputError: the journal cannot be written.
        MissingExtraError: a runtime is not installed.
        CheckpointError: the checkpoint is missing or broken.
    """
    plan = plan or Plan()
    places = [on] if isinstance(on, str) else list(on)
    _check(artifacts, places, plan)
    known = {
        artifact.card.iospec: _checked(artifact.card.iospec, inputs, plan.seed)
        for artifact in artifacts
    }
    references: dict[IOSpec, Reference] = {}
    if checkpoint is not None:
        for card in {artifact.card.iospec: artifact.card for artifact in artifacts}.values():
            view, inputs_N = view_of(card.model_type), known[card.iospec]
            references[card.iospec] = reference_outputs(
                checkpoint, card.iospec, inputs_N, view=view
            )
    order = DeviceOrder(
        artifacts=tuple(artifacts),
        runtime=runtime,
        delegates=tuple(dict.fromkeys(delegates)),
        plan=plan,
        inputs_of=lambda artifact: known[artifact.card.iospec],
        reference_of=lambda artifact: references.get(artifact.card.iospec),
        progress=progress,
        say=say,
    )
    named = [text.partition(":") for text in places]
    devices = [(DEVICES.get(name), place or None) for name, _, place in named]

    def bench(number: int) -> tuple[BenchRow, ...]:
        device, place = devices[number]
        kept = None if journal is None else journals(journal, places)[number]
        return device.bench(
            place, replace(order, journal=kept, progress=progress if number == 0 else None)
        )

    rows = list(bench(0)) if len(devices) == 1 else _side_by_side(bench, artifacts, places, order)
    return BenchReport(
        rows=tuple(rows), seed=plan.seed, versions=_versions(rows), git_revision=git_revision()
    )


def _side_by_side(
    bench: Callable[[int], tuple[BenchRow, ...]],
    artifacts: Sequence[Artifact],
    places: Sequence[str],
    order: DeviceOrder,
) -> list[BenchRow]:
    """Several devices, a thread each. One that fails does not take the others' rows with it; its
    own say why.
    """
    rows, errors = list[BenchRow](), list[UnplugError]()
    with ThreadPoolExecutor(max_workers=len(places)) as pool:
        futures = [pool.submit(bench, number) for number in range(len(places))]
        try:
            for place, future in zip(places, futures, strict=True):
                try:
                    rows += future.result()
                except UnplugError as error:
                    errors.append(error)
                    rows += [_failed(artifact, place, order, str(error)) for artifact in artifacts]
        # Ctrl-C: the pool waits for its threads, which end after the cold start that they are in
        except BaseException:
            order.cancel.set()
            raise
    if len(errors) == len(places):
        raise errors[0]
    return rows


def _failed(artifact: Artifact, place: str, order: DeviceOrder, reason: str) -> BenchRow:
    job = BenchJob(
        artifact=artifact,
        runtime=order.runtime or "unknown",
        runtime_version=None,
        delegate=(*order.delegates, "default")[0],
        inputs=order.inputs_of(artifact),
        reference=order.reference_of(artifact),
    )
    return stopped_row(
        DeviceInfo(where="device", device=place, os="unknown"), job, order.plan, reason
    )


def journals(out: Path, places: Sequence[str]) -> list[Path]:
    """The journals next to a report, one a device.

    Example:
        >>> journals(Path("bench.json"), ["adb:1.2.3.4:5555"])[0].name
        'bench.json.adb-1.2.3.4-5555.part'
    """
    return [
        out.with_name(f"{out.name}.{re.sub(r'[^A-Za-z0-9._-]', '-', place)[:100]}.part")
        for place in places
    ]


def _check(artifacts: Sequence[Artifact], places: Sequence[str], plan: Plan) -> None:
    if not artifacts:
        raise InputError("bench", "no artifact is given", "Name at least one exported file")
    same = Counter((artifact.card.sha256, artifact.path.name) for artifact in artifacts)
    for (_, name), times in same.items():
        if times > 1:
            raise InputError(
                name,
                "it is given twice, and its rows could not be told apart",
                "Give each file once",
            )
    if not places or len(set(places)) < len(places):
        raise InputError("bench", "no device is given, or one twice", "See: unplug list devices")
    if "host" in places and len(places) > 1:
        raise InputError(
            "bench",
            "what drives the other devices would disturb the host",
            "Time the host by itself",
        )
    counts = {
        "threads": plan.threads,
        "iterations": plan.iterations,
        "repeats": plan.repeats,
        "warm-ups + 1": plan.warmup + 1,
    }
    for name, value in counts.items():
        if not 1 <= value <= MAX_RUNS:
            raise InputError(f"{name} {value}", "out of range", f"Use 1 to {MAX_RUNS}")
    limits = {
        "sustained seconds": plan.sustain_s,
        "degrees": plan.max_temperature_c,
        "seconds to cool down": plan.cool_down_s,
        "seconds away": plan.away_s,
    }
    for name, limit in limits.items():
        if limit is not None and not 0.0 <= limit < math.inf:
            raise InputError(f"{name} {limit}", "not a number from 0 on", "Write one")


def _checked(iospec: IOSpec, inputs: Mapping[str, Array] | None, seed: int) -> Mapping[str, Array]:
    given = random_inputs(iospec, SAMPLES, seed) if inputs is None else inputs
    check_inputs(iospec, given)
    return given


def _versions(rows: Sequence[BenchRow]) -> dict[str, str]:
    told = {row.runtime: row.runtime_version for row in rows if row.runtime_version is not None}
    return installed_versions(["numpy"]) | told
