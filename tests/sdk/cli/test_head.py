"""``unplug head``: what an app does with a closed-form model, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from safetensors.numpy import load_file, save_file

from unplug.sdk.cli import main
from unplug.sdk.forgetting.unlearning import ClosedForm
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.learning.training import Recipe

from ..conftest import CPU
from .calls import fail

RECIPE = Recipe(size="nano", image_size=32, epochs=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("head")
    personal, consented = (
        load_dataset(f"synth:n=60,subjects=30,seed={seed}", 32, show=False) for seed in (1, 2)
    )
    ClosedForm(random_features=16).train(
        personal,
        make_split(personal, seed=0),
        RECIPE,
        folder / "age",
        trunk_data=consented,
        device=CPU,
        show=False,
    )
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (40, 40, 3), np.uint8)).save(folder / "me.png")
    return folder


def ok(*args: object) -> Any:
    """What a command that must succeed says as JSON."""
    result = CliRunner().invoke(main, [*map(str, args), "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_somebody_is_added_answered_for_and_forgotten(model: Path, tmp_path: Path) -> None:
    made = ok("head", "make", model / "age", "--out", tmp_path / "phone")
    head, trunk = tmp_path / "phone" / "head.safetensors", tmp_path / "phone" / "trunk"
    assert made["pictures"] == 42 and made["bytes"] == head.stat().st_size
    # else a landmarker, where one is set, looks for a face
    seen = (
        "--image",
        model / "me.png",
        "--box",
        "0,0,40,40",
    )
    picture = ("--trunk", trunk, *seen)
    me = (*picture, "--name", "me", "--age", 30, "--out", tmp_path / "mine.safetensors")
    before = ok("head", "answer", head, *picture)
    assert before["age"] == pytest.approx(
        ok("run", model / "age", *seen)["results"][0]["age"], abs=0.05
    )
    assert ok("head", "add", head, *me)["pictures"] == 43
    mine = tmp_path / "mine.safetensors"
    assert ok("head", "answer", mine, *picture)["age"] != before["age"]
    assert "already" in fail("head", "add", mine, *me).line
    ok("head", "remove", mine, *me)
    assert mine.read_bytes() == head.read_bytes()
    assert "not in this head" in fail("head", "remove", mine, *me).line


def test_heads_and_trunks_that_do_not_belong_together(model: Path, tmp_path: Path) -> None:
    ok("head", "make", model / "age", "--out", tmp_path / "phone")
    head, image = (
        tmp_path / "phone" / "head.safetensors",
        ("--image", model / "me.png", "--box", "0,0,40,40"),
    )
    assert (
        "model of type age" in fail("head", "answer", head, "--trunk", model / "age", *image).line
    )
    weights = tmp_path / "phone" / "trunk" / "model.safetensors"
    tensors = load_file(weights)
    save_file(
        {name: 2 * value if value.dtype.kind == "f" else value for name, value in tensors.items()},
        weights,
    )
    (weights.parent / "unplug.json").unlink()
    assert "another trunk" in fail("head", "answer", head, "--trunk", weights.parent, *image).line
    assert (
        "it is no head" in fail("head", "answer", weights, "--trunk", weights.parent, *image).line
    )
    assert (
        "an ordinary model"
        in fail("head", "make", model / "age-trunk", "--out", tmp_path / "other").line
    )
