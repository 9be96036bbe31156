"""Losses at fixed noise: the same for every batch, order and model, and what the formula says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from unplug.sdk.diffusion import CONTROLS, ControlSet, losses, mean_loss
from unplug.sdk.diffusion.measure import LEVELS, fixed_noise, fixed_steps

from .conftest import CPU, SIZE, steering_plugin

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
"""Convolutions sum in another order for another batch size."""


@pytest.fixture(scope="module")
def some(control_set: ControlSet) -> ControlSet:
    return control_set.subset(control_set.ids[:5])


@pytest.fixture(scope="module")
def plugin(base: Any) -> Any:
    return steering_plugin(base.unet)


@pytest.fixture(scope="module")
def found(base: Any, plugin: Any, some: ControlSet) -> Tensor:
    return losses(CONTROLS.get("plugin")(), plugin, base, some, device=CPU)


@pytest.mark.long
@pytest.mark.parametrize("batch_size", [1, 64])
def test_the_batch_size_does_not_matter(base: Any, plugin: Any, some: ControlSet, found: Tensor, batch_size: int) -> None:
    again = losses(CONTROLS.get("plugin")(), plugin, base, some, device=CPU, batch_size=batch_size)
    torch.testing.assert_close(again, found, **CLOSE)
    part = some.subset([some.ids[place] for place in (3, 0)])  # nor does the order
    torch.testing.assert_close(losses(CONTROLS.get("plugin")(), plugin, base, part, device=CPU), found[[3, 0]], **CLOSE)


@pytest.mark.parametrize("steered", [True, False])
def test_one_sample_at_one_level_by_hand(base: Any, plugin: Any, some: ControlSet, found: Tensor, steered: bool) -> None:
    table = found if steered else losses(None, None, base, some, device=CPU)
    assert tuple(table.shape) == (5, LEVELS) and table.dtype == torch.float32 and table.isfinite().all()
    place, level, step = 2, 5, 687  # the middle of the sixth of eight stretches of 1000: 687.5, cut
    batch = some.batch(torch.tensor([place]), CPU)
    noise = fixed_noise(torch.Size((4, 8, 8)), 0, level)[None]
    with torch.no_grad():
        share = float(base.scheduler.alphas_cumprod[step])
        noisy = share**0.5 * batch["latent_Bchw"] + (1 - share) ** 0.5 * noise
        extra = {"down_intrablock_additional_residuals": plugin(batch["condition_BCHW"])} if steered else {}
        guess = base.unet(noisy, step, batch["text_BLD"], **extra).sample
    assert float(table[place, level]) == pytest.approx(float((guess - noise).square().mean()), rel=1e-4)


def test_every_model_meets_the_same_noise(base: Any, some: ControlSet, found: Tensor) -> None:
    """A plugin that adds zeros, and a ControlNet that does, are the bare base to the bit."""
    bare = losses(None, None, base, some, device=CPU)
    for kind in ("plugin", "controlnet"):
        control = CONTROLS.get(kind)()
        network = control.build(base.unet, condition="canny", image_size=SIZE)
        assert torch.equal(losses(control, network, base, some, device=CPU), bare)
    assert not torch.allclose(found, bare, **CLOSE)


def test_levels_are_the_middles_of_equal_stretches() -> None:
    assert fixed_steps(1000) == [62, 187, 312, 437, 562, 687, 812, 937]
    assert fixed_steps(8) == list(range(8)) and fixed_steps(10, 1) == [5]


def test_the_network_comes_back_as_it_was(base: Any, some: ControlSet) -> None:
    for training in (True, False):
        network = steering_plugin(base.unet).train(training)
        before = {name: value.clone() for name, value in network.state_dict().items()}
        losses(CONTROLS.get("plugin")(), network, base, some, device=CPU, levels=2)
        assert network.training == training
        assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_means_and_nothing(base: Any, plugin: Any, some: ControlSet, found: Tensor) -> None:
    control = CONTROLS.get("plugin")()
    first, share_T = found[:3], base.scheduler.alphas_cumprod[fixed_steps(1000)]
    for weighting, wanted in (("noise", first), ("velocity", first / share_T)):
        mean = mean_loss(control, plugin, base, some, weighting=weighting, device=CPU, most=3)
        assert mean == pytest.approx(float(wanted.mean()), rel=1e-4)
    assert tuple(losses(None, None, base, some.subset([]), device=CPU).shape) == (0, LEVELS)
