"""Exact depth as a condition: when it is taken, what it says of itself, what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unplug.core import InputError, OutputError
from unplug.plugins.conditions import EXACT, Depth, build_condition, grey, identity, portable
from unplug.sdk.drawing.conditions import Steering, draw_conditions, exact, exact_depths, with_exact
from unplug.sdk.learning.data import Dataset, load_dataset, parse_spec
from unplug.sdk.learning.faces.depth import REVISION, depth_map

SIZE = 32
NAMED = {"model": EXACT, "revision": str(REVISION)}


@pytest.fixture(scope="module")
def drawn() -> Dataset:
    return load_dataset("synth:n=5,subjects=5,seed=6", SIZE, show=False)


@pytest.fixture
def photographs(tmp_path: Path) -> Dataset:
    (tmp_path / "photographs").mkdir()
    Image.new("RGB", (40, 40)).save(tmp_path / "photographs" / "a.png")
    return load_dataset(f"imagefolder:{tmp_path / 'photographs'}", SIZE, show=False)


def test_it_is_named_for_drawn_faces_where_no_model_is(
    drawn: Dataset, photographs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNPLUG_DEPTH_MODEL", raising=False)
    assert with_exact("depth", None, drawn) == NAMED
    assert with_exact("depth", {"device": "cpu"}, drawn) == {"device": "cpu", **NAMED}
    # what a record says is refused later, not changed
    assert with_exact("depth", {"model": EXACT}, photographs) == NAMED
    assert with_exact("depth", NAMED | {"revision": "0"}, drawn) == NAMED | {"revision": "0"}
    assert with_exact("depth", {"model": "a/network"}, drawn) == {"model": "a/network"}
    assert with_exact("depth", {}, photographs) == {} and with_exact("canny", {}, drawn) == {}
    monkeypatch.setenv("UNPLUG_DEPTH_MODEL", "a/network")
    assert with_exact("depth", {}, drawn) == {}
    # a plugin trained on it stays with it
    assert with_exact("depth", {"model": EXACT}, drawn) == NAMED


def test_its_settings_say_so_and_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNPLUG_DEPTH_MODEL", "a/network")
    condition = build_condition("depth", NAMED)
    assert condition.resolve() == condition and identity(condition)["settings"] == NAMED
    assert portable(condition) == NAMED and identity(
        build_condition("depth", portable(condition))
    ) == identity(condition)


def test_pictures_have_none(
    tmp_path: Path, drawn: Dataset, photographs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNPLUG_DEPTH_MODEL", raising=False)
    with pytest.raises(InputError, match=r"known of drawn faces \(synth:\) only"):
        Depth(model=EXACT)(drawn.pixels([0])[0])
    with pytest.raises(InputError, match="it needs a model and none is named"):
        Depth().resolve()
    with pytest.raises(InputError, match="it needs a model and none is named"):
        photo = next((tmp_path / "photographs").iterdir())
        draw_conditions([Steering(plugin="x", image=photo, photo=True)], ["depth"], SIZE)
    with pytest.raises(InputError, match="their exact depth is not known"):
        exact_depths(photographs, NAMED, SIZE)
    for revision in ("", "0", "99"):
        with pytest.raises(InputError, match=f"this unplug has revision {REVISION}"):
            exact_depths(drawn, NAMED | {"revision": revision}, SIZE)


def test_rows_are_the_grey_depth_of_the_samples(
    drawn: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "CHUNK", 2)
    rows, found = exact_depths(drawn, NAMED, SIZE)
    source = parse_spec(drawn.spec)
    for index, row in enumerate(rows):
        depth = depth_map(source.params(index), SIZE)  # type: ignore[attr-defined]
        assert np.array_equal(row, grey(depth)) and row.max() == 255 and row[0, 0].max() == 0
    assert found.all() and rows.shape == (5, SIZE, SIZE, 3)
    some = replace(drawn, samples=drawn.samples[3:], rows=drawn.rows[3:])
    assert np.array_equal(exact_depths(some, NAMED, SIZE)[0], rows[3:])
    out = tmp_path / "depth.npy"
    kept, _ = exact_depths(drawn, NAMED, SIZE, out=out)
    assert np.array_equal(kept, rows) and not kept.flags.writeable
    notes = json.loads(out.with_suffix(".json").read_text())
    assert notes["condition"]["settings"] == NAMED and notes["images"] == f"data {drawn.digest}"


def test_killed_it_goes_on_and_finished_it_is_read(
    drawn: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "CHUNK", 2)
    asked: list[float] = []

    def dying(depth: np.ndarray) -> np.ndarray:
        asked.append(float(depth.max()))
        if len(asked) == 4:
            raise KeyboardInterrupt
        return grey(depth)

    out = tmp_path / "depth.npy"
    with monkeypatch.context() as patch:
        patch.setattr(exact, "grey", dying)
        with pytest.raises(KeyboardInterrupt):
            exact_depths(drawn, NAMED, SIZE, out=out)
        rows, _ = exact_depths(drawn, NAMED, SIZE, out=out)
        assert len(asked) == 4 + 3  # the first two were written
        exact_depths(drawn, NAMED, SIZE, out=out)
        assert len(asked) == 4 + 3
    assert np.array_equal(rows, exact_depths(drawn, NAMED, SIZE)[0])
    (tmp_path / "mine.npy").write_text("a letter")
    with pytest.raises(OutputError, match="was not written by this function"):
        exact_depths(drawn, NAMED, SIZE, out=tmp_path / "mine.npy")
