"""iPhones: what a Mac would run, against a stand-in of xcrun; Xcode's reports, whose layout here is
made up.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

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


@pytest.fixture
def xcrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what is said; `phone` in it is the app's container."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("unplug.mobile_bench.apps.driven_app.POLL_S", 0.1)
    answer = json.dumps({"result": {"devices": [DEVICE]}})
    (tmp_path / "devices.json").write_text(answer)
    script = tmp_path / "bin" / "xcrun"
    script.parent.mkdir()
    script.write_text(f"""#!/bin/sh
cd {shlex.quote(str(tmp_path))}
echo "$*" >> said
[ -f gone ] && {{ echo "The device is not connected" >&2; exit 1; }}
case "$2 $3 $4" in
  "list devices "*) cp devices.json "$5";;
  "device copy to") mkdir -p phone/Documents; cp -r "${{11}}" "phone/${{13}}";;
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
    rows = bench_artifacts(
        [litert, onnx], on="ios", plan=PLAN, delegates=["xnnpack"], checkpoint=checkpoint
    ).rows
    said = [line.split() for line in (xcrun / "said").read_text().splitlines()]
    assert [words[:4] for words in said[:3]] == [
        ["devicectl", "list", "devices", "--json-output"],
        ["devicectl", "device", "copy", "to"],
        ["devicectl", "device", "process", "launch"],
    ]
    *_, bundle, asked, folder = said[2]
    assert (bundle, asked) == ("dev.unplug.demo", "--benchmark"), (
        "behind the bundle's name are the app's words"
    )
    assert re.fullmatch(r"Documents/bench-[0-9a-f]{8}", folder), (
        "a report of the last benchmark is not taken for this one's"
    )
    assert said[1][-4:] == [
        "--domain-type",
        "appDataContainer",
        "--domain-identifier",
        "dev.unplug.demo",
    ]
    assert (rows[0].status, rows[0].valid) == ("ok", True), (
        rows[0].reasons,
        (xcrun / "app.log").read_text(),
    )
    assert rows[1].status == "not_run"


@pytest.mark.long
def test_an_app_that_is_killed(xcrun: Path, checkpoint: Path, litert: Artifact) -> None:
    (xcrun / "phone" / "Documents").mkdir(parents=True)
    (xcrun / "phone" / "Documents" / "faults").write_text("killed")
    (row,) = bench_artifacts(
        [litert], on="ios", plan=PLAN, delegates=["xnnpack"], checkpoint=checkpoint
    ).rows
    assert (row.status, row.valid, len(row.repeats)) == ("failed", False, 1), (
        xcrun / "app.log"
    ).read_text()
    assert row.reasons[0] == "1 of 2 cold starts were timed: the app ended before its benchmark did"
    (xcrun / "phone" / "Documents" / "faults").write_text("fail")
    with pytest.raises(DeviceError, match=r"the app stopped \(Storage is full\. Nothing was lost"):
        bench_artifacts([litert], on="ios", plan=PLAN, delegates=["xnnpack"], checkpoint=checkpoint)
    (xcrun / "phone" / "Documents" / "faults").write_text("die")
    with pytest.raises(DeviceError, match="the app ended before its benchmark did"):
        bench_artifacts([litert], on="ios", plan=PLAN, delegates=["xnnpack"], checkpoint=checkpoint)


def test_phones_that_are_not_there(
    xcrun: Path, onnx: Artifact, checkpoint: Path, tmp_path: Path
) -> None:
    with pytest.raises(DeviceError, match=r"there is no such device \(paired: 0000-1\)"):
        bench_artifacts([onnx], on="ios:0000-2", plan=PLAN)
    (xcrun / "devices.json").write_text(json.dumps({"result": {"devices": [DEVICE, DEVICE]}}))
    with pytest.raises(DeviceError, match="Write `on=ios:UDID`"):
        bench_artifacts([onnx], on="ios", plan=PLAN)
    (xcrun / "devices.json").write_text("not JSON")
    with pytest.raises(DeviceError, match="its answer is not JSON"):
        bench_artifacts([onnx], on="ios", plan=PLAN)
    (xcrun / "gone").touch()
    with pytest.raises(DeviceLost, match="The device is not connected"):
        bench_artifacts([onnx], on="ios", plan=PLAN)


def test_not_on_a_mac(onnx: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(
        DeviceError,
        match=r"devicectl drives iPhones from macOS only, and this is linux\. Run it on a Mac",
    ):
        bench_artifacts([onnx], on="ios", plan=PLAN)


FACTS = {
    "results": [
        {"predict": {"median": 0.0125, "runs": [0.012, 0.0125, 0.014]}, "load": {"median": 0.2}}
    ],
    "name": "x",
}


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder = tmp_path / "age.mlperf"
    folder.mkdir()
    (folder / "report.json").write_text(json.dumps(FACTS))
    return folder


def test_a_number_that_is_named(report: Path, coreml: Artifact) -> None:
    row = read_xcode(
        report, coreml, at="results.0.predict.median", unit="s", device="iPhone 15", os="iOS 18.1"
    )
    assert (row.median_ms, row.median_ci95_ms, row.device, row.where) == (
        pytest.approx(12.5),
        None,
        "iPhone 15",
        "device",
    )
    assert (
        not row.valid
        and row.reasons[0] == "parity was not checked: Xcode's report holds no outputs"
    )
    runs = read_xcode(
        report, coreml, at="results.0.predict.runs", unit="s", device="iPhone 15", os="iOS 18.1"
    )
    assert runs.summary is not None and (runs.summary.count, runs.summary.max) == (3, 14.0)


def test_what_is_not_named_is_not_guessed(report: Path, coreml: Artifact) -> None:
    with pytest.raises(
        InputError, match=r"Candidates: results\.0\.predict\.median = 0\.0125, .*load"
    ) as error:
        read_xcode(report, coreml, at=None, unit=None, device="iPhone", os="x")
    assert "\n" not in str(error.value)
    for at, words in (
        ("results.0.predict.mean", "has nothing there"),
        ("results.7", "has nothing there"),
        ("name", "neither a number"),
    ):
        with pytest.raises(InputError, match=words):
            read_xcode(report, coreml, at=at, unit="s", device="x", os="x")
    (report / "report.json").write_text(json.dumps({"median": -1.0}))
    with pytest.raises(InputError, match="-1000 ms is no latency"):
        read_xcode(report, coreml, at="median", unit="s", device="x", os="x")


@pytest.mark.parametrize("content", ["", "[", "[1]", '{"median": NaN}', "null", "[" * 100_000])
def test_any_content_is_one_line(report: Path, coreml: Artifact, content: str) -> None:
    (report / "report.json").write_text(content)
    with pytest.raises(InputError) as error:
        read_xcode(report, coreml, at="a.b", unit="s", device="x", os="x")
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_the_command(report: Path, coreml: Artifact, tmp_path: Path) -> None:
    words = ["bench", "import", str(report), "--out", str(tmp_path / "iphone.json")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and "Give --artifact FILE and --on NAME" in done.stderr
    words += [
        "--artifact",
        str(coreml.path),
        "--on",
        "iPhone 15",
        "--at",
        "results.0.predict.median",
        "--unit",
        "s",
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0 and "not ranked" in done.stdout, done.output
    assert BenchReport.load(tmp_path / "iphone.json").rows[0].median_ms == pytest.approx(12.5)
    page = [
        "bench",
        "import",
        str(tmp_path / "iphone.json"),
        "--os",
        "iOS 18",
        "--out",
        str(tmp_path / "page.json"),
    ]
    done = CliRunner().invoke(main, page)
    assert done.exit_code == 2 and "a page's report says itself what --os would" in done.stderr
