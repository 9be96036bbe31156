"""SIGTERM: exit 143, one line, no temporary folder and no child left; an unfinished training goes
on afterwards.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from ..conftest import World
from .calls import PATIENCE, ended, leftovers, run, spawn, train, wait_until

pytestmark = pytest.mark.long


def terminated_when(
    process: subprocess.Popen[str], ready: Callable[[], bool]
) -> list[psutil.Process]:
    """Ends the command, and it alone, once something is there; returns the children that it had."""
    wait_until(ready, process)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    ended(process, 143, "terminated")
    return children


def test_children_and_temporary_folders_go(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, results = tmp_path / "tmp", tmp_path / "results"
    place.mkdir()
    results.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    process = spawn(f"export {world.unlearned.path} --to onnx --precision fp32 --out {results}/out")
    children = terminated_when(process, lambda: any(place.glob("unplug-job-*/1/request.json")))
    assert children
    _, alive = psutil.wait_procs(children, timeout=PATIENCE)
    assert alive == [] == leftovers(results)
    assert [name for name in leftovers(place) if "unplug" in name] == []


def test_a_training_goes_on(world: World, tmp_path: Path) -> None:
    line = train(world.spec, tmp_path / "out", "--epochs 4")
    terminated_when(spawn(line), (tmp_path / ".out.training" / "state.safetensors").is_file)
    assert not (tmp_path / "out").exists()
    assert not [name for name in leftovers(tmp_path) if name.endswith((".unplug-tmp", ".lock"))]
    run(line)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
