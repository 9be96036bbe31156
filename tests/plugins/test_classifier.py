"""The classifier: the age predictor's trunk, names that travel with the weights, and hostile ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from unplug.core import CheckpointError, InputError
from unplug.plugins import (
    MAX_CLASSES,
    AgePredictor,
    Classifier,
    load_checkpoint,
    save_checkpoint,
)

NAMES = ("blue sky", "grass", "sänd")


def model() -> Classifier:
    torch.manual_seed(0)
    return Classifier(image_size=32, classes=NAMES).eval()


def test_it_stands_on_the_age_predictor_s_trunk() -> None:
    aged = AgePredictor(image_size=32, age_edges=(0, 20, 60, 100))
    shapes = [
        {name: tuple(value.shape) for name, value in one.state_dict().items()}
        for one in (model(), aged)
    ]
    assert shapes[1].pop("age_centers") == (3,)
    assert shapes[0] == shapes[1], "a trunk of one is a trunk of the other"


def test_it_answers_logits_and_nothing_else() -> None:
    one = model()
    outputs = one(torch.rand(2, 3, 32, 32))
    assert list(outputs) == ["logits"] and outputs["logits"].shape == (2, 3)
    assert [(spec.name, spec.shape) for spec in one.iospec.outputs] == [("logits", (1, 3))]
    assert "expected_age" not in json.dumps(one.iospec.to_dict()) and "3 classes" in repr(one)


def test_names_travel_with_the_weights(tmp_path: Path) -> None:
    one = model()
    save_checkpoint(one, tmp_path / "m", record={}, card="# A test\n")
    config = json.loads((tmp_path / "m/config.json").read_text())
    assert config == {
        "model_type": "classes",
        "size": "nano",
        "image_size": 32,
        "classes": list(NAMES),
        "dropout": 0.0,
    }
    again = load_checkpoint(tmp_path / "m", expect="classes").model
    image_BCHW = torch.rand(1, 3, 32, 32)
    assert torch.equal(again(image_BCHW)["logits"], one(image_BCHW)["logits"])
    with pytest.raises(CheckpointError, match="model_type 'classes'"):
        AgePredictor.from_pretrained(tmp_path / "m")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "0 classes"),
        (["a"], "1 class"),
        ([f"c{number}" for number in range(100_000)], "100,000 classes"),
        (["a", "a"], "one name"),
        (["a", ""], "not a text of 1 to 100"),
        (["a", "b" * 101], "not a text of 1 to 100"),
        (["a", 3], "not a text of 1 to 100"),
        (["a", "b\x1b[2J"], "cannot be shown"),
        (["a", "b\ud800"], "cannot be shown"),
    ],
)
def test_names_that_are_none(names: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        Classifier(image_size=32, classes=names)
    save_checkpoint(model(), tmp_path / "m", record={}, card="# A test\n")
    file = tmp_path / "m/config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"classes": names}))
    with pytest.raises(CheckpointError):
        load_checkpoint(tmp_path / "m")


def test_as_many_names_as_there_may_be() -> None:
    with torch.device("meta"):
        most = Classifier(image_size=32, classes=[f"c{number}" for number in range(MAX_CLASSES)])
    assert most.groups == MAX_CLASSES
