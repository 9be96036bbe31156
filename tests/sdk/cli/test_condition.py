"""``unplug condition``: one picture, a folder, and what people do wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unplug.plugins.conditions import Canny

from .calls import leftovers, refused, run, said, save_face


def test_one_picture(tmp_path: Path) -> None:
    image, out = tmp_path / "in.jpg", tmp_path / "out.png"
    save_face(image)
    value = said(f"condition --kind canny {image} -o {out} --pixels 64 --set low=20")
    assert value == {"kind": "canny", "size": 64, "image": str(image), "out": str(out)}
    drawn = Canny(low=20.0).render(np.asarray(Image.open(image)), 64)
    assert np.array_equal(np.asarray(Image.open(out)), drawn)
    run(f"condition --kind canny {image} -o {out}")
    assert Image.open(out).size == (40, 40)


def test_a_folder(tmp_path: Path) -> None:
    for seed, name in enumerate("ab"):
        save_face(tmp_path / "in" / f"{name}.jpg", seed=seed)
    (tmp_path / "in" / "c.jpg").write_bytes(b"none")
    line = f"condition --kind canny {tmp_path}/in -o {tmp_path}/out --pixels 32"
    assert "c.jpg: it is a text" in refused(line)
    line += " --on-bad skip"
    value = said(line)
    counts = {"images": 3, "written": 0, "kept": 2, "missing": 0, "bad": 1}
    assert value.items() >= counts.items() and value["skipped"][0]["image"].endswith("c.jpg")
    text = run(f"{line} --set low=50").stdout
    assert "2 written, 0 kept, 1 unreadable, 0 without a face" in text and "c.jpg" in text
    assert leftovers(tmp_path / "out") == ["a.jpg.png", "b.jpg.png"]


@pytest.mark.parametrize(
    ("image", "words", "message"),
    [
        ("in.png", "--kind cany", "Did you mean canny?"),
        ("in.png", "--kind canny --landmarker x.task", "it has no setting 'task'"),
        ("in.png", "--kind canny --set low", "it is not KEY=VALUE"),
        ("in.png", "--kind canny --pixels 8", "--pixels"),
        ("in.png", "--kind depth", "--set model=NAME"),
        ("in.png", "--kind depth --set model=m --device tpu", "Use auto, cpu or cuda"),
        ("in.png", "--kind face_landmark --landmarker none.task", "give --landmarker FILE"),
        ("in.png", "--kind holistic", "set UNPLUG_HOLISTIC_LANDMARKER"),
        ("in.png", "", "--kind"),
        ("in.png", "--kind canny -o {}/in.png", "in.png: it is the picture itself"),
        ("in.png", "--kind canny -o {}/out.jpg", "conditions are written as PNG"),
        ("notes.txt", "--kind canny", "notes.txt: it is a text"),
        ("none.png", "--kind canny", "none.png: No such file"),
        ("tiny.jpg", "--kind canny", "tiny.jpg: 8x8 pixels are too few"),
    ],
)
def test_wrong_use(
    image: str, words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNPLUG_HOLISTIC_LANDMARKER", raising=False)
    save_face(tmp_path / "tiny.jpg", size=8)
    (tmp_path / "notes.txt").write_text("no picture")
    before = save_face(tmp_path / "in.png")
    line = f"condition {tmp_path}/{image} -o {tmp_path}/out.png {words.format(tmp_path)}"
    assert message in refused(line)
    assert leftovers(tmp_path) == ["in.png", "notes.txt", "tiny.jpg"]
    assert (tmp_path / "in.png").read_bytes() == before
