"""The age predictor: sizes as promised, feature maps for every input size, the expectation by hand,
arguments refused.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from unplug.core import InputError
from unplug.plugins import MAX_IMAGE_SIZE, MIN_IMAGE_SIZE, SIZES, AgePredictor, size_of
from unplug.plugins.age_sizes import MAX_GROUPS, halved, stage_strides

WRITTEN = "16:16x1e1,24x2,32x2,64x3,96x2:384"
PROMISED = {"nano": 0.3e6, "small": 1.0e6, "base": 6.0e6}
SLACK = 0.15  # "about", in the docstring's round numbers
ROUNDING = 1e-4  # float32 softmax and a sum of ten ages of up to 90 years


@pytest.mark.parametrize("size", SIZES)
def test_parameter_counts(size: str) -> None:
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in AgePredictor(size=size).parameters())
    assert abs(count / PROMISED[size] - 1) <= SLACK and count <= 6.0e6


def test_a_size_that_is_written_out_is_the_named_one() -> None:
    nano = size_of(WRITTEN)
    assert nano == SIZES["nano"]
    assert size_of("nano:212211") == replace(nano, strides=(2, 1, 2, 2, 1, 1))
    named, written = (AgePredictor(size=size) for size in ("nano", f"{WRITTEN}:212221"))
    written.load_state_dict(named.state_dict())
    picture_BCHW = torch.rand(2, 3, 64, 64)
    same = (model.eval()(picture_BCHW)["age_logits"] for model in (named, written))
    assert torch.equal(*same)
    kernels = sum(p.numel() for p in named.parameters() if p.ndim == 4)
    assert nano.parameters() == kernels


def test_a_size_is_saved_as_it_was_written(tmp_path: Path) -> None:
    model = AgePredictor(size="8:8x1e1,12x2k5:32:212", image_size=32)
    model.save_pretrained(tmp_path)
    again = AgePredictor.from_pretrained(tmp_path)
    assert again.size == model.size and again.pooled(torch.zeros(1, 3, 32, 32)).shape == (1, 32)


@pytest.mark.parametrize(
    ("size", "why"),
    [
        ("huge", "no such size"),
        ("", "no such size"),
        ("nano:", "not 6 digits"),
        ("nano:21222", "not 6 digits"),
        ("nano:212223", "each 1 or 2"),
        ("16:16x1e1:384:2:1", "no such size"),
        ("16:16x1k4:384", "a kernel is not"),
        ("0:16x1:384", "is 0"),
        ("16:16x0:384", "is 0"),
        ("9999:9999x99:9999", "parameters"),
        ("16:16x1,16x1,16x1,16x1,16x1:8:222222", "no pixel of 32"),
        (f"16:{'16x1,' * 17}:384", "no such size"),
    ],
)
def test_a_size_that_cannot_be_is_refused(size: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        AgePredictor(size=size, image_size=32)


def test_last_feature_map_is_four_to_seven_pixels_for_every_image_size() -> None:
    wrong = {}
    for size in range(MIN_IMAGE_SIZE, MAX_IMAGE_SIZE + 1):
        strides, side = stage_strides(size, 5), size
        assert len(strides) == 6 and set(strides) <= {1, 2} and strides[:2] == (2, 1)
        for stride in strides:
            side = math.ceil(side / stride)
        if not 4 <= side <= 7:
            wrong[size] = side
    assert wrong == {}


def test_expected_age_is_the_softmax_weighted_mean_of_the_centers() -> None:
    torch.manual_seed(0)
    centers = (2.0, 11.0, 24.5, 80.0)
    model = AgePredictor(image_size=32, age_edges=(0, 5, 15, 40, 100), age_centers=centers).eval()
    torch.nn.init.normal_(model.classifier.weight)
    with torch.no_grad():
        outputs = model(torch.rand(3, 3, 32, 32))
    for logits, age in zip(
        outputs["age_logits"].double().numpy(), outputs["expected_age"][:, 0].numpy(), strict=True
    ):
        weights = [math.exp(value) for value in logits]
        assert age == pytest.approx(
            sum(w * c for w, c in zip(weights, centers, strict=True)) / sum(weights), abs=ROUNDING
        )


def test_images_are_read_as_zero_to_one() -> None:
    model = AgePredictor(image_size=32).eval()
    seen: list[torch.Tensor] = []
    model.stem.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(
        torch.cat(
            [torch.zeros(1, 3, 32, 32), torch.ones(1, 3, 32, 32), torch.full((1, 3, 32, 32), 0.5)]
        )
    )
    assert [float(image.unique()) for image in seen[0]] == [-1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"size": "tiny"}, "no such size.*nano, small, base"),
        ({"image_size": 31}, "Use 32 to 224"),
        ({"image_size": 225}, "Use 32 to 224"),
        ({"image_size": 64.5}, "Use 32 to 224"),
        ({"age_edges": (0, 50)}, "2 borders"),
        ({"age_edges": tuple(range(MAX_GROUPS + 2))}, "borders"),
        ({"age_edges": (0, 30, 30)}, "do not rise"),
        ({"age_edges": (0, 60, 30)}, "do not rise"),
        ({"age_edges": (0, math.nan, 30)}, "do not rise"),
        ({"age_edges": (0, 30, math.inf), "age_centers": (1, 2)}, "do not rise"),
        ({"age_centers": (1.0, 2.0)}, "2 given for 13 groups"),
        ({"age_centers": [math.nan] * 10}, "finite age"),
        ({"own_answer": True}, "a trunk of ours under random features"),
        ({"own_answer": 9**9, "random_features": 8}, "true or false"),
        ({"dropout": -0.1}, "0 to 0.9"),
        ({"dropout": 0.91}, "0 to 0.9"),
        ({"dropout": math.nan}, "0 to 0.9"),
    ],
)
def test_arguments_out_of_range_are_input_errors(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        AgePredictor(**arguments)


def test_the_spec_names_what_forward_takes_and_gives() -> None:
    model = AgePredictor(image_size=48, age_edges=(0, 20, 60, 100)).eval()
    (image,) = model.iospec.inputs
    outputs = model(torch.zeros(image.shape))
    assert image.shape == (1, 3, 48, 48) and image.range == (0.0, 1.0) and image.colour == "RGB"
    assert {spec.name: spec.shape for spec in model.iospec.outputs} == {
        name: tuple(value.shape) for name, value in outputs.items()
    }
    # the middles of the groups are the centers where none are given, and travel with the weights
    assert model.state_dict()["age_centers"].tolist() == [10.0, 40.0, 80.0]
    assert model.iospec.outputs[1].range == (10.0, 80.0)


@pytest.mark.parametrize("size", [*SIZES, "8:8x1e1,12x2k5:32"])
def test_no_smaller_picture_costs_a_new_network_more_than_a_larger_one(size: str) -> None:
    costs = [cost_at(halved(size, side), side) for side in range(MIN_IMAGE_SIZE, 225)]
    assert costs == sorted(costs)


def test_a_name_alone_still_means_what_checkpoints_of_before_meant() -> None:
    assert [round(cost_at("nano", side) / 1e6, 2) for side in (48, 64)] == [11.64, 9.33]
    assert round(cost_at(halved("nano", 48), 48) / 1e6, 2) == 5.25


def cost_at(text: str, side: int) -> int:
    """Multiply-accumulates of the convolutions of one picture, counted by hand."""
    size = size_of(text)
    stem, *strides = size.strides_at(side)
    side, before = math.ceil(side / stem), size.stem
    total = 27 * before * side**2
    for stage, stride in zip(size.stages, strides, strict=True):
        for block in range(stage.blocks):
            wide = before * stage.expand
            total += before * wide * side**2 if stage.expand > 1 else 0
            side = math.ceil(side / stride) if block == 0 else side
            total += (stage.kernel**2 + stage.channels) * wide * side**2
            before = stage.channels
    return total + before * size.head * side**2
