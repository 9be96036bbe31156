"""``unplug generate``: one command from words and conditions to a PNG file that says how it was
made.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from unplug.core import write_json
from unplug.plugins import RECORD, save_checkpoint
from unplug.plugins.conditions import build_condition
from unplug.sdk.drawing.diffusion import load
from unplug.sdk.learning.data import load_dataset

from ..drawing.diffusion.conftest import SIZE, SPEC, save_lora, steering_plugin, tiny_unet
from .calls import fail, leftovers, refused, run, said, spawn

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


def call(base: Path, out: Path, more: str = "") -> str:
    return f"generate --prompt 'a child, smiling' --base {base} --drawn-steps 2 --out {out} {more}"


def settings_of(path: Path) -> dict[str, Any]:
    with Image.open(path) as picture:
        settings: dict[str, Any] = json.loads(picture.info["unplug"])
    return settings


def pixels(path: Path) -> Any:
    return np.asarray(Image.open(path)).astype(int)


def save_plugin(base: Any, folder: Path, seed: int = 0, **how: Any) -> None:
    save_checkpoint(steering_plugin(base.unet, seed, **how), folder, record={}, card="")


def test_words_alone(base_folder: Path, tmp_path: Path) -> None:
    out, other, jpeg = (tmp_path / name for name in ("a.png", "b.png", "a.jpg"))
    how = "--negative sad --guidance 2 --seed"
    value = said(call(base_folder, out, f"{how} 4"))
    assert value["pictures"] == [str(out)] and leftovers(tmp_path) == ["a.png"]
    assert settings_of(out) == {
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
    said(call(base_folder, jpeg))
    for path, form in ((out, "PNG"), (jpeg, "JPEG")):
        with Image.open(path) as picture:
            assert (picture.format, picture.size) == (form, (SIZE, SIZE))
            assert b"digitalsourcetype/trainedAlgorithmicMedia" in picture.info["xmp"]
    said(call(base_folder, other, f"{how} 4"))
    assert other.read_bytes() == out.read_bytes()
    said(call(base_folder, other, f"{how} 5"))
    assert (pixels(other) != pixels(out)).any()


def test_the_guidance_of_our_bases_is_lower(base_folder: Path, tmp_path: Path) -> None:
    """Ours are told by their record, by whatever name they are called."""
    said(call(base_folder, tmp_path / "theirs.png"))
    shutil.copytree(base_folder, tmp_path / "base")
    write_json(tmp_path / "base/unplug.json", {"schema": "unplug-base/1"})
    said(call(tmp_path / "base", tmp_path / "ours.png"))
    for name, guidance in (("theirs", (7.5, "constant")), ("ours", (2.5, "linear"))):
        settings = settings_of(tmp_path / f"{name}.png")
        assert (settings["guidance"], settings["guidance_schedule"]) == guidance


def test_other_bases_are_drawn_in_half_precision_on_a_gpu(
    base_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the result says so; here the GPU is a CPU that computes in bfloat16."""
    half, whole = tmp_path / "a.png", tmp_path / "b.png"
    monkeypatch.setattr(load, "drawing_dtype", lambda name, device: torch.bfloat16)
    assert run(call(base_folder, half)).stdout.endswith(" s, bfloat16)\n")
    assert settings_of(half)["precision"] == "bfloat16"
    monkeypatch.undo()
    assert said(call(base_folder, whole))["precision"] == "float32"
    assert (pixels(half) != pixels(whole)).any()


def test_several_seeds_and_their_grid(
    base_folder: Path, plugin_folder: Path, pictures: Path, tmp_path: Path
) -> None:
    steer = f"--plugin {plugin_folder} --condition {pictures}/edges.png"
    value = said(call(base_folder, tmp_path / "a.png", f"--count 3 --seed 7 {steer}"))
    names = [f"a-{seed}.png" for seed in (7, 8, 9)]
    assert leftovers(tmp_path) == sorted(["a.png", *names])
    assert [Path(name).name for name in value["pictures"]] == names
    assert settings_of(tmp_path / "a.png")["seeds"] == [7, 8, 9]
    second = tmp_path / "a-8.png"
    assert settings_of(second)["seed"] == 8
    sheet = pixels(tmp_path / "a.png")
    assert sheet.shape == (SIZE + 8, 4 + 4 * (SIZE + 4), 3)
    cells = [sheet[4 : 4 + SIZE, 4 + place * (SIZE + 4) :][:, :SIZE] for place in range(4)]
    assert (cells[0] == pixels(pictures / "edges.png")).all()
    assert (cells[2] == pixels(second)).all()
    said(call(base_folder, tmp_path / "one.png", f"--seed 8 {steer}"))
    assert np.abs(pixels(tmp_path / "one.png") - pixels(second)).max() <= 1


@pytest.mark.long
def test_conditions_photographs_and_strengths(
    base_folder: Path, plugin_folder: Path, pictures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a.png"
    steer, photo = f"--plugin {plugin_folder}", f"--image {pictures}/face.png"

    def drawn(more: str = "") -> Any:
        said(call(base_folder, out, more))
        return pixels(out)

    def drawn_by(mode: str, more: str = "") -> Any:
        return drawn(f"{steer} --condition {pictures}/{mode}.png {more}")

    bare, full = drawn(), drawn_by("edges")
    assert np.abs(full - bare).max() > 3
    assert (drawn_by("edges", "--strength 0") == bare).all()
    assert settings_of(out)["strengths"] == [0.0]
    assert (drawn(f"{steer} {photo}") == full).all()
    assert (drawn(f"{steer} {photo} --set low=10 --set high=20") != full).any()
    for mode in ("grey", "alpha"):
        assert (drawn_by(mode) == full).all()
    again = f"{steer} --condition {pictures}/edges.png --strength 0.25 --strength 0.75"
    assert np.abs(drawn_by("edges", again) - full).max() <= 2  # halves of one and the same


@pytest.mark.parametrize("first", ["image", "condition"])
def test_a_photograph_and_a_drawn_condition_in_one_command(
    base: Any, base_folder: Path, plugin_folder: Path, pictures: Path, tmp_path: Path, first: str
) -> None:
    """Each goes to the plugin of its place, whichever kind comes first."""
    save_plugin(base, tmp_path / "other", 8)
    files = {"image": pictures / "face.png", "condition": pictures / "grey.png"}
    order = [first, *(name for name in files if name != first)]
    loose = {"low": "10", "high": "20"}

    def drawn(steer: str) -> tuple[list[dict[str, Any]], Any]:
        plugins = f"--plugin {plugin_folder} --plugin {tmp_path}/other"
        guides = said(call(base_folder, tmp_path / "a.png", f"{plugins} {steer}"))["guides"]
        return guides, pixels(tmp_path / "a.png")

    given = " ".join(f"--{name} {files[name]}" for name in order)
    guides, mixed = drawn(f"{given} --set canny.low=10 --set high=20")
    for guide, name in zip(guides, order, strict=True):
        photo = name == "image"
        assert guide["photo"] is photo and guide["image"] == str(files[name])
        assert guide["crop"] == ("centre square" if photo else None)
        assert guide["options"] == (loose if photo else {})
    face = np.asarray(Image.open(pictures / "face.png"))
    files["image"] = tmp_path / "drawn.png"
    Image.fromarray(build_condition("canny", loose).render(face, SIZE)).save(files["image"])
    same, swapped = (
        drawn(" ".join(f"--condition {files[name]}" for name in names))[1]
        for names in (order, order[::-1])
    )
    assert (mixed == same).all() and (swapped != same).any()


def test_lora_from_the_command_line(base_folder: Path, tmp_path: Path) -> None:
    lora = save_lora(base_folder, tmp_path / "lora", 1)
    bare, styled = tmp_path / "bare.png", tmp_path / "styled.png"
    said(call(base_folder, bare))
    said(call(base_folder, styled, f"--lora {lora}"))
    assert (pixels(bare) != pixels(styled)).any()
    assert settings_of(styled)["loras"] == [str(lora)]
    how = {"steps": 3, "guidance": 1.5, "solver": "ddim"}
    write_json(lora / RECORD, {"schema": "unplug-student/1", "sampling": how})
    said(call(base_folder, styled, f"--lora {lora}"))
    # what was asked for wins
    assert settings_of(styled).items() >= {**how, "steps": 2}.items()


EDGES, PHOTO = "--plugin P --condition E", "--plugin P --image F"
WRONG = [
    ("--condition E", "0 plugins and 1 picture"),
    (f"{EDGES} --image F", "1 plugin and 2 pictures were given"),
    ("--plugin P --condition BLACK", "black.png: the condition is empty: all its pixels are"),
    ("--plugin P --image BLACK", "black.png: the condition is empty: all its pixels are of one"),
    (f"{EDGES} --crop face", "only photographs are cropped"),
    (f"{PHOTO} --crop head", "Invalid value for '--crop'"),
    (f"{PHOTO} --landmarker GONE", "condition canny: it has no setting 'task'"),
    (f"{PHOTO} --crop face --landmarker GONE", "GONE: no such task file"),
    (f"{EDGES} --strength 1 --strength 1", "2 for 1 plugin"),
    (f"{EDGES} --strength 11", "strength 11.0: out of range"),
    (f"{EDGES} --strength nan", "strength nan: out of range"),
    (f"{EDGES} --set low=1", "settings are for drawing a condition"),
    (f"{PHOTO} --set low", "it is not KEY=VALUE"),
    (f"{PHOTO} --set lower=1", "it has no setting 'lower'"),
    (f"{EDGES} --pixels 72", "size 72: no multiple of 16"),
    ("--plugin P --condition B", "broken.png: not a readable image"),
    ("--plugin P --condition TINY", "tiny.png: 8x8 pixels are too few"),
    ("--negative sad --guidance 1", "--negative: without guidance it has no effect"),
    ("--plugin P --condition GONE", "GONE: no such file"),
    ("--plugin P --image B", "broken.png"),
    ("--plugin nobody --condition E", "nobody: no such plugin"),
    ("--plugin OTHER --condition E", "made for another base"),
    ("--plugin BASE --condition E", "no model.safetensors"),
    ("--lora GONE", "no such file"),
    ("--pixels 70", "size 70: no multiple of 8"),
    ("--base nowhere", "nowhere: no such folder"),
    ("--base P", "not a diffusers folder: no model_index.json"),
    ("--out a.gif", "a.gif: pictures are written as PNG or JPEG"),
    ("--count 65", "Invalid value for '--count'"),
    ("--guidance 0.5", "Invalid value for '--guidance'"),
    ("--device tpu", "no such device"),
    ("--guidance nan", "Invalid value for '--guidance': nan is not a number"),
    ("--seed 2147483647 --count 2", "seeds up to 2147483648: more than 2147483647"),
]


@pytest.mark.long
@pytest.mark.parametrize(("more", "words"), WRONG)
def test_what_cannot_be_drawn(
    base_folder: Path, plugin_folder: Path, pictures: Path, tmp_path: Path, more: str, words: str
) -> None:
    if "OTHER" in more:
        other = steering_plugin(tiny_unet(channels=(16, 24)))
        save_checkpoint(other, tmp_path / "other", record={}, card="")
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
    }
    given = " ".join(str(places.get(word, word)) for word in more.split())
    line = refused(call(base_folder, tmp_path / "out.png", given))
    assert words in line
    if "OTHER" in more:
        assert "24" in line and "32" in line
    assert [name for name in leftovers(tmp_path) if not name.startswith("other")] == []


@pytest.mark.parametrize("option", ["prompt", "negative"])
@pytest.mark.parametrize(
    ("text", "words"),
    [("a" * 65537, "of 65537 characters: more than 65536"), ("\udcff", "it is not UTF-8 text")],
    ids=["long", "bytes"],
)
def test_what_is_no_prompt(
    base_folder: Path, tmp_path: Path, option: str, text: str, words: str
) -> None:
    words_of = shlex.split(call(base_folder, tmp_path / "out.png"))
    line = fail(*words_of, f"--{option}", text).line
    begins = {"prompt": "error: prompt", "negative": "error: negative prompt"}
    assert words in line and line.startswith(begins[option])
    assert leftovers(tmp_path) == []


def test_a_prompt_that_is_too_long_says_so(base_folder: Path, tmp_path: Path) -> None:
    line = call(base_folder, tmp_path / "a.png", "--drawn-steps 1")
    assert run(line).stderr == ""
    cut, untaught = run(line.replace("a child, smiling", "zebra " * 30)).stderr.splitlines()
    assert "the base reads the first 16 only" in cut
    assert untaught == 'this base was never taught "zebra": expect nothing of it'


def test_a_photograph_without_the_task_file(
    base: Any, base_folder: Path, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_plugin(base, tmp_path / "plugin", condition="face_landmark")
    steer = f"--plugin {tmp_path}/plugin --image {pictures}/face.png"
    monkeypatch.delenv("UNPLUG_FACE_LANDMARKER", raising=False)
    for more, words in (("", "UNPLUG_FACE_LANDMARKER"), (" --landmarker gone.task", "gone.task")):
        assert words in refused(call(base_folder, tmp_path / "a.png", steer + more))
    assert not (tmp_path / "a.png").exists()


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
        save_plugin(base, tmp_path / kind, seed, condition=kind)
    with Image.open(PORTRAIT) as opened:
        face = opened.convert("RGB")
    face = face.crop((0, 0, face.width, face.width)).resize((480, 480))
    face.save(tmp_path / "close.png")
    wide = Image.new("RGB", (960, 600), (90, 120, 60))
    wide.paste(face, (480, 100))
    wide.save(tmp_path / "wide.png")
    out, task = tmp_path / "out.png", f"--landmarker {FACE_TASK}"
    ends = {}  # first and last row and column of the face's oval
    for name in ("close", "wide"):
        steer = f"--plugin {tmp_path}/face_landmark --image {tmp_path}/{name}.png --count 2"
        value = said(call(base_folder, out, f"{steer} {task}"))
        assert [guide["crop"] for guide in value["guides"]] == ["face"]
        drawing = pixels(out)[4 : 4 + SIZE, 4 : 4 + SIZE]  # the condition, first in the grid
        rows, columns = (np.nonzero((drawing > 64).any(axis=(2, axis)))[0] for axis in (1, 0))
        ends[name] = np.array([rows[0], rows[-1], columns[0], columns[-1]])
    assert np.abs(ends["close"] - ends["wide"]).max() <= 3, ends
    top, bottom, left, right = ends["close"] / SIZE
    assert 0.5 < bottom - top < 0.7 and (top + bottom) / 2 > 0.53
    assert abs((left + right) / 2 - 0.5) < 0.05
    two = " ".join(
        f"--plugin {tmp_path}/{kind} --image {tmp_path}/wide.png"
        for kind in ("face_landmark", "canny")
    )
    for crop, crops in (("auto", ["face", "centre square"]), ("face", ["face", "face"])):
        value = said(call(base_folder, out, f"{two} --crop {crop} {task}"))
        assert [guide["crop"] for guide in value["guides"]] == crops
    wide.paste(face, (0, 100))
    wide.save(tmp_path / "pair.png")
    for photo, words in (
        (pictures / "edges.png", "edges.png: no face found"),
        (tmp_path / "pair.png", "pair.png: 2 faces found"),
    ):
        steer = f"--plugin {tmp_path}/canny --image {photo} --crop face {task}"
        assert words in refused(call(base_folder, out, steer))
    said(call(base_folder, out, f"{steer} --set faces=largest"))


@pytest.mark.long
def test_the_real_command_says_one_line(
    base_folder: Path, plugin_folder: Path, pictures: Path, tmp_path: Path
) -> None:
    """Nothing of what diffusers, transformers and peft warn their developers of."""
    steer = f"--plugin {plugin_folder} --condition {pictures}/edges.png"
    process = spawn(call(base_folder, tmp_path / "a.png", steer))
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0 and err == ""
    assert json.loads(out)["out"] == str(tmp_path / "a.png")
    said(call(base_folder, tmp_path / "b.png", steer))
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes(), (
        "another process drew another picture"
    )
