"""A model too simple for faces: what it learns of clean pictures, of patched ones, and of none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from unplug.core import DataError
from unplug.sdk.evidence.shortcuts import _features, _ridge, shortcuts
from unplug.sdk.learning.data import Dataset, load_dataset

from ..cli.calls import refused, said

SPEC, CLEAN = "synth:n=400,subjects=200,seed=3", "synth:n=400,subjects=200,seed=4"


@pytest.fixture(scope="module")
def faces() -> Dataset:
    return load_dataset(SPEC, 32, show=False)


@pytest.fixture(scope="module")
def clean() -> Dataset:
    return load_dataset(CLEAN, 32, show=False)


def patched(dataset: Dataset, amount: int) -> Dataset:
    """A pattern of +-amount for every decade."""
    signs = np.random.default_rng(0).choice([-amount, amount], (14, dataset.size, dataset.size, 3))
    decade_N = (dataset.ages // 10).astype(int)
    pixels = dataset.pixels(np.arange(len(dataset))) + signs[decade_N]
    images = np.clip(pixels, 0, 255).astype(np.uint8)
    return replace(dataset, images=images, rows=np.arange(len(dataset)), digest="patched")


def test_clean_faces_are_as_clean_faces(faces: Dataset, clean: Dataset) -> None:
    found = shortcuts(faces, clean)
    assert found["verdict"] == "as on clean pictures"
    thumbnails = found["probes"][0]
    assert thumbnails["shuffled"]["value"] < thumbnails["right"]["value"] < 0.5
    assert thumbnails["more"]["low"] < 0 < thumbnails["more"]["high"]


def test_a_patch_a_group_is_seen(faces: Dataset, clean: Dataset) -> None:
    found = shortcuts(patched(faces, 8), clean)
    assert found["verdict"] == "simpler than clean pictures are"
    assert found["probes"][0]["more"]["low"] > 0.05
    assert shortcuts(patched(faces, 8))["verdict"] == "cannot tell"


def test_the_patched_half_is_explained_best(faces: Dataset) -> None:
    mixed = patched(faces, 16)
    where = np.arange(0, len(mixed), 2)
    images = mixed.images.copy()
    images[where] = faces.pixels(where)
    found = shortcuts(replace(mixed, images=images))
    places = mixed.indices(found["best"])
    assert (places % 2 == 1).mean() > 0.9


def test_protected_pictures_are_no_clean_ones(faces: Dataset, clean: Dataset) -> None:
    assert shortcuts(clean, patched(faces, 16))["verdict"] == "cannot tell"


def test_thumbnails_are_means_of_pixels() -> None:
    image_NHWC = np.random.default_rng(1).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    expected = image_NHWC.reshape(3, 16, 4, 16, 4, 3).mean(axis=(2, 4)) / 255
    found = _features(image_NHWC)["thumbnails"].reshape(3, 16, 16, 3)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    odd = np.full((1, 37, 37, 3), 51, np.uint8)
    np.testing.assert_allclose(_features(odd)["thumbnails"], 0.2, atol=1e-6)
    np.testing.assert_allclose(_features(odd)["statistics"], 0.0, atol=1e-6)


def test_the_ridge_by_hand() -> None:
    """x = (-1, 1) and y - 1/2 = (-1/2, 1/2): w = x y / (x x + lam) = 1 / (2 + lam)."""
    answer = _ridge(np.array([[-1.0], [1.0]]), np.eye(2), np.array([[1.0]]))
    slope = 1.0 / (2.0 + 0.003)
    np.testing.assert_allclose(answer, [[0.5 - slope, 0.5 + slope]], rtol=1e-5)


def test_both_have_as_many_of_each_group(faces: Dataset, clean: Dataset) -> None:
    """Clean pictures of children alone say nothing of adults: those are not compared."""
    young = clean.only([name for name, age in zip(clean.ids, clean.ages, strict=True) if age < 40])
    found = shortcuts(faces, young)
    assert found["pictures"] <= len(young) and found["verdict"] == "as on clean pictures"
    assert all(faces.ages[faces.indices([name])[0]] < 40 for name in found["best"])


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda faces: (faces.only(faces.ids[:60]), None), "of five or more"),
        (lambda faces: (faces, faces), "they are the pictures that are looked at"),
        (lambda faces: (replace(faces, images=faces.images[:, ::4, ::4]), None), "fewer than 16"),
        (lambda faces: (faces, load_dataset(CLEAN, 24, show=False)), "it has 24 pixels, not 32"),
    ],
)
def test_what_cannot_be_compared(
    faces: Dataset, made: Callable[[Dataset], tuple[Dataset, Dataset | None]], why: str
) -> None:
    with pytest.raises(DataError, match=why):
        shortcuts(*made(faces))


def test_the_command_says_it() -> None:
    value = said(f"data inspect {SPEC} --pixels 32 --shortcuts --like {CLEAN}")
    assert value["shortcuts"]["verdict"] == "as on clean pictures"
    assert len(value["shortcuts"]["best"]) == 20
    line = refused(f"data inspect {SPEC} --like {CLEAN}")
    assert "Give --shortcuts too" in line
