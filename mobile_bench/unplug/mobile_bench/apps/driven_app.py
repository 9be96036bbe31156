"""One benchmark by an app: the folder goes out, the report comes back, and nothing in it is
believed that can be checked.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Protocol

from unplug.core import DeviceError, DeviceLost, temporary_folder
from unplug.export import INDEX, vector_name

from ..bench_report import BenchRow
from ..devices.bench_device import DeviceInfo, DeviceOrder
from ..exchange import Exchange
from ..jobs import RunsFiles, expected_outputs, plan_jobs

START_S = 120.0
"""The seconds that one cold start may take, besides a sustained run's own; an app that sent nothing
for all of them is given up.
"""
POLL_S = 2.0


class AppEnded(DeviceError):
    """The app is gone and left no report; what it had measured, if it kept that, lies where the
    report would.
    """


class App(Protocol):
    """What an app can run, and how it is driven.

    Args:
        runs: the files, and the place that runs them.
    """

    runs: RunsFiles

    def describe(self) -> DeviceInfo:
        """The device, as far as it can be asked from here."""
        ...

    def start(self, folder: Path) -> None:
        """Hands the folder over and starts the benchmark."""
        ...

    def poll(self, report: Path) -> bool:
        """Fetches the report if it is there; raises `DeviceError`, `AppEnded` say, where the app
        ended without.
        """
        ...

    def returned(self, seconds: float) -> bool:
        """Waits for a phone that vanished; the app on it goes on."""
        ...

    def clean(self) -> None:
        """Ends the app and deletes the folder."""
        ...


def bench_by_app(app: App, order: DeviceOrder) -> tuple[BenchRow, ...]:
    """Rows of an order, in its order; those that the app did not send say why."""
    jobs = plan_jobs(app.runs, order)
    exchange = Exchange(jobs, expected_outputs(jobs), order.plan)
    info = app.describe()
    why = "nothing here can be run by the app"
    if exchange.missing():
        with temporary_folder("unplug-app-") as local:
            try:
                app.start(write_folder(exchange, local / "bench"))
                order.say("The app runs the benchmark; keep it in front, and the phone awake")
                why = _wait(app, exchange, local / "report.json", order)
            finally:
                _clean(app, order)
    return exchange.finals(info, why)


def write_folder(exchange: Exchange, folder: Path) -> Path:
    """What the app is handed.

    Args:
        exchange: the benchmark's exchange.
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
        (vectors / INDEX).write_bytes(exchange.vectors_json(number))
        for sample in range(len(next(iter(job.inputs.values())))):
            for tensor in (*job.artifact.card.iospec.inputs, *job.artifact.card.iospec.outputs):
                name = vector_name(sample, tensor.name)
                raw = exchange.vector(number, name)
                assert raw is not None, "the exchange named it"
                (vectors / name).write_bytes(raw)
    return folder


def _wait(app: App, exchange: Exchange, report: Path, order: DeviceOrder) -> str:
    """Waits until the report is there; says why where it is not whole."""
    plan = order.plan
    seconds = len(exchange.missing()) * plan.starts * (START_S + (plan.sustain_s or 0.0))
    until = time.monotonic() + seconds
    while True:
        try:
            if app.poll(report):
                break
        except AppEnded as error:
            if not report.is_file():
                raise
            exchange.take_report(report.read_bytes())
            return error.why
        except DeviceLost as error:
            order.say(f"{error} Waiting for it, {plan.away_s:.0f} s at most; the app goes on")
            if not app.returned(plan.away_s):
                return (
                    f"the device vanished ({error.why}) and did not come back within "
                    f"{plan.away_s:.0f} s"
                )
        if time.monotonic() > until:
            return f"the app sent no report within {seconds:.0f} s"
        if order.cancel.wait(POLL_S):
            return "it was stopped"
    exchange.take_report(report.read_bytes())
    return "the app did not measure it"


def _clean(app: App, order: DeviceOrder) -> None:
    """What cannot be cleaned is told; a report that has come is worth more."""
    try:
        app.clean()
    except DeviceError as error:
        order.say(f"{error} The benchmark's folder is still on the device")
