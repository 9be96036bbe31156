"""iPhones: what a Mac would run, against a stand-in of xcrun; Xcode's reports, whose layout here is
made up.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.core import DeviceError, DeviceLost, InputError
from unplug.export import Artifact
from unplug.mobile_bench import BenchReport, Plan, bench_artifacts, read_xcode
from unplug.sdk.cli import main

DEVICE = {
    "identifier": "AAAA-1",
    "hardwareProperties": {
        "udid": "0000-1",
        "marketingName": "iPhone 15",
        "reality": "physical",
        "platform": "iOS",
        "cpuType": {"name": "arm64e"},
    },
    "deviceProperties": {"osVersionNumber": "18.1", "osBuildUpdate": "22B83"},
}
STAND_IN = Path(__file__).with_name("app_stand_in.txt")
PLAN = Plan(threads=1, warmup=0, iterations=3, repeats=2)


def paired(*devices: Any) -> str:
    return json.dumps({"result": {"devices": devices}})


@pytest.fixture
def xcrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what is said; `phone` in it is the app's container."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("unplug.mobile_bench.apps.driven_app.POLL_S", 0.1)
    (tmp_path / "devices.json").write_text(paired(DEVICE))
    (tmp_path / "phone" / "Documents").mkdir(parents=True)
    script = tmp_path / "bin" / "xcrun"
    script.parent.mkdir()
    script.write_text(f"""#!/bin/sh
cd {shlex.quote(str(tmp_path))}
echo "$*" >> said
[ -f gone ] && {{ echo "The device is not connected" >&2; exit 1; }}
case "$2 $3 $4" in
  "list devices "*) cp devices.json "$5";;
  "device copy to") cp -r "${{11}}" "phone/${{13}}";;
  "device copy from") cp "phone/${{11}}" "${{13}}" || {{ echo "no such file" >&2; exit 1; }};;
  "device process launch")
    {sys.executable} {STAND_IN} "phone/${{13}}" > app.log 2>&1 &
    echo $! > pid; echo "{{\\"result\\": {{\\"process\\": {{\\"processIdentifier\\": $!}}}}}}" > "$6";;
  "device info processes")
    if kill -0 "$(cat pid)" 2> /dev/null; then own=$(cat pid); else own=1; fi
    echo "{{\\"result\\": {{\\"runningProcesses\\": [{{\\"processIdentifier\\": $own}}]}}}}" > "$6";;
esac
""")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    return tmp_path


@pytest.mark.long
def test_a_row_from_an_iphone(
    xcrun: Path, checkpoint: Path, litert: Artifact, onnx: Artifact
) -> None:
    files, how = [litert, onnx], {"delegates": ["xnnpack"], "checkpoint": checkpoint}
    row, other = bench_artifacts(files, on="ios", plan=PLAN, **how).rows  # type: ignore[arg-type]
    _, copied, launched = (line.split() for line in (xcrun / "said").read_text().splitlines()[:3])
    assert copied[1:4] == ["device", "copy", "to"]
    domain = "--domain-type appDataContainer --domain-identifier dev.unplug.demo"
    assert copied[-4:] == domain.split()
    # behind the bundle's name are the app's words; a report of the last benchmark is not taken for
    # this one's
    words = (
        r"devicectl device process launch .* dev\.unplug\.demo --benchmark Documents/bench-\w{8}"
    )
    assert re.fullmatch(words, " ".join(launched))
    assert (row.status, row.valid) == ("ok", True), (row.reasons, (xcrun / "app.log").read_text())
    assert other.status == "not_run"


@pytest.mark.long
def test_an_app_that_is_killed(xcrun: Path, checkpoint: Path, litert: Artifact) -> None:
    faults = xcrun / "phone" / "Documents" / "faults"
    faults.write_text("killed")
    how = {"plan": PLAN, "delegates": ["xnnpack"], "checkpoint": checkpoint}
    (row,) = bench_artifacts([litert], on="ios", **how).rows  # type: ignore[arg-type]
    assert (row.status, row.valid, len(row.repeats)) == ("failed", False, 1)
    assert row.reasons[0] == "1 of 2 cold starts were timed: the app ended before its benchmark did"
    for fault, words in (
        ("fail", r"the app stopped \(Storage is full\. Nothing was lost"),
        ("die", "the app ended before its benchmark did"),
    ):
        faults.write_text(fault)
        with pytest.raises(DeviceError, match=words):
            bench_artifacts([litert], on="ios", **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("on", "answer", "error", "words"),
    [
        ("ios:0000-2", paired(DEVICE), DeviceError, r"is no such device \(paired: 0000-1\)"),
        ("ios", paired(DEVICE, DEVICE), DeviceError, "Write `on=ios:UDID`"),
        ("ios", "not JSON", DeviceError, "its answer is not JSON"),
        ("ios", None, DeviceLost, "The device is not connected"),
    ],
)
def test_phones_that_are_not_there(
    xcrun: Path, onnx: Artifact, on: str, answer: str | None, error: type[Exception], words: str
) -> None:
    (xcrun / ("gone" if answer is None else "devices.json")).write_text(answer or "")
    with pytest.raises(error, match=words):
        bench_artifacts([onnx], on=on, plan=PLAN)


def test_not_on_a_mac(onnx: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    words = r"devicectl drives iPhones from macOS only, and this is linux\. Run it on a Mac"
    with pytest.raises(DeviceError, match=words):
        bench_artifacts([onnx], on="ios", plan=PLAN)


PREDICT = {"median": 0.0125, "runs": [0.012, 0.0125, 0.014]}
FACTS = {"results": [{"predict": PREDICT, "load": {"median": 0.2}}], "name": "x"}


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder = tmp_path / "age.mlperf"
    folder.mkdir()
    (folder / "report.json").write_text(json.dumps(FACTS))
    return folder


def read(report: Path, coreml: Artifact, at: str | None, unit: str | None = "s") -> Any:
    return read_xcode(report, coreml, at=at, unit=unit, device="iPhone 15", os="iOS 18.1")


def test_a_number_that_is_named(report: Path, coreml: Artifact) -> None:
    row = read(report, coreml, "results.0.predict.median")
    assert (row.median_ms, row.median_ci95_ms) == (pytest.approx(12.5), None)
    assert (row.device, row.where, row.valid) == ("iPhone 15", "device", False)
    assert row.reasons[0] == "parity was not checked: Xcode's report holds no outputs"
    summary = read(report, coreml, "results.0.predict.runs").summary
    assert (summary.count, summary.max) == (3, 14.0)


@pytest.mark.parametrize(
    ("facts", "at", "words"),
    [
        (FACTS, None, r"Candidates: results\.0\.predict\.median = 0\.0125, .*load"),
        (FACTS, "results.0.predict.mean", "has nothing there"),
        (FACTS, "results.7", "has nothing there"),
        (FACTS, "name", "neither a number"),
        ({"median": -1.0}, "median", "-1000 ms is not a latency"),
    ],
)
def test_what_is_not_named_is_not_guessed(
    report: Path, coreml: Artifact, facts: Any, at: str | None, words: str
) -> None:
    (report / "report.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match=words) as caught:
        read(report, coreml, at, at and "s")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "[", "[1]", '{"median": NaN}', "null", "[" * 100_000])
def test_any_content_is_one_line(report: Path, coreml: Artifact, content: str) -> None:
    (report / "report.json").write_text(content)
    with pytest.raises(InputError) as caught:
        read(report, coreml, "a.b")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_the_command(report: Path, coreml: Artifact, tmp_path: Path) -> None:
    out = str(tmp_path / "iphone.json")

    def imported(*words: str) -> Any:
        return CliRunner().invoke(main, ["bench", "import", *words])

    done = imported(str(report), "--out", out)
    assert done.exit_code == 2 and "Give --artifact FILE and --on NAME" in done.stderr
    named = ["--artifact", str(coreml.path), "--on", "iPhone 15", "--unit", "s"]
    done = imported(str(report), "--out", out, *named, "--at", "results.0.predict.median")
    assert done.exit_code == 0 and "not ranked" in done.stdout, done.output
    assert BenchReport.load(out).rows[0].median_ms == pytest.approx(12.5)
    done = imported(out, "--os", "iOS 18", "--out", str(tmp_path / "page.json"))
    assert done.exit_code == 2 and "a page's report says itself what --os would" in done.stderr
