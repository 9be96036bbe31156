"""The bootstrap: whole people are drawn again with replacement, since pictures of one person are
not independent.

Shapes: N pictures, P people, K columns, R replicates.

Reference:
    Field and Welsh, Bootstrapping clustered data, 2007.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student

from unplug.core import Estimate

Array = NDArray[np.float64]

CONFIDENCE = 0.95
REPLICATES = 1000
MIN_SUBJECTS = 5
"""With fewer people, most draws repeat the same ones."""
BLOCK_CELLS = 20_000_000  # of draws in memory at once


def drawn_again(count: int, replicates: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How often each of some things is in each of R draws of as many, with replacement: (R, count)."""
    return rng.multinomial(count, np.full(count, 1.0 / count), size=replicates)


def subject_weights(
    subjects: NDArray[np.int64], replicates: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """How often each sample is in each of R draws of whole subjects with replacement: (R, N), at
    least 0.
    """
    _, number = np.unique(subjects, return_inverse=True)
    people = int(number.max()) + 1
    return drawn_again(people, replicates, rng)[:, number].astype(np.float32)


def few_people(people: int | None) -> float:
    """How much wider an interval over n resampled subjects must be: t_{n-1} / z sqrt(n / (n - 1)),
    1 for many.

    A bootstrap's variance is that of the sample, (n - 1) / n of the truth on average, and its tails
    are a Gaussian's where few subjects have Student's.

    Example:
        >>> [round(few_people(count), 2) for count in (5, 10, 50, 1000)]
        [1.58, 1.22, 1.04, 1.0]

    Reference:
        Field and Welsh, Bootstrapping clustered data, 2007, section 3 (the variance).
    """
    if people is None or people < 2:
        return 1.0
    # The second factor is that of the variance, n / (n - 1); the first that of the tails.
    level = (1 + CONFIDENCE) / 2
    return float(student.ppf(level, people - 1) / norm.ppf(level)) * math.sqrt(
        people / (people - 1)
    )


def interval(values_R: Array, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Percentile interval of bootstrap replicates."""
    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(values_R, [tail, 100 - tail])
    return float(low), float(high)


def with_interval(value: float, values_R: Array) -> Estimate:
    """A number, with the percentile interval of its bootstrap replicates."""
    low, high = interval(np.asarray(values_R, np.float64))
    return Estimate(value=value, low=low, high=high)


def mean_estimate(values_N: Array, subjects_N: NDArray[np.int64], seed: int) -> Estimate:
    """A mean with its interval over subjects; without one where the subjects are too few to draw
    from.
    """
    if len(np.unique(subjects_N)) < MIN_SUBJECTS:
        return Estimate(value=float(values_N.mean()))
    weights_RN = subject_weights(subjects_N, REPLICATES, np.random.default_rng([seed, 4321]))
    means_R = (weights_RN @ values_N) / weights_RN.sum(axis=1)
    return with_interval(float(values_N.mean()), means_R)


@dataclass(frozen=True, kw_only=True)
class PeopleDraws:
    """The people to draw.

    Args:
        person_N: a number for each person.
        seed: the seed of the draws; the same seed and people give the same draws.
        replicates: R.
    """

    person_N: NDArray[np.int64]
    seed: int
    replicates: int = REPLICATES

    def sums(self, columns_NK: Array) -> tuple[Array, Array]:
        """Sums of columns over the sample (K,), and over every draw of whole people (R, K)."""
        _, number_N = np.unique(self.person_N, return_inverse=True)
        people = int(number_N.max()) + 1
        by_person_PK = np.stack(
            [np.bincount(number_N, weights=column, minlength=people) for column in columns_NK.T],
            axis=1,
        )
        rng = np.random.default_rng([self.seed, 8525])
        # Draws in blocks: R times P numbers of a large data set would not fit into memory.
        block, blocks = max(1, BLOCK_CELLS // people), []
        for start in range(0, self.replicates, block):
            draws_BP = drawn_again(people, min(block, self.replicates - start), rng)
            blocks.append(draws_BP @ by_person_PK)
        return by_person_PK.sum(axis=0), np.concatenate(blocks)

    def count(self, among_N: NDArray[np.bool_]) -> int:
        """How many different people some pictures show."""
        return len(np.unique(self.person_N[among_N]))

    def means(
        self, wanted: Mapping[str, tuple[Array, NDArray[np.bool_]]]
    ) -> dict[str, Estimate | None]:
        """Means of values over some pictures each, by name; None where they show fewer than
        `MIN_SUBJECTS` people.

        Args:
            wanted: name to values (N,), and the pictures that they are averaged over (N,).
        """
        enough = {
            name: item for name, item in wanted.items() if self.count(item[1]) >= MIN_SUBJECTS
        }
        estimates: dict[str, Estimate | None] = dict.fromkeys(wanted)
        if not enough:
            return estimates
        columns = [
            column
            for values_N, among_N in enough.values()
            for column in (np.where(among_N, values_N, 0.0), among_N)
        ]
        total_K, draws_RK = self.sums(np.stack(columns, axis=1).astype(np.float64))
        for place, name in enumerate(enough):
            weight_R = draws_RK[:, 2 * place + 1]
            estimates[name] = with_interval(
                float(total_K[2 * place] / total_K[2 * place + 1]),
                draws_RK[weight_R > 0, 2 * place] / weight_R[weight_R > 0],
            )
        return estimates
