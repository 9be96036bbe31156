"""SIGTERM: exit 143, one line, no temporary folder and no child left; an unfinished training goes
on afterwards.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from unplug.sdk.cli import main

from ..conftest import World
from .calls import leftovers, spawn, train

pytestmark = pytest.mark.long

PATIENCE = 90  # seconds, for what a busy machine takes seconds to do


def terminated_when(
    process: subprocess.Popen[str], ready: Callable[[], bool]
) -> list[psutil.Process]:
    """Ends the command, and it alone, once something is there; returns the children that it had."""
    deadline = time.monotonic() + PATIENCE
    while not ready():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143, err
    assert json.loads(out)["error"]["what"] == "terminated"
    (line,) = err.strip().splitlines()
    assert (
        line.startswith("error: terminated")
        and "Run the same command again: it goes on from what is saved" in line
    )
    return children


def test_children_and_temporary_folders_go(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, results = tmp_path / "tmp", tmp_path / "results"
    place.mkdir()
    results.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))

    def converting() -> bool:
        return any(place.glob("unplug-job-*/1/request.json"))

    process = spawn(
        "export",
        world.unlearned.path,
        "--to",
        "onnx",
        "--precision",
        "fp32",
        "--out",
        results / "out",
    )
    children = terminated_when(process, converting)
    assert children
    _, alive = psutil.wait_procs(children, timeout=PATIENCE)
    assert alive == []
    assert [name for name in leftovers(place) if "unplug" in name] == [] and leftovers(
        results
    ) == []


def test_a_training_goes_on(world: World, tmp_path: Path) -> None:
    state, out = tmp_path / ".out.training" / "state.safetensors", tmp_path / "out"
    process = spawn(*train(world.spec, out, "--epochs", 4))
    terminated_when(process, state.is_file)
    assert not out.exists() and not [
        name for name in leftovers(tmp_path) if name.endswith((".unplug-tmp", ".lock"))
    ]
    done = CliRunner().invoke(main, [*map(str, train(world.spec, out, "--epochs", 4)), "--json"])
    assert done.exit_code == 0, done.stderr
    assert leftovers(tmp_path) == sorted(
        [
            "out",
            *(
                f"out/{name}"
                for name in (
                    "README.md",
                    "config.json",
                    "metrics.jsonl",
                    "model.safetensors",
                    "unplug.json",
                )
            ),
        ]
    )
