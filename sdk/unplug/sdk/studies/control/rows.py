"""From the pictures of every row to its numbers with intervals.

Shapes: S trainings, M pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from .bootstrap import Resampled, Shares, difference, estimate
from .frechet import Frechet
from .report import Measure, Raw, Row

Array = NDArray[np.float64]
ATTRIBUTE = "attribute:"
ABSENT = dict.fromkeys(("nme", "true_nme"), "no face was found in any picture")
NO_RATIO = "the distance to divide by is not clearly above zero"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A row whose numbers are still raw.

    Args:
        row: all else of it.
        values: by name (S, M), NaN where a picture has none.
        attributes: by name (S, M): 1 read as named, 0 not, NaN not named.
        features: (M, D) of each training's pictures.
    """

    row: Row
    values: Mapping[str, Array] = field(default_factory=dict)
    attributes: Mapping[str, Array] = field(default_factory=dict)
    features: Sequence[Array] = ()

    def shares(self) -> dict[str, Shares]:
        """Every number as a ratio of sums; the prompt's attributes together are "consistency"."""
        found = {name: Shares.of_values(values_SM) for name, values_SM in self.values.items()}
        if self.attributes:
            parts = [Shares.of_values(values_SM) for values_SM in self.attributes.values()]
            sums_SM, parts_SM = sum(part.sums_SM for part in parts), sum(part.parts_SM for part in parts)
            found["consistency"] = Shares(sums_SM=np.asarray(sums_SM), parts_SM=np.asarray(parts_SM))
        return found


def finish(draft: Draft, reference: Draft | None, draws: Array) -> Row:
    """The row with intervals, and with paired differences to the reference control.

    Args:
        draft: the row.
        reference: that control's, or None.
        draws: of `make_draws`, the same for all rows.
    """
    others = reference.shares() if reference is not None and reference.row.name != draft.row.name else {}
    measures, missing = dict[str, Measure](), dict(draft.row.missing)
    for name, shares in draft.shares().items():
        if (found := _measure(shares, others.get(name), draws)) is None:
            missing[name] = ABSENT.get(name, "no picture counts in it")
        else:
            measures[name] = found
    attributes = {
        name: found
        for name, values_SM in draft.attributes.items()
        if (found := _measure(Shares.of_values(values_SM), None, draws)) is not None
    }
    raw = {name: as_raw(values_SM) for name, values_SM in draft.values.items()}
    raw |= {f"{ATTRIBUTE}{name}": as_raw(values_SM) for name, values_SM in draft.attributes.items()}
    return replace(draft.row, measures=measures, attributes=attributes, raw=raw, missing=missing)


def _measure(shares: Shares, reference: Shares | None, draws: Array) -> Measure | None:
    if not shares.parts_SM.any():
        return None
    found = estimate(shares, draws)
    return Measure(
        value=found.value, low=found.low, high=found.high, pictures=int((shares.parts_SM > 0).sum()),
        difference=None if reference is None else difference(shares, reference, draws),
    )  # fmt: skip


def with_distances(
    row: Row, frechet: Frechet, kid: Resampled, reference: tuple[Frechet, Resampled] | None, pictures: int
) -> Row:
    """The row with its distances from real pictures, and how these stand to the reference control's."""
    rivals = (None, None) if reference is None else (reference[0].apart, reference[1])
    measures, missing = dict(row.measures), dict(row.missing)
    for name, own, rival in (("frechet", frechet.apart, rivals[0]), ("kid", kid, rivals[1])):
        found, apart = own.estimate, None if rival is None else own.minus(rival)
        measures[name] = Measure(value=found.value, low=found.low, high=found.high, pictures=pictures, difference=apart)
    measures["frechet_finite"] = Measure(value=frechet.finite, pictures=pictures)
    if rivals[0] is not None:
        if (ratio := frechet.apart.over(rivals[0])) is None:
            missing["frechet_ratio"] = NO_RATIO
        else:
            measures["frechet_ratio"] = Measure(value=ratio.value, low=ratio.low, high=ratio.high, pictures=pictures)
    return replace(row, measures=measures, missing=missing)


def as_raw(values_SM: Array) -> Raw:
    """Numbers for JSON: NaN becomes null."""
    return tuple(tuple(None if np.isnan(value) else float(value) for value in row) for row in values_SM)
