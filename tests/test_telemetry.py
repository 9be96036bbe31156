"""Nobody is told anything: what dependencies would send is off, and the journey works, unseen, without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from unplug.core.telemetry import OFF, disable_telemetry

JOURNEY = """
from pathlib import Path
import numpy as np, torch
from PIL import Image
from unplug.export import Session, export_checkpoint, random_inputs
from unplug.sdk.tasks import train_age
from unplug.sdk.data import load_dataset, make_split
from unplug.sdk.training import Recipe

torch.set_num_threads(1)
faces = Path("faces"); faces.mkdir()
for number in range(20):
    Image.fromarray(np.full((32, 32, 3), number * 10, np.uint8)).save(faces / f"{number + 1}_0_0_{number}.png")
dataset = load_dataset("utkface:faces", 32, show=False)
recipe = Recipe(size="nano", image_size=32, epochs=1, batch_size=8)
train_age(dataset, make_split(dataset), recipe, Path("model"), seed=0, device=torch.device("cpu"), show=False)
for artifact in export_checkpoint(Path("model"), targets=["onnx", "litert"], precisions=["fp32"], out=Path("files")):
    Session(artifact).run(random_inputs(artifact.card.iospec, 1, seed=0))
"""


def test_it_is_off_unless_the_user_switched_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OFF:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "0")
    disable_telemetry()
    assert {name: os.environ[name] for name in OFF} == {**OFF, "HF_HUB_DISABLE_TELEMETRY": "0"}


@pytest.mark.parametrize("package", ["plugins", "export", "mobile_bench", "sdk"])
def test_every_package_switches_it_off_before_it_imports_anything_else(package: str) -> None:
    """No clean environment is inherited: this process imported unplug already."""
    lean = {name: value for name, value in os.environ.items() if name not in OFF}
    code = f"import os, unplug.{package}; print([name for name in {list(OFF)!r} if name not in os.environ])"
    assert subprocess.check_output([sys.executable, "-c", code], env=lean, text=True) == "[]\n"


@pytest.mark.long
def test_a_journey_without_a_network_leaves_files_in_its_own_folders_only(tmp_path: Path) -> None:
    for module in ("onnxruntime", "onnxscript", "litert_torch"):
        pytest.importorskip(module)
    alone = ["unshare", "--net"] if shutil.which("unshare") and os.geteuid() == 0 else []
    if not alone or subprocess.run([*alone, "true"]).returncode != 0:
        pytest.skip("a network namespace needs root here")
    folders = {name: tmp_path / name for name in ("HOME", "TMPDIR", "UNPLUG_CACHE", "work")}
    for folder in folders.values():
        folder.mkdir()
    kept = ("PATH", "PYTHONPATH", "LANG", "OMP_NUM_THREADS")  # not CI: ONNX Runtime hides its telemetry there
    env = {name: os.environ[name] for name in kept if name in os.environ}
    env |= {name: str(folder) for name, folder in folders.items() if name != "work"}
    done = subprocess.run(
        [*alone, sys.executable, "-c", JOURNEY], cwd=folders["work"], env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    left = [str(path.relative_to(tmp_path)) for name in ("HOME", "TMPDIR") for path in (tmp_path / name).rglob("*")]
    assert [name for name in left if (tmp_path / name).is_file()] == []
    assert sorted(path.name for path in folders["work"].iterdir()) == ["faces", "files", "model"]
