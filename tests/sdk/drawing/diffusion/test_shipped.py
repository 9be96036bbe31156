"""The weights that ship: few enough, whole, an ordinary pipeline to diffusers, and steering where
the condition says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.studies.control.errors import FAILURE, edge_scores, landmark_errors
from click.testing import CliRunner
from PIL import Image
from safetensors import safe_open

from unplug.core import CheckpointError, read_json, sha256_file
from unplug.plugins import RECORD, weights_file
from unplug.plugins.shipped_files import shipped_place
from unplug.sdk.cli import main
from unplug.sdk.drawing.conditions import Steering, conditions_in_worker, landmarks_in_worker
from unplug.sdk.drawing.device import lora_file
from unplug.sdk.drawing.diffusion import (
    OURS,
    base_digest,
    base_folder,
    base_record,
    draw_pictures,
    find_lora,
    find_plugin,
    generate,
    load_base,
    shipped_folder,
)
from unplug.sdk.drawing.diffusion.small import diffusers
from unplug.sdk.learning.data import Dataset, captions_of, load_dataset
from unplug.sdk.learning.faces.colours import COLOURS, HAIR, SKIN

MAX_BYTES = 47e6
PLUGINS, STUDENTS = ("face_landmark", "canny", "depth"), ("four-steps", "two-steps")
FACES, STEPS = 4, 8
needs_landmarker = pytest.mark.skipif(
    "UNPLUG_FACE_LANDMARKER" not in os.environ, reason="UNPLUG_FACE_LANDMARKER is not set"
)


def tensors(path: Path) -> Iterator[torch.Tensor]:
    with safe_open(path, framework="pt") as handle:
        yield from (handle.get_tensor(name) for name in handle.keys())  # noqa: SIM118


def test_all_weights_are_small_and_finite_and_their_card_says_how_they_were_made() -> None:
    place = shipped_place()
    assert place is not None
    files = sorted(place.rglob("*.safetensors"))
    assert {file.relative_to(place).parts[0] for file in files} == {
        "base",
        "marks",
        *STUDENTS,
        *PLUGINS,
    }
    assert sum(file.stat().st_size for file in files) < MAX_BYTES
    for file in files:
        for value in tensors(file):
            assert not value.is_floating_point() or (
                value.dtype == torch.float16 and bool(value.isfinite().all())
            ), file
    card = (place / "README.md").read_text(encoding="utf-8")
    record = base_record("small")
    assert "unplug train base" in card and record["data"]["spec"] in card
    for name in PLUGINS:
        assert f"unplug train plugin --base small --kind {name}" in card
    teacher = base_digest(load_base("small", device=torch.device("cpu")))
    for name in STUDENTS:
        student = read_json(place / name / RECORD)
        assert (
            f"unplug train student --base small --data {student['data']['spec']}" in card
            and f"--out {name}" in card
        )
        assert student["teacher"] == teacher


@pytest.fixture(scope="module")
def base() -> Any:
    return load_base("small", device=torch.device("cpu"))


@pytest.fixture(scope="module")
def faces() -> Dataset:
    """People that neither the base nor a plugin has seen."""
    return load_dataset(f"synth:n={FACES},subjects={FACES},seed=977", 128, show=False)


def test_the_base_is_an_ordinary_pipeline(base: Any) -> None:
    pipe = diffusers().StableDiffusionPipeline.from_pretrained(
        shipped_folder("small"), local_files_only=True
    )
    theirs = pipe.unet.state_dict()
    assert all(
        torch.equal(value, theirs[name].float()) for name, value in base.unet.state_dict().items()
    )
    assert 5e6 < sum(parameter.numel() for parameter in pipe.unet.parameters()) < 20e6


WORDS, SEEDS = 8, 3


@pytest.mark.long
@pytest.mark.parametrize(
    ("what", "palette", "top", "bottom", "left", "right"),
    [
        ("plain background", COLOURS, 0.02, 0.25, 0.02, 0.16),
        ("skin", dict(SKIN), 0.5, 0.62, 0.4, 0.6),
        ("afro", HAIR, 0.14, 0.2, 0.44, 0.56),
        ("clothes", COLOURS, 0.97, 1.0, 0.25, 0.38),
    ],
)
def test_the_base_listens(
    base: Any, what: str, palette: Any, top: float, bottom: float, left: float, right: float
) -> None:
    """The colour where a word's belongs (a box in shares of the side) follows the words of the
    prompt three times as far as it follows the noise, in the six steps of the default.

    A base that was trained with a signal left in its last noise level takes the mean of a picture
    from the noise: Lin et al., Common Diffusion Noise Schedules and Sample Steps are Flawed, 2023.
    """
    every = list(palette)
    names = [every[index * len(every) // WORDS] for index in range(WORDS)]  # evenly spread
    prompts = [f"a portrait of an adult, {name} {what}" for name in names for _ in range(SEEDS)]
    seeds = list(range(SEEDS)) * WORDS
    made = generate(base, prompts, seeds=seeds, size=128, **asdict(OURS))
    pictures_NHWC = np.stack([np.asarray(picture) for picture in made])
    rows, columns = (
        slice(*(round(128 * end) for end in ends)) for ends in ((top, bottom), (left, right))
    )
    colour_NC = np.median(pictures_NHWC[:, rows, columns].reshape(len(made), -1, 3), axis=1)
    colour_WSC = colour_NC.reshape(WORDS, SEEDS, 3)
    mean_W1C = colour_WSC.mean(axis=1, keepdims=True)
    words = np.square(mean_W1C - mean_W1C.mean(axis=0)).mean()
    noise = np.square(colour_WSC - mean_W1C).mean() * SEEDS / (SEEDS - 1)
    assert np.sqrt(words / noise) > 3.0


def drawn(
    base: Any, faces: Dataset, folder: Path, name: str, strength: float = 1.0
) -> tuple[list[Image.Image], list[Image.Image]]:
    """Conditions of the faces, and pictures steered by them with the same prompts and noise."""
    asked, found = conditions_in_worker(name, {}, faces.pixels(range(FACES)), 128)
    assert found.all()
    conditions = [Image.fromarray(picture) for picture in asked]
    prompts = [words[0] for words in captions_of(faces, seed=0, variants=1)]
    pictures = []
    for number, (picture, prompt) in enumerate(zip(conditions, prompts, strict=True)):
        path = folder / f"{number}.png"
        picture.save(path)
        steering = [Steering(plugin=name, image=path, strength=strength)]
        pictures += draw_pictures(base, [prompt], steering, seeds=[number], steps=STEPS)[0]
    return conditions, pictures


@pytest.mark.nightly
@pytest.mark.long
@needs_landmarker
def test_generated_faces_are_found_where_they_were_asked_for(
    base: Any, faces: Dataset, tmp_path: Path
) -> None:
    _, pictures = drawn(base, faces, tmp_path, "face_landmark")
    wanted = landmarks_in_worker(faces.pixels(range(FACES)))
    found = landmarks_in_worker(np.stack([np.asarray(picture) for picture in pictures]))
    errors = landmark_errors(found, wanted)
    assert np.isfinite(errors).all() and np.median(errors) < FAILURE
    shuffled = landmark_errors(found, [*wanted[1:], wanted[0]])
    assert np.median(errors) < 0.6 * np.median(shuffled)


@pytest.mark.long
def test_edges_are_followed(base: Any, faces: Dataset, tmp_path: Path) -> None:
    asked, pictures = drawn(base, faces, tmp_path, "canny")
    _, free = drawn(base, faces, tmp_path, "canny", strength=0.0)

    def score(made: list[Image.Image]) -> float:
        edges, _ = conditions_in_worker(
            "canny", {}, np.stack([np.asarray(picture) for picture in made]), 128
        )
        pairs = zip(edges, asked, strict=True)
        return float(
            np.mean(
                [
                    edge_scores(one[..., 0] > 0, np.asarray(two)[..., 0] > 0, 1.0)[2]
                    for one, two in pairs
                ]
            )
        )

    assert score(pictures) > score(free) + 0.1


def test_what_was_measured_are_the_weights_that_ship(base: Any) -> None:
    data = Path(__file__).parents[4] / "docs" / "data"
    names = ("base-quality", "few-steps", "photo-control", "depth-control")
    quality, few, photos, depths = (
        json.loads((data / f"{name}.json").read_text())["weights"] for name in names
    )
    own = {name: sha256_file(weights_file(find_plugin(name))) for name in PLUGINS}
    loras = {name: sha256_file(lora_file(find_lora(name))) for name in STUDENTS}
    # others stand beside those that ship
    assert few.items() > {"base": base_digest(base), **loras}.items()
    assert quality == {"base": base_digest(base)}
    assert depths == {"base": base_digest(base), "depth": own.pop("depth")}
    assert photos == {"base": base_digest(base), **own}


def test_a_base_is_found_by_its_name_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "file").touch()
    assert base_folder("small") == shipped_folder("small")
    assert base_folder(str(tmp_path / "mine")) == tmp_path / "mine"
    assert base_folder("owner/name") is None
    for name, why in (("smal", "no such folder"), ("./a", "no such"), (f"{tmp_path}/file", "file")):
        with pytest.raises(CheckpointError, match=why):
            base_folder(name)


@pytest.mark.parametrize(
    "command",
    [
        "erase smal --concept x",
        "generate --base smal --prompt x",
        "train pack --base smal --data synth:n=9 --word x",
        "train student --base smal --data synth:n=9",
        "train plugin --base smal --kind canny --data synth:n=9",
        "train base --start smal --data synth:n=9",
        "forget model --base smal --data synth:n=9 --forget f",
    ],
)
def test_a_base_that_is_not_there_is_refused_before_anything_is_loaded(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unplug.sdk.drawing.diffusion.load.diffusers", None)
    monkeypatch.setattr("unplug.sdk.learning.training.pick_device", None)
    done = CliRunner().invoke(main, [*command.split(), "--out", str(tmp_path / "out.png")])
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "smal: no such folder" in done.output
