"""``unplug generate``: one command from words and conditions to a PNG file that says how it was
made.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from unplug.core import write_json
from unplug.plugins import RECORD, save_checkpoint
from unplug.plugins.conditions import build_condition
from unplug.sdk.cli import main
from unplug.sdk.learning.data import load_dataset

from ..drawing.diffusion.conftest import SIZE, SPEC, save_lora, steering_plugin, tiny_unet
from .calls import fail, leftovers, spawn

FACE_TASK = os.environ.get("UNPLUG_FACE_LANDMARKER", "")
PORTRAIT = os.environ.get("UNPLUG_PORTRAIT", "")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A face, and its edges in several modes."""
    folder = tmp_path_factory.mktemp("pictures")
    face = load_dataset(SPEC, SIZE, show=False).pixels([0])[0]
    Image.fromarray(face).save(folder / "face.png")
    edges = Image.fromarray(build_condition("canny").render(face, SIZE))
    edges.save(folder / "edges.png")
    edges.convert("L").save(folder / "grey.png")
    edges.convert("RGBA").save(folder / "alpha.png")
    edges.resize((8, 8)).save(folder / "tiny.png")
    Image.new("RGB", (SIZE, SIZE)).save(folder / "black.png")
    (folder / "broken.png").write_bytes((folder / "edges.png").read_bytes()[:80])
    return folder


def call(base_folder: Path, out: Path, *more: object) -> tuple[object, ...]:
    return (
        "generate",
        "--prompt",
        "a child, smiling",
        "--base",
        base_folder,
        "--steps",
        2,
        "--out",
        out,
        *more,
    )


def said(*args: object) -> dict[str, Any]:
    result = CliRunner().invoke(main, [*map(str, args), "--json"], catch_exceptions=False)
    assert result.exit_code == 0 and result.stderr == "", result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def settings_of(path: Path) -> dict[str, Any]:
    with Image.open(path) as picture:
        found: dict[str, Any] = json.loads(picture.info["unplug"])
    return found


def pixels(path: Path) -> Any:
    return np.asarray(Image.open(path)).astype(int)


def test_words_alone(base_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.png"
    value = said(*call(base_folder, out, "--seed", 4, "--negative", "sad", "--guidance", 2))
    assert value["pictures"] == [str(out)] and leftovers(tmp_path) == ["a.png"]
    expected = {
        "prompt": "a child, smiling",
        "negative": "sad",
        "base": str(base_folder),
        "plugins": [],
        "strengths": [],
        "steps": 2,
        "guidance": 2.0,
        "guidance_schedule": "constant",
        "solver": None,
        "size": SIZE,
        "loras": [],
        "seed": 4,
        "precision": "float32",
    }
    assert settings_of(out) == expected and Image.open(out).size == (SIZE, SIZE)
    assert b"digitalsourcetype/trainedAlgorithmicMedia" in Image.open(out).info["xmp"]
    said(*call(base_folder, tmp_path / "a.jpg", "--seed", 4))
    with Image.open(tmp_path / "a.jpg") as jpeg:
        assert jpeg.format == "JPEG" and b"trainedAlgorithmicMedia" in jpeg.info["xmp"]
    said(*call(base_folder, tmp_path / "b.png", "--seed", 4, "--negative", "sad", "--guidance", 2))
    assert (tmp_path / "b.png").read_bytes() == out.read_bytes()
    said(*call(base_folder, tmp_path / "b.png", "--seed", 5, "--negative", "sad", "--guidance", 2))
    assert (pixels(tmp_path / "b.png") != pixels(out)).any()


def test_the_guidance_of_our_bases_is_lower(base_folder: Path, tmp_path: Path) -> None:
    """Ours are told by their record, by whatever name they are called."""
    said(*call(base_folder, tmp_path / "theirs.png"))
    shutil.copytree(base_folder, tmp_path / "base")
    write_json(tmp_path / "base/unplug.json", {"schema": "unplug-base/1"})
    said(*call(tmp_path / "base", tmp_path / "ours.png"))
    found = [settings_of(tmp_path / f"{name}.png") for name in ("theirs", "ours")]
    assert [(one["guidance"], one["guidance_schedule"]) for one in found] == [
        (7.5, "constant"),
        (2.5, "linear"),
    ]


def test_other_bases_are_drawn_in_half_precision_on_a_gpu(
    base_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the result says so; here the GPU is a CPU that computes in bfloat16."""
    import torch

    from unplug.sdk.drawing.diffusion import load

    monkeypatch.setattr(load, "drawing_dtype", lambda name, device: torch.bfloat16)
    half = said(*call(base_folder, tmp_path / "a.png"))
    assert half["precision"] == "bfloat16" == settings_of(tmp_path / "a.png")["precision"]
    text = CliRunner().invoke(main, [*map(str, call(base_folder, tmp_path / "a.png"))]).stdout
    assert text.endswith(" s, bfloat16)\n")
    monkeypatch.undo()
    assert said(*call(base_folder, tmp_path / "b.png"))["precision"] == "float32"
    assert (pixels(tmp_path / "a.png") != pixels(tmp_path / "b.png")).any()


def test_several_seeds_and_their_grid(
    base_folder: Path, plugin_folder: Path, pictures: Path, tmp_path: Path
) -> None:
    steer = ("--plugin", plugin_folder, "--condition-image", pictures / "edges.png")
    value = said(*call(base_folder, tmp_path / "a.png", "--count", 3, "--seed", 7, *steer))
    names = [f"a-{seed}.png" for seed in (7, 8, 9)]
    assert (
        leftovers(tmp_path) == sorted(["a.png", *names])
        and [Path(name).name for name in value["pictures"]] == names
    )
    assert (
        settings_of(tmp_path / "a.png")["seeds"] == [7, 8, 9]
        and settings_of(tmp_path / "a-8.png")["seed"] == 8
    )
    sheet = pixels(tmp_path / "a.png")
    assert sheet.shape == (SIZE + 8, 4 + 4 * (SIZE + 4), 3)
    cells = [sheet[4 : 4 + SIZE, 4 + place * (SIZE + 4) :][:, :SIZE] for place in range(4)]
    assert (cells[0] == pixels(pictures / "edges.png")).all() and (
        cells[2] == pixels(tmp_path / "a-8.png")
    ).all()
    said(*call(base_folder, tmp_path / "one.png", "--seed", 8, *steer))
    assert np.abs(pixels(tmp_path / "one.png") - pixels(tmp_path / "a-8.png")).max() <= 1


@pytest.mark.long
def test_conditions_photographs_and_strengths(
    base_folder: Path, plugin_folder: Path, pictures: Path, tmp_path: Path
) -> None:
    def drawn(name: str, *more: object) -> Any:
        said(*call(base_folder, tmp_path / name, *more))
        return pixels(tmp_path / name)

    steer = ("--plugin", plugin_folder)
    bare, full = (
        drawn("bare.png"),
        drawn("full.png", *steer, "--condition-image", pictures / "edges.png"),
    )
    assert np.abs(full - bare).max() > 3
    off = drawn("off.png", *steer, "--condition-image", pictures / "edges.png", "--strength", 0)
    assert (off == bare).all() and settings_of(tmp_path / "off.png")["strengths"] == [0.0]
    assert (drawn("photo.png", *steer, "--photo", pictures / "face.png") == full).all()
    loose = drawn(
        "loose.png", *steer, "--photo", pictures / "face.png", "--set", "low=10", "--set", "high=20"
    )
    assert (loose != full).any()
    for mode in ("grey", "alpha"):
        assert (
            drawn(f"{mode}.png", *steer, "--condition-image", pictures / f"{mode}.png") == full
        ).all()
    two = drawn(
        "two.png",
        *steer,
        *steer,
        *2 * ("--condition-image", pictures / "edges.png"),
        "--strength",
        0.25,
        "--strength",
        0.75,
    )
    assert np.abs(two - full).max() <= 2  # halves of one and the same


@pytest.mark.parametrize("first", ["photo", "condition-image"])
def test_a_photograph_and_a_drawn_condition_in_one_command(
    base: Any, base_folder: Path, plugin_folder: Path, pictures: Path, tmp_path: Path, first: str
) -> None:
    """Each goes to the plugin of its place, whichever kind comes first."""
    save_checkpoint(steering_plugin(base.unet, 8), tmp_path / "other", record={}, card="")
    files = {"photo": pictures / "face.png", "condition-image": pictures / "grey.png"}
    second = next(name for name in files if name != first)
    plugins = ("--plugin", plugin_folder, "--plugin", tmp_path / "other")
    given = (f"--{first}", files[first], f"--{second}", files[second])
    value = said(
        *call(
            base_folder,
            tmp_path / "a.png",
            *plugins,
            *given,
            "--set",
            "canny.low=10",
            "--set",
            "high=20",
        )
    )
    loose = {"low": "10", "high": "20"}
    assert [
        (item["photo"], item["image"], item["crop"], item["options"]) for item in value["guides"]
    ] == [
        (
            name == "photo",
            str(files[name]),
            "centre square" if name == "photo" else None,
            loose if name == "photo" else {},
        )
        for name in (first, second)
    ]
    face = np.asarray(Image.open(pictures / "face.png"))
    drawn = Image.fromarray(build_condition("canny", loose).render(face, SIZE))
    drawn.save(tmp_path / "drawn.png")
    same = [tmp_path / "drawn.png" if name == "photo" else files[name] for name in (first, second)]
    both = [word for path in same for word in ("--condition-image", path)]
    said(*call(base_folder, tmp_path / "b.png", *plugins, *both))
    assert (pixels(tmp_path / "a.png") == pixels(tmp_path / "b.png")).all()
    swapped = [word for path in same[::-1] for word in ("--condition-image", path)]
    said(*call(base_folder, tmp_path / "c.png", *plugins, *swapped))
    assert (pixels(tmp_path / "c.png") != pixels(tmp_path / "b.png")).any()


def test_lora_from_the_command_line(base_folder: Path, tmp_path: Path) -> None:
    lora = save_lora(base_folder, tmp_path / "lora", 1)
    said(*call(base_folder, tmp_path / "bare.png"))
    said(*call(base_folder, tmp_path / "styled.png", "--lora", lora))
    assert (pixels(tmp_path / "bare.png") != pixels(tmp_path / "styled.png")).any()
    assert settings_of(tmp_path / "styled.png")["loras"] == [str(lora)]
    assert (
        "no such file"
        in fail(
            *call(base_folder, tmp_path / "x.png", "--lora", tmp_path / "gone.safetensors")
        ).line
    )
    how = {"steps": 3, "guidance": 1.5, "solver": "ddim"}
    write_json(lora / RECORD, {"schema": "unplug-student/1", "sampling": how})
    said(*call(base_folder, tmp_path / "suited.png", "--lora", lora))
    # what was asked for wins
    assert settings_of(tmp_path / "suited.png").items() >= {**how, "steps": 2}.items()


WRONG: list[tuple[tuple[str, ...], str]] = [
    (("--plugin", "P"), "1 plugin and 0 pictures were given"),
    (("--condition-image", "E"), "0 plugins and 1 picture"),
    (("--plugin", "P", "--plugin", "P", "--photo", "F"), "2 plugins and 1 picture"),
    (
        ("--plugin", "P", "--condition-image", "E", "--photo", "F"),
        "1 plugin and 2 pictures were given",
    ),
    (
        ("--plugin", "P", "--condition-image", "BLACK"),
        "black.png: the condition is empty: all its pixels are of one colour",
    ),
    (
        ("--plugin", "P", "--photo", "BLACK"),
        "black.png: the condition is empty: all its pixels are of one colour",
    ),
    (("--plugin", "P", "--condition-image", "E", "--crop", "face"), "only photographs are cropped"),
    (
        ("--plugin", "P", "--condition-image", "E", "--margin", "0.5"),
        "only photographs are cropped",
    ),
    (("--plugin", "P", "--photo", "F", "--crop", "head"), "Invalid value for '--crop'"),
    (
        ("--plugin", "P", "--photo", "F", "--set", "depth.model=x"),
        "no photograph is drawn as depth",
    ),
    (("--plugin", "P", "--photo", "F", "--set", "canny.lower=1"), "it has no setting 'lower'"),
    (
        ("--plugin", "P", "--photo", "F", "--task", "GONE"),
        "condition canny: it has no setting 'task'",
    ),
    (
        ("--plugin", "P", "--photo", "F", "--crop", "face", "--task", "GONE"),
        "GONE: no such task file",
    ),
    (
        ("--plugin", "P", "--condition-image", "E", "--strength", "1", "--strength", "1"),
        "2 for 1 plugin",
    ),
    (
        ("--plugin", "P", "--condition-image", "E", "--strength", "11"),
        "strength 11.0: out of range",
    ),
    (
        ("--plugin", "P", "--condition-image", "E", "--strength", "nan"),
        "strength nan: out of range",
    ),
    (
        ("--plugin", "P", "--condition-image", "E", "--set", "low=1"),
        "settings are for drawing a condition",
    ),
    (
        ("--plugin", "P", "--condition-image", "E", "--task", "E"),
        "settings are for drawing a condition",
    ),
    (("--plugin", "P", "--photo", "F", "--set", "low"), "it is not KEY=VALUE"),
    (("--plugin", "P", "--photo", "F", "--set", "lower=1"), "it has no setting 'lower'"),
    (("--plugin", "P", "--condition-image", "E", "--size", "72"), "size 72: no multiple of 16"),
    (("--plugin", "P", "--condition-image", "B"), "broken.png: not a readable image"),
    (("--plugin", "P", "--condition-image", "TINY"), "tiny.png: 8x8 pixels are too few"),
    (("--negative", "sad", "--guidance", "1"), "--negative: without guidance it has no effect"),
    (("--plugin", "P", "--condition-image", "GONE"), "GONE: no such file"),
    (("--plugin", "P", "--photo", "B"), "broken.png"),
    (("--plugin", "nobody", "--condition-image", "E"), "nobody: no such plugin"),
    (("--plugin", "OTHER", "--condition-image", "E"), "made for another base"),
    (("--plugin", "BASE", "--condition-image", "E"), "no model.safetensors"),
    (("--size", "70"), "size 70: no multiple of 8"),
    (("--base", "nowhere"), "nowhere: no such folder"),
    (("--base", "P"), "not a diffusers folder: no model_index.json"),
    (("--out", "a.gif"), "a.gif: pictures are written as PNG or JPEG"),
    (("--count", "65"), "Invalid value for '--count'"),
    (("--guidance", "0.5"), "Invalid value for '--guidance'"),
    (("--device", "tpu"), "no such device"),
    (("--guidance", "nan"), "Invalid value for '--guidance': nan is not a number"),
    (("--seed", "2147483647", "--count", "2"), "seeds up to 2147483648: more than 2147483647"),
]
TEXTS = [("a" * 65537, "of 65537 characters: more than 65536"), ("\udcff", "it is not UTF-8 text")]


@pytest.mark.long
@pytest.mark.parametrize(("more", "words"), WRONG, ids=[" ".join(more) for more, _ in WRONG])
def test_what_cannot_be_drawn(
    base_folder: Path,
    plugin_folder: Path,
    pictures: Path,
    tmp_path: Path,
    more: tuple[str, ...],
    words: str,
) -> None:
    if "OTHER" in more:
        save_checkpoint(
            steering_plugin(tiny_unet(channels=(16, 24))), tmp_path / "other", record={}, card=""
        )
    places = {
        "P": plugin_folder,
        "E": pictures / "edges.png",
        "F": pictures / "face.png",
        "B": pictures / "broken.png",
        "TINY": pictures / "tiny.png",
        "BLACK": pictures / "black.png",
        "GONE": tmp_path / "GONE",
        "OTHER": tmp_path / "other",
        "BASE": base_folder,
        "a.jpg": tmp_path / "a.jpg",
    }
    line = fail(
        *call(base_folder, tmp_path / "out.png"), *(places.get(word, word) for word in more)
    ).line
    assert words in line
    if "OTHER" in more:
        assert "24" in line and "32" in line
    assert [name for name in leftovers(tmp_path) if not name.startswith("other")] == []


@pytest.mark.parametrize("option", ["--prompt", "--negative"])
@pytest.mark.parametrize(("text", "words"), TEXTS, ids=["long", "bytes"])
def test_what_is_no_prompt(
    base_folder: Path, tmp_path: Path, option: str, text: str, words: str
) -> None:
    line = fail(*call(base_folder, tmp_path / "out.png"), option, text).line
    assert words in line and line.startswith(
        "error: negative prompt" if option == "--negative" else "error: prompt"
    )
    assert leftovers(tmp_path) == []


def test_a_prompt_that_is_too_long_says_so(base_folder: Path, tmp_path: Path) -> None:
    args = [*map(str, call(base_folder, tmp_path / "a.png", "--steps", 1))]
    short = CliRunner().invoke(main, args)
    args[args.index("--prompt") + 1] = "zebra " * 30
    long = CliRunner().invoke(main, args)
    assert (short.exit_code, long.exit_code) == (0, 0) and short.stderr == ""
    assert long.stderr.splitlines()[1:] == [
        'this base was never taught "zebra": expect nothing of it'
    ]
    assert "the base reads the first 16 only" in long.stderr.splitlines()[0]


def test_a_photograph_without_the_task_file(
    base: Any, base_folder: Path, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(
        steering_plugin(base.unet, condition="face_landmark"),
        tmp_path / "plugin",
        record={},
        card="",
    )
    steer = ("--plugin", tmp_path / "plugin", "--photo", pictures / "face.png")
    monkeypatch.delenv("UNPLUG_FACE_LANDMARKER", raising=False)
    assert "UNPLUG_FACE_LANDMARKER" in fail(*call(base_folder, tmp_path / "a.png", *steer)).line
    line = fail(
        *call(base_folder, tmp_path / "a.png", *steer, "--task", tmp_path / "gone.task")
    ).line
    assert "gone.task" in line and leftovers(tmp_path / "plugin") == sorted(
        ["README.md", "config.json", "diffusion_pytorch_model.safetensors", "unplug.json"]
    )


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.skipif(
    not (FACE_TASK and PORTRAIT), reason="UNPLUG_FACE_LANDMARKER and UNPLUG_PORTRAIT name no files"
)
def test_a_photograph_of_a_face_is_cropped_to_it(
    base: Any, base_folder: Path, pictures: Path, tmp_path: Path
) -> None:
    """Wherever the face stands in it, what steers is the same face of the same size."""
    for seed, kind in enumerate(("face_landmark", "canny")):
        save_checkpoint(
            steering_plugin(base.unet, seed, condition=kind), tmp_path / kind, record={}, card=""
        )
    with Image.open(PORTRAIT) as opened:
        face = opened.convert("RGB")
    face = face.crop((0, 0, face.width, face.width)).resize((480, 480))
    face.save(tmp_path / "close.png")
    wide = Image.new("RGB", (960, 600), (90, 120, 60))
    wide.paste(face, (480, 100))
    wide.save(tmp_path / "wide.png")
    drawn = {}
    for name, photo in ((name, tmp_path / f"{name}.png") for name in ("close", "wide")):
        steer = ("--plugin", tmp_path / "face_landmark", "--photo", photo, "--task", FACE_TASK)
        value = said(*call(base_folder, tmp_path / f"out-{name}.png", *steer, "--count", 2))
        assert [item["crop"] for item in value["guides"]] == ["face"]
        # the condition, first in the grid
        drawn[name] = pixels(tmp_path / f"out-{name}.png")[4 : 4 + SIZE, 4 : 4 + SIZE]
    ends = {}  # first and last row and column of the face's oval
    for name, drawing in drawn.items():
        rows, columns = (np.nonzero((drawing > 64).any(axis=(2, axis)))[0] for axis in (1, 0))
        ends[name] = np.array([rows[0], rows[-1], columns[0], columns[-1]])
    assert np.abs(ends["close"] - ends["wide"]).max() <= 3, ends
    top, bottom, left, right = ends["close"] / SIZE
    assert (
        0.5 < bottom - top < 0.7
        and abs((left + right) / 2 - 0.5) < 0.05
        and (top + bottom) / 2 > 0.53
    )
    two = (
        "--plugin",
        tmp_path / "face_landmark",
        "--plugin",
        tmp_path / "canny",
        *2 * ("--photo", tmp_path / "wide.png"),
    )
    for crop, found in (("auto", ["face", "centre square"]), ("face", ["face", "face"])):
        value = said(
            *call(base_folder, tmp_path / "b.png", *two, "--crop", crop, "--task", FACE_TASK)
        )
        assert [item["crop"] for item in value["guides"]] == found
    wide.paste(face, (0, 100))
    wide.save(tmp_path / "pair.png")
    for photo, words in (
        (pictures / "edges.png", "edges.png: no face found"),
        (tmp_path / "pair.png", "pair.png: 2 faces found"),
    ):
        steer = (
            "--plugin",
            tmp_path / "canny",
            "--photo",
            photo,
            "--crop",
            "face",
            "--task",
            FACE_TASK,
        )
        assert words in fail(*call(base_folder, tmp_path / "c.png", *steer)).line
    said(*call(base_folder, tmp_path / "c.png", *steer, "--set", "faces=largest"))


@pytest.mark.long
def test_the_real_command_says_one_line(
    base_folder: Path, plugin_folder: Path, pictures: Path, tmp_path: Path
) -> None:
    """Nothing of what diffusers, transformers and peft warn their developers of."""
    steer = ("--plugin", plugin_folder, "--condition-image", pictures / "edges.png")
    process = spawn(*call(base_folder, tmp_path / "a.png", *steer))
    out, err = process.communicate(timeout=300)
    assert (
        process.returncode == 0 and err == "" and json.loads(out)["out"] == str(tmp_path / "a.png")
    )
    said(*call(base_folder, tmp_path / "b.png", *steer))
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes(), (
        "another process drew another picture"
    )
