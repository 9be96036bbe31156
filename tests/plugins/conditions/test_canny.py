"""Canny against closed forms: across a vertical step of h grey levels the 3x3 Sobel gradient is 4 h."""

from __future__ import annotations

import numpy as np
import pytest

from unplug.plugins.conditions import Canny


def step(*heights: int) -> np.ndarray:  # type: ignore[type-arg]
    """A picture whose right half is brighter; each height counts for 32 rows."""
    picture = np.zeros((32 * len(heights), 64, 3), np.uint8)
    for band, height in enumerate(heights):
        picture[32 * band : 32 * (band + 1), 32:] = height
    return picture


@pytest.mark.parametrize(("height", "edges"), [(49, 0), (51, 1)])
def test_a_step_is_an_edge_where_its_gradient_passes_the_high_threshold(height: int, edges: int) -> None:
    found = Canny(low=100, high=200)(step(height))
    assert found.dtype == np.uint8 and found.shape == (32, 64, 3)
    assert (found[:, :, 0] == 255).any(axis=0).sum() == edges
    assert set(np.unique(found)) <= {0, 255}
    assert np.array_equal(found[..., 0], found[..., 1]) and np.array_equal(found[..., 0], found[..., 2])


def test_a_weak_edge_counts_where_it_continues_a_strong_one() -> None:
    bands = step(60, 30)
    assert (Canny(low=100, high=200)(bands)[48, :, 0] == 255).sum() == 1
    assert (Canny(low=130, high=200)(bands)[48, :, 0] == 255).sum() == 0
    assert (Canny(low=100, high=200)(step(30))[16, :, 0] == 255).sum() == 0


def test_luminance_weighs_the_colours() -> None:
    picture = step(0)
    picture[:, 32:, 1] = 100  # green weighs 0.587: a step of 59
    assert Canny(low=100, high=230)(picture).any() and not Canny(low=100, high=240)(picture).any()
    picture[:, 32:] = (0, 0, 100)  # blue weighs 0.114: a step of 11
    assert not Canny(low=40, high=60)(picture).any() and Canny(low=40, high=42)(picture).any()


def test_edges_are_found_at_the_size_wanted() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (256, 256, 3), dtype=np.uint8)
    small = Canny().render(picture, 64)
    assert small.shape == (64, 64, 3) and set(np.unique(small)) <= {0, 255}
    assert Canny().render(picture, 64).tobytes() == small.tobytes()
