"""Example inputs: what each kind of model is shown."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unplug.core import DataError, InputError, IOSpec, TensorSpec
from unplug.export import check_inputs
from unplug.plugins.conditions import build_condition
from unplug.sdk.drawing.conditions import example_inputs, real_inputs
from unplug.sdk.drawing.conditions.inputs import SEED, Part, part_of
from unplug.sdk.learning.data import Dataset, Split, load_dataset, make_split

SIDE = 64


def spec(name: str, low: float = 0.0, high: float = 1.0, **changes: object) -> IOSpec:
    tensor: dict[str, object] = {
        "name": name,
        "shape": (1, 3, SIDE, SIDE),
        "layout": "NCHW",
        "range": (low, high),
    }
    return IOSpec(inputs=(TensorSpec(**(tensor | changes)),), outputs=())  # type: ignore[arg-type]


def faces(count: int) -> np.ndarray:
    return load_dataset(f"synth:n={count},subjects={count},seed={SEED}", SIDE, show=False).pixels(
        range(count)
    )


def test_age_predictors_see_faces() -> None:
    shown = example_inputs("age", spec("image"), 3)
    assert check_inputs(spec("image"), shown) == 3
    np.testing.assert_array_equal(
        shown["image"], faces(3).transpose(0, 3, 1, 2) / np.float32(255.0)
    )


def test_plugins_see_the_edges_of_faces_in_their_range() -> None:
    signed = spec("condition", -1.0, 1.0)
    shown = example_inputs("plugin", signed, 3)
    assert check_inputs(signed, shown) == 3
    canny = build_condition("canny")
    for array_CHW, face_HWC in zip(shown["condition"], faces(3), strict=True):
        np.testing.assert_array_equal((array_CHW.transpose(1, 2, 0) + 1) / 2 * 255, canny(face_HWC))
    share = (shown["condition"] > 0).mean()
    assert 0.005 < share < 0.5, "lines on an empty canvas"


def test_a_folder_is_shown_as_it_is(tmp_path: Path) -> None:
    for index in range(3):
        Image.new("RGB", (SIDE, SIDE), (51 * index, 0, 255)).save(tmp_path / f"{index}.png")
    shown = example_inputs("plugin", spec("condition", 0.0, 2.0), 8, images=tmp_path)["condition"]
    assert shown.shape == (3, 3, SIDE, SIDE)
    assert (
        sorted(shown[:, 0, 0, 0].tolist()) == pytest.approx([0.0, 0.4, 0.8])
        and (shown[:, 2] == 2.0).all()
    )
    with pytest.raises(DataError):
        example_inputs("plugin", spec("condition"), 1, images=tmp_path / "none")


@pytest.mark.parametrize("model_type", ["unet", "decoder"])
def test_parts_of_a_base_take_no_pictures(model_type: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it takes latents, not pictures"):
        example_inputs(model_type, spec("latents"), 1, images=tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": (1, 1, SIDE, SIDE)},
        {"shape": (1, 3, SIDE, 32)},
        {"layout": "NHWC"},
        {"dtype": "uint8"},
    ],
)
def test_models_that_take_something_else(changes: dict[str, object]) -> None:
    with pytest.raises(
        InputError, match=r"model of type odd: its inputs are x .*, not one square RGB image"
    ):
        example_inputs("odd", spec("x", **changes), 1)


@pytest.fixture(scope="module")
def trained() -> tuple[Any, Dataset, Split]:
    """What of a checkpoint is looked at: one that forgot two of its people."""
    data = load_dataset("synth:n=40,subjects=20,seed=0", SIDE, show=False)
    split = make_split(data, seed=0, validation=0.2, test=0.2)
    split = split.with_forget(split.train[:2])
    model = SimpleNamespace(iospec=spec("image"))
    record = {"split": split.to_dict()}
    return SimpleNamespace(model_type="age", model=model, record=record), data, split


def test_samples_of_the_training_data_come_from_their_part(
    trained: tuple[Any, Dataset, Split],
) -> None:
    """Nothing that was forgotten calibrates, nothing trained on judges."""
    checkpoint, data, split = trained
    wanted: dict[Part, tuple[str, ...]] = {"retain": split.retain, "test": split.test}
    for part, names in wanted.items():
        places, where = part_of(checkpoint, data, part)
        assert {data.ids[place] for place in places} == set(names)
        assert where == f"the {part} part of the model's split"
    lines: list[str] = []
    shown = real_inputs(checkpoint, data, 5, part="test", say=lines.append)["image"]
    assert shown.shape == (5, 3, SIDE, SIDE)
    assert lines == ["samples are drawn from the test part of the model's split"]
    other = spec("image").images_in("NHWC")
    last = real_inputs(checkpoint, data, 5, part="test", iospec=other)["image"]
    np.testing.assert_array_equal(last.transpose(0, 3, 1, 2), shown)


def test_what_was_forgotten_is_left_out_of_other_data_too(
    trained: tuple[Any, Dataset, Split],
) -> None:
    """The same folder with one picture more has another digest, and the same people in it."""
    checkpoint, _, split = trained
    more = load_dataset("synth:n=42,subjects=20,seed=0", SIDE, show=False)
    places, where = part_of(checkpoint, more, "retain")
    assert split.forget and {more.ids[row] for row in places} == set(more.ids) - set(split.forget)
    assert where.endswith(f"but for {len(split.forget)} with the id of one that it forgot")
    original = SimpleNamespace(record={})
    everything, where = part_of(original, more, "retain")  # type: ignore[arg-type]
    assert len(everything) == len(more)
    assert where == "all of this data, which is not what the model was trained on"
