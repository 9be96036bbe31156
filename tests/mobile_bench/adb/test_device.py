"""A benchmark over a real adbd: push, run, pull, properties, a phone that vanishes, a full disk,
wrong hashes, two phones.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.core import DeviceError
from unplug.export import Artifact
from unplug.mobile_bench import BenchReport, BenchRow, Plan, bench_artifacts
from unplug.mobile_bench.adb.client import claimed
from unplug.sdk.cli import main

from .conftest import Phone

PLAN = Plan(threads=1, warmup=1, iterations=5, repeats=2, away_s=20.0)
ONCE = Plan(threads=1, iterations=5, repeats=1)
FIXED = "power set-fixed-performance-mode-enabled"


@pytest.fixture
def bench(phone: Phone, tool: Path, litert: Artifact) -> Callable[..., BenchRow]:
    """A row of the phone."""

    def run(plan: Plan = PLAN, **how: Any) -> BenchRow:
        (row,) = bench_artifacts([litert], on=f"adb:{phone.serial}", plan=plan, **how).rows
        return row

    return run


Bench = Callable[..., BenchRow]


@pytest.mark.long
def test_a_row_from_a_phone(phone: Phone, bench: Bench, checkpoint: Path) -> None:
    row = bench(checkpoint=checkpoint)
    assert (row.status, row.valid, row.reasons) == ("ok", True, ()), row
    for name, value in {
        "where": "emulated",
        "device": "Debian adbd one",
        "os": "Android 14 (API 34, TEST)",
        "gpu_driver": "Nobody, Software, OpenGL ES 3.2 v1",
        "charging": True,
        "battery_percent": 80.0,
        "battery_after_percent": 80.0,
        "clock_mode": "fixed-performance",
        "thermal_before": "none",
        "thermal_after": "none",
        "thermal_gate": "open",
        "runtime": "benchmark_model",
        "delegate_asked": "xnnpack",
        "delegate_got": "xnnpack",
        "partitions": 1,
        "summary": None,
    }.items():
        assert getattr(row, name) == value, name
    assert row.nodes_delegated == row.nodes_total and row.peak_memory_bytes is not None
    for repeat in row.repeats:
        assert (repeat.summary.count, repeat.latencies_ms, repeat.temperature_c) == (5, (), 30.0)
        assert repeat.battery_percent == 80.0 and repeat.parity_reason is None
        assert repeat.parity_db is None or repeat.parity_db > 100
    assert row.median_ms is not None and row.median_ci95_ms is not None
    commands = (phone.state / "cmd").read_text().splitlines()
    assert commands == [f"{FIXED} true", f"{FIXED} false"]
    assert phone.inside(f"ls {phone.data}") == "", "nothing is left on the phone"


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "delegate", "status", "words"),
    [
        ("drift", "xnnpack", "ok", "parity: "),
        ("cpu", "gpu", "ok", "gpu was asked for and none ran"),
        ("crash", "xnnpack", "failed", "killed by signal 6"),
        pytest.param("garbage", "xnnpack", "failed", "its result file", marks=pytest.mark.nightly),
        pytest.param(
            "few", "xnnpack", "failed", "it made 1 runs where 5 were", marks=pytest.mark.nightly
        ),
    ],
)
def test_what_goes_wrong_on_the_phone_refuses_the_row(
    phone: Phone,
    bench: Bench,
    checkpoint: Path,
    fault: str,
    delegate: str,
    status: str,
    words: str,
) -> None:
    phone.set(faults=fault)
    row = bench(ONCE, delegates=[delegate], checkpoint=checkpoint)
    assert (row.status, row.valid) == (status, False) and words in row.reasons[0], row.reasons
    assert phone.inside(f"ls {phone.data}") == ""


def first(ready: Callable[[], Any]) -> Any:
    """Waits for the first true answer."""
    for _ in range(600):
        if answer := ready():
            return answer
        time.sleep(0.05)
    raise AssertionError("it never came")


@contextmanager
def meanwhile(act: Callable[[], Any]) -> Iterator[None]:
    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join()


def pull_the_cable(phone: Phone, folder: Path) -> None:
    """While a cold start runs that is not the first."""
    (part,) = first(lambda: list(folder.glob("bench.json.*.part")))
    first(lambda: len(part.read_text().splitlines()) > 1)
    first(lambda: phone.inside(f"cat {phone.workspace}/pid"))
    phone.vanish()


@pytest.mark.long
def test_the_phone_vanishes_in_the_middle_and_comes_back(
    phone: Phone, bench: Bench, tmp_path: Path
) -> None:
    """The daemon is killed while a cold start runs; the run goes on, and the report says what
    happened.
    """

    def pull_and_plug_in() -> None:
        pull_the_cable(phone, tmp_path)
        time.sleep(1.0)
        phone.start()

    with meanwhile(pull_and_plug_in):
        plan = Plan(threads=1, iterations=2000, repeats=4)
        row = bench(plan, journal=tmp_path / "bench.json")
    assert (row.status, row.valid, len(row.repeats)) == ("ok", True, 4)
    (line,) = row.interruptions
    assert "the device vanished in cold start" in line and "was back after" in line
    assert phone.inside(f"ls {phone.data}") == ""


@pytest.mark.long
def test_a_phone_that_stays_away_and_a_second_run(
    phone: Phone, tool: Path, litert: Artifact, tmp_path: Path
) -> None:
    """What was measured is in the report and in the journal; the same command goes on with it."""
    out = tmp_path / "bench.json"
    how = "--iterations 2000 --repeats 3 --threads 1 --away 1 --json"
    words = ["bench", str(litert.path), "--on", f"adb:{phone.serial}", "--out", str(out)]
    words += how.split()
    with meanwhile(lambda: pull_the_cable(phone, tmp_path)):
        done = CliRunner().invoke(main, words)
    assert done.exit_code == 1, done.output
    (row,) = json.loads(done.stdout)["rows"]
    kept = len(row["repeats"])
    assert row["status"] == "failed" and 1 <= kept < 3
    assert "did not come back within 1 s" in row["reasons"][0]
    (reason, *_) = BenchReport.load(out).rows[0].reasons
    assert reason.startswith(f"{kept} of 3 cold starts were timed")
    phone.start()
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    (again,) = json.loads(done.stdout)["rows"]
    same = [[repeat["summary"] for repeat in told["repeats"][:kept]] for told in (again, row)]
    assert again["valid"] and same[0] == same[1]
    assert list(tmp_path.glob("*.part")) == [], "the journal is done with"


@pytest.mark.long
def test_the_watchdog_cleans_a_phone_that_nobody_comes_back_to(
    phone: Phone, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unplug.mobile_bench.adb.workspace.GRACE_S", 3)
    monkeypatch.setattr("unplug.mobile_bench.adb.device.MARGIN_S", 3.0)
    phone.set(faults="slow")
    with meanwhile(lambda: bench(Plan(iterations=90, repeats=1, away_s=0.0))):
        pid = first(lambda: phone.inside(f"cat {phone.workspace}/pid")).strip()
        phone.vanish()
    running = phone.inside(f"ps -o pid= -p {pid}").strip()
    assert running == pid, "what was started goes on without a cable"
    first(lambda: not phone.inside(f"ls {phone.data}"))
    assert phone.inside(f"ps -o pid= -p {pid}") == ""
    assert (phone.state / "cmd").read_text().splitlines()[-1] == f"{FIXED} false"


@pytest.mark.long
def test_a_wait_for_a_cool_phone_keeps_the_watchdog_away(
    phone: Phone, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unplug.mobile_bench.adb.workspace.GRACE_S", 2)
    phone.set(thermal="3")

    def cool_down() -> None:
        time.sleep(6.0)
        phone.set(thermal="0")

    with meanwhile(cool_down):
        row = bench(ONCE)
    assert row.valid and (row.thermal_gate or "").startswith("waited ")


@pytest.mark.long
def test_what_else_lies_there_is_left_alone(phone: Phone, bench: Bench) -> None:
    old = f"{phone.data}/unplug-bench-old"
    phone.inside(f"mkdir {old}; touch -d '2 days ago' {old}; touch {phone.data}/x")
    bench(ONCE)
    assert phone.inside(f"ls {phone.data}") == "x\n", "and folders of long ago are gone"


@pytest.mark.long
def test_one_phone_for_two_benchmarks(phone: Phone, bench: Bench) -> None:
    with claimed(phone.serial), pytest.raises(DeviceError, match="it is being timed already"):
        bench()
    assert bench().valid


def test_a_full_disk(phone: Phone, bench: Bench) -> None:
    phone.inside(f"head -c 33000000 /dev/zero > {phone.data}/photos")
    with pytest.raises(DeviceError, match=r"its disk is full .* Free some space on the device"):
        bench()
    assert phone.inside(f"ls {phone.data}") == "photos\n"


def test_a_file_that_arrives_as_another(phone: Phone, bench: Bench) -> None:
    phone.shim("sha256sum", "echo 0000  file")
    with pytest.raises(DeviceError, match=r"arrived with another SHA-256 \(0000"):
        bench()
    assert phone.inside(f"ls {phone.data}") == ""


@pytest.mark.long
def test_builds_that_cannot_do_it(
    phone: Phone, bench: Bench, tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(words: str) -> None:
        with pytest.raises(DeviceError, match=words):
            bench()
        assert phone.inside(f"ls {phone.data}") == ""

    phone.set(faults="old")
    refused("this build does not know result_file_path: it is too old")
    arm = tool.with_name("arm")
    arm.write_bytes(b"\x7fELF" + bytes(14) + b"\xb7\x00" + bytes(100))
    monkeypatch.setenv("UNPLUG_BENCHMARK_MODEL", str(arm))
    refused("it is for arm64-v8a, and the device is x86_64")
    phone.shim("getprop", "echo")  # a device that does not tell its ABI
    refused(r"the device cannot execute it .*Exec format error")
    monkeypatch.delenv("UNPLUG_BENCHMARK_MODEL")
    refused(r"UNPLUG_BENCHMARK_MODEL does not say where it is\. Fetch android_aarch64")


@pytest.mark.long
def test_a_hot_phone_and_one_without_fixed_performance(phone: Phone, bench: Bench) -> None:
    phone.set(thermal="3", celsius="47.5", **{"no-fixed": ""})
    row = bench(replace(ONCE, cool_down_s=0.0))
    assert not row.valid and row.clock_mode == "default"
    assert row.reasons == (
        "the device says that it throttles (severe)",
        "the device was too hot to begin: gave up after 0 s at 47.5 °C, status severe",
    )


@pytest.mark.long
def test_sustained_load_has_a_curve_with_temperatures(bench: Bench) -> None:
    row = bench(Plan(threads=1, sustain_s=5.0))
    assert row.valid and row.mode == "sustained" and len(row.curve) >= 2
    assert all(window.temperature_c == 30.0 and window.count > 0 for window in row.curve)


@pytest.mark.long
def test_two_phones_at_once(
    phone: Phone, adbd_root: Path, tool: Path, litert: Artifact, tmp_path: Path
) -> None:
    other = Phone(tmp_path / "other", adbd_root, "two")
    mount = f"mount --bind {other.data} {phone.data}"
    other.inside(f"{mount} 2>/dev/null || (mkdir -p {phone.data}; {mount})")
    other.start()
    try:
        places = [f"adb:{phone.serial}", f"adb:{other.serial}"]
        rows = bench_artifacts([litert], on=places, plan=PLAN).rows
        assert [row.device for row in rows] == ["Debian adbd one", "Debian adbd two"]
        assert all(row.valid for row in rows)
        assert phone.inside(f"ls {phone.data}") == other.inside(f"ls {other.data}") == ""
    finally:
        other.end()
