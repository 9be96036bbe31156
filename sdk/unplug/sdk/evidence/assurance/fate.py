"""The numbers that NIST's evaluation of age estimation and verification reports, of arrays alone.

A decision is made on the estimated age, as there: Challenge-T lets people pass who seem T or older.

Shapes: N pictures.

Reference:
    Hanaoka et al., Face Analysis Technology Evaluation: Age Estimation and Verification, NIST IR
    8525, 2024.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from unplug.core import Array
from unplug.sdk.evidence.statistics import MIN_SUBJECTS, Estimate, PeopleDraws, interval

from .evaluation_report import Challenge, Curve, Rate, Teenagers, YearRow
from .exact import claim, rate
from .groups import Mask

ADULT = 18.0
FATE_MINORS = (14.0, 18.0)
"""The youngest that NIST's pictures show are 14."""
YOUNG_ADULTS = (18.0, 25.0)
TEENAGERS = (13.0, 17.0)
YOUNGER, OLDER = (6.0, 13.0), (17.0, 25.0)
CUMULATIVE = (1, 2, 3, 4, 5, 6, 8, 10, 15)
BALANCED_AGES = range(18, 31)
BALANCED_SEXES = ("female", "male")
MAX_POINTS = 200


def between(age_N: Array, span: tuple[float, float]) -> Mask:
    """Marks the people whose age lies in [low, high) (N,)."""
    return np.asarray((age_N >= span[0]) & (age_N < span[1]))


def year_rows(age_N: Array, error_N: Array, drawn: PeopleDraws) -> tuple[YearRow, ...]:
    """Mean absolute and mean signed error by year of age.

    Args:
        age_N: true age in years; 17.9 is 17.
        error_N: estimated minus true age.
        drawn: the draws of the pictures' people.
    """
    year_N = np.floor(age_N).astype(int)
    masks = {int(year): year_N == year for year in np.unique(year_N)}
    means = drawn.means(
        {f"mae {year}": (np.abs(error_N), mask) for year, mask in masks.items()}
        | {f"bias {year}": (error_N, mask) for year, mask in masks.items()}
    )
    return tuple(
        YearRow(
            age=year,
            pictures=int(mask.sum()),
            people=drawn.count(mask),
            mae=means[f"mae {year}"],
            bias=means[f"bias {year}"],
        )
        for year, mask in masks.items()
    )


def cumulative(error_N: Array, drawn: PeopleDraws) -> dict[str, Estimate]:
    """CS(a), the share of pictures with an error of at most a years, by a."""
    everybody = np.ones(len(error_N), dtype=bool)
    means = drawn.means(
        {str(a): ((np.abs(error_N) <= a).astype(np.float64), everybody) for a in CUMULATIVE}
    )
    return {name: item for name, item in means.items() if item is not None}


def balanced_mae(
    age_N: Array, error_N: Array, sex_N: Sequence[str], drawn: PeopleDraws
) -> tuple[Estimate | None, int]:
    """The mean of the errors of 26 cells, both sexes of each age of 18 to 30: one number that no
    mix of ages decides.

    Returns:
        The mean, or None where a cell shows fewer than `MIN_SUBJECTS` people; and how many cells
        do.
    """
    sexes = np.asarray(sex_N)
    masks = [
        between(age_N, (year, year + 1.0)) & (sexes == sex)
        for year in BALANCED_AGES
        for sex in BALANCED_SEXES
    ]
    small = sum(drawn.count(mask) < MIN_SUBJECTS for mask in masks)
    if small:
        return None, small
    columns = [
        column
        for mask in masks
        for column in (np.where(mask, np.abs(error_N), 0.0), mask.astype(np.float64))
    ]
    total_K, draws_RK = drawn.sums(np.stack(columns, axis=1))
    # A draw without anybody of a cell has no mean there, and is averaged over the others.
    with np.errstate(invalid="ignore"):
        cells_RC = draws_RK[:, ::2] / draws_RK[:, 1::2]
    low, high = interval(np.nanmean(cells_RC, axis=1))
    return Estimate(value=float((total_K[::2] / total_K[1::2]).mean()), low=low, high=high), 0


def challenge(
    threshold: float,
    age_N: Array,
    estimate_N: Array,
    person_N: NDArray[np.int64],
    masks: Mapping[str, Mask],
    limit: float,
) -> Challenge:
    """Challenge-T: false positives over minors, and false rejections of young adults.

    Args:
        threshold: T in years.
        age_N, estimate_N: true and estimated ages.
        person_N: the person in each picture.
        masks: cells of attributes.
        limit: the limit of false positives.
    """
    passes_N, minor_N, young_N = (
        estimate_N >= threshold,
        age_N < ADULT,
        between(age_N, YOUNG_ADULTS),
    )

    def passing(among_N: Mask) -> Rate:
        return rate(passes_N, among_N, person_N)

    def rejected(among_N: Mask) -> Rate:
        return rate(~passes_N, among_N, person_N)

    fate, everybody = passing(between(age_N, FATE_MINORS)), passing(minor_N)
    return Challenge(
        age=threshold,
        by_year={
            str(year): passing(_of_year(age_N, year))
            for year in range(18)
            if _of_year(age_N, year).any()
        },
        fate_minors=fate,
        fate_claim=claim(fate, limit),
        minors=everybody,
        claim=claim(everybody, limit),
        by_group={cell: passing(mask & minor_N) for cell, mask in masks.items()},
        rejected_by_year={
            str(year): rejected(_of_year(age_N, year))
            for year in range(18, 25)
            if _of_year(age_N, year).any()
        },
        rejected=rejected(young_N),
    )


def teenagers(age_N: Array, estimate_N: Array, person_N: NDArray[np.int64]) -> Teenagers:
    """13 to 16 as a range of ages that may enter, and the limit of 16."""
    inside_N, seems_N, young_N = (
        between(age_N, TEENAGERS),
        between(estimate_N, TEENAGERS),
        estimate_N < 16.0,
    )
    entitled = {
        "16": _of_year(age_N, 16),
        "17": _of_year(age_N, 17),
        "18 to 24": between(age_N, YOUNG_ADULTS),
    }
    return Teenagers(
        true_positives=rate(seems_N, inside_N, person_N),
        false_positives=rate(seems_N, ~inside_N, person_N),
        younger=rate(seems_N, between(age_N, YOUNGER), person_N),
        older=rate(seems_N, between(age_N, OLDER), person_N),
        rejected_16={name: rate(young_N, mask, person_N) for name, mask in entitled.items()},
    )


def det(score_N: Array, age_N: Array, kind: str) -> Curve | None:
    """False positives over minors against false rejections over adults, at every threshold on a
    score; None without both.

    Args:
        score_N: the larger, the more an adult.
        age_N: true ages.
        kind: "age" or "probability".
    """
    minors, adults = np.sort(score_N[age_N < ADULT]), np.sort(score_N[age_N >= ADULT])
    if not len(minors) or not len(adults):
        return None
    thresholds = np.unique(score_N)[::-1]
    false_positive = 1.0 - np.searchsorted(minors, thresholds, side="left") / len(minors)
    false_rejection = np.searchsorted(adults, thresholds, side="left") / len(adults)
    # The corners of the steps say all; of the rest an even choice is enough to draw.
    picked = np.unique(
        np.linspace(0, len(thresholds) - 1, min(MAX_POINTS, len(thresholds))).round().astype(int)
    )
    rounded = (
        tuple(float(round(value, 6)) for value in part[picked])
        for part in (thresholds, false_positive, false_rejection)
    )
    threshold, positive, rejection = rounded
    return Curve(
        score=kind,  # type: ignore[arg-type]
        threshold=threshold,
        false_positive=positive,
        false_rejection=rejection,
    )


def _of_year(age_N: Array, year: int) -> Mask:
    return between(age_N, (float(year), year + 1.0))
