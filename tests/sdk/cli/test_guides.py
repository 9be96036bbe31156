"""Which picture, settings and crop each plugin of ``unplug generate`` gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from unplug.core import DataError, InputError
from unplug.sdk.cli.guides import GuideOrder
from unplug.sdk.drawing.conditions import FaceFrame, Steering

A, B = Path("a.png"), Path("b.png")
KINDS = {"f": "face_landmark", "c": "canny", "h": "holistic"}


def guides(plugins: str, **given: Any) -> tuple[Steering, ...]:
    return GuideOrder(plugins=tuple(plugins), **{"settings": {}} | given).steerings(
        KINDS.__getitem__
    )


@pytest.mark.parametrize(
    ("crop", "settings", "cropped"),
    [
        ("auto", {}, [True, False]),
        ("face", {}, [True, True]),
        ("none", {}, [False, False]),
        ("auto", {"faces": "all"}, [False, False]),
        ("auto", {"face_landmark.faces": "all"}, [False, False]),
        ("auto", {"faces": "largest"}, [True, False]),
    ],
)
def test_what_is_cropped(crop: str, settings: dict[str, str], cropped: list[bool]) -> None:
    found = guides("fc", photos=(A, B), crop=crop, settings=settings)
    assert [item.frame is not None for item in found] == cropped and [
        item.image for item in found
    ] == [A, B]


def test_a_setting_goes_where_it_is_known() -> None:
    settings = {"faces": "largest", "low": "9", "canny.high": "10"}
    first, second = guides(
        "fc", photos=(A, B), crop="face", task=Path("t"), margin=0.5, settings=settings
    )
    assert first.options == {"task": "t", "faces": "largest"} and second.options == {
        "low": "9",
        "high": "10",
    }
    assert first.frame == second.frame == FaceFrame(task="t", faces="largest", margin=0.5)
    (only,) = guides("c", photos=(A,), settings={"lower": "1"})
    assert only.options == {"lower": "1"}  # nobody has it, and the condition will say so
    drawn, photo = guides(
        "cc", conditions=(A,), photos=(B,), settings={"low": "1"}, strengths=(0.5, 2.0)
    )
    assert (drawn.options, photo.options, drawn.photo, photo.photo) == (
        {},
        {"low": "1"},
        False,
        True,
    )
    assert (drawn.strength, photo.strength) == (0.5, 2.0)


@pytest.mark.parametrize(
    ("plugins", "given", "words"),
    [
        ("h", {"photos": (A,), "crop": "face"}, "holistic draws a whole body"),
        (
            "f",
            {"photos": (A,), "crop": "face", "settings": {"faces": "all"}},
            "one face is cropped",
        ),
        (
            "c",
            {"photos": (A,), "settings": {"depth.model": "x"}},
            "no photograph is drawn as depth",
        ),
        ("c", {"photos": (A,), "crop": "face", "margin": float("nan")}, "margin nan: out of range"),
        ("c", {"conditions": (A,), "margin": 0.1}, "only photographs are cropped"),
        ("cc", {"conditions": (A,)}, "2 plugins and 1 picture"),
    ],
)
def test_what_does_not_fit_is_refused(plugins: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        guides(plugins, **given)


def test_an_example_ships_for_face_landmarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    order = GuideOrder(plugins=("f",), conditions=(Path("example"),), settings={})
    order.check_there()
    (found,) = order.steerings(KINDS.__getitem__)
    assert isinstance(found.image, Path)
    with Image.open(found.image) as picture:
        assert picture.size == (128, 128) and picture.getbbox() is not None
    with pytest.raises(
        InputError, match=r"one of face_landmark, and none of canny.*unplug condition"
    ):
        guides("c", conditions=(Path("example"),))
    with pytest.raises(DataError, match="no such file"):
        GuideOrder(plugins=("f",), photos=(Path("example"),), settings={}).check_there()
    Path("example").write_bytes(b"mine")
    assert guides("f", conditions=(Path("example"),))[0].image == Path("example")
