"""``unplug train base`` and ``unplug train plugin`` in their smallest form, and what they refuse."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unplug.plugins import load_checkpoint
from unplug.sdk.drawing.diffusion.load import BASE_FILES

from ..drawing.diffusion.conftest import SIZE, shrink
from .calls import leftovers, refused, run, said

SPEC = "synth:n=30,subjects=15,seed=6"
FEW = "--steps 3 --batch-size 2 --dtype fp32"


@pytest.fixture(scope="module", autouse=True)
def tiny() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        yield


def base_call(out: Path, more: str = "", *, spec: str = SPEC) -> str:
    how = f"--pixels {SIZE} --vae-steps 3 {FEW}"
    return f"train base --data {spec} --out {out} {how} {more}"


def plugin_call(base: Path, out: Path, more: str = "", *, spec: str = SPEC) -> str:
    how = f"--kind canny --base {base} {FEW}"
    return f"train plugin --data {spec} --out {out} {how} {more}"


def captioned(folder: Path) -> Path:
    folder.mkdir()
    for number in range(30):
        pixels = np.zeros((SIZE + 8, SIZE, 3), np.uint8)
        pixels[10 : 20 + number, 20:40] = 255
        Image.fromarray(pixels).save(folder / f"{number:02d}.png")
        (folder / f"{number:02d}.txt").write_text(f"a white square, number {number}")
    return folder


@pytest.mark.long
def test_from_nothing_to_a_steered_picture(tmp_path: Path) -> None:
    base, plugin, condition = (tmp_path / name for name in ("base", "plugin", "condition.png"))
    made = said(base_call(base, "--half"))
    assert made["out"] == str(base) and made["metrics"]["loss"] > 0
    assert set(made["parameters"]) == {"unet", "vae", "text_encoder"}
    assert {path.name for path in base.iterdir()} == set(BASE_FILES) - {"decoder"}
    trained = run(plugin_call(base, plugin, "--sample-every 2"))
    assert f"saved {plugin}" in trained.stdout and "velocity loss" in trained.stdout
    assert re.fullmatch(
        r"training a canny plugin at 64 px on 2[5-7] of 30 samples\n", trained.stderr
    )
    assert load_checkpoint(plugin, expect="plugin").record["base"]["name"] == str(base)
    Image.linear_gradient("L").resize((SIZE, SIZE)).convert("RGB").save(condition)
    steer = f"--plugin {plugin} --condition {condition}"
    run(f"generate --prompt face --base {base} {steer} --drawn-steps 1 --out {tmp_path}/a.png")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"a.png", "base", "condition.png", "plugin"}


@pytest.mark.long
def test_a_folder_of_pictures_with_captions(base_folder: Path, tmp_path: Path) -> None:
    spec = f"captions:{captioned(tmp_path / 'data')}"
    made = said(plugin_call(base_folder, tmp_path / "plugin", spec=spec))
    assert made["without_condition"] == 0
    assert sum(row["n"] for row in made["metrics"].values()) == 30
    run(base_call(tmp_path / "base", spec=spec))


@pytest.mark.long
def test_captions_that_do_not_match_their_pictures(base_folder: Path, tmp_path: Path) -> None:
    folder, out = captioned(tmp_path / "data"), tmp_path / "out"
    (folder / "03.txt").unlink()
    (folder / "orphan.txt").write_text("of no picture")
    spec = f"captions:{folder}"
    for line in (plugin_call(base_folder, out, spec=spec), base_call(out, spec=spec)):
        told = refused(line)
        assert "2 of 31 samples cannot be used (first: 03.png: no caption" in told
        assert "--on-bad skip" in told
    made = said(plugin_call(base_folder, out, "--on-bad skip", spec=spec))
    assert sum(row["n"] for row in made["metrics"].values()) == 29


@pytest.mark.long
def test_a_base_too_large_for_the_memory(base_folder: Path, tmp_path: Path) -> None:
    """Activations twice instead of kept: the same weights. Steps in parts: the same steps, but for
    the batch norms.
    """
    weights, recipes, costs = [], [], set()
    for name, more in (("plain", ""), ("twice", "--checkpointing"), ("parts", "--accumulate 2")):
        weights.append(said(plugin_call(base_folder, tmp_path / name, more))["sha256"])
        record = load_checkpoint(tmp_path / name).record
        recipes.append((record["recipe"]["checkpointing"], record["recipe"]["accumulate"]))
        costs.add(record["cost"]["forward"])
    assert weights[0] == weights[1] != weights[2]
    assert recipes == [(False, 1), (True, 1), (False, 2)] and len(costs) == 1


def test_data_without_captions(base_folder: Path, tmp_path: Path) -> None:
    spec, out = f"imagefolder:{captioned(tmp_path / 'data')}", tmp_path / "out"
    for line in (plugin_call(base_folder, out, spec=spec), base_call(out, spec=spec)):
        assert "it has no captions" in refused(line)
    assert not out.exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("--kind cany", "condition 'cany'"),
        ("--set low=high", "low=high: not a value of type float"),
        ("--base nowhere", "nowhere: no such folder"),
        ("--lr 1000", "lr 1000.0: out of range"),
        ("--lr nan", "lr nan: out of range"),
        ("--accumulate 3", "batch_size 2: it does not divide"),
        ("--dtype fp16", "precision 'fp16': it needs a GPU"),
        ("--steps 0", "Invalid value for '--steps'"),
        ("--split gone.json", "gone.json"),
        ("--kind face_landmark --set task=gone.task", "gone.task"),
        ("--kind face_landmark --landmarker lost.task", "lost.task"),
        ("--landmarker lost.task", "condition canny: it has no setting 'task'"),
    ],
)
def test_plugins_that_cannot_be_trained(
    base_folder: Path, tmp_path: Path, more: str, words: str
) -> None:
    assert words in refused(plugin_call(base_folder, tmp_path / "out", f"{more} --device cpu"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("--pixels 68", "68 px is not a multiple of 8"),
        ("--pixels 32", "Invalid value for '--pixels'"),
        ("--lr 0", "lr 0.0: out of range"),
        ("--data synth:n=2", "leave the"),
        ("--dtype fp16", "precision 'fp16': it needs a GPU"),
    ],
)
def test_bases_that_cannot_be_trained(tmp_path: Path, more: str, words: str) -> None:
    assert words in refused(base_call(tmp_path / "out", f"{more} --device cpu"))
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_other_results_are_not_replaced(base_folder: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    made = said(plugin_call(base_folder, plugin))
    for line in (base_call(plugin), plugin_call(base_folder, base_folder)):
        assert "it exists and was not written by this command" in refused(line)
    assert load_checkpoint(plugin).sha256 == made["sha256"]
    again = said(plugin_call(base_folder, plugin, "--seed 1"))
    assert load_checkpoint(plugin).sha256 == again["sha256"] != made["sha256"]


@pytest.mark.nightly
def test_two_processes_make_one_plugin(base_folder: Path, tmp_path: Path) -> None:
    """With nothing in the cache, where both would write; as `accelerate launch` starts them, here
    on two processors.
    """
    start = "-m torch.distributed.run --standalone --nproc-per-node 2 -m unplug.sdk.cli"
    line = f"{start} {plugin_call(base_folder, tmp_path / 'plugin')} --device cpu --json"
    done = subprocess.run(
        [sys.executable, *shlex.split(line)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "UNPLUG_CACHE": str(tmp_path / "cache")},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)  # one of them speaks
    assert made["cost"]["forward"] == 3 * 2 and made["cost"]["processes"] == 2
    assert load_checkpoint(tmp_path / "plugin").sha256 == made["sha256"]
    hidden = [name for name in leftovers(tmp_path) if "/." in name or name.startswith(".")]
    assert leftovers(tmp_path / "cache") and not hidden


@pytest.mark.parametrize("kind", ["plugin --kind canny", "base"])
def test_a_start_that_is_not_there_is_told_before_any_picture_is_drawn(
    tmp_path: Path, kind: str
) -> None:
    line = f"train {kind} --start nothing --data synth:n=100000000 --out {tmp_path}/x"
    assert "nothing: " in refused(line)
    assert not (tmp_path / "x").exists()
