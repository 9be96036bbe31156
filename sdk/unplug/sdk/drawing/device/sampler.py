"""Sampling as a table: each solver gives seven numbers a step, and one loop serves all of them.

With the latent z, the UNet's prediction p, its prediction n for the negative prompt, the scale g of
guidance, and D' the data of the step before (zeros at first), step s computes

    p = n + (1 + (g - 1) guidance[s]) (p - n)
    D = latent_to_data[s] z + prediction_to_data[s] p              (the picture's latent that the prediction points at)
    z = keep[s] z + data[s] D + previous[s] D'

in float32; the tables are computed in float64 and rounded once. Shapes: N noise levels, S steps.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import STRICT, InputError, ReportError

Prediction = Literal["epsilon", "v_prediction"]
Spacing = Literal["leading", "trailing", "linspace"]
Solver = Literal["ddim", "dpm++"]
GuidanceSchedule = Literal["constant", "linear"]
SOLVERS: tuple[Solver, ...] = ("ddim", "dpm++")
MAX_LEVELS = 10_000
LEAST_ALPHA = 2.0**-24
"""What DPM-Solver++ takes for a noise level of nothing but noise, whose logarithm is infinite;
diffusers takes the same.
"""
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The noise levels of a base.

    Args:
        alphas_cumprod: N numbers, the share of the picture's variance in z at each timestep,
            falling.
        final_alpha_cumprod: the value that DDIM's last step uses: 1, or the first of them.
        prediction: the UNet's output: the noise, or the velocity v = sqrt(a) noise - sqrt(1 - a)
            data.
        spacing: the choice of the timesteps that S steps visit, see `timesteps`.
        steps_offset: added to them, with "leading".
        guidance: how it weighs at each level, see `guidance_shares`.
    """

    __pydantic_config__: ClassVar = STRICT

    alphas_cumprod: tuple[float, ...]
    final_alpha_cumprod: float
    prediction: Prediction
    spacing: Spacing
    steps_offset: int
    guidance: GuidanceSchedule = "constant"

    def check(self, where: str) -> None:
        """Raises `ReportError`, naming `where`, unless every sampler can work with it."""
        alphas = self.alphas_cumprod
        least = 0.0 if self.prediction == "v_prediction" else 1e-8
        falling = all(high > low for high, low in itertools.pairwise(alphas))
        wrong = {
            f"{len(alphas)} noise levels": not 1 <= len(alphas) <= MAX_LEVELS,
            "noise levels that do not fall from below 1 to 0 or, for a base that predicts noise, "
            "to above it": not (falling and all(least <= value < 1.0 for value in alphas)),
            f"a final level of {self.final_alpha_cumprod:g}": not 0.0
            < self.final_alpha_cumprod
            <= 1.0,
            f"a steps_offset of {self.steps_offset}": not 0
            <= self.steps_offset
            < max(1, len(alphas)),
        }
        for what, is_so in wrong.items():
            if is_so:
                raise ReportError(where, f"its schedule has {what}", "Export it again")


@dataclass(frozen=True, kw_only=True)
class SamplingTable:
    """The table of one sampling: timesteps, shares of guidance, and five coefficients a step in
    float32; see above.
    """

    timestep_S: NDArray[np.int64]
    latent_to_data_S: NDArray[np.float32]
    prediction_to_data_S: NDArray[np.float32]
    keep_S: NDArray[np.float32]
    data_S: NDArray[np.float32]
    previous_S: NDArray[np.float32]
    guidance_S: Floats

    def scale(self, step: int, guidance: float) -> float:
        """The scale of guidance at a step, of a scale that is asked for."""
        return 1.0 + (guidance - 1.0) * float(self.guidance_S[step])


def timesteps(schedule: Schedule, steps: int, solver: Solver) -> NDArray[np.int64]:
    """The S timesteps, falling, as diffusers' DDIM and DPM-Solver++ choose them; halves round to
    the even neighbour.

    With i from 0 to S - 1: leading, (S - 1 - i) floor(N / S) + offset; trailing, round(N - i N / S)
    - 1; linspace, round((S - 1 - i) (N - 1) / (S - 1)). DPM-Solver++ takes S + 1 for S in the first
    and the last, and leaves out the smallest.

    Raises:
        InputError: more steps than there are noise levels, or none.
    """
    levels = len(schedule.alphas_cumprod)
    # diffusers' DPM-Solver++ spaces one timestep more, but for trailing, and leaves out the smallest.
    extra = 1 if solver == "dpm++" and schedule.spacing != "trailing" else 0
    if not 1 <= steps <= levels - extra:
        raise InputError(
            f"{steps} steps",
            "out of range",
            f"Use 1 to {levels - extra} for this base and {solver}",
        )
    falling_S = np.arange(steps - 1 + extra, -1 + extra, -1, dtype=np.int64)
    if schedule.spacing == "leading":
        found_S = falling_S * (levels // (steps + extra)) + schedule.steps_offset
    elif schedule.spacing == "trailing":
        found_S = np.rint(levels - np.arange(steps) * (levels / steps)).astype(np.int64) - 1
    else:
        found_S = np.rint(falling_S * ((levels - 1) / max(1, steps - 1 + extra))).astype(np.int64)
    return np.minimum(found_S, levels - 1)


def sampling_table(schedule: Schedule, steps: int, solver: Solver = "ddim") -> SamplingTable:
    """The table of a sampling with `steps` steps.

    Raises:
        InputError: an unknown solver, or a number of steps that the schedule does not have.
    """
    if solver not in SOLVERS:
        raise InputError(f"solver {solver!r}", "not known", f"Use {' or '.join(SOLVERS)}")
    time_S = timesteps(schedule, steps, solver)
    levels_N = np.array(schedule.alphas_cumprod, np.float64)
    alpha_S = levels_N[time_S] if solver == "ddim" else np.maximum(levels_N[time_S], LEAST_ALPHA)
    signal_S, noise_S = np.sqrt(alpha_S), np.sqrt(1.0 - alpha_S)
    noise = schedule.prediction == "epsilon"
    to_data = (1.0 / signal_S, -noise_S / signal_S) if noise else (signal_S, -noise_S)
    made = _ddim(schedule, time_S, alpha_S) if solver == "ddim" else _dpm(alpha_S)
    shares_S = guidance_shares(time_S, len(levels_N), schedule.guidance)
    return SamplingTable(
        timestep_S=time_S,
        guidance_S=shares_S,
        **{
            name: values.astype(np.float32)
            for name, values in zip(
                ("latent_to_data_S", "prediction_to_data_S", "keep_S", "data_S", "previous_S"),
                (*to_data, *made),
                strict=True,
            )
        },
    )


def guidance_shares(
    timestep_S: NDArray[np.int64], levels: int, schedule: GuidanceSchedule
) -> Floats:
    """What each step takes of g - 1: 1, or with "linear" 2 (1 - t / N), none in pure noise and
    twice at its end; 1 in the mean.

    Early steps decide what is where, and guidance there makes all pictures of a prompt alike; late
    ones draw what a prompt names, which guidance brings out.

    Args:
        timestep_S: t. levels: N. schedule: which.

    Example:
        >>> guidance_shares(np.array([999, 499]), 1000, "linear").round(3).tolist()
        [0.002, 1.002]

    Reference:
        Wang et al., Analysis of Classifier-Free Guidance Weight Schedulers, 2024, section 4
        (linear).
    """
    return np.ones(len(timestep_S)) if schedule == "constant" else 2.0 * (1.0 - timestep_S / levels)


def _ddim(
    schedule: Schedule, time_S: NDArray[np.int64], alpha_S: Floats
) -> tuple[Floats, Floats, Floats]:
    """z' = sqrt(a') D + sqrt(1 - a') e, where e = (z - sqrt(a) D) / sqrt(1 - a) and a' is the level
    floor(N / S) below.

    Reference:
        Song et al., Denoising Diffusion Implicit Models, 2021, equation 12 with sigma = 0.
    """
    levels_N = np.array(schedule.alphas_cumprod, np.float64)
    # diffusers steps by floor(N / S) below each timestep, also where the next one is not there.
    after_S = time_S - len(levels_N) // len(time_S)
    next_S = np.where(after_S >= 0, levels_N[np.maximum(after_S, 0)], schedule.final_alpha_cumprod)
    keep_S = np.sqrt((1.0 - next_S) / (1.0 - alpha_S))
    return keep_S, np.sqrt(next_S) - np.sqrt(alpha_S) * keep_S, np.zeros_like(keep_S)


def _dpm(alpha_S: Floats) -> tuple[Floats, Floats, Floats]:
    """The multistep solver of second order: the first step and the last one, which ends without
    noise, are of first order.

    With l = ln sqrt(a / (1 - a)), h = l' - l and r = h_before / h:
    z' = sqrt((1 - a') / (1 - a)) z + sqrt(a') (1 - e^-h) (D + (D - D_before) / 2r).

    Reference:
        Lu et al., DPM-Solver++: Fast Solver for Guided Sampling of Diffusion Probabilistic Models,
        2022, algorithm 2.
    """
    logs_S = 0.5 * np.log(alpha_S / (1.0 - alpha_S))
    step_R = np.diff(logs_S)
    next_R, own_R = alpha_S[1:], alpha_S[:-1]
    # The last step ends without noise: nothing of z is kept, and all of D taken.
    keep_S = np.append(np.sqrt((1.0 - next_R) / (1.0 - own_R)), 0.0)
    pull_S = np.append(np.sqrt(next_R) * -np.expm1(-step_R), 1.0)
    previous_S = np.zeros_like(pull_S)
    if len(step_R) > 1:
        previous_S[1:-1] = -0.5 * pull_S[1:-1] * step_R[1:] / step_R[:-1]
    return keep_S, pull_S - previous_S, previous_S


def guided(
    prediction: NDArray[np.float32], negative: NDArray[np.float32], guidance: float
) -> NDArray[np.float32]:
    """negative + guidance (prediction - negative): classifier-free guidance; 1 is the prediction
    alone.

    Reference:
        Ho and Salimans, Classifier-Free Diffusion Guidance, 2022, equation 6.
    """
    return negative + np.float32(guidance) * (prediction - negative)


def advance(
    table: SamplingTable,
    step: int,
    latent: NDArray[np.float32],
    prediction: NDArray[np.float32],
    before: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """One step of the loop in this file's head.

    Args:
        table: the table from `sampling_table`.
        step: s, from 0.
        latent: z.
        prediction: p, guided.
        before: the data of the step before; zeros at first.

    Returns:
        The next latent, and this step's data.
    """
    data = table.latent_to_data_S[step] * latent + table.prediction_to_data_S[step] * prediction
    return table.keep_S[step] * latent + table.data_S[step] * data + table.previous_S[
        step
    ] * before, data
