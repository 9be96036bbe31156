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

from unplug.core import DeviceError, InputError, IOSpec, TensorSpec, sha256_tree
from unplug.export import Artifact, Card, Reference
from unplug.export.artifact import write_card
from unplug.mobile_bench import parity_on_mac
from unplug.sdk.cli import main

SPEC = IOSpec(
    inputs=(TensorSpec(name="x", shape=(1, 3), layout="NC"),),
    outputs=(TensorSpec(name="y", shape=(1, 3), layout="NC"),),
)
INPUTS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
REFERENCE = Reference(checkpoint_sha256="0" * 64, model_type="age", outputs={"y": 2 * INPUTS["x"]})
TOOL = """
import json, pathlib, struct, sys
folder = pathlib.Path(sys.argv[1])
fault = pathlib.Path({faults!r}).read_text()
rows = []
for job in json.loads((folder / "plan.json").read_text())["jobs"]:
    if job["not_run"]:
        continue
    out = folder / "outputs" / str(job["number"])
    out.mkdir(parents=True)
    assert (folder / job["model_url"] / "Manifest.json").is_file() and job["delegate"] == "all"
    samples = json.loads((folder / job["vectors_url"] / "vectors.json").read_text())["samples"]
    for number, sample in enumerate(samples):
        raw = (folder / job["vectors_url"] / sample["inputs"]["x"]["file"]).read_bytes()
        values = [2 * value + (0.5 if fault == "wrong" else 0) for value in struct.unpack("<3f", raw)]
        name = out / f"{{number}}-y.f32"
        name.write_bytes(struct.pack("<3f", *values)[: 4 if fault == "short" else 12])
        if fault == "link":
            name.unlink()
            name.symlink_to("/etc/passwd")
    why = "it does not open" if fault == "short" else None
    rows.append({{"number": job["number"], "runtime_version": "Version 15.1", "reason": why}})
print(json.dumps({{"schema": "unplug-coreml/" + ("9" if fault == "version" else "1"), "rows": rows}}))
sys.exit(1 if fault == "wrong" else 2 if fault == "usage" else 0)
"""


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says what goes wrong; `said` beside it is what ssh was asked."""
    told, bin_, remote = tmp_path / "fault", tmp_path / "bin", tmp_path / "remote"
    for folder in (bin_, remote):
        folder.mkdir()
    told.write_text("")
    tool = remote / "unplug-coreml"
    tool.write_text(f"#!{sys.executable}\n{TOOL.format(faults=str(told))}")
    (bin_ / "ssh").write_text(f"""#!/bin/sh
echo "$*" > {tmp_path}/said
for last; do :; done
PATH={remote}:/usr/bin:/bin sh -c "$last"
""")
    for script in (tool, bin_ / "ssh"):
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    return told


@pytest.fixture
def package(tmp_path: Path) -> Artifact:
    path = tmp_path / "age.fp32.mlpackage"
    path.mkdir()
    (path / "Manifest.json").write_text("{}")
    return carded(path, "coreml")


def carded(path: Path, target: str) -> Artifact:
    digest, size = sha256_tree(path)
    card = Card(
        target=target,
        precision="fp32",
        file=path.name,
        sha256=digest,
        bytes=size,
        model_type="age",
        iospec=SPEC,
        config={},
        checkpoint_sha256="0" * 64,
        flops=None,
        versions={},
        seconds=0.0,
        prepare_seconds=0.0,
    )
    return write_card(path, card)


def test_a_row_from_a_mac(faults: Path, package: Artifact, tmp_path: Path) -> None:
    other = tmp_path / "age.fp32.onnx"
    other.write_bytes(b"x")
    report = parity_on_mac("me@mac", [package, carded(other, "onnx")], REFERENCE, INPUTS)
    row, left = report.rows
    assert (row.status, row.exact, row.runtime, row.runtime_version) == (
        "pass",
        True,
        "coreml-app (all)",
        "Version 15.1",
    )
    assert (left.status, left.reason) == (
        "not_run",
        "Core ML does not run onnx files",
    ) and report.passed
    said = (tmp_path / "said").read_text()
    assert said.startswith("-o BatchMode=yes -o ConnectTimeout=20 -- me@mac d=$(mktemp -d)")


def test_numbers_are_judged_here(faults: Path, package: Artifact) -> None:
    faults.write_text("wrong")
    (row,) = parity_on_mac("mac", [package], REFERENCE, INPUTS).rows
    assert (
        row.status == "fail"
        and row.reason == "26.0 dB is below 100 dB"
        and row.max_abs_error == 0.5
    )
    strange = Reference(checkpoint_sha256="1" * 64, model_type="age", outputs=REFERENCE.outputs)
    faults.write_text("")
    (row,) = parity_on_mac("mac", [package], strange, INPUTS).rows
    assert (
        row.status == "fail" and row.reason == "it was exported from other weights (000000000000)"
    )


def test_what_comes_back_is_hostile(faults: Path, package: Artifact) -> None:
    faults.write_text("short")
    (row,) = parity_on_mac("mac", [package], REFERENCE, INPUTS).rows
    assert (row.status, row.reason) == ("fail", "it does not open")
    faults.write_text("link")
    (row,) = parity_on_mac("mac", [package], REFERENCE, INPUTS).rows
    assert (row.status, row.reason) == ("fail", "the Mac sent no such output")
    for fault, words in (("version", "said something else"), ("usage", "gave nothing back")):
        faults.write_text(fault)
        with pytest.raises(DeviceError, match=words):
            parity_on_mac("mac", [package], REFERENCE, INPUTS)


@pytest.mark.parametrize("host", ["", "-oProxyCommand=x", "a b", "me@-x", "a;b", "x" * 300])
def test_odd_hosts(host: str, package: Artifact) -> None:
    with pytest.raises(InputError, match="no host that ssh takes"):
        parity_on_mac(host, [package], REFERENCE, INPUTS)


def test_no_ssh(package: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match="ssh: it is not on PATH"):
        parity_on_mac("mac", [package], REFERENCE, INPUTS)


REPLAY = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
rows = []
for job in json.loads((folder / "plan.json").read_text())["jobs"]:
    out, vectors = folder / "outputs" / str(job["number"]), folder / job["vectors_url"]
    out.mkdir(parents=True)
    for sample in json.loads((vectors / "vectors.json").read_text())["samples"]:
        for entry in sample["outputs"].values():
            raw = bytearray((vectors / entry["file"]).read_bytes())
            if pathlib.Path({faults!r}).read_text() == "wrong":
                raw[2] ^= 64
            (out / entry["file"]).write_bytes(raw)
    rows.append({{"number": job["number"], "runtime_version": "Version 15.1", "reason": None}})
print(json.dumps({{"schema": "unplug-coreml/1", "rows": rows}}))
"""
"""A Mac whose Core ML gives what the checkpoint gives, or a bit of something else."""


@pytest.mark.long
def test_the_command(faults: Path, tmp_path: Path, coreml: Artifact, checkpoint: Path) -> None:
    tool = tmp_path / "remote" / "unplug-coreml"
    tool.write_text(f"#!{sys.executable}\n{REPLAY.format(faults=str(faults))}")
    words = [
        "parity",
        str(coreml.path),
        "--checkpoint",
        str(checkpoint),
        "--coreml-host",
        "me@mac",
        "--samples",
        "2",
    ]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "parity.json")])
    assert done.exit_code == 0 and "coreml-app (all)" in done.stdout, done.output
    rows = json.loads((tmp_path / "parity.json").read_text())["rows"]
    assert {row["output"] for row in rows} == {"age_logits", "expected_age"}
    assert all(
        (row["status"], row["exact"], row["runtime_version"]) == ("pass", True, "Version 15.1")
        for row in rows
    )
    assert "me@mac" in (tmp_path / "said").read_text()
    faults.write_text("wrong")
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1 and "dB is below" in done.stdout, done.output
    done = CliRunner().invoke(main, [*words, "--runtime", "mil"])
    assert done.exit_code == 2 and "both say what runs the files" in done.stderr
