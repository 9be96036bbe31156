"""Example inputs: what each kind of model is shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unplug.core import DataError, InputError, IOSpec, TensorSpec
from unplug.export import check_inputs
from unplug.plugins.conditions import build_condition
from unplug.sdk.drawing.conditions import example_inputs, real_inputs
from unplug.sdk.drawing.conditions.inputs import SEED, part_of
from unplug.sdk.learning.data import load_dataset

from ...conftest import World

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
    found = example_inputs("age", spec("image"), 3)
    assert check_inputs(spec("image"), found) == 3
    np.testing.assert_array_equal(
        found["image"], faces(3).transpose(0, 3, 1, 2) / np.float32(255.0)
    )


def test_plugins_see_the_edges_of_faces_in_their_range() -> None:
    signed = spec("condition", -1.0, 1.0)
    found = example_inputs("plugin", signed, 3)
    assert check_inputs(signed, found) == 3
    canny = build_condition("canny")
    for array_CHW, face_HWC in zip(found["condition"], faces(3), strict=True):
        np.testing.assert_array_equal((array_CHW.transpose(1, 2, 0) + 1) / 2 * 255, canny(face_HWC))
    share = (found["condition"] > 0).mean()
    assert 0.005 < share < 0.5, "lines on an empty canvas"


def test_a_folder_is_shown_as_it_is(tmp_path: Path) -> None:
    for index in range(3):
        Image.new("RGB", (SIDE, SIDE), (51 * index, 0, 255)).save(tmp_path / f"{index}.png")
    found = example_inputs("plugin", spec("condition", 0.0, 2.0), 8, images=tmp_path)["condition"]
    assert found.shape == (3, 3, SIDE, SIDE)
    assert (
        sorted(found[:, 0, 0, 0].tolist()) == pytest.approx([0.0, 0.4, 0.8])
        and (found[:, 2] == 2.0).all()
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


def test_samples_of_the_training_data_come_from_their_part(world: World) -> None:
    """Nothing that was forgotten calibrates, nothing trained on judges."""
    split, ids = world.split.with_forget(world.forget_ids), world.dataset.ids
    for part, wanted in (("retain", set(split.retain)), ("test", set(split.test))):
        places, where = part_of(world.unlearned, world.dataset, part)
        assert {
            ids[place] for place in places
        } == wanted and where == f"the {part} part of the model's split"
    said: list[str] = []
    found = real_inputs(world.unlearned, world.dataset, 5, part="test", say=said.append)["image"]
    assert found.shape == (5, 3, 32, 32) and said == [
        "samples are drawn from the test part of the model's split"
    ]
    last = real_inputs(
        world.unlearned,
        world.dataset,
        5,
        part="test",
        iospec=world.unlearned.model.iospec.images_in("NHWC"),
    )
    np.testing.assert_array_equal(last["image"].transpose(0, 3, 1, 2), found)


@pytest.mark.long
def test_what_was_forgotten_is_left_out_of_other_data_too(world: World) -> None:
    """The same folder with one picture more has another digest, and the same people in it."""
    more = load_dataset("synth:n=243,subjects=81,seed=0", 32, show=False)
    assert more.digest != world.dataset.digest
    places, where = part_of(world.unlearned, more, "retain")
    gone = set(world.forget_ids)
    assert gone and {more.ids[place] for place in places} == set(more.ids) - gone
    assert where.endswith(f"but for {len(gone)} with the id of one that it forgot")
    everything, where = part_of(world.original, more, "retain")
    assert (
        len(everything) == len(more)
        and where == "all of this data, which is not what the model was trained on"
    )
