"""How alike pictures of two bases are: of equal ones nothing is left but what few pictures give."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from unplug.sdk.evidence.concepts.likeness import frechet_apart, same_noise_db

from ...drawing.diffusion.conftest import CPU


class Colours:
    """An autoencoder whose latents are a picture's mean colour."""

    device, dtype, config = CPU, torch.float32, SimpleNamespace(scaling_factor=0.5)

    def encode(self, image_BCHW: torch.Tensor) -> Any:
        mean = image_BCHW.mean(dim=(2, 3), keepdim=True)
        return SimpleNamespace(latent_dist=SimpleNamespace(mean=mean))


def pictures(count: int, lighter: int = 0) -> list[Image.Image]:
    colour_N3 = np.random.default_rng(5).integers(60, 180, size=(count, 3)) + lighter
    return [Image.new("RGB", (8, 8), tuple(map(int, colour))) for colour in colour_N3]


def test_equal_pictures_are_as_far_apart_as_the_originals_halves() -> None:
    found = frechet_apart(pictures(64), pictures(64), Colours(), 1)
    assert found.erased == pytest.approx(found.original) and found.original > 0
    assert (found.pictures, found.components) == (32, 3)
    assert same_noise_db(pictures(64), pictures(64), 1).value == 100.0


def test_a_shift_adds_its_square() -> None:
    """51 of 255 levels are 0.4 in [-1, 1] and 0.2 when scaled, in each of three channels."""
    even, far = (frechet_apart(pictures(64, by), pictures(64), Colours(), 1) for by in (0, 51))
    gap_3 = 0.2 * np.ones(3)
    assert far.erased - even.erased == pytest.approx(gap_3 @ gap_3, abs=1e-6)
    assert far.original == even.original
    assert same_noise_db(pictures(64, 51), pictures(64), 1).value == pytest.approx(
        -20 * np.log10(0.2)
    )


def test_noises_are_cut_by_the_seed() -> None:
    one, other, again = (
        frechet_apart(pictures(20, 9), pictures(20), Colours(), seed) for seed in (1, 2, 1)
    )
    assert one == again and one != other and one.components == 2
