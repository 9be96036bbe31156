"""Command lines that the tests share: run, refused, interrupted."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch
from click.testing import CliRunner, Result
from PIL import Image

from unplug.sdk.cli import main

from ..conftest import World

PATIENCE = 90
"""Seconds, for what a busy machine takes seconds to do."""


@dataclass(frozen=True)
class Failure:
    """What a failed command said."""

    line: str


def run(line: str, code: int = 0) -> Result:
    """Runs what is written behind ``unplug`` at a shell, and looks at the exit code."""
    result = CliRunner().invoke(main, shlex.split(line))
    assert result.exit_code == code, (line, result.output, result.exception)
    return result


def said(line: str) -> Any:
    """The JSON of a command that must succeed."""
    return json.loads(run(f"{line} --json").stdout)


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
        assert json.loads(result.stdout)["error"]["what"] in lines[0]
    return Failure(lines[0])


def refused(line: str, code: int = 2) -> str:
    """The one line of a command that must fail, see `fail`."""
    return fail(*shlex.split(line), code=code).line


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


def train(spec: str, out: Path, more: str = "--epochs 1") -> str:
    """The smallest training."""
    return f"train age --data {spec} --out {out} --size nano --pixels 32 {more}"


def request(world: World) -> str:
    """Data and forget file."""
    return f"--data {world.spec} --forget {world.forget_file}"


def forget(world: World, out: Path, more: str = "", *, model: Path | None = None) -> str:
    """A short forget step."""
    place = model or world.original.path
    return f"forget {place} {request(world)} --budget 0.6 --out {out} {more}"


def spawn(line: str, **options: Any) -> subprocess.Popen[str]:
    """The real command, in a session of its own so that a signal reaches its children as from a
    terminal.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "unplug.sdk.cli", *shlex.split(line), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **options,
    )


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Waits while a command works."""
    deadline = time.monotonic() + PATIENCE
    while not ready():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ended(process: subprocess.Popen[str], code: int, word: str) -> None:
    """A command that a signal ended says so in one line, and that nothing is lost."""
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    assert json.loads(out)["error"]["what"] == word
    (line,) = err.strip().splitlines()
    assert line.startswith(f"error: {word}")
    assert "Run the same command again: it goes on from what is saved" in line


def interrupt_when(process: subprocess.Popen[str], ready: Callable[[], bool]) -> None:
    """Presses Ctrl-C once something is there."""
    wait_until(ready, process)
    os.killpg(process.pid, signal.SIGINT)
    ended(process, 130, "interrupted")
