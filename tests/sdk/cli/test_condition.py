"""``unplug condition``: one picture, a folder, and what people do wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from unplug.plugins.conditions import Canny
from unplug.sdk.cli import main

from .calls import fail, leftovers, save_face


def run(*args: object) -> str:
    done = CliRunner().invoke(main, ["condition", *map(str, args)])
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_one_picture(tmp_path: Path) -> None:
    save_face(tmp_path / "in.jpg")
    said = json.loads(
        run(
            "--kind",
            "canny",
            tmp_path / "in.jpg",
            "-o",
            tmp_path / "out.png",
            "--size",
            64,
            "--set",
            "low=20",
            "--json",
        )
    )
    assert said == {
        "kind": "canny",
        "size": 64,
        "image": str(tmp_path / "in.jpg"),
        "out": str(tmp_path / "out.png"),
    }
    picture = np.asarray(Image.open(tmp_path / "in.jpg"))
    assert np.array_equal(
        np.asarray(Image.open(tmp_path / "out.png")), Canny(low=20.0).render(picture, 64)
    )
    run("--kind", "canny", tmp_path / "in.jpg", "-o", tmp_path / "out.png")
    assert Image.open(tmp_path / "out.png").size == (40, 40)


def test_a_folder(tmp_path: Path) -> None:
    save_face(tmp_path / "in" / "a.jpg")
    save_face(tmp_path / "in" / "b.jpg", seed=1)
    (tmp_path / "in" / "c.jpg").write_bytes(b"none")
    call = ("--kind", "canny", tmp_path / "in", "-o", tmp_path / "out", "--size", 32)
    assert "c.jpg: it is a text" in fail("condition", *call).line
    said = json.loads(run(*call, "--on-bad", "skip", "--json"))
    assert {key: said[key] for key in ("images", "written", "kept", "missing", "bad")} == {
        "images": 3,
        "written": 0,
        "kept": 2,
        "missing": 0,
        "bad": 1,
    }
    assert said["skipped"][0]["image"].endswith("c.jpg")
    text = run(*call, "--on-bad", "skip", "--set", "low=50")
    assert "2 written, 0 kept, 1 unreadable, 0 without a face" in text and "c.jpg" in text
    assert leftovers(tmp_path / "out") == ["a.jpg.png", "b.jpg.png"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--kind", "cany"), "Did you mean canny?"),
        (("--kind", "canny", "--task", "x.task"), "it has no setting 'task'"),
        (("--kind", "canny", "--set", "low"), "it is not KEY=VALUE"),
        (("--kind", "canny", "--size", "8"), "--size"),
        (("--kind", "depth"), "--set model=NAME"),
        (("--kind", "depth", "--set", "model=m", "--device", "tpu"), "Use auto, cpu or cuda"),
        (("--kind", "face_landmark", "--task", "none.task"), "give --task FILE"),
        (("--kind", "holistic"), "set UNPLUG_HOLISTIC_LANDMARKER"),
        ((), "--kind"),
    ],
)
def test_wrong_use(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNPLUG_HOLISTIC_LANDMARKER", raising=False)
    save_face(tmp_path / "in.jpg")
    assert (
        message in fail("condition", tmp_path / "in.jpg", "-o", tmp_path / "out.png", *words).line
    )
    assert leftovers(tmp_path) == ["in.jpg"]


def test_the_photograph_is_not_replaced_and_only_png_is_written(tmp_path: Path) -> None:
    save_face(tmp_path / "in.png")
    before = (tmp_path / "in.png").read_bytes()
    call = ("condition", "--kind", "canny", tmp_path / "in.png", "-o")
    assert "in.png: it is the picture itself" in fail(*call, tmp_path / "in.png").line
    assert "conditions are written as PNG" in fail(*call, tmp_path / "out.jpg").line
    assert (tmp_path / "in.png").read_bytes() == before and leftovers(tmp_path) == ["in.png"]


def test_what_is_no_picture(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no picture")
    call = ("condition", "--kind", "canny", "-o", tmp_path / "out.png")
    assert "notes.txt: it is a text" in fail(*call, tmp_path / "notes.txt").line
    assert "none.png: No such file" in fail(*call, tmp_path / "none.png").line
    save_face(tmp_path / "tiny.jpg", size=8)
    assert "tiny.jpg: 8x8 pixels are too few" in fail(*call, tmp_path / "tiny.jpg").line
    assert leftovers(tmp_path) == ["notes.txt", "tiny.jpg"]
