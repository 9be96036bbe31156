"""``unplug detect``: pictures of the decoder that ships carry its mark, others do not, and what says
nothing is refused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from unplug.plugins import shipped_path
from unplug.sdk import detect, generate
from unplug.sdk.drawing.device import MARKS, make_key
from unplug.sdk.drawing.device.mark import DEMONSTRATION
from unplug.sdk.learning.data import load_dataset

from .calls import refused, run, said

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four pictures by the decoder that ships, and one of them after this and that."""
    folder = tmp_path_factory.mktemp("drawn")
    made = generate("an adult, smiling, red bob", count=4, seed=60, show=False)
    for number, picture in enumerate(made.pictures):
        picture.save(folder / f"{number}.png")
    first = made.pictures[0]
    first.resize((64, 64), Image.Resampling.BILINEAR).save(folder / "half.png")
    first.save(folder / "jpeg.jpg", quality=80)
    ImageEnhance.Brightness(first).enhance(0.7).save(folder / "dark.png")
    return folder


def test_marked_pictures_are_found_also_after_what_happens_to_pictures(drawn: Path) -> None:
    found = detect(sorted(drawn.iterdir()), show=False)
    assert len(found) == 7
    assert all(one.marked and one.agree >= 41 for one in found), found


def test_the_command_says_so_and_ends_with_0_or_1(drawn: Path, tmp_path: Path) -> None:
    pictures = said(f"detect {drawn}/0.png {drawn}/half.png")["pictures"]
    assert [one["marked"] for one in pictures] == [True, True]
    assert pictures[0]["accuracy"] == pictures[0]["agree"] / 48
    face = load_dataset("synth:n=1,subjects=1,seed=3", 128, show=False).pixels([0])[0]
    Image.fromarray(face).save(tmp_path / "face.png")
    text = run(f"detect {drawn}/0.png {tmp_path}/face.png", code=1).stdout
    assert "0.png: marked by this key" in text and "face.png: no mark found" in text


def test_faces_and_other_keys_are_not_marked(drawn: Path, tmp_path: Path) -> None:
    """The bound: 60 faces and 20 other keys, each called marked at most once in a million."""
    faces = load_dataset("synth:n=60,subjects=60,seed=5", 128, show=False).pixels(range(60))
    for number, face in enumerate(faces):
        Image.fromarray(face).save(tmp_path / f"{number}.png")
    assert not any(one.marked for one in detect(sorted(tmp_path.glob("*.png")), show=False))
    for number in range(20):
        make_key(tmp_path / f"{number}.key")
        (one,) = detect([drawn / "1.png"], mark=tmp_path / f"{number}.key", show=False)
        assert not one.marked


def test_what_says_nothing_is_refused(drawn: Path, tmp_path: Path) -> None:
    Image.new("RGB", (60, 60)).save(tmp_path / "small.png")
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "key").write_text("1234")
    np.save(tmp_path / "array.npy", np.zeros(3))
    for words in (
        f"{tmp_path}/small.png",
        f"{drawn}/0.png {tmp_path}/text.png",
        f"{tmp_path}/array.npy",
        f"{drawn}",
        f"{tmp_path}/none.png",
        f"{drawn}/0.png --mark {tmp_path}/key",
        f"{drawn}/0.png --mark {tmp_path}/none",
        "",
    ):
        refused(f"detect {words}")


def test_the_public_key_ships_as_others_read_it() -> None:
    key = (shipped_path("small", MARKS) / DEMONSTRATION).read_text(encoding="ascii").strip()
    assert len(key) == 12 and int(key, 16) >= 0
