"""``unplug train base`` and ``unplug train plugin`` in their smallest form, and what they refuse."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from unplug.plugins import load_checkpoint
from unplug.sdk.cli import main
from unplug.sdk.drawing.diffusion.run_base import OURS

from ..drawing.diffusion.conftest import SIZE, shrink
from .calls import fail, leftovers

SPEC = "synth:n=30,subjects=15,seed=6"
FEW = ("--steps", 3, "--batch-size", 2, "--precision", "fp32")


@pytest.fixture(scope="module", autouse=True)
def tiny() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        yield


def run(*args: object) -> Any:
    result = CliRunner().invoke(main, [*map(str, args)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def base_call(out: Path, *more: object, spec: object = SPEC) -> tuple[object, ...]:
    return (
        "train",
        "base",
        "--data",
        spec,
        "--out",
        out,
        "--image-size",
        SIZE,
        "--vae-steps",
        3,
        *FEW,
        *more,
    )


def plugin_call(
    base_folder: Path, out: Path, *more: object, spec: object = SPEC
) -> tuple[object, ...]:
    return (
        "train",
        "plugin",
        "--data",
        spec,
        "--condition",
        "canny",
        "--base",
        base_folder,
        "--out",
        out,
        *FEW,
        *more,
    )


def captioned(folder: Path, count: int = 30) -> Path:
    folder.mkdir()
    for number in range(count):
        pixels = np.zeros((SIZE + 8, SIZE, 3), np.uint8)
        pixels[10 : 20 + number, 20:40] = 255
        Image.fromarray(pixels).save(folder / f"{number:02d}.png")
        (folder / f"{number:02d}.txt").write_text(f"a white square, number {number}")
    return folder


@pytest.mark.long
def test_from_nothing_to_a_steered_picture(tmp_path: Path) -> None:
    base, plugin = tmp_path / "base", tmp_path / "plugin"
    made = json.loads(run(*base_call(base, "--half", "--json")).stdout)
    assert (
        made["out"] == str(base)
        and made["metrics"]["loss"] > 0
        and set(made["parameters"]) == {"unet", "vae", "text_encoder"}
    )
    assert {path.name for path in base.iterdir()} == set(OURS)
    trained = run(*plugin_call(base, plugin, "--sample-every", 2))
    assert f"saved {plugin}" in trained.stdout and "velocity loss" in trained.stdout
    assert re.fullmatch(
        r"training a canny plugin at 64 px on 2[5-7] of 30 samples\n", trained.stderr
    )
    assert load_checkpoint(plugin, expect="plugin").record["base"]["name"] == str(base)
    condition = tmp_path / "condition.png"
    Image.linear_gradient("L").resize((SIZE, SIZE)).convert("RGB").save(condition)
    run(
        "generate",
        "--prompt",
        "a child",
        "--base",
        base,
        "--plugin",
        plugin,
        "--condition-image",
        condition,
        "--steps",
        1,
        "--out",
        tmp_path / "a.png",
    )
    assert leftovers(tmp_path) == sorted(
        [
            *(name for name in leftovers(tmp_path) if "/" in name),
            "a.png",
            "base",
            "condition.png",
            "plugin",
        ]
    )


@pytest.mark.long
def test_a_folder_of_pictures_with_captions(base_folder: Path, tmp_path: Path) -> None:
    spec = f"captions:{captioned(tmp_path / 'data')}"
    made = json.loads(
        run(*plugin_call(base_folder, tmp_path / "plugin", "--json", spec=spec)).stdout
    )
    assert (
        made["without_condition"] == 0 and sum(row["n"] for row in made["metrics"].values()) == 30
    )
    run(*base_call(tmp_path / "base", "--image-size", 64, spec=spec))


@pytest.mark.long
def test_captions_that_do_not_match_their_pictures(base_folder: Path, tmp_path: Path) -> None:
    folder = captioned(tmp_path / "data")
    (folder / "03.txt").unlink()
    (folder / "orphan.txt").write_text("of no picture")
    for call in (
        plugin_call(base_folder, tmp_path / "out", spec=f"captions:{folder}"),
        base_call(tmp_path / "out", spec=f"captions:{folder}"),
    ):
        line = fail(*call).line
        assert (
            "2 of 31 samples cannot be used (first: 03.png: no caption" in line
            and "--on-bad skip" in line
        )
    made = json.loads(
        run(
            *plugin_call(
                base_folder,
                tmp_path / "out",
                "--json",
                "--on-bad",
                "skip",
                spec=f"captions:{folder}",
            )
        ).stdout
    )
    assert sum(row["n"] for row in made["metrics"].values()) == 29


@pytest.mark.long
def test_a_base_too_large_for_the_memory(base_folder: Path, tmp_path: Path) -> None:
    """Activations twice instead of kept: the same weights. Steps in parts: the same steps, but for
    the batch norms.
    """
    made = [
        json.loads(run(*plugin_call(base_folder, tmp_path / name, "--json", *more)).stdout)
        for name, more in (
            ("plain", ()),
            ("twice", ("--checkpointing",)),
            ("parts", ("--accumulate", 2)),
        )
    ]
    assert made[0]["sha256"] == made[1]["sha256"] != made[2]["sha256"]
    records = [load_checkpoint(tmp_path / name).record for name in ("plain", "twice", "parts")]
    assert [
        (record["recipe"]["checkpointing"], record["recipe"]["accumulate"]) for record in records
    ] == [(False, 1), (True, 1), (False, 2)]
    assert len({record["cost"]["forward"] for record in records}) == 1


def test_data_without_captions(base_folder: Path, tmp_path: Path) -> None:
    folder = captioned(tmp_path / "data")
    for call in (
        plugin_call(base_folder, tmp_path / "out", spec=f"imagefolder:{folder}"),
        base_call(tmp_path / "out", spec=f"imagefolder:{folder}"),
    ):
        assert "it has no captions" in fail(*call).line
    assert not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--condition", "cany"), "condition 'cany'"),
        (("--set", "low=high"), "low=high: not a value of type float"),
        (("--base", "nowhere"), "nowhere: no such folder"),
        (("--lr", "1000"), "lr 1000.0: out of range"),
        (("--lr", "nan"), "lr nan: out of range"),
        (("--accumulate", "3"), "batch_size 2: it does not divide"),
        (("--drop-text", "2"), "drop_text 2.0: not a share"),
        (("--precision", "fp16"), "precision 'fp16': it needs a GPU"),
        (("--steps", "0"), "Invalid value for '--steps'"),
        (("--split", "gone.json"), "gone.json"),
        (("--condition", "face_landmark", "--set", "task=gone.task"), "gone.task"),
        (("--condition", "face_landmark", "--task", "lost.task"), "lost.task"),
        (("--task", "lost.task"), "condition canny: it has no setting 'task'"),
    ],
)
def test_plugins_that_cannot_be_trained(
    base_folder: Path, tmp_path: Path, more: tuple[str, ...], words: str
) -> None:
    assert words in fail(*plugin_call(base_folder, tmp_path / "out"), *more, "--device", "cpu").line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--image-size", "68"), "68 px is no multiple of 8"),
        (("--image-size", "32"), "Invalid value for '--image-size'"),
        (("--lr", "0"), "lr 0.0: out of range"),
        (("--data", "synth:n=2"), "leave the"),
        (("--precision", "fp16"), "precision 'fp16': it needs a GPU"),
    ],
)
def test_bases_that_cannot_be_trained(tmp_path: Path, more: tuple[str, ...], words: str) -> None:
    assert words in fail(*base_call(tmp_path / "out"), *more, "--device", "cpu").line
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_other_results_are_not_replaced(base_folder: Path, tmp_path: Path) -> None:
    made = json.loads(run(*plugin_call(base_folder, tmp_path / "plugin", "--json")).stdout)
    for call in (base_call(tmp_path / "plugin"), plugin_call(base_folder, base_folder)):
        assert "it exists and was not written by this command" in fail(*call).line
    assert load_checkpoint(tmp_path / "plugin").sha256 == made["sha256"]
    again = json.loads(
        run(*plugin_call(base_folder, tmp_path / "plugin", "--seed", 1, "--json")).stdout
    )
    assert load_checkpoint(tmp_path / "plugin").sha256 == again["sha256"] != made["sha256"]


@pytest.mark.nightly
def test_two_processes_make_one_plugin(base_folder: Path, tmp_path: Path) -> None:
    """With nothing in the cache, where both would write; as `accelerate launch` starts them, here
    on two processors.
    """
    start = (
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "unplug.sdk.cli",
    )
    call = (*start, *plugin_call(base_folder, tmp_path / "plugin"), "--device", "cpu", "--json")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "UNPLUG_CACHE": str(tmp_path / "cache")}
    said = subprocess.run([*map(str, call)], capture_output=True, text=True, env=env, timeout=600)
    assert said.returncode == 0, said.stderr
    made = json.loads(said.stdout)  # one of them speaks
    assert made["cost"]["forward"] == 3 * 2 and made["cost"]["processes"] == 2
    assert load_checkpoint(tmp_path / "plugin").sha256 == made["sha256"]
    assert leftovers(tmp_path / "cache") and not [
        name for name in leftovers(tmp_path) if "/." in name or name.startswith(".")
    ]


@pytest.mark.parametrize(
    ("kind", "words"), [("plugin", "nothing: no such plugin"), ("base", "nothing: ")]
)
def test_a_start_that_is_not_there_is_told_before_any_picture_is_drawn(
    tmp_path: Path, kind: str, words: str
) -> None:
    more = ("--condition", "canny") if kind == "plugin" else ()
    told = CliRunner().invoke(
        main,
        [
            "train",
            kind,
            *more,
            "--start",
            "nothing",
            "--data",
            "synth:n=100000000",
            "--out",
            str(tmp_path / "x"),
        ],
    )
    (line,) = told.stderr.strip().splitlines()
    assert told.exit_code == 2 and words in line and not (tmp_path / "x").exists()
