"""``unplug head``: what an app does with a closed-form model, from the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file, save_file

from unplug.sdk.forgetting.unlearning import ClosedForm
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.learning.training import Recipe

from ..conftest import CPU
from ..forgetting.tasks.test_classes import COLOURS, draw
from .calls import refused, said

RECIPE = Recipe(size="nano", image_size=32, epochs=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("head")
    personal, consented = (
        load_dataset(f"synth:n=60,subjects=30,seed={seed}", 32, show=False) for seed in (1, 2)
    )
    split = make_split(personal, seed=0)
    how = {"trunk_data": consented, "device": CPU, "show": False}
    ClosedForm(random_features=16).train(personal, split, RECIPE, folder / "age", **how)
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (40, 40, 3), np.uint8)).save(folder / "me.png")
    return folder


def test_somebody_is_added_answered_for_and_forgotten(model: Path, tmp_path: Path) -> None:
    made = said(f"head make {model}/age --out {tmp_path}/phone")
    head, mine = tmp_path / "phone" / "head.safetensors", tmp_path / "mine.safetensors"
    assert made["pictures"] == 42 and made["bytes"] == head.stat().st_size
    seen = f"--image {model}/me.png --box 0,0,40,40"  # else a landmarker would look for a face
    picture = f"--trunk {tmp_path}/phone/trunk {seen}"
    me = f"{picture} --person me --age 30 --out {mine}"
    before = said(f"head answer {head} {picture}")
    by_model = said(f"run {model}/age {seen}")["results"][0]
    assert before["age"] == pytest.approx(by_model["age"], abs=0.05)
    assert said(f"head add {head} {me}")["pictures"] == 43
    assert said(f"head answer {mine} {picture}")["age"] != before["age"]
    assert "already" in refused(f"head add {mine} {me}")
    said(f"head remove {mine} {me}")
    assert mine.read_bytes() == head.read_bytes()
    assert "not in this head" in refused(f"head remove {mine} {me}")


def test_heads_and_trunks_that_do_not_belong_together(model: Path, tmp_path: Path) -> None:
    said(f"head make {model}/age --out {tmp_path}/phone")
    head, trunk = tmp_path / "phone" / "head.safetensors", tmp_path / "phone" / "trunk"
    weights = trunk / "model.safetensors"

    def told(head: Path, trunk: Path) -> str:
        picture = f"--image {model}/me.png --box 0,0,40,40"
        return refused(f"head answer {head} --trunk {trunk} {picture}")

    assert "model of type age" in told(head, model / "age")
    tensors = load_file(weights)
    save_file(
        {name: 2 * value if value.dtype.kind == "f" else value for name, value in tensors.items()},
        weights,
    )
    (trunk / "unplug.json").unlink()
    assert "another trunk" in told(head, trunk)
    assert "it is not a head" in told(weights, trunk)
    assert "an ordinary model" in refused(f"head make {model}/age-trunk --out {tmp_path}/other")


def test_labels_from_the_training_to_the_phone_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an ordinary training's folders: in, a likelier label, and out without a trace."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for part, count in (("own", 8), ("agreed", 12)):
        for name, colour in COLOURS.items():
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(count):
                place = tmp_path / part / name / f"{part}-{number}.png"
                Image.fromarray(draw(rng, colour)).save(place)
    data = "--data imagefolder:own --trunk-data imagefolder:agreed --set random_features=16"
    said(
        f"train classes {data} --forgettable closed-form --size nano --pixels 32 --epochs 1 --out m"
    )
    made = said("head make m --out phone")
    head, last = Path(made["head"]), tuple(COLOURS)[-1]
    seen = f"--image 'agreed/{last}/agreed-0.png'"
    picture = f"--trunk phone/trunk {seen}"
    entry = f"{picture} --person me-1 --label '{last}' --out mine.safetensors"
    before, by_model = said(f"head answer {head} {picture}"), said(f"run m {seen}")["results"][0]
    assert before["label"] == by_model["label"]
    assert before["probability"] == pytest.approx(by_model["probability"], abs=2e-3)
    assert said(f"head add {head} {entry}")["pictures"] == made["pictures"] + 1
    after = said(f"head answer mine.safetensors {picture}")
    share = {
        when: {row["label"]: row["probability"] for row in answer["labels"]}[last]
        for when, answer in (("before", before), ("after", after))
    }
    assert share["after"] > share["before"]
    assert "already" in refused(f"head add mine.safetensors {entry}")
    assert "Give --label alone" in refused(
        f"head add {head} {picture} --person me-2 --age 30 --out x"
    )
    said(f"head remove mine.safetensors {entry}")
    assert Path("mine.safetensors").read_bytes() == head.read_bytes()
