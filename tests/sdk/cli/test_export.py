"""unplug export of several models in every precision, checked on the way out; of a conditioning
plugin, with parity and run.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.exported import EVERYWHERE
from torch import nn

from unplug.core import call_in_child
from unplug.export import TARGETS, ParityReport, measure_parity, plan_pairs
from unplug.export.precisions import ON_REQUEST
from unplug.plugins import ConditioningPlugin, save_checkpoint

from ..conftest import World
from .calls import leftovers, refused, run, said

pytestmark = pytest.mark.long


@pytest.mark.nightly
def test_several_models_in_all_precisions(world: World, tmp_path: Path) -> None:
    out, models = tmp_path / "out", (world.original, world.unlearned)
    names = " ".join(str(model.path) for model in models)
    calibrated = f"--calibrate {world.spec} --check 8"
    made = said(f"export {names} --to onnx --precision all {calibrated} --out {out}")
    files = [
        f"{model.path.name}/age.{precision}.onnx"
        for model in models
        for precision in ("fp32", "fp16", "int8-static")
    ]
    assert [Path(card["path"]).relative_to(out).as_posix() for card in made["artifacts"]] == files
    folders = [model.path.name for model in models]
    beside = [f"{name}.json" for name in files] + [f"{name}/parity.json" for name in folders]
    assert leftovers(out) == sorted([*files, *beside, *folders])
    for model, report in zip(models, made["parity"], strict=True):
        assert report["checkpoint_sha256"] == model.sha256 and report["samples"] == 8
        assert {row["status"] for row in report["rows"]} == {"pass"} and len(report["rows"]) == 6
        saved = json.loads((out / model.path.name / "parity.json").read_text())
        assert saved["rows"] == report["rows"]


def test_out_of_tolerance_is_exit_1(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strict(*args: Any, **kwargs: Any) -> ParityReport:
        report = measure_parity(*args, **kwargs)
        failed = (replace(row, status="fail", reason="planted") for row in report.rows)
        return replace(report, rows=tuple(failed))

    monkeypatch.setattr("unplug.sdk.exporting.measure_parity", strict)
    line = f"export {world.original.path} --to onnx --precision fp32 --check 2 --out {tmp_path}"
    assert "planted" in run(line, 1).output


def test_all_leaves_out_what_is_made_on_request() -> None:
    pairs = plan_pairs(EVERYWHERE, ["all"])
    assert {name: set(made) for name, made in pairs.items()} == {
        name: set(TARGETS.get(name).precisions) - set(ON_REQUEST) for name in EVERYWHERE
    }
    assert plan_pairs(["litert"], ["fp32", "all", "int8-dynamic"])["litert"][0] == "fp32"
    assert "int8-dynamic" in plan_pairs(["litert"], ["all", "int8-dynamic"])["litert"]


@pytest.mark.parametrize(
    ("second", "words"),
    [("{twin}", "two checkpoints have this name"), ("nowhere", "nowhere: no such folder")],
)
def test_a_wrong_second_model_is_told_before_the_first_is_converted(
    world: World, tmp_path: Path, second: str, words: str
) -> None:
    twin = shutil.copytree(world.original.path, tmp_path / world.original.path.name)
    both = f"{world.original.path} {second.format(twin=twin)}"
    assert words in refused(f"export {both} --to onnx --out {tmp_path}/out")
    assert not (tmp_path / "out").exists()


SIDE = 64
BASE = {
    "block_out_channels": [32, 48],
    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "sample_size": SIDE // 8,
}


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    model = ConditioningPlugin.for_unet(BASE, condition="canny", size="nano").train()
    with torch.no_grad():
        for projection in model.projections:
            nn.init.normal_(projection.weight, std=0.2)
        for _ in range(5):
            model(torch.rand(4, 3, SIDE, SIDE))
    path = tmp_path_factory.mktemp("cli") / "plugin"
    save_checkpoint(model.eval(), path, record={}, card="A test plugin.")
    return path


@pytest.fixture(scope="module")
def exported(plugin: Path) -> tuple[Any, Path]:
    out = plugin.parent / "out"
    return said(f"export {plugin} --to onnx --precision fp32,fp16 --out {out}"), out


def noise(path: Path, width: int = SIDE) -> None:
    path.parent.mkdir(exist_ok=True)
    Image.effect_noise((width, SIDE), 90).convert("RGB").save(path)


def test_a_plugin(exported: tuple[Any, Path]) -> None:
    made, out = exported
    assert leftovers(out) == sorted(
        f"plugin.{p}.onnx{card}" for p in ("fp32", "fp16") for card in ("", ".json")
    )
    for card in made["artifacts"]:
        assert card["model_type"] == "plugin" and card["iospec"]["inputs"][0]["name"] == "condition"
        names = [tensor["name"] for tensor in card["iospec"]["outputs"]]
        assert names == ["adapter_res_samples_00", "adapter_res_samples_01"]


@pytest.mark.parametrize("source", ["--samples 2", "--image {}/pictures"])
def test_parity(exported: tuple[Any, Path], plugin: Path, source: str, tmp_path: Path) -> None:
    """On the edges of synthetic faces, and on a folder of conditions."""
    for index in range(2):
        noise(tmp_path / "pictures" / f"{index}.png", SIDE + 8 * index)
    files = " ".join(str(path) for path in sorted(exported[1].glob("*.onnx")))
    out, on = tmp_path / "parity.json", source.format(tmp_path)
    report = said(f"parity {files} --checkpoint {plugin} --out {out} {on}")
    assert report == json.loads(out.read_text())
    assert report["model_type"] == "plugin" and report["samples"] == 2
    assert [row["status"] for row in report["rows"]] == ["pass"] * 4
    assert all(row["psnr_db"] >= row["threshold_db"] for row in report["rows"])


def test_run_shows_the_residuals_of_a_condition(
    exported: tuple[Any, Path], plugin: Path, tmp_path: Path
) -> None:
    image, arrays, drawn = (tmp_path / name for name in ("a.png", "out.npz", "out.png"))
    noise(image)
    told = []
    for model in (plugin, exported[1] / "plugin.fp32.onnx"):
        told.append(said(f"run {model} --image {image} -o {arrays} -o {drawn}")["outputs"])
        outputs = np.load(arrays)
        shapes = [list(outputs[name].shape) for name in outputs.files]
        assert [row["shape"] for row in told[-1]] == shapes
        assert Image.open(drawn).size == (3 * SIDE + 2 * 4, SIDE)
    for ours, theirs in zip(*told, strict=True):
        assert ours["rms"] == pytest.approx(theirs["rms"], rel=1e-4)
        assert ours["name"] == theirs["name"]
    assert "needs one kind of input" in refused(f"run {plugin} --image {image} --random")
    text = run(f"run {plugin} --random").stdout
    assert text.split()[:2] == ["output", "shape"] and "adapter_res_samples_01  1x48x4x4" in text


def test_broken_plugins_are_refused_in_one_line(
    plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, out = Path(shutil.copytree(plugin, tmp_path / "broken")), tmp_path / "out"
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"widths": [10**9, 8]}))
    line = refused(f"export {broken} --to onnx --out {out}")
    assert "widths 1000000000: out of range" in line and leftovers(out) == []
    # Without the extra, the child says what to install.
    (tmp_path / "hide").mkdir()
    hidden = "import sys\nsys.modules['diffusers'] = None\n"
    (tmp_path / "hide" / "sitecustomize.py").write_text(hidden)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hide"), prepend=os.pathsep)
    assert call_in_child("unplug.core.worker:echo", {"a": 1}, what="echo").values == {"a": 1}
    line = refused(f"export {plugin} --to onnx --out {out}")
    assert "diffusers is not installed" in line and '[diffusion]"' in line
