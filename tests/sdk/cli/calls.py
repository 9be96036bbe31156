"""Calls of the command line that the tests share: failing ones, and ones that are interrupted."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import torch
from click.testing import CliRunner
from PIL import Image

from unplug.sdk.cli import main

from ..conftest import World


@dataclass(frozen=True)
class Failure:
    """What a failed command said."""

    line: str
    code: int


def fail(*args: object, code: int = 2, group: click.Group = main) -> Failure:
    """Runs a command that must fail with one line, JSON on standard output and no traceback."""
    result = CliRunner().invoke(group, [*map(str, args), "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ") and lines[0][-1] in ".?", lines[0]
    assert len(lines[0]) < 600, lines[0]
    assert result.exit_code == code, lines[0]
    if result.stdout:  # wrong usage is found before --json is read
        said = json.loads(result.stdout)["error"]
        assert said["what"] in lines[0]
    return Failure(lines[0], result.exit_code)


def leftovers(folder: Path) -> list[str]:
    """Everything below a folder, hidden files too."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def save_face(path: Path, size: int = 40, seed: int = 0) -> bytes:
    """A small JPEG."""
    buffer = io.BytesIO()
    pixels = torch.randint(
        0, 256, (size, size, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8
    )
    Image.fromarray(pixels.numpy()).save(buffer, "JPEG")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(buffer.getvalue())
    return buffer.getvalue()


def train(spec: object, out: Path, *more: object) -> tuple[object, ...]:
    return (
        "train",
        "age",
        "--data",
        spec,
        "--out",
        out,
        "--size",
        "nano",
        "--image-size",
        32,
        "--epochs",
        1,
        *more,
    )


def forget(
    world: World, out: Path, *more: object, file: Path | None = None, model: Path | None = None
) -> tuple[object, ...]:
    place = model or world.original.path
    return (
        "forget",
        place,
        "--data",
        world.spec,
        "--forget",
        file or world.forget_file,
        "--budget",
        0.6,
        "--out",
        out,
        *more,
    )


def spawn(*args: object, **options: object) -> subprocess.Popen[str]:
    """The real command, in a session of its own so that a signal reaches its children as from a
    terminal.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "unplug.sdk.cli", *map(str, args), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **options,  # type: ignore[call-overload]
    )


def interrupt_when(process: subprocess.Popen[str], ready: Callable[[], bool]) -> str:
    """Presses Ctrl-C once something is there; returns what the process said on standard error."""
    deadline = time.monotonic() + 90
    while not ready():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["error"]["what"] == "interrupted"
    assert "Traceback" not in err and len(err.strip().splitlines()) == 1
    assert "Run the same command again: it goes on from what is saved" in err
    return err
