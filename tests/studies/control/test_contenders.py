"""Controls that a comparison trains or is given, and data of other kinds."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks.studies.control import control_error, prepare
from benchmarks.studies.control.judge import make_reader
from benchmarks.studies.control.report import FeatureFacts
from benchmarks.studies.control.summary import _notes
from PIL import Image

from unplug.core import InputError
from unplug.sdk.learning.data import load_dataset, make_split

from .conftest import CPU, PICTURES, SIZE, Ask

pytestmark = pytest.mark.study


# A plugin that was trained before


# Requests and data


def test_more_pictures_than_are_held_out(ask: Ask, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Ask for 8 at most"):
        prepare(ask(tmp_path, pictures=9), device=CPU, show=False, say=lambda _: None)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"controls": ()}, "names none"),
        ({"controls": ("plugin", "plugin")}, "one twice"),
        ({"controls": ("plugi",)}, "plugin"),
        ({"lrs": {"lora": (0.1,)}}, "not among"),
        ({"lrs": {"plugin": (1e-3, -1.0)}}, "out of range"),
        ({"lrs": {"plugin": ()}}, "names no rate"),
        ({"pictures": 3}, "out of range"),
        ({"guidance": float("nan")}, "out of range"),
    ],
)
def test_impossible_requests(ask: Ask, tmp_path: Path, change: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        ask(tmp_path, **change)


def test_other_conditions_have_no_control_error() -> None:
    setup: Any = SimpleNamespace(
        request=SimpleNamespace(condition="depth", options={}),
        condition_NHWC=np.zeros((1, 8, 8, 3), np.uint8),
    )
    error = control_error(setup)
    assert error(np.zeros((1, 8, 8, 3), np.uint8)) == {}


def test_data_without_attributes_has_latents_for_features(ask: Ask, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for index in range(14):
        pixels = np.kron(rng.integers(0, 256, (4, 4, 3)), np.ones((16, 16, 1))).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{index:02d}.png")
        (folder / f"{index:02d}.txt").write_text(f"squares number {index}")
    dataset = load_dataset(f"captions:{folder}", SIZE, show=False)
    from unplug.sdk.learning.data import save_split

    save_split(make_split(dataset, validation=0.3, test=0.3), tmp_path / "split.json")
    request = ask(tmp_path / "out", spec=f"captions:{folder}", split=tmp_path / "split.json")
    setup = prepare(request, device=CPU, show=False, say=lambda _: None)
    reader = make_reader(setup)
    features, read = reader(setup.source_NHWC)
    assert (
        reader.judge is None
        and reader.name.startswith("latents")
        and features.shape == (PICTURES, 4 * 8 * 8)
        and not read
    )
    np.testing.assert_allclose(features[1:2], reader.features(setup.source_NHWC[1:2]), atol=1e-4)
    notes = " ".join(
        _notes(
            setup, (), FeatureFacts(name="f", width=3, components=None, variance=1.0, real=9), None
        )
    )
    assert "no judge" in notes and "trained once" in notes


TASK = os.environ.get("UNPLUG_FACE_LANDMARKER", "")


@pytest.mark.nightly
@pytest.mark.skipif(not TASK, reason="UNPLUG_FACE_LANDMARKER names no task file")
def test_landmarks_of_moved_pictures(ask: Ask, tmp_path: Path) -> None:
    """A source has no error; moved by four pixels it has about four over its eyes' distance; grey
    shows no face.
    """
    setup = prepare(
        ask(tmp_path, condition="face_landmark"), device=CPU, show=False, say=lambda _: None
    )
    error = control_error(setup)
    same, moved = error(setup.source_NHWC), error(np.roll(setup.source_NHWC, 4, axis=2))
    assert same["found"].tolist() == [1.0] * PICTURES and same["nme"].max() == 0.0
    assert same["true_nme"].max() < 0.15
    assert moved["found"].sum() >= PICTURES - 1
    assert same["nme_8"].tolist() == [1.0] * PICTURES
    outer = [np.linalg.norm(points[33] - points[263]) for points in error.wanted]
    assert np.nanmedian(moved["nme"] * outer) == pytest.approx(4.0, abs=1.0)
    nothing = error(np.full_like(setup.source_NHWC, 128))
    assert (
        nothing["found"].sum() == 0
        and np.isnan(nothing["nme"]).all()
        and np.isnan(nothing["true_nme"]).all()
    )
    assert nothing["nme_8"].tolist() == [0.0] * PICTURES
    known = error.of_sources(range(PICTURES))
    assert all(np.array_equal(known[name], same[name]) for name in same)
