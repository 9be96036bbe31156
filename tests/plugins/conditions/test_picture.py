"""Pictures made square; Canny by closed forms: across a vertical step of h grey levels the 3x3
Sobel gradient is 4 h.
"""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from unplug.core import DataError, InputError
from unplug.plugins.conditions import Canny, checked, checked_size
from unplug.plugins.conditions.picture import centre_square, square_window
from unplug.sdk.learning.data import square


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((64, 64), np.uint8, r"shape \(64, 64\)"),
        ((64, 64, 1), np.uint8, r"shape \(64, 64, 1\)"),
        ((64, 64, 4), np.uint8, r"shape \(64, 64, 4\)"),
        ((1, 64, 64, 3), np.uint8, "shape"),
        ((64, 64, 3), np.uint16, "type uint16"),
        ((64, 64, 3), np.float32, "Convert it to 8-bit RGB"),
        ((15, 64, 3), np.uint8, "64x15 pixels are too few"),
        ((64, 15, 3), np.uint8, "15x64 pixels are too few"),
        ((0, 0, 3), np.uint8, "0x0 pixels are too few"),
    ],
)
def test_what_is_no_picture_is_refused(shape: tuple[int, ...], dtype: type, message: str) -> None:
    with pytest.raises(DataError, match=message):
        checked(np.zeros(shape, dtype))


@pytest.mark.parametrize("size", [0, 15, 4097])
def test_sizes_out_of_range(size: int) -> None:
    with pytest.raises(InputError, match="Use 16 to 4096"):
        checked_size(size)


@pytest.mark.parametrize(
    ("height", "width", "size"), [(50, 81, 16), (81, 50, 50), (64, 64, 64), (33, 32, 100)]
)
def test_the_centre_square_is_the_one_that_the_data_package_shows(
    height: int, width: int, size: int
) -> None:
    picture = np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8)
    assert np.array_equal(centre_square(picture, size), square(Image.fromarray(picture), size))


def test_the_window_tells_where_the_square_shows_a_point() -> None:
    picture = np.zeros((60, 101, 3), np.uint8)
    picture[20:28, 70:78] = 255
    window, shown = square_window(picture), centre_square(picture, 120)
    y, x = (float(axis.mean()) + 0.5 for axis in np.nonzero(shown[:, :, 0] > 127))
    assert (x, y) == pytest.approx(((74 - window.left) * 2, (24 - window.top) * 2), abs=0.5)
    assert window.holds(np.array([74.0, 24.0])) and not window.holds(np.array([20.0, 24.0]))


def step(*heights: int) -> np.ndarray:  # type: ignore[type-arg]
    """A picture whose right half is brighter; each height counts for 32 rows."""
    picture = np.zeros((32 * len(heights), 64, 3), np.uint8)
    for band, height in enumerate(heights):
        picture[32 * band : 32 * (band + 1), 32:] = height
    return picture


@pytest.mark.parametrize(("height", "edges"), [(49, 0), (51, 1)])
def test_a_step_is_an_edge_where_its_gradient_passes_the_high_threshold(
    height: int, edges: int
) -> None:
    edges_HWC = Canny(low=100, high=200)(step(height))
    assert edges_HWC.dtype == np.uint8 and edges_HWC.shape == (32, 64, 3)
    assert (edges_HWC[:, :, 0] == 255).any(axis=0).sum() == edges
    assert set(np.unique(edges_HWC)) <= {0, 255}
    assert np.array_equal(edges_HWC[..., 0], edges_HWC[..., 1]) and np.array_equal(
        edges_HWC[..., 0], edges_HWC[..., 2]
    )
