"""Controls that a comparison trains or is given, and data of other kinds."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks.studies.control import Row, control_error, prepare
from benchmarks.studies.control.contenders import contender, enter
from benchmarks.studies.control.judge import make_reader
from benchmarks.studies.control.report import FeatureFacts
from benchmarks.studies.control.setup import LEARNING_RATES
from benchmarks.studies.control.summary import _notes
from PIL import Image
from safetensors.torch import load_file, save_file

from unplug.core import CheckpointError, InputError, sha256_file
from unplug.sdk.drawing.diffusion import load_base, train_plugin
from unplug.sdk.learning.data import load_dataset, load_split, make_split

from .conftest import CPU, PICTURES, QUICK, SIZE, SPEC, Ask

pytestmark = pytest.mark.study

RATE = LEARNING_RATES["plugin"]


# A plugin that was trained before


@pytest.fixture(scope="module")
def plugin_dir(tiny_base: Path, split_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plugin") / "p"
    dataset = load_dataset(SPEC, SIZE, show=False)
    train_plugin(
        load_base(str(tiny_base), device=CPU),
        "tiny",
        dataset,
        load_split(split_file),
        "canny",
        out,
        QUICK,
        seed=0,
        device=CPU,
        sample_every=0,
        show=False,
    )
    return out


@pytest.mark.long
def test_it_is_taken_where_its_record_says_the_same(
    ask: Ask, plugin_dir: Path, tmp_path: Path
) -> None:
    """Trained here or by `unplug train plugin`, the weights are the same; without a split file its
    own is taken.
    """
    setup = prepare(
        ask(tmp_path, plugin=plugin_dir, split=None), device=CPU, show=False, say=lambda _: None
    )
    given = contender(setup, "plugin", 0, RATE)
    assert given.training.given and given.folder == plugin_dir and given.training.stored == "F32"
    here = contender(
        prepare(ask(tmp_path), device=CPU, show=False, say=lambda _: None), "plugin", 0, RATE
    )
    assert not here.training.given and here.training.validation == pytest.approx(
        given.training.validation, rel=1e-5
    )
    ours, theirs = here.network.state_dict(), given.network.state_dict()
    assert ours.keys() == theirs.keys() and all(
        bool((ours[name] == theirs[name]).all()) for name in ours
    )


def edited(plugin_dir: Path, folder: Path, change: Any) -> Path:
    shutil.copytree(plugin_dir, folder)
    record = json.loads((folder / "unplug.json").read_text())
    change(record)
    (folder / "unplug.json").write_text(json.dumps(record))
    return folder


@pytest.mark.long
def test_it_is_refused_where_it_was_trained_otherwise(
    ask: Ask, plugin_dir: Path, tmp_path: Path
) -> None:
    """With another rate, seed or condition; more samples a step than a batch; prompts of another
    seed.
    """
    seen = edited(
        plugin_dir,
        tmp_path / "seen",
        lambda record: record["cost"].update(forward=2 * record["cost"]["forward"]),
    )
    told = edited(plugin_dir, tmp_path / "told", lambda record: record.update(captions="0" * 64))
    for change, word in (
        ({"lrs": {"plugin": (0.5,)}}, "lr"),
        ({"seed": 3}, "seed"),
        ({"options": {"low": "50"}}, "settings of the condition"),
        ({"plugin": seen}, "samples seen"),
        ({"plugin": told}, "prompts"),
    ):
        request = ask(tmp_path / "out", **{"plugin": plugin_dir} | change)
        setup = prepare(request, device=CPU, show=False, say=lambda _: None)
        with pytest.raises(CheckpointError, match=rf"trained otherwise .*\b{word}\b.* differ"):
            contender(setup, "plugin", request.seed, request.rates_of("plugin")[0])


def test_among_several_rates_it_stands_for_its_own(
    ask: Ask, plugin_dir: Path, tmp_path: Path
) -> None:
    request = ask(
        tmp_path, plugin=plugin_dir, lrs={"plugin": (RATE / 2, RATE)}, controls=("plugin",)
    )
    entrant = enter(prepare(request, device=CPU, show=False, say=lambda _: None), "plugin")
    assert [(one.lr, one.given) for one in entrant.tried] == [(RATE / 2, False), (RATE, True)]


def test_half_precision_is_told(ask: Ask, plugin_dir: Path, tmp_path: Path) -> None:
    folder = edited(plugin_dir, tmp_path / "half", lambda _: None)
    path = folder / "diffusion_pytorch_model.safetensors"
    weights = load_file(path)
    save_file(
        {
            name: value.half() if value.is_floating_point() else value
            for name, value in weights.items()
        },
        path,
    )
    record = json.loads((folder / "unplug.json").read_text())
    (folder / "unplug.json").write_text(json.dumps(record | {"weights_sha256": sha256_file(path)}))
    setup = prepare(
        ask(tmp_path / "out", plugin=folder), device=CPU, show=False, say=lambda _: None
    )
    training = contender(setup, "plugin", 0, RATE).training
    assert training.given and training.stored == "F16"
    row = Row(name="plugin", label="plugin", role="control", trainings=(training,))
    facts = FeatureFacts(name="f", width=3, components=None, variance=1.0, real=9)
    assert "stored in half precision (F16)" in " ".join(_notes(setup, (row,), facts, None))


def test_a_plugin_without_a_record_is_refused(ask: Ask, plugin_dir: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(plugin_dir, bare)
    (bare / "unplug.json").unlink()
    setup = prepare(ask(tmp_path / "out", plugin=bare), device=CPU, show=False, say=lambda _: None)
    with pytest.raises(CheckpointError, match="does not say how it was trained"):
        contender(setup, "plugin", 0, RATE)


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
        ({"plugin": Path("x"), "controls": ("controlnet",)}, "not among"),
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
