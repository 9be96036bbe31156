"""What a diffusion network learns, by hand: noisy latents, targets, weights, which noise levels are
drawn.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from unplug.core import InputError
from unplug.sdk.drawing.diffusion.noise import (
    MIN_SHARE,
    Noised,
    add_noise,
    draw_steps,
    level_weight,
    noise_like,
    sample_loss,
)
from unplug.sdk.drawing.diffusion.recipe import Timesteps, Weighting
from unplug.sdk.drawing.diffusion.small import build_scheduler, diffusers

DRAWN = 20_000


def levels(*shares: float, kind: str | None = "epsilon") -> Any:
    """A scheduler with these shares of signal."""
    return SimpleNamespace(alphas_cumprod=torch.tensor(shares), config={"prediction_type": kind})


def one(value: float) -> torch.Tensor:
    return torch.full((1, 2, 1, 1), value)


@pytest.mark.parametrize(
    ("kind", "weighting"), [("epsilon", "velocity"), ("v_prediction", "noise")]
)
def test_an_error_of_one_is_an_error_of_the_other(kind: str, weighting: Weighting) -> None:
    """A wrong guess of the noise is a wrong guess of the velocity at the same noisy latent: weights
    turn one into the other.
    """
    shares, x, e, wrong = torch.tensor([0.9, 0.5, 0.1]), 2.0, 1.0, 1.3
    noisy = shares.sqrt() * x + (1 - shares).sqrt() * e
    clean = (noisy - (1 - shares).sqrt() * wrong) / shares.sqrt()
    of_noise = (wrong - e) ** 2 * torch.ones(3)
    of_velocity = (shares.sqrt() * (wrong - e) - (1 - shares).sqrt() * (clean - x)) ** 2
    predicted, other = (of_noise, of_velocity) if kind == "epsilon" else (of_velocity, of_noise)
    scheduler = levels(*shares.tolist(), kind=kind)
    torch.testing.assert_close(
        predicted * level_weight(scheduler, torch.arange(3), weighting), other
    )
    same: Weighting = "noise" if weighting == "velocity" else "velocity"
    assert level_weight(scheduler, torch.arange(3), same).tolist() == [1.0, 1.0, 1.0]


def test_the_last_level_of_our_bases_is_nothing_but_noise() -> None:
    """Zero terminal SNR: what is to be learned there is the picture itself, and no trace of it is
    in the noisy latent.
    """
    scheduler = build_scheduler()
    made = add_noise(scheduler, one(2.0), torch.tensor([999]), one(1.0))
    assert torch.equal(made.latent_Bchw, one(1.0)) and torch.equal(made.target_Bchw, one(-2.0))
    scheduler.set_timesteps(6)
    assert int(scheduler.timesteps[0]) == 999


def test_the_edges_of_levels_and_predictions() -> None:
    assert level_weight(levels(0.0), torch.tensor([0]), "velocity").tolist() == pytest.approx(
        [1 / MIN_SHARE]
    )
    for kind in ("sample", None):
        with pytest.raises(
            InputError, match=f"prediction type {kind!r}: training it is not supported"
        ):
            add_noise(levels(0.5, kind=kind), one(0.0), torch.tensor([0]), one(0.0))
    # 1 - u^3 rounds to 1 for small u: T itself is no level.
    assert int(draw_steps(DRAWN, 4, "cubic", torch.Generator().manual_seed(1)).max()) == 3


@pytest.mark.parametrize("kind", ["epsilon", "v_prediction"])
def test_against_diffusers(kind: str) -> None:
    scheduler = diffusers().DDIMScheduler.from_config(
        build_scheduler().config, prediction_type=kind
    )
    generator = torch.Generator().manual_seed(0)
    clean, noise = (
        torch.randn(5, 4, 8, 8, generator=generator),
        torch.randn(5, 4, 8, 8, generator=generator),
    )
    steps = torch.tensor([0, 1, 500, 998, 999])
    made = add_noise(scheduler, clean, steps, noise)
    torch.testing.assert_close(
        made.latent_Bchw, scheduler.add_noise(clean, noise, steps), rtol=0, atol=0
    )
    target = noise if kind == "epsilon" else scheduler.get_velocity(clean, noise, steps)
    torch.testing.assert_close(made.target_Bchw, target, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["EulerDiscreteScheduler", "PNDMScheduler"])
def test_a_base_with_another_sampler_is_trained_alike(name: str) -> None:
    """Euler's own add_noise gives x + sigma e, which is not what its UNet sees."""
    ours = build_scheduler()
    shifted = {"rescale_betas_zero_snr": False}  # PNDM has no such levels
    ours = type(ours).from_config(ours.config, **shifted)
    theirs = getattr(diffusers(), name).from_config(ours.config, **shifted)
    clean, noise, steps = (
        torch.ones(2, 1, 2, 2),
        torch.full((2, 1, 2, 2), -0.5),
        torch.tensor([10, 900]),
    )
    expected, made = add_noise(ours, clean, steps, noise), add_noise(theirs, clean, steps, noise)
    torch.testing.assert_close(made.latent_Bchw, expected.latent_Bchw)


@pytest.mark.parametrize(("timesteps", "mean"), [("uniform", 0.5), ("cubic", 0.75)])
def test_drawn_noise_levels_follow_their_law(timesteps: Timesteps, mean: float) -> None:
    """t/T = 1 - u^3 has the mean 1 - 1/4 and P(t/T < x) = 1 - (1 - x)^(1/3)."""
    steps = draw_steps(DRAWN, 1000, timesteps, torch.Generator().manual_seed(0))
    assert steps.dtype == torch.int64 and int(steps.min()) >= 0 and int(steps.max()) == 999
    share = (steps.double().numpy() + 0.5) / 1000
    assert abs(share.mean() - mean) < 4 * share.std() / DRAWN**0.5
    edges = np.linspace(0, 1, 21)
    counts = np.histogram(share, edges)[0]
    laws = {"uniform": np.diff(edges), "cubic": np.diff(1 - (1 - edges) ** (1 / 3))}
    fits = {name: stats.chisquare(counts, DRAWN * law).pvalue for name, law in laws.items()}
    assert fits.pop(timesteps) > 0.01 and max(fits.values()) < 1e-9


def test_noise_follows_the_generator_and_the_loss_is_by_hand() -> None:
    like = torch.zeros(2, 3, 4, 4, dtype=torch.float64)
    first = noise_like(like, torch.Generator().manual_seed(7))
    torch.manual_seed(1234)
    assert torch.equal(first, noise_like(like, torch.Generator().manual_seed(7)))
    assert first.dtype == torch.float64 and torch.equal(
        first.float(), torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(7))
    )
    noised = Noised(
        latent_Bchw=torch.tensor([[[[1.0, 2.0]]], [[[3.0, 4.0]]]]),
        step_B=torch.tensor([5, 6]),
        target_Bchw=torch.zeros(2, 1, 1, 2),
    )
    loss = sample_loss(lambda latent, step: latent * (step == 6).view(-1, 1, 1, 1) + 1, noised)
    assert loss.tolist() == [1.0, (4**2 + 5**2) / 2]
