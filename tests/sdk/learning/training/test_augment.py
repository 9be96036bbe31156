"""Augmentation: laws of a batch of views."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unplug.sdk.learning.training.augment import MAX_SHIFT, SCALE, augment


def images(batch: int = 8, side: int = 16, seed: int = 0) -> torch.Tensor:
    return torch.rand(batch, 3, side, side, generator=torch.Generator().manual_seed(seed))


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_none_is_the_identity_and_draws_nothing() -> None:
    generator = rng()
    state = generator.get_state()
    x_BCHW = images()
    assert augment(x_BCHW, "none", generator) is x_BCHW and torch.equal(
        generator.get_state(), state
    )


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 9), st.sampled_from(["flip", "standard"]))
def test_views_keep_shape_and_range_and_follow_from_the_generator(
    seed: int, batch: int, kind: Any
) -> None:
    x_BCHW = images(batch, seed=seed)
    before = x_BCHW.clone()
    view = augment(x_BCHW, kind, rng(seed))
    assert view.shape == x_BCHW.shape and view.min() >= 0.0 and view.max() <= 1.0
    assert torch.equal(view, augment(x_BCHW, kind, rng(seed))) and torch.equal(x_BCHW, before)
    if kind == "standard":
        assert not torch.equal(view, augment(x_BCHW, kind, rng(seed + 1)))


def test_a_flip_is_the_image_or_its_mirror_about_half_of_the_time() -> None:
    x_BCHW = images(400, side=4)
    view = augment(x_BCHW, "flip", rng())
    same = [torch.equal(a, b) for a, b in zip(view, x_BCHW, strict=True)]
    mirrored = [torch.equal(a, b.flip(2)) for a, b in zip(view, x_BCHW, strict=True)]
    assert all(a != b for a, b in zip(same, mirrored, strict=True))
    assert 160 < sum(mirrored) < 240  # four standard deviations of a fair coin


@pytest.mark.parametrize("kind", ["flip", "standard"])
def test_a_view_depends_on_its_own_image_alone(kind: Any) -> None:
    x_BCHW = images()
    other = x_BCHW.clone()
    other[3] = 1.0 - other[3]
    first, second = augment(x_BCHW, kind, rng()), augment(other, kind, rng())
    changed = [not torch.equal(a, b) for a, b in zip(first, second, strict=True)]
    assert changed == [row == 3 for row in range(8)]


def test_standard_moves_a_centred_disc_by_no_more_than_it_says() -> None:
    side = 64
    axis = torch.linspace(-1, 1, side)
    disc = (
        ((axis[:, None] ** 2 + axis[None] ** 2) < 0.25)
        .float()
        .expand(64, 3, side, side)
        .contiguous()
    )
    view = augment(disc, "standard", rng(3))
    inside = view[:, 0] > view[:, 0].flatten(1).mean(1)[:, None, None]
    count = inside.flatten(1).sum(1).float()
    x, y = (
        (inside * axis).flatten(1).sum(1) / count,
        (inside * axis[:, None]).flatten(1).sum(1) / count,
    )
    # the shift is scaled with the picture; a pixel of rounding
    reach = MAX_SHIFT / (1 - SCALE) * 2**0.5 + 2 / side
    assert torch.hypot(x, y).max() <= reach and torch.hypot(x, y).max() > 0.05
    radius = (count / torch.pi).sqrt() * 2 / side
    assert radius.min() > 0.5 / (1 + SCALE) - 0.02 and radius.max() < 0.5 / (1 - SCALE) + 0.02
