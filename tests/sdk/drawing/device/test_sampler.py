"""Timesteps and steps are those of diffusers' schedulers; tables have known values; impossible ones
are refused.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.vectors.pipeline.make import SCHEDULES, STABLE

from unplug.core import InputError, ReportError
from unplug.sdk.drawing.device import Schedule, Solver, advance, guided, sampling_table, timesteps
from unplug.sdk.drawing.device.base_folder import noise_levels

TOLERANCE = 5e-6
"""Of the largest number of a step: the table's coefficients are rounded once, diffusers rounds
between its products.
"""
STEPS = (1, 2, 3, 4, 7, 16, 25, 50, 333, 500)
EPSILON = SCHEDULES["epsilon"]


def config(prediction: str, spacing: str, zero: bool) -> dict[str, Any]:
    return {
        **STABLE,
        "prediction_type": prediction,
        "timestep_spacing": spacing,
        "steps_offset": 1,
        "rescale_betas_zero_snr": zero,
    }


def schedule_of(settings: dict[str, Any]) -> Schedule:
    alphas_N = noise_levels(Path("x"), settings)
    return Schedule(
        alphas_cumprod=tuple(alphas_N.tolist()),
        final_alpha_cumprod=float(alphas_N[0]),
        prediction=settings["prediction_type"],
        spacing=settings["timestep_spacing"],
        steps_offset=settings["steps_offset"],
    )


def theirs(settings: dict[str, Any], solver: Solver) -> Any:
    from diffusers import DDIMScheduler, DPMSolverMultistepScheduler

    if solver == "ddim":
        return DDIMScheduler(**settings, clip_sample=False, set_alpha_to_one=False)
    return DPMSolverMultistepScheduler(**settings)


@pytest.mark.parametrize("solver", ["ddim", "dpm++"])
@pytest.mark.parametrize("spacing", ["leading", "trailing", "linspace"])
@pytest.mark.parametrize(
    ("prediction", "zero"), [("epsilon", False), ("v_prediction", False), ("v_prediction", True)]
)
def test_every_step_is_diffusers_step(
    prediction: str, zero: bool, spacing: str, solver: Solver
) -> None:
    settings = config(prediction, spacing, zero)
    schedule, other = schedule_of(settings), theirs(settings, solver)
    schedule.check("x")
    for steps in STEPS:
        other.set_timesteps(steps)
        assert np.array_equal(other.timesteps.numpy(), timesteps(schedule, steps, solver)), steps
        if steps > 50:
            continue
        table, generator = sampling_table(schedule, steps, solver), np.random.default_rng(steps)
        z = generator.standard_normal((1, 2, 4, 4)).astype(np.float32)
        before = np.zeros_like(z)
        for step, time in enumerate(other.timesteps):
            prediction_CHW = (0.5 * z + 0.5 * generator.standard_normal(z.shape)).astype(np.float32)
            wanted = other.step(
                torch.from_numpy(prediction_CHW), time, torch.from_numpy(z)
            ).prev_sample.numpy()
            z, before = advance(table, step, z, prediction_CHW, before)
            assert np.abs(z - wanted).max() <= TOLERANCE * np.abs(wanted).max(), (steps, step)


def test_a_tie_is_rounded_to_the_even_number() -> None:
    """1000 - 3 x 1000 / 48 is 937.5 exactly; diffusers' running sum arrives just below it and has
    936.
    """
    trailing = replace(EPSILON, spacing="trailing")
    assert timesteps(trailing, 48, "ddim")[3] == 937 == timesteps(trailing, 16, "ddim")[1]
    assert timesteps(trailing, 16, "ddim")[3] == 811  # 812.5 goes down to 812


def test_guidance() -> None:
    one, two = np.float32([1.0]), np.float32([3.0])
    assert (
        guided(two, one, 1.0) == two
        and guided(two, one, 3.0) == 7.0
        and guided(two, two, 9.0) == two
    )


def test_guidance_rises_to_twice_its_scale_and_is_it_in_the_mean() -> None:
    linear = replace(EPSILON, spacing="trailing", guidance="linear")
    for solver in ("ddim", "dpm++"):
        table = sampling_table(linear, 1000, solver)
        scales = [table.scale(step, 3.0) for step in range(1000)]
        assert (
            scales[0] == pytest.approx(1.004) and scales[-1] == 5.0 and np.all(np.diff(scales) > 0)
        )
        assert np.mean(scales) == pytest.approx(3.0, abs=0.01)
        assert {table.scale(step, 1.0) for step in range(1000)} == {1.0}, (
            "without guidance nothing rises"
        )
    assert set(sampling_table(EPSILON, 25).guidance_S) == {1.0}


@pytest.mark.parametrize(
    ("steps", "solver"),
    [(0, "ddim"), (-1, "ddim"), (1001, "ddim"), (1000, "dpm++"), (10**9, "ddim")],
)
def test_steps_out_of_range(steps: int, solver: Solver) -> None:
    with pytest.raises(InputError, match=f"{steps} steps: out of range. Use 1 to"):
        sampling_table(EPSILON, steps, solver)


def test_an_unknown_solver() -> None:
    with pytest.raises(InputError, match="Use ddim or dpm"):
        sampling_table(EPSILON, 4, "euler")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alphas_cumprod": ()}, "0 noise levels"),
        ({"alphas_cumprod": (0.5, 0.6)}, "do not fall"),
        ({"alphas_cumprod": (0.5, 0.5)}, "do not fall"),
        ({"alphas_cumprod": (0.5, 0.0)}, "do not fall"),
        ({"alphas_cumprod": (1.0, 0.5)}, "do not fall"),
        ({"alphas_cumprod": (0.5, -0.1), "prediction": "v_prediction"}, "do not fall"),
        ({"alphas_cumprod": (0.5,) * 10_001}, "10001 noise levels"),
        ({"final_alpha_cumprod": 0.0}, "a final level of 0"),
        ({"steps_offset": 1000}, "a steps_offset of 1000"),
    ],
)
def test_impossible_schedules(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ReportError, match=words):
        replace(EPSILON, **change).check("pipeline.json")
