"""Places that cannot be written, full disks, Ctrl-C: one clear line, and nothing half-written under
its final name.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..conftest import World
from .calls import forget, interrupt_when, leftovers, refused, request, said, spawn, train

FULL_DISK_BYTES = 200_000
"""Room for the JSON of a training, not for its weights (1.2 MB)."""


@pytest.fixture
def writers(world: World, request: pytest.FixtureRequest) -> Writers:
    """Every command that writes, given a place."""
    return Writers(world, request)


class Writers:
    """Command lines by their names; those that read a bundle make it when they are asked for."""

    def __init__(self, world: World, fixtures: pytest.FixtureRequest) -> None:
        self.world, self.fixtures = world, fixtures

    def line(self, name: str, out: Path) -> str:
        """What writes to a place."""
        world, named = self.world, request(self.world)
        original, unlearned = world.original.path, world.unlearned.path
        if name in ("forget", "retrain"):
            return forget(world, out, "--method retrain --budget 2" if name == "retrain" else "")
        if name == "train age":
            return train(world.spec, out)
        if name in ("report", "parity"):
            bundle = self.fixtures.getfixturevalue("released").bundle
            file = f"{bundle}/artifacts/age.fp32.tflite --checkpoint {unlearned} --samples 1"
            what = file if name == "parity" else f"{bundle}/reports/audit.json"
            return f"{name} {what} --out {out}"
        what = {
            "data synth": "--count 40 --pixels 96",
            "data pick-forget": f"{original} --data {world.spec}",
            "audit": f"{unlearned} {named} --attacks loss",
            "export": f"{unlearned} --to onnx --precision fp32",
        }[name]
        return f"{name} {what} --out {out}"


PLACES = ["below a file", "/proc/unplug/x", "/dev/null/x", "/dev/full"]
CASES = [
    *(("train age", place) for place in PLACES),
    *(
        (name, "below a file")
        for name in ("data synth", "data pick-forget", "forget", "retrain", "audit")
    ),
    *(pytest.param(name, "below a file", marks=pytest.mark.long) for name in ("report", "parity")),
]


@pytest.mark.parametrize(("name", "place"), CASES)
def test_places_that_cannot_be_written(
    writers: Writers, tmp_path: Path, name: str, place: str
) -> None:
    (tmp_path / "file").write_text("mine")
    out = tmp_path / "file" / "out" if place == "below a file" else Path(place)
    line = refused(writers.line(name, out))
    assert str(out) in line or str(out.parent) in line
    assert (tmp_path / "file").read_text() == "mine"
    assert Path("/dev/null").is_char_device() and Path("/dev/full").is_char_device()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs that is nearly full; skips where mounting is not allowed."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={FULL_DISK_BYTES}", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("no right to mount a tmpfs")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.long
@pytest.mark.parametrize("name", ["data synth", "train age", "forget", "retrain", "export"])
def test_full_disk(writers: Writers, full_disk: Path, name: str) -> None:
    out = full_disk / "out"
    line = refused(writers.line(name, out))
    assert "full" in line or "No space left" in line
    assert not out.exists() or not list(out.iterdir())
    assert not [
        path for path in leftovers(full_disk) if path.endswith((".safetensors", ".onnx", ".png"))
    ]


@pytest.mark.nightly
def test_a_limit_on_file_sizes(world: World, tmp_path: Path) -> None:
    """EFBIG instead of ENOSPC, in a process of its own because a limit cannot be raised again."""
    limits = (FULL_DISK_BYTES, FULL_DISK_BYTES)
    done = spawn(
        forget(world, tmp_path / "out"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits),
    )
    out, err = done.communicate(timeout=60)
    assert done.returncode == 2, err
    assert len(err.strip().splitlines()) == 1 and "File too large" in err
    assert json.loads(out)["error"]["type"] == "OutputError"
    assert leftovers(tmp_path) == []


@pytest.mark.long
def test_ctrl_c_in_training(world: World, tmp_path: Path) -> None:
    """Interrupted and continued gives the weights of one run."""
    out, whole = tmp_path / "out", tmp_path / "whole"
    how = "--epochs 6 --batch-size 32"
    state = tmp_path / ".out.training" / "state.safetensors"
    metrics = state.with_name("metrics.jsonl")  # written after the state
    interrupt_when(spawn(train(world.spec, out, how)), metrics.is_file)
    assert not out.exists() and state.is_file()
    assert 1 <= len(metrics.read_text().splitlines()) < 6
    weights = {said(train(world.spec, place, how))["sha256"] for place in (out, whole)}
    files = ("README.md", "config.json", "metrics.jsonl", "model.safetensors", "unplug.json")
    assert len(weights) == 1 and {path.name for path in tmp_path.iterdir()} == {"out", "whole"}
    assert leftovers(out) == leftovers(whole) == sorted(files)


@pytest.mark.nightly
def test_ctrl_c_in_the_demo(tmp_path: Path) -> None:
    """Interrupted while it trains, again while it exports, then run to the end."""
    how = "--size nano --pixels 32 --epochs 25 --fraction 0.1"
    out = tmp_path / "demo"
    line = f"demo --data synth:n=150,subjects=50 {how} --out {out}"
    interrupt_when(spawn(line), (out / ".original.training" / "state.safetensors").is_file)
    assert not (out / "original").exists()
    interrupt_when(spawn(line), (out / "unlearned" / "unplug.json").is_file)
    weights = out / "original" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    done = spawn(line)
    told, err = done.communicate(timeout=400)
    # so small a model may be refused by a gate; that is an answer, not a crash
    assert done.returncode in (0, 1) and "Traceback" not in err, err
    passed = json.loads(told)["passed"]
    assert passed is (done.returncode == 0) is (out / "face-age.unplug").is_dir()
    assert weights.stat().st_mtime_ns == before, "it was trained again"
    assert "<svg" in (out / "report.html").read_text()
