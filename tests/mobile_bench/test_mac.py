"""Core ML on a Mac over ssh: a stand-in of ssh runs the command here, a stand-in of `unplug-coreml`
gives the outputs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from unplug.core import DeviceError, InputError, IOSpec, TensorSpec
from unplug.export import Artifact, Reference
from unplug.mobile_bench import parity_on_mac
from unplug.sdk.cli import main

from .conftest import resigned

X, Y = (TensorSpec(name=name, shape=(1, 3), layout="NC") for name in "xy")
INPUTS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
REFERENCE = Reference(checkpoint_sha256="0" * 64, model_type="age", outputs={"y": 2 * INPUTS["x"]})
TOOL = """
import array, json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
fault = pathlib.Path({faults!r}).read_text()
rows = []
for job in json.loads((folder / "plan.json").read_text())["jobs"]:
    if job["not_run"]:
        continue
    assert (folder / job["model_url"] / "Manifest.json").is_file() and job["delegate"] == "all"
    out, vectors = folder / "outputs" / str(job["number"]), folder / job["vectors_url"]
    out.mkdir(parents=True)
    for sample in json.loads((vectors / "vectors.json").read_text())["samples"]:
        for entry in sample["outputs"].values():
            values = array.array("f", (vectors / entry["file"]).read_bytes())
            if fault == "wrong":
                values = array.array("f", [value + 0.5 for value in values])
            name = out / entry["file"]
            if fault == "link":
                name.symlink_to("/etc/passwd")
            else:
                name.write_bytes(values.tobytes()[: 4 if fault == "short" else None])
    why = "it does not open" if fault == "short" else None
    rows.append({{"number": job["number"], "runtime_version": "Version 15.1", "reason": why}})
print(json.dumps({{"schema": "unplug-coreml/" + ("9" if fault == "version" else "1"), "rows": rows}}))
sys.exit(1 if fault == "wrong" else 2 if fault == "usage" else 0)
"""
"""A Mac whose Core ML gives what is expected of it, or something else."""


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says what goes wrong; `said` beside it is what ssh was asked."""
    told, tools, remote = (tmp_path / name for name in ("fault", "bin", "remote"))
    told.write_text("")
    for script, text in (
        (remote / "unplug-coreml", f"#!{sys.executable}\n{TOOL.format(faults=str(told))}"),
        (
            tools / "ssh",
            f"""#!/bin/sh
echo "$*" > {tmp_path}/said
for last; do :; done
PATH={remote}:/usr/bin:/bin sh -c "$last"
""",
        ),
    ):
        script.parent.mkdir()
        script.write_text(text)
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    return told


@pytest.fixture
def package(coreml: Artifact, tmp_path: Path) -> Artifact:
    path = tmp_path / "age.fp32.mlpackage"
    path.mkdir()
    (path / "Manifest.json").write_text("{}")
    iospec = IOSpec(inputs=(X,), outputs=(Y,))
    return resigned(coreml, path, iospec=iospec, config={}, checkpoint_sha256="0" * 64)


def test_a_row_from_a_mac(faults: Path, package: Artifact, tmp_path: Path) -> None:
    (tmp_path / "age.fp32.onnx").write_bytes(b"x")
    other = resigned(package, tmp_path / "age.fp32.onnx", target="onnx")
    report = parity_on_mac("me@mac", [package, other], REFERENCE, INPUTS)
    row, left = report.rows
    assert report.passed and (row.status, row.exact) == ("pass", True)
    assert (row.runtime, row.runtime_version) == ("coreml-app (all)", "Version 15.1")
    assert (left.status, left.reason) == ("not_run", "Core ML does not run onnx files")
    asked = (tmp_path / "said").read_text()
    assert asked.startswith("-o BatchMode=yes -o ConnectTimeout=20 -- me@mac d=$(mktemp -d)")


@pytest.mark.parametrize(
    ("fault", "weights", "reason"),
    [
        ("wrong", "0", "26.0 dB is below 100 dB"),
        ("", "1", "it was exported from other weights (000000000000)"),
        ("short", "0", "it does not open"),
        ("link", "0", "the Mac sent no such output"),
    ],
)
def test_what_comes_back_is_judged_here(
    faults: Path, package: Artifact, fault: str, weights: str, reason: str
) -> None:
    faults.write_text(fault)
    reference = Reference(
        checkpoint_sha256=weights * 64, model_type="age", outputs=REFERENCE.outputs
    )
    (row,) = parity_on_mac("mac", [package], reference, INPUTS).rows
    assert (row.status, row.reason) == ("fail", reason)


@pytest.mark.parametrize(
    ("fault", "words"), [("version", "said something else"), ("usage", "gave nothing back")]
)
def test_tools_that_cannot_be_read(faults: Path, package: Artifact, fault: str, words: str) -> None:
    faults.write_text(fault)
    with pytest.raises(DeviceError, match=words):
        parity_on_mac("mac", [package], REFERENCE, INPUTS)


@pytest.mark.parametrize("host", ["", "-oProxyCommand=x", "a b", "me@-x", "a;b", "x" * 300])
def test_odd_hosts(host: str, package: Artifact) -> None:
    with pytest.raises(InputError, match="not a host that ssh takes"):
        parity_on_mac(host, [package], REFERENCE, INPUTS)


def test_no_ssh(package: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match="ssh: it is not on PATH"):
        parity_on_mac("mac", [package], REFERENCE, INPUTS)


@pytest.mark.long
def test_the_command(faults: Path, tmp_path: Path, coreml: Artifact, checkpoint: Path) -> None:
    words = ["parity", str(coreml.path), "--checkpoint", str(checkpoint), "--samples", "2"]
    words += ["--coreml-host", "me@mac"]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "parity.json")])
    assert done.exit_code == 0 and "coreml-app (all)" in done.stdout, done.output
    rows = json.loads((tmp_path / "parity.json").read_text())["rows"]
    assert [row["output"] for row in rows] == ["age_logits", "expected_age"]
    assert {(row["status"], row["exact"]) for row in rows} == {("pass", True)}
    faults.write_text("wrong")
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1 and "dB is below" in done.stdout, done.output
    done = CliRunner().invoke(main, [*words, "--runtime", "mil"])
    assert done.exit_code == 2 and "both say what runs the files" in done.stderr
