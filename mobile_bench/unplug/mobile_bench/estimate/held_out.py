"""The error of a calibration, by leaving one model out at a time."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from .report import HeldOut

Row = TypeVar("Row")


def leave_one_out(
    rows: Sequence[Row],
    *,
    model_of: Callable[[Row], Hashable],
    measured: Callable[[Row], float],
    predicted: Callable[[Sequence[Row], Row], float],
) -> HeldOut | None:
    """Predicts the rows of each model from those of the others.

    Args:
        rows: of one setting.
        model_of: what is left out together; the same network in another precision or trained anew is no new model.
        measured: milliseconds of a row.
        predicted: from the rows kept, milliseconds of a row that was not.

    Returns:
        None below two models: nothing can be left out.

    Example:
        >>> found = leave_one_out([1.0, 2.0], model_of=float, measured=float, predicted=lambda kept, row: kept[0])
        >>> found.low, found.high, found.models
        (0.5, 2.0, 2)
    """
    models = list(dict.fromkeys(model_of(row) for row in rows))
    if len(models) < 2:
        return None
    ratios = []
    for model in models:
        kept = [row for row in rows if model_of(row) != model]
        ratios += [measured(row) / predicted(kept, row) for row in rows if model_of(row) == model]
    return HeldOut(
        low=min(ratios),
        high=max(ratios),
        median_error=statistics.median(abs(ratio - 1.0) for ratio in ratios),
        rows=len(ratios),
        models=len(models),
        coverage=(len(models) - 1) / (len(models) + 1),
    )
