"""Attacks on an erased base: each draws its pictures and leaves the base as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from unplug.core import InputError, UnplugError
from unplug.sdk.drawing.diffusion import Sampling, load_base, weights_digest
from unplug.sdk.evidence.concepts import CLAIMS, CONCEPT_ATTACKS
from unplug.sdk.evidence.concepts.attack import Unable, attack_of
from unplug.sdk.evidence.concepts.attacks.inverse_matrix import InverseMatrix
from unplug.sdk.evidence.concepts.attacks.inversion import Inversion
from unplug.sdk.evidence.concepts.attacks.relearn import Relearn
from unplug.sdk.evidence.concepts.attacks.within import _inside
from unplug.sdk.evidence.concepts.conditions import FORMS
from unplug.sdk.evidence.concepts.scene import Scene
from unplug.sdk.forgetting.erasing import Concept, reads_text

from ...drawing.diffusion.conftest import CPU
from .conftest import WORD

PROMPTS = ("a child, smiling", "an adult, sad")


@pytest.fixture(scope="module")
def scene(base_folder: Path, erased_folder: Path, plugin_folder: Path) -> Scene:
    square = np.zeros((64, 64, 3), np.uint8)
    square[16:48, 16:48] = 255
    return Scene(
        base=load_base(str(erased_folder), device=CPU),
        original=load_base(str(base_folder), device=CPU),
        concept=Concept(words=WORD),
        prompts=PROMPTS,
        learn=PROMPTS,
        controls=(Image.fromarray(square),) * 2,
        plugin=plugin_folder,
        sampling=Sampling(steps=2, guidance=2.0, solver=None),
        seed=1,
        device=CPU,
    )


SHORT: dict[str, Any] = {
    "relearn": Relearn(steps=4, batch_size=2),
    "inversion": Inversion(steps=2, batch_size=2),
}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(CONCEPT_ATTACKS))
def test_every_attack_draws_and_leaves_the_base_alone(name: str, scene: Scene) -> None:
    attack = SHORT.get(name) or CONCEPT_ATTACKS.get(name)()
    parts = (scene.base.unet, scene.base.text_encoder, scene.original.unet)
    before = weights_digest(*parts)
    drawn = list(attack(scene))
    assert attack.holds in CLAIMS and drawn
    for _, pictures in drawn:
        assert len(pictures) == len(PROMPTS) and {one.size for one in pictures} == {(64, 64)}
    assert weights_digest(*parts) == before
    again = list(attack(scene))
    for (_, one), (_, other) in zip(drawn, again, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_the_inverse_matrix_brings_the_original_back(scene: Scene) -> None:
    """Of an edit W (I + D) it is (I + D)^-1: keys and values are the original's again."""
    inverse = InverseMatrix().solve(scene.base.unet, scene.original.unet)
    layers = reads_text(scene.original.unet)
    for name, layer in reads_text(scene.base.unet).items():
        back = (layer.weight.double() @ inverse).float()
        torch.testing.assert_close(back, layers[name].weight, atol=2e-3, rtol=2e-3)


@pytest.mark.long
def test_relearning_draws_after_the_steps_that_it_took(scene: Scene) -> None:
    assert [name for name, _ in Relearn(steps=12, batch_size=2)(scene)] == [
        "relearn 4",
        "relearn 12",
    ]


def test_words_in_the_middle() -> None:
    assert _inside("a child, smiling, red bob", "hat") == "a child with hat, smiling, red bob"
    assert _inside("a child", "hat") == "a child with hat"


def test_without_a_plugin_no_control_image(scene: Scene) -> None:
    from dataclasses import replace

    with pytest.raises(Unable, match="no plugin"):
        list(CONCEPT_ATTACKS.get("control-image")()(replace(scene, plugin=None)))


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [(Relearn, {"lr": 0.0}), (Inversion, {"steps": 0}), (InverseMatrix, {"ridge": -1.0})],
)
def test_settings_out_of_range(kind: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="out of range"):
        kind(**wrong)


def test_forms_change_a_copy(scene: Scene) -> None:
    for name in ("as it is", "fp16", "int8", "25 steps"):
        before = weights_digest(scene.base.unet)
        pipe, sampling = FORMS[name](scene.base, scene.sampling)
        assert weights_digest(scene.base.unet) == before
        assert (weights_digest(pipe.unet) != before) is (name in ("fp16", "int8"))
        assert (sampling.steps == 25) is (name == "25 steps")


def test_int8_has_255_steps_a_row(scene: Scene) -> None:
    pipe, _ = FORMS["int8"](scene.base, scene.sampling)
    row = pipe.unet.conv_in.weight.flatten(1)[0].double()
    step = row.abs().max() / 127
    torch.testing.assert_close((row / step).round() * step, row, atol=1e-6, rtol=1e-5)


def test_an_attack_that_learns_takes_other_steps() -> None:
    assert attack_of("relearn:100") == Relearn(steps=100)
    assert attack_of("relearn") == Relearn()


@pytest.mark.parametrize("name", ["named:3", "relearn:", "relearn:many", "relearn:0", "oracle:3"])
def test_steps_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(UnplugError):
        attack_of(name)
