"""Places that cannot be written, full disks, Ctrl-C: one clear line, and nothing half-written under
its final name.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.sdk.cli import main
from unplug.sdk.releasing import Release

from ..conftest import World
from .calls import fail, forget, interrupt_when, leftovers, spawn, train

FULL_DISK_BYTES = 200_000
"""Room for the JSON of a training, not for its weights (1.2 MB)."""


# Places that cannot be written


def writers(
    world: World, bundle: Callable[[], Path]
) -> dict[str, Callable[[Path], tuple[object, ...]]]:
    """Every command that writes, given a place; `bundle` makes one, for those that read it."""
    request = ("--data", world.spec, "--forget", world.forget_file)
    return {
        "data synth": lambda out: ("data", "synth", "--n", 4, "--size", 16, "--out", out),
        "data pick-forget": lambda out: (
            "data",
            "pick-forget",
            world.original.path,
            "--data",
            world.spec,
            "--out",
            out,
        ),
        "train age": lambda out: train(world.spec, out),
        "forget": lambda out: forget(world, out),
        "retrain": lambda out: forget(world, out, "--method", "retrain", "--budget", "2"),
        "audit": lambda out: (
            "audit",
            world.unlearned.path,
            *request,
            "--attacks",
            "loss",
            "--out",
            out,
        ),
        "report": lambda out: ("report", bundle() / "reports" / "audit.json", "--out", out),
        "parity": lambda out: (
            "parity",
            bundle() / "artifacts" / "age.fp32.tflite",
            "--checkpoint",
            world.unlearned.path,
            "--samples",
            1,
            "--out",
            out,
        ),
    }


PLACES = ["below a file", "/proc/unplug/x", "/dev/null/x", "/dev/full"]
WRITERS = ("data synth", "data pick-forget", "forget", "retrain", "audit")
CASES = [
    *(("train age", place) for place in PLACES),
    *((name, "below a file") for name in WRITERS),
    *(pytest.param(name, "below a file", marks=pytest.mark.long) for name in ("report", "parity")),
]


@pytest.mark.parametrize(("name", "place"), CASES)
def test_places_that_cannot_be_written(
    world: World, request: pytest.FixtureRequest, tmp_path: Path, name: str, place: str
) -> None:
    (tmp_path / "file").write_text("mine")
    out = tmp_path / "file" / "out" if place == "below a file" else Path(place)
    said = fail(*writers(world, lambda: request.getfixturevalue("released").bundle)[name](out)).line
    assert str(out) in said or str(out.parent) in said
    assert (tmp_path / "file").read_text() == "mine"
    assert Path("/dev/null").is_char_device() and Path("/dev/full").is_char_device()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs that is nearly full; skips where mounting is not allowed."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", f"size={FULL_DISK_BYTES}", "tmpfs", str(place)],
            capture_output=True,
        ).returncode
    ):
        pytest.skip("no right to mount a tmpfs")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.long
@pytest.mark.parametrize("name", ["data synth", "train age", "forget", "retrain", "export"])
def test_full_disk(world: World, released: Release, full_disk: Path, name: str) -> None:
    known = writers(world, lambda: released.bundle)
    known["data synth"] = lambda out: ("data", "synth", "--n", 40, "--size", 96, "--out", out)
    known["export"] = lambda out: (
        "export",
        world.unlearned.path,
        "--to",
        "onnx",
        "--precision",
        "fp32",
        "--out",
        out,
    )
    said = fail(*known[name](full_disk / "out")).line
    assert "full" in said or "No space left" in said
    out = full_disk / "out"
    assert not out.exists() or not list(out.iterdir())
    assert not [
        item for item in leftovers(full_disk) if item.endswith((".safetensors", ".onnx", ".png"))
    ]


@pytest.mark.nightly
def test_a_limit_on_file_sizes(world: World, tmp_path: Path) -> None:
    """EFBIG instead of ENOSPC, in a process of its own because a limit cannot be raised again."""
    done = spawn(
        *forget(world, tmp_path / "out"),
        preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (FULL_DISK_BYTES, FULL_DISK_BYTES)
        ),
    )
    out, err = done.communicate(timeout=60)
    assert done.returncode == 2, err
    assert len(err.strip().splitlines()) == 1 and "File too large" in err and "Traceback" not in err
    assert json.loads(out)["error"]["type"] == "OutputError"
    assert leftovers(tmp_path) == []


# Ctrl-C


@pytest.mark.long
def test_ctrl_c_in_training(world: World, tmp_path: Path) -> None:
    """Interrupted and continued gives the weights of one run."""
    command = (
        "train",
        "age",
        "--data",
        world.spec,
        "--out",
        tmp_path / "out",
        "--size",
        "nano",
        "--image-size",
        32,
    )
    more = ("--epochs", 6, "--batch-size", 32)
    state = tmp_path / ".out.training" / "state.safetensors"
    metrics = tmp_path / ".out.training" / "metrics.jsonl"  # written after the state
    interrupt_when(spawn(*command, *more), metrics.is_file)
    assert not (tmp_path / "out").exists() and state.is_file()
    before = metrics.read_text().splitlines()
    assert 1 <= len(before) < 6
    done = CliRunner().invoke(main, [*map(str, command), *map(str, more), "--json"])
    assert done.exit_code == 0, done.stderr
    whole = CliRunner().invoke(
        main, [*map(str, [*command[:5], tmp_path / "whole", *command[6:], *more]), "--json"]
    )
    assert json.loads(done.stdout)["sha256"] == json.loads(whole.stdout)["sha256"]
    assert leftovers(tmp_path) == [
        f"{folder}{name}"
        for folder in ("out", "whole")
        for name in (
            "",
            "/README.md",
            "/config.json",
            "/metrics.jsonl",
            "/model.safetensors",
            "/unplug.json",
        )
    ]


@pytest.mark.nightly
def test_ctrl_c_in_the_demo(tmp_path: Path) -> None:
    """Interrupted while it trains, again while it exports, then run to the end."""
    command = (
        "demo",
        "--data",
        "synth:n=150,subjects=50",
        "--size",
        "nano",
        "--image-size",
        32,
        "--epochs",
        25,
        "--fraction",
        0.1,
        "--out",
        tmp_path / "demo",
    )
    out = tmp_path / "demo"
    interrupt_when(spawn(*command), (out / ".original.training" / "state.safetensors").is_file)
    assert not (out / "original").exists()
    interrupt_when(spawn(*command), (out / "unlearned" / "unplug.json").is_file)
    weights = (out / "original" / "model.safetensors").stat()
    done = spawn(*command)
    said, err = done.communicate(timeout=400)
    # so small a model may be refused by a gate; that is an answer, not a crash
    assert done.returncode in (0, 1), err
    assert "Traceback" not in err
    value = json.loads(said)
    assert value["passed"] is (done.returncode == 0)
    assert (out / "original" / "model.safetensors").stat().st_mtime_ns == weights.st_mtime_ns, (
        "it was trained again"
    )
    assert (out / "report.html").read_text().count("<svg") >= 1
    assert (out / "face-age.unplug").is_dir() is value["passed"]
