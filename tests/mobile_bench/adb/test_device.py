"""A benchmark over a real adbd: push, run, pull, properties, a phone that vanishes, a full disk,
wrong hashes, two phones.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.core import DeviceError
from unplug.export import Artifact
from unplug.mobile_bench import BenchReport, Plan, bench_artifacts
from unplug.mobile_bench.adb.client import claimed
from unplug.sdk.cli import main

from .conftest import Phone

PLAN = Plan(threads=1, warmup=1, iterations=5, repeats=2, away_s=20.0)


@pytest.mark.long
def test_a_row_from_a_phone(
    phone: Phone, tool: Path, tflite: Artifact, checkpoint: Path, tmp_path: Path
) -> None:
    report = bench_artifacts([tflite], on=f"adb:{phone.serial}", plan=PLAN, checkpoint=checkpoint)
    (row,) = report.rows
    assert (row.status, row.valid, row.reasons) == ("ok", True, ()), row
    assert (row.where, row.device, row.os) == (
        "emulated",
        "Debian adbd one",
        "Android 14 (API 34, TEST)",
    )
    assert (row.gpu_driver, row.charging) == ("Nobody, Software, OpenGL ES 3.2 v1", True)
    assert (row.battery_percent, row.repeats[0].battery_percent, row.battery_after_percent) == (
        80.0,
        80.0,
        80.0,
    )
    assert (row.clock_mode, row.thermal_before, row.thermal_after, row.thermal_gate) == (
        "fixed-performance",
        "none",
        "none",
        "open",
    )
    assert (row.runtime, row.delegate_asked, row.delegate_got, row.partitions) == (
        "benchmark_model",
        "xnnpack",
        "xnnpack",
        1,
    )
    assert row.nodes_delegated == row.nodes_total and row.peak_memory_bytes is not None
    assert [
        (repeat.summary.count, repeat.latencies_ms, repeat.temperature_c) for repeat in row.repeats
    ] == [(5, (), 30.0)] * 2
    assert all(repeat.parity_db is None or repeat.parity_db > 100 for repeat in row.repeats)
    assert all(repeat.parity_reason is None for repeat in row.repeats)
    assert row.median_ms is not None and row.median_ci95_ms is not None and row.summary is None
    report.save(tmp_path / "bench.json")
    assert BenchReport.load(tmp_path / "bench.json") == report
    said = (phone.state / "cmd").read_text().splitlines()
    assert said == [
        f"power set-fixed-performance-mode-enabled {word}" for word in ("true", "false")
    ]
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
            "few",
            "xnnpack",
            "failed",
            "it made 1 runs where 5 were asked for",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_what_goes_wrong_on_the_phone_refuses_the_row(
    phone: Phone,
    tool: Path,
    tflite: Artifact,
    checkpoint: Path,
    fault: str,
    delegate: str,
    status: str,
    words: str,
) -> None:
    phone.set(faults=fault)
    plan = Plan(threads=1, warmup=0, iterations=5, repeats=1)
    (row,) = bench_artifacts(
        [tflite], on=f"adb:{phone.serial}", plan=plan, delegates=[delegate], checkpoint=checkpoint
    ).rows
    assert (row.status, row.valid) == (status, False) and words in row.reasons[0], row.reasons
    assert phone.inside(f"ls {phone.data}") == ""


@pytest.mark.long
def test_the_phone_vanishes_in_the_middle_and_comes_back(
    phone: Phone, tool: Path, tflite: Artifact, tmp_path: Path
) -> None:
    """The daemon is killed while a cold start runs; the run goes on, and the report says what
    happened.
    """
    journal = tmp_path / "bench.json"

    def pull_the_cable() -> None:
        part = next(iter_until(lambda: list(tmp_path.glob("bench.json.*.part"))))[0]
        next(iter_until(lambda: len(part.read_text().splitlines()) > 1))
        next(iter_until(lambda: phone.inside(f"cat {phone.workspace}/pid")))
        phone.vanish()
        time.sleep(1.0)
        phone.start()

    thread = threading.Thread(target=pull_the_cable)
    thread.start()
    (row,) = bench_artifacts(
        [tflite],
        on=f"adb:{phone.serial}",
        plan=Plan(threads=1, iterations=2000, repeats=4),
        journal=journal,
    ).rows
    thread.join()
    assert (row.status, row.valid, len(row.repeats)) == ("ok", True, 4)
    (said,) = row.interruptions
    assert "the device vanished in cold start" in said and "was back after" in said
    assert phone.inside(f"ls {phone.data}") == ""


def iter_until(ready: Callable[[], Any]) -> Iterator[Any]:
    """Yields the first true answer."""
    for _ in range(600):
        if found := ready():
            yield found
            return
        time.sleep(0.05)
    raise AssertionError("it never came")


@pytest.mark.long
def test_a_phone_that_stays_away_and_a_second_run(
    phone: Phone, tool: Path, tflite: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was measured is in the report and in the journal; the same command goes on with it."""
    out = tmp_path / "bench.json"
    words = [
        "bench",
        str(tflite.path),
        "--on",
        f"adb:{phone.serial}",
        "--iterations",
        "2000",
        "--repeats",
        "3",
    ]
    words += ["--threads", "1", "--away", "1", "--out", str(out), "--json"]

    def pull_the_cable() -> None:
        part = next(iter_until(lambda: list(tmp_path.glob("bench.json.*.part"))))[0]
        next(iter_until(lambda: len(part.read_text().splitlines()) > 1))
        next(iter_until(lambda: phone.inside(f"cat {phone.workspace}/pid")))
        phone.vanish()

    thread = threading.Thread(target=pull_the_cable)
    thread.start()
    done = CliRunner().invoke(main, words)
    thread.join()
    assert done.exit_code == 1, done.output
    (row,) = json.loads(done.stdout)["rows"]
    kept = len(row["repeats"])
    assert (
        row["status"] == "failed"
        and 1 <= kept < 3
        and "did not come back within 1 s" in row["reasons"][0]
    )
    assert (
        BenchReport.load(out).rows[0].reasons[0].startswith(f"{kept} of 3 cold starts were timed")
    )
    phone.start()
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    (again,) = json.loads(done.stdout)["rows"]
    assert again["valid"] and [item["summary"] for item in again["repeats"][:kept]] == [
        item["summary"] for item in row["repeats"]
    ]
    assert list(tmp_path.glob("*.part")) == [], "the journal is done with"


@pytest.mark.long
def test_the_watchdog_cleans_a_phone_that_nobody_comes_back_to(
    phone: Phone, tool: Path, tflite: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unplug.mobile_bench.adb.workspace.GRACE_S", 3)
    monkeypatch.setattr("unplug.mobile_bench.adb.device.MARGIN_S", 3.0)
    phone.set(faults="slow")
    thread = threading.Thread(
        target=lambda: bench_artifacts(
            [tflite], on=f"adb:{phone.serial}", plan=Plan(iterations=90, repeats=1, away_s=0.0)
        )
    )
    thread.start()
    pid = next(iter_until(lambda: phone.inside(f"cat {phone.workspace}/pid"))).strip()
    phone.vanish()
    thread.join()
    assert phone.inside(f"ps -o pid= -p {pid}").strip() == pid, (
        "what was started goes on without a cable"
    )
    next(iter_until(lambda: not phone.inside(f"ls {phone.data}")))
    assert phone.inside(f"ps -o pid= -p {pid}") == ""
    assert (phone.state / "cmd").read_text().splitlines()[
        -1
    ] == "power set-fixed-performance-mode-enabled false"


@pytest.mark.long
def test_a_wait_for_a_cool_phone_keeps_the_watchdog_away(
    phone: Phone, tool: Path, tflite: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unplug.mobile_bench.adb.workspace.GRACE_S", 2)
    phone.set(thermal="3")

    def cool_down() -> None:
        time.sleep(6.0)
        phone.set(thermal="0")

    thread = threading.Thread(target=cool_down)
    thread.start()
    (row,) = bench_artifacts(
        [tflite], on=f"adb:{phone.serial}", plan=Plan(threads=1, iterations=5, repeats=1)
    ).rows
    thread.join()
    assert row.valid and row.thermal_gate is not None and row.thermal_gate.startswith("waited ")


@pytest.mark.long
def test_what_else_lies_there_is_left_alone(phone: Phone, tool: Path, tflite: Artifact) -> None:
    phone.inside(
        f"mkdir {phone.data}/unplug-bench-old; touch -d '2 days ago' "
        f"{phone.data}/unplug-bench-old; touch {phone.data}/x"
    )
    bench_artifacts(
        [tflite], on=f"adb:{phone.serial}", plan=Plan(threads=1, iterations=5, repeats=1)
    )
    assert phone.inside(f"ls {phone.data}") == "x\n", (
        "and folders of benchmarks of long ago are gone"
    )


@pytest.mark.long
def test_one_phone_for_two_benchmarks(phone: Phone, tool: Path, tflite: Artifact) -> None:
    with claimed(phone.serial), pytest.raises(DeviceError, match="it is being timed already"):
        bench_artifacts([tflite], on=f"adb:{phone.serial}", plan=PLAN)
    assert bench_artifacts([tflite], on=f"adb:{phone.serial}", plan=PLAN).rows[0].valid


def test_a_full_disk(phone: Phone, tool: Path, tflite: Artifact) -> None:
    phone.inside(f"head -c 33000000 /dev/zero > {phone.data}/photos")
    with pytest.raises(DeviceError, match=r"its disk is full .* Free some space on the device"):
        bench_artifacts([tflite], on=f"adb:{phone.serial}", plan=PLAN)
    assert phone.inside(f"ls {phone.data}") == "photos\n"


def test_a_file_that_arrives_as_another(phone: Phone, tool: Path, tflite: Artifact) -> None:
    phone.shim("sha256sum", "echo 0000  file")
    with pytest.raises(DeviceError, match=r"arrived with another SHA-256 \(0000"):
        bench_artifacts([tflite], on=f"adb:{phone.serial}", plan=PLAN)
    assert phone.inside(f"ls {phone.data}") == ""


@pytest.mark.long
def test_builds_that_cannot_do_it(
    phone: Phone, tool: Path, tflite: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone.set(faults="old")
    with pytest.raises(
        DeviceError, match="this build does not know result_file_path: it is too old"
    ):
        bench_artifacts([tflite], on=f"adb:{phone.serial}", plan=PLAN)
    arm = tool.with_name("arm")
    arm.write_bytes(b"\x7fELF" + bytes(14) + b"\xb7\x00" + bytes(100))
    monkeypatch.setenv("UNPLUG_BENCHMARK_MODEL", str(arm))
    with pytest.raises(DeviceError, match="it is for arm64-v8a, and the device is x86_64"):
        bench_artifacts([tflite], on=f"adb:{phone.serial}", plan=PLAN)
    phone.shim("getprop", "echo")  # a device that does not tell its ABI
    with pytest.raises(DeviceError, match=r"the device cannot execute it .*Exec format error"):
        bench_artifacts([tflite], on=f"adb:{phone.serial}", plan=PLAN)
    monkeypatch.delenv("UNPLUG_BENCHMARK_MODEL")
    with pytest.raises(
        DeviceError,
        match=r"UNPLUG_BENCHMARK_MODEL does not say where it is\. Fetch android_aarch64",
    ):
        bench_artifacts([tflite], on=f"adb:{phone.serial}", plan=PLAN)
    assert phone.inside(f"ls {phone.data}") == ""


@pytest.mark.long
def test_a_hot_phone_and_one_without_fixed_performance(
    phone: Phone, tool: Path, tflite: Artifact
) -> None:
    phone.set(thermal="3", celsius="47.5", **{"no-fixed": ""})
    plan = Plan(threads=1, iterations=5, repeats=1, cool_down_s=0.0)
    (row,) = bench_artifacts([tflite], on=f"adb:{phone.serial}", plan=plan).rows
    assert not row.valid and row.clock_mode == "default"
    assert row.reasons == (
        "the device says that it throttles (severe)",
        "the device was too hot to begin: gave up after 0 s at 47.5 °C, status severe",
    )


@pytest.mark.long
def test_sustained_load_has_a_curve_with_temperatures(
    phone: Phone, tool: Path, tflite: Artifact
) -> None:
    (row,) = bench_artifacts(
        [tflite], on=f"adb:{phone.serial}", plan=Plan(threads=1, sustain_s=5.0)
    ).rows
    assert row.valid and row.mode == "sustained" and len(row.curve) >= 2
    assert all(window.temperature_c == 30.0 and window.count > 0 for window in row.curve)


@pytest.mark.long
def test_two_phones_at_once(
    phone: Phone, adbd_root: Path, tool: Path, tflite: Artifact, tmp_path: Path
) -> None:
    other = Phone(tmp_path / "other", adbd_root, "two")
    other.inside(
        f"mount --bind {other.data} {phone.data} 2>/dev/null || (mkdir -p {phone.data}; mount "
        f"--bind {other.data} {phone.data})"
    )
    other.start()
    try:
        rows = bench_artifacts(
            [tflite], on=[f"adb:{phone.serial}", f"adb:{other.serial}"], plan=PLAN
        ).rows
        assert [(row.device, row.valid) for row in rows] == [
            ("Debian adbd one", True),
            ("Debian adbd two", True),
        ]
        assert phone.inside(f"ls {phone.data}") == other.inside(f"ls {other.data}") == ""
    finally:
        other.end()
