"""CF-k: exactly the last layers change; all layers are fine-tuning."""

from __future__ import annotations

import pytest

from unplug.core import InputError
from unplug.sdk.unlearning.anatomy import layers
from unplug.sdk.unlearning.methods.cf_k import CFk
from unplug.sdk.unlearning.methods.finetune import Finetune

from .conftest import Case, changed

LAST_THREE = ("blocks.7.conv1", "blocks.7.norm1", "blocks.7.conv2", "blocks.7.norm2", "classifier")


def test_the_last_three_layers_change_and_nothing_else(class_case: Case) -> None:
    """Running statistics count: those of the trained norms move, all others stay."""
    model = CFk()(class_case.model(), class_case.problem())
    moved = changed(class_case.original, model)
    expected = {name for name in model.state_dict() if name.startswith(LAST_THREE)}
    assert moved == expected
    assert "blocks.7.norm1.running_var" in moved


def test_one_layer_is_the_classifier(case: Case) -> None:
    model = CFk(k=1)(case.model(), case.problem())
    assert changed(case.original, model) == {"classifier.weight", "classifier.bias"}


def test_all_layers_are_finetuning_bit_for_bit(case: Case) -> None:
    every = len(layers(case.original))
    one = CFk(k=every, lr=1e-3)(case.model(), case.problem())
    other = Finetune(lr=1e-3)(case.model(), case.problem())
    assert not changed(one, other)
    assert changed(case.original, one)


def test_more_layers_than_there_are_is_refused(case: Case) -> None:
    with pytest.raises(InputError, match="layers"):
        CFk(k=len(layers(case.original)) + 1)(case.model(), case.problem())
