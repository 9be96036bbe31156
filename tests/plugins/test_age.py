"""The age predictor: sizes as promised, feature maps for every input size, the expectation by hand,
arguments refused.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from unplug.core import InputError
from unplug.plugins import MAX_IMAGE_SIZE, MIN_IMAGE_SIZE, SIZES, AgePredictor
from unplug.plugins.age_sizes import MAX_GROUPS
from unplug.plugins.picture_model import stage_strides

PROMISED = {"nano": 0.3e6, "small": 1.0e6, "base": 6.0e6}
SLACK = 0.15  # "about", in the docstring's round numbers
ROUNDING = 1e-4  # float32 softmax and a sum of ten ages of up to 90 years


@pytest.mark.parametrize("size", SIZES)
def test_parameter_counts(size: str) -> None:
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in AgePredictor(size=size).parameters())
    assert abs(count / PROMISED[size] - 1) <= SLACK and count <= 6.0e6


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
        ({"size": "tiny"}, "no such predictor.*nano, small, base"),
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
