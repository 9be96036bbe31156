"""iPhones: the commands that a Mac would run, against a stand-in of `xcrun`; nothing of it has met a phone."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from unplug.core import DeviceError, DeviceLost
from unplug.export import Artifact
from unplug.mobile_bench import Plan, bench_artifacts

DEVICE = {
    "identifier": "AAAA-1",
    "hardwareProperties": {
        "udid": "0000-1", "marketingName": "iPhone 15", "reality": "physical", "platform": "iOS", "cpuType": {"name": "arm64e"},
    },
    "deviceProperties": {"osVersionNumber": "18.1", "osBuildUpdate": "22B83"},
}  # fmt: skip
STAND_IN = Path(__file__).with_name("app_stand_in.txt")
PLAN = Plan(threads=1, warmup=0, iterations=3, repeats=2)


@pytest.fixture
def xcrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what is said; `phone` in it is the app's container."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("unplug.mobile_bench.apps.base.POLL_S", 0.1)
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
  "device process launch") {sys.executable} {STAND_IN} "phone/${{13}}" > app.log 2>&1 & ;;
esac
""")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    return tmp_path


def test_a_row_from_an_iphone(xcrun: Path, checkpoint: Path, litert: Artifact, onnx: Artifact) -> None:
    rows = bench_artifacts([litert, onnx], on="ios", plan=PLAN, delegates=["xnnpack"], checkpoint=checkpoint).rows
    said = [line.split() for line in (xcrun / "said").read_text().splitlines()]
    assert [words[:4] for words in said[:3]] == [
        ["devicectl", "list", "devices", "--json-output"], ["devicectl", "device", "copy", "to"],
        ["devicectl", "device", "process", "launch"],
    ]  # fmt: skip
    assert said[2][-3:] == ["dev.unplug.demo", "--benchmark", "Documents/bench"], "behind the bundle's name are the app's words"
    assert said[1][-4:] == ["--domain-type", "appDataContainer", "--domain-identifier", "dev.unplug.demo"]
    assert (rows[0].status, rows[0].valid) == ("ok", True), (rows[0].reasons, (xcrun / "app.log").read_text())
    assert rows[1].status == "not_run"


def test_phones_that_are_not_there(xcrun: Path, onnx: Artifact, checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"there is no such device \(paired: 0000-1\)"):
        bench_artifacts([onnx], on="ios:0000-2", plan=PLAN)
    (xcrun / "devices.json").write_text(json.dumps({"result": {"devices": [DEVICE, DEVICE]}}))
    with pytest.raises(DeviceError, match="Write --on ios:UDID"):
        bench_artifacts([onnx], on="ios", plan=PLAN)
    (xcrun / "devices.json").write_text("not JSON")
    with pytest.raises(DeviceError, match="its answer is not JSON"):
        bench_artifacts([onnx], on="ios", plan=PLAN)
    (xcrun / "gone").touch()
    with pytest.raises(DeviceLost, match="The device is not connected"):
        bench_artifacts([onnx], on="ios", plan=PLAN)


def test_not_on_a_mac(onnx: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(DeviceError, match=r"devicectl drives iPhones from macOS only, and this is linux\. Run it on a Mac"):
        bench_artifacts([onnx], on="ios", plan=PLAN)
