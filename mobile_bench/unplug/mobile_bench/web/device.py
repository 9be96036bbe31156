"""A browser as a device (`web`, `web:PORT`, `web:HOST:PORT`, `web:headless`): the page runs the
protocol and sends its rows.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from unplug.core import DeviceError, InputError, JsonLines, counted
from unplug.export import BROWSER_VARIABLE, Artifact, find_browser, opened_browser

from ..bench_report import BenchRow, Where
from ..devices.bench_device import DeviceInfo, DeviceOrder
from ..exchange import Exchange, rows_head
from ..jobs import RunsFiles, expected_outputs, plan_jobs
from .build import SOURCES, built_page
from .server import PageServer

RUNTIMES = {".tflite": "litert-web", ".onnx": "onnx-web"}
PACKAGES = {"litert-web": "@litertjs/core", "onnx-web": "onnxruntime-web"}
DELEGATES = ("wasm", "webgpu")
OPEN_S = 15 * 60.0
"""How long somebody has to open the page."""
POLL_S = 0.25
HELP = "Write `on=web`, web:PORT, web:HOST:PORT, or web:headless"


@dataclass(frozen=True, kw_only=True)
class PagePlace:
    """Where the page is served, and whether a browser is started for it here."""

    host: str = "127.0.0.1"
    port: int = 0
    headless: bool = False


def parse_place(text: str | None) -> PagePlace:
    """What follows ``--on web:``.

    Raises:
        InputError: neither a port, nor a host and a port, nor "headless".

    Example:
        >>> parse_place("0.0.0.0:8080")
        PagePlace(host='0.0.0.0', port=8080, headless=False)
    """
    if text is None or text == "headless":
        return PagePlace(headless=text is not None)
    match = re.fullmatch(r"(?:([A-Za-z0-9_.-]+):)?(\d{1,5})", text)
    if match is None or not 0 <= int(match[2]) <= 65535:
        raise InputError(f"web:{text}", "not a port, nor a host and a port", HELP)
    return PagePlace(host=match[1] or "127.0.0.1", port=int(match[2]))


@dataclass(frozen=True, kw_only=True)
class _Runs(RunsFiles):
    def version(self, runtime: str) -> str | None:
        """The npm package's version that the page is built with."""
        version = json.loads((SOURCES / "package.json").read_text(encoding="utf-8"))[
            "dependencies"
        ].get(PACKAGES[runtime])
        return None if version is None else str(version)

    def unavailable(self, artifact: Artifact, runtime: str) -> str | None:
        """Files of other targets, and of other numbers than go through the page."""
        spec = artifact.card.iospec
        odd = {tensor.dtype for tensor in spec.inputs} - {"float32", "int32"} | {
            tensor.dtype for tensor in spec.outputs
        } - {"float32"}
        other = (
            f"it has tensors of {', '.join(sorted(odd))}, and only float32, and int32 as an input, "
            "goes through the page"
        )
        return super().unavailable(artifact, runtime) or (other if odd else None)


RUNS = _Runs(name="a browser", by_suffix=RUNTIMES, by_runtime=dict.fromkeys(PACKAGES, DELEGATES))


class WebDevice:
    """A browser that opens our page: a phone's, or a headless one here."""

    def bench(self, place: str | None, order: DeviceOrder) -> tuple[BenchRow, ...]:
        """See `Device.bench`.

        Raises:
            DeviceError: the page cannot be built or served, nobody opens it, or the browser does
                not start.
            InputError, OutputError: see `unplug.mobile_bench.drive.drive`.
        """
        where = parse_place(place)
        jobs = plan_jobs(RUNS, order, every=True)
        told: Where | None = "emulated" if where.headless else None
        why = "the browser did not report"
        with JsonLines(order.journal, rows_head(jobs, order.plan, told), order.say) as journal:
            exchange = Exchange(
                jobs,
                expected_outputs(jobs),
                order.plan,
                where=told,
                journal=journal,
                auto=where.headless,
            )
            if exchange.rows:
                order.say(
                    f"{order.journal}: {counted(len(exchange.rows), 'row')} of an earlier run kept"
                )
            if exchange.missing():
                with (
                    PageServer(built_page(), exchange, where.host, where.port) as server,
                    _browser_for(server, where, order) as process,
                ):
                    why = _wait(exchange, order, process)
        return exchange.finals(_last_info(exchange), why)


WEB = WebDevice()


def _last_info(exchange: Exchange) -> DeviceInfo:
    """The device as its rows have it."""
    for row in exchange.rows.values():
        return DeviceInfo(where=row.where, device=row.device, os=row.os, gpu_driver=row.gpu_driver)
    return DeviceInfo(
        where=exchange.where or "device", device="a browser that did not report", os="unknown"
    )


@contextlib.contextmanager
def _browser_for(
    server: PageServer, where: PagePlace, order: DeviceOrder
) -> Iterator[subprocess.Popen[bytes] | None]:
    if not where.headless:
        invite(server, where, order.say)
        yield None
        return
    if find_browser() is None:
        raise DeviceError(
            "web:headless", "there is no Chromium", f"Install one, or set {BROWSER_VARIABLE}"
        )
    with opened_browser(server.url()) as process:
        yield process


def invite(server: PageServer, where: PagePlace, say: Callable[[str], None]) -> None:
    """Says where the page is to be opened: here, by a QR code, on a phone with a cable."""
    here = where.host in ("127.0.0.1", "localhost")
    url = server.url(lan_address() if where.host == "0.0.0.0" else where.host)
    say(f"Open {url}")
    if not here:
        if drawn := _qr(url):
            say(drawn)
        say(
            "Over plain http a browser has neither WebGPU nor a camera: see docs/web.md for https "
            "and cables"
        )
    if here or where.host == "0.0.0.0":
        port = server.port
        say(
            f"On a phone with a cable: adb reverse tcp:{port} tcp:{port}, then open "
            f"{server.url('localhost')}"
        )


def _qr(url: str) -> str | None:
    """The address as a QR code for the terminal; None without segno."""
    try:
        import segno
    except ImportError:
        return None
    text = io.StringIO()
    segno.make(url, micro=False).terminal(out=text, compact=True)
    return text.getvalue()


def _wait(exchange: Exchange, order: DeviceOrder, process: subprocess.Popen[bytes] | None) -> str:
    """Waits until the report is there, or the browser is gone; says why where it is not whole."""
    plan = order.plan
    total, started = len(exchange.jobs) * plan.starts, time.monotonic()
    while not exchange.reported.wait(POLL_S):
        if order.progress is not None:
            order.progress(
                min(round(exchange.progress.share * total), total), total, exchange.progress.text
            )
        if process is not None and process.poll() is not None:
            return "the browser ended"
        if exchange.begun and exchange.silent_s > plan.away_s:
            return f"the browser was not heard of for {plan.away_s:.0f} s"
        if not exchange.begun and time.monotonic() - started > OPEN_S:
            raise DeviceError(
                "the page",
                f"nobody opened it within {OPEN_S / 60:.0f} minutes",
                "Run it again, and open its address",
            )
    if order.progress is not None:
        order.progress(total, total, "report")
    return "the browser did not measure it"


def lan_address() -> str:
    """This machine's address on its network. No packet is sent for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
