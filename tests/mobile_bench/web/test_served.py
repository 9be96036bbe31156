"""`--on web:headless`: a real Chromium runs the page, and its rows land and hold."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import DeviceError, InputError
from unplug.export import Artifact, Session, random_inputs
from unplug.mobile_bench import BenchReport, BenchRow, Plan, bench_artifacts
from unplug.mobile_bench.devices.bench_device import DeviceOrder
from unplug.mobile_bench.web import build, device
from unplug.mobile_bench.web.device import PagePlace, parse_place

PLAN = Plan(threads=1, repeats=2, iterations=5, warmup=1)
SHORT = replace(PLAN, repeats=1, iterations=2)


@pytest.fixture(scope="module")
def report(
    litert: Artifact, onnx: Artifact, coreml: Artifact, checkpoint: Path, built: Any, chromium: str
) -> BenchReport:
    """LiteRT.js on WebAssembly and WebGPU against the checkpoint, ONNX Runtime Web on WebAssembly
    against Python's runtime.
    """
    steps: list[tuple[int, int]] = []

    def progress(done: int, total: int, _: str) -> None:
        steps.append((done, total))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(build.PAGE_VARIABLE, str(built.page))
        first = bench_artifacts(
            [litert], on="web:headless", plan=PLAN, checkpoint=checkpoint, progress=progress
        )
        second = bench_artifacts([onnx, coreml], on="web:headless", plan=SHORT, delegates=["wasm"])
    assert steps[-1] == (4, 4) and steps == sorted(steps)
    return replace(first, rows=(*first.rows, *second.rows))


def check_row(row: BenchRow, plan: Plan) -> None:
    assert (row.status, row.valid, row.reasons, row.where) == ("ok", True, (), "emulated")
    assert (row.delegate_got, row.timed_until) == (row.delegate_asked, "read_back")
    assert [len(repeat.latencies_ms) for repeat in row.repeats] == [plan.iterations] * plan.repeats
    assert all(repeat.parity_db is None or repeat.parity_db >= 100 for repeat in row.repeats)
    assert (
        row.median_ms is not None and row.init_ms_cold is not None and row.read_back_ms is not None
    )
    assert row.runtime_version == device.RUNS.version(row.runtime) and "Chrom" in row.os
    assert "swiftshader" in (row.gpu_driver or "")


@pytest.mark.nightly
def test_every_row_lands_and_is_valid(report: BenchReport, tmp_path: Path) -> None:
    wasm, webgpu, onnx, other = report.rows
    assert (other.status, other.reasons) == ("not_run", ("a browser does not run coreml files",))
    check_row(wasm, PLAN)
    check_row(webgpu, PLAN)
    check_row(onnx, SHORT)
    rows = ((row.runtime, row.delegate_asked, row.parity_reference) for row in report.rows[:3])
    assert list(rows) == [
        ("litert-web", "wasm", "checkpoint"),
        ("litert-web", "webgpu", "checkpoint"),
        ("onnx-web", "wasm", "first_run"),
    ]
    report.save(tmp_path / "bench.json")
    assert BenchReport.load(tmp_path / "bench.json") == report


@pytest.mark.nightly
@pytest.mark.usefixtures("page", "chromium")
def test_onnxruntime_web_on_a_software_gpu(onnx: Artifact) -> None:
    """Slow: it compiles its shaders for seconds there."""
    (row,) = bench_artifacts([onnx], on="web:headless", plan=SHORT, delegates=["webgpu"]).rows
    check_row(row, SHORT)


@pytest.mark.nightly
@pytest.mark.usefixtures("page", "chromium")
def test_other_outputs_than_expected_refuse_a_row(
    onnx: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = Session.run

    def tampered(self: Session, inputs: Any, **more: Any) -> dict[str, np.ndarray]:
        return {name: array + 0.01 for name, array in real(self, inputs, **more).items()}

    monkeypatch.setattr(Session, "run", tampered)
    journal, lines = tmp_path / "journal", list[str]()

    def benched() -> BenchRow:
        how: dict[str, Any] = {"delegates": ["wasm"], "journal": journal, "say": lines.append}
        return bench_artifacts([onnx], on="web:headless", plan=SHORT, **how).rows[0]

    row = benched()
    assert (row.status, row.valid, row.parity_reference) == ("ok", False, "first_run")
    assert row.reasons[0].startswith("parity: age_logits: ") and "below 100 dB" in row.reasons[0]
    assert journal.with_name("journal.web-headless.part").is_file()
    lines.clear()
    monkeypatch.setenv("UNPLUG_CHROMIUM", "/nowhere")
    assert benched() == row, "no browser was started for it"
    assert "1 row of an earlier run kept" in lines[0]


@pytest.fixture
def order(onnx: Artifact) -> Callable[..., DeviceOrder]:
    def make(**changes: Any) -> DeviceOrder:
        inputs = random_inputs(onnx.card.iospec, 1, 0)
        how: dict[str, Any] = {"runtime": None, "delegates": ("wasm",), "plan": PLAN, **changes}
        return DeviceOrder(
            artifacts=(onnx,),
            inputs_of=lambda _: inputs,
            reference_of=lambda _: None,
            **how,
        )

    return make


@pytest.fixture
def empty_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "index.html").write_text("")
    monkeypatch.setenv(build.PAGE_VARIABLE, str(tmp_path))
    return tmp_path


Order = Callable[..., DeviceOrder]


@pytest.mark.usefixtures("empty_page")
def test_a_browser_that_ends_is_a_failed_row(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNPLUG_CHROMIUM", "/bin/true")
    (row,) = device.WEB.bench("headless", order())
    assert (row.status, row.reasons, row.where) == ("failed", ("the browser ended",), "emulated")


@pytest.mark.usefixtures("empty_page")
def test_a_browser_that_falls_silent_is_a_failed_row(order: Order) -> None:
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        if line.startswith("Open "):
            urllib.request.urlopen(line.removeprefix("Open ")).read()

    (row,) = device.WEB.bench(None, order(plan=replace(PLAN, away_s=0.3), say=say))
    assert row.status == "failed" and "was not heard of for 0 s" in row.reasons[0]
    assert any("adb reverse tcp:" in line for line in lines)


@pytest.mark.usefixtures("empty_page")
def test_nobody_opens_the_page(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "OPEN_S", 0.0)
    lines: list[str] = []
    with pytest.raises(DeviceError, match="nobody opened it"):
        device.WEB.bench("0.0.0.0:0", order(say=lines.append))
    assert "Over plain http" in "".join(lines) and "0.0.0.0" not in lines[0]


WAIT = """
import sys
from unplug.export import load_artifact, random_inputs
from unplug.mobile_bench import Plan
from unplug.mobile_bench.devices.bench_device import DeviceOrder
from unplug.mobile_bench.web import device
file = load_artifact(sys.argv[1])
inputs = random_inputs(file.card.iospec, 1, 0)
device.WEB.bench(None, DeviceOrder(
    artifacts=(file,), runtime=None, delegates=("wasm",), plan=Plan(), inputs_of=lambda _: inputs,
    reference_of=lambda _: None, say=lambda line: print(line, flush=True)))
"""


@pytest.mark.usefixtures("empty_page")
def test_ctrl_c_leaves_nothing_running(onnx: Artifact) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT, str(onnx.path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("Open http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0


def test_places() -> None:
    for text, place in {
        None: PagePlace(),
        "headless": PagePlace(headless=True),
        "8080": PagePlace(port=8080),
        "localhost:0": PagePlace(host="localhost"),
    }.items():
        assert parse_place(text) == place
    for text in ("headles", "70000", "a b:1", ":80", "0.0.0.0"):
        with pytest.raises(InputError, match="not a port"):
            parse_place(text)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"delegates": ("cuda",)},
            r"delegate 'cuda': nothing here has it. Known: wasm, webgpu",
        ),
        ({"runtime": "onnx"}, r"runtime 'onnx': it does not run age.fp32.onnx. Use onnx-web"),
    ],
)
def test_bad_requests(order: Order, change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        device.WEB.bench("headless", order(**change))
