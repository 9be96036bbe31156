"""Who meets whom in an attack: the forget set and unseen samples of the same groups or classes.

Shapes: F forget, U unseen, N samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]

FOLDS = 10


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which samples meet in an attack.

    Args:
        forget: positions in the forget set; samples of groups that nobody unseen belongs to are left out.
        unseen: positions in the test set, with the forget set's shares of groups.
    """

    forget: Index
    unseen: Index

    @property
    def enough(self) -> bool:
        """Whether ten folds have a sample of each side."""
        return min(len(self.forget), len(self.unseen)) >= FOLDS


def match(forget_group_F: Index, unseen_group_U: Index, *, seed: int) -> Match:
    """Draws the largest part of the unseen samples that has the forget set's group proportions.

    n = min_g count_U(g) / share_F(g); of each group round(n share_F(g)) unseen samples are drawn. Without this a forget set
    of children would be told from unseen adults by the age alone.

    Example:
        >>> found = match(np.array([0, 0, 1]), np.array([0, 0, 1, 1, 1, 2]), seed=0)
        >>> found.unseen[:2].tolist(), len(found.unseen)
        ([0, 1], 3)
    """
    there = np.isin(forget_group_F, unseen_group_U)
    forget = np.flatnonzero(there).astype(np.int64)
    groups, counts = np.unique(forget_group_F[there], return_counts=True)
    rng = np.random.default_rng([seed, 90])
    pools = [np.flatnonzero(unseen_group_U == group) for group in groups]
    shares = counts / max(1, counts.sum())
    size = min((len(pool) / share for pool, share in zip(pools, shares, strict=True)), default=0.0)
    drawn = [np.sort(rng.permutation(pool)[: round(size * share)]) for pool, share in zip(pools, shares, strict=True)]
    unseen = np.concatenate(drawn).astype(np.int64) if drawn else np.zeros(0, np.int64)
    return Match(forget=forget, unseen=unseen)


def nomus(accuracy: float, attack: float) -> float:
    """NoMUS = accuracy / 2 + (1 - 2 |attack - 1/2|) / 2.

    Example:
        >>> nomus(0.4, 0.5)
        0.7

    Reference:
        Choi and Na, Towards Machine Unlearning Benchmarks: Forgetting the Personal Identities, 2023, section 4.
    """
    return accuracy / 2 + (1 - 2 * abs(attack - 0.5)) / 2
