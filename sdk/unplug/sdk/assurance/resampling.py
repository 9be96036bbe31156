"""Means over some pictures with intervals over people: whole people are drawn, the same for every number and every model.

Shapes: N pictures, P people, K columns, R replicates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unplug.core import Array
from unplug.sdk.statistics import MIN_SUBJECTS, REPLICATES, Estimate, interval

BLOCK_CELLS = 20_000_000  # of draws in memory at once


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Whom to draw.

    Args:
        person_N: a number for each person.
        seed: of the draws; the same seed and people give the same draws.
        replicates: R.
    """

    person_N: NDArray[np.int64]
    seed: int
    replicates: int = REPLICATES

    def sums(self, columns_NK: Array) -> tuple[Array, Array]:
        """Sums of columns over the sample (K,), and over every draw of whole people (R, K)."""
        _, number_N = np.unique(self.person_N, return_inverse=True)
        people = int(number_N.max()) + 1
        by_person_PK = np.stack([np.bincount(number_N, weights=column, minlength=people) for column in columns_NK.T], axis=1)
        rng = np.random.default_rng([self.seed, 8525])
        block, blocks = max(1, BLOCK_CELLS // people), []
        for start in range(0, self.replicates, block):
            draws_BP = rng.multinomial(people, np.full(people, 1.0 / people), size=min(block, self.replicates - start))
            blocks.append(draws_BP @ by_person_PK)
        return by_person_PK.sum(axis=0), np.concatenate(blocks)

    def count(self, among_N: NDArray[np.bool_]) -> int:
        """How many different people some pictures show."""
        return len(np.unique(self.person_N[among_N]))

    def means(self, wanted: Mapping[str, tuple[Array, NDArray[np.bool_]]]) -> dict[str, Estimate | None]:
        """Means of values over some pictures each, by name; None where they show fewer than `MIN_SUBJECTS` people.

        Args:
            wanted: name to values (N,), and the pictures that they are averaged over (N,).
        """
        enough = {name: item for name, item in wanted.items() if self.count(item[1]) >= MIN_SUBJECTS}
        found: dict[str, Estimate | None] = dict.fromkeys(wanted)
        if not enough:
            return found
        columns = [column for values_N, among_N in enough.values() for column in (np.where(among_N, values_N, 0.0), among_N)]
        total_K, draws_RK = self.sums(np.stack(columns, axis=1).astype(np.float64))
        for place, name in enumerate(enough):
            weight_R = draws_RK[:, 2 * place + 1]
            low, high = interval(draws_RK[weight_R > 0, 2 * place] / weight_R[weight_R > 0])
            found[name] = Estimate(value=float(total_K[2 * place] / total_K[2 * place + 1]), low=low, high=high)
        return found
