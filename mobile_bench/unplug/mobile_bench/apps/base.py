"""One benchmark by an app: the folder goes out, the report comes back, and nothing in it is believed that can be checked."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from unplug.export.artifact import Artifact

from ..devices.base import DeviceInfo, Job, Order
from ..exchange import Exchange
from ..jobs import expected_outputs
from ..report import BenchRow
from ..rows import stopped_row

SILENT_S = 1800.0
"""An app that has sent nothing for so long, beside a sustained run's own seconds, is given up."""
POLL_S = 2.0


class App(Protocol):
    """What an app can run, and how it is driven.

    Args:
        runtimes: suffix of a file to the name of what runs it in the app.
        delegates: runtime to its delegates; the first is the default.
    """

    runtimes: Mapping[str, str]
    delegates: Mapping[str, tuple[str, ...]]

    def describe(self) -> DeviceInfo:
        """The device, as far as it can be asked from here."""
        ...

    def start(self, folder: Path) -> None:
        """Hands the folder over and starts the benchmark."""
        ...

    def poll(self, report: Path) -> bool:
        """Fetches the report if it is there; raises `DeviceError` where the app has ended without one."""
        ...

    def clean(self) -> None:
        """Ends the app and deletes the folder."""
        ...


def bench_by_app(app: App, order: Order) -> tuple[BenchRow, ...]:
    """Rows of an order, in its order; those that the app did not send say why."""
    jobs = [job for artifact in order.artifacts for job in _jobs(app, order, artifact)]
    exchange = Exchange(jobs, expected_outputs(jobs), order.plan)
    info = app.describe()
    why = "nothing here can be run by the app"
    if exchange.missing():
        with tempfile.TemporaryDirectory(prefix="unplug-app-") as local:
            try:
                app.start(write_folder(exchange, Path(local) / "bench"))
                order.say("The app runs the benchmark; keep it in front, and the phone awake")
                why = _wait(app, exchange, Path(local) / "report.json", SILENT_S + (order.plan.sustain_s or 0.0), order.say)
            finally:
                app.clean()
    rows = [exchange.final(number, why) for number in range(len(jobs))]
    return tuple(row or stopped_row(info, job, order.plan, job.not_run or why) for row, job in zip(rows, jobs, strict=True))


def _jobs(app: App, order: Order, artifact: Artifact) -> list[Job]:
    runtime = app.runtimes.get(artifact.path.suffix)
    known = () if runtime is None else app.delegates[runtime]
    asked = [name for name in order.delegates if name in known] if order.delegates else list(known[:1])
    reason = None
    if runtime is None or order.runtime not in (None, runtime):
        reason = f"the app does not run {artifact.card.target} files" + ("" if runtime is None else f" with {order.runtime}")
    elif not asked:
        reason = f"{runtime} has no delegate {' or '.join(order.delegates)} ({', '.join(known)})"
    return [
        Job(
            artifact=artifact, runtime=runtime or "app", runtime_version=None, delegate=name, inputs=order.inputs_of(artifact),
            reference=None if reason else order.reference_of(artifact), not_run=reason,
        )
        for name in asked or (*order.delegates, "default")[:1]
    ]  # fmt: skip


def write_folder(exchange: Exchange, folder: Path) -> Path:
    """What the app is handed.

    Args:
        exchange: of the benchmark.
        folder: made here.
    """
    (folder / "files").mkdir(parents=True)
    (folder / "plan.json").write_bytes(exchange.plan_json())
    for number, job in enumerate(exchange.jobs):
        if job.not_run is not None:
            continue
        target = folder / "files" / str(number)
        if job.artifact.path.is_dir():
            shutil.copytree(job.artifact.path, target)
        else:
            shutil.copyfile(job.artifact.path, target)
        vectors = folder / "vectors" / str(number)
        vectors.mkdir(parents=True)
        (vectors / "vectors.json").write_bytes(exchange.vectors_json(number))
        for sample in range(len(next(iter(job.inputs.values())))):
            for tensor in (*job.artifact.card.iospec.inputs, *job.artifact.card.iospec.outputs):
                name = f"{sample}-{tensor.name}.f32"
                raw = exchange.vector(number, name)
                assert raw is not None, "the exchange named it"
                (vectors / name).write_bytes(raw)
    return folder


def _wait(app: App, exchange: Exchange, report: Path, seconds: float, say: Callable[[str], None]) -> str:
    """Until the report is there; says why where it is not whole."""
    until = time.monotonic() + seconds
    while not app.poll(report):
        if time.monotonic() > until:
            return f"the app sent no report within {seconds:.0f} s"
        time.sleep(POLL_S)
    exchange.take_report(report.read_bytes())
    return "the app did not measure it"
