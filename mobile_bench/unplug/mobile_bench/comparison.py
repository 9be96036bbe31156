"""Two bench reports, row by row: which rows may be compared, by how much they differ, and whether a
gate fails.

Shapes: R repeats (cold starts) of one row.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from unplug.core import STRICT

from .bench_report import BenchReport, BenchRow
from .statistics import exp, typical_latency

SCHEMA: Literal["unplug-bench-comparison/1"] = "unplug-bench-comparison/1"
Verdict = Literal["slower", "faster", "no difference shown", "not comparable"]
FAIL_ABOVE = 0.05
LEVEL = 0.95
SAME = (
    "device",
    "soc",
    "os",
    "gpu_driver",
    "mode",
    "threads",
    "warmup",
    "iterations",
    "delegate_got",
    "timed_until",
    "clock_mode",
    "charging",
    "inputs_sha256",
)
"""What must be equal in two rows: a change of it is a reason of its own for another latency."""


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """New over old latency, with an interval.

    Args:
        value: the ratio of the geometric means of the repeats' medians.
        low, high: ends of the interval.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Change:
    """One row of both reports.

    Args:
        file, target, precision, device, runtime, delegate: which.
        old_ms, new_ms: see `BenchRow.median_ms`.
        old_repeats, new_repeats: R of each.
        ratio: None where the rows may not be compared.
        verdict: "slower" or "faster" where the interval lies wholly on that side of 1.
        reasons: why the rows may not be compared.
        fails: whether the gate fails.
    """

    file: str
    target: str
    precision: str
    device: str
    runtime: str
    delegate: str
    old_ms: float | None
    new_ms: float | None
    old_repeats: int
    new_repeats: int
    ratio: Ratio | None
    verdict: Verdict
    reasons: tuple[str, ...]
    fails: bool


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two reports.

    Args:
        schema: always ``unplug-bench-comparison/1``.
        fail_above: the gate's limit, a share.
        level: the level of the intervals, all rows together.
        changes: rows that are in both.
        only_old, only_new: files of rows that are in one alone.
        unchecked: files of valid rows of the old report that no row of the new one could be
            compared with.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-bench-comparison/1"] = SCHEMA
    fail_above: float
    level: float
    changes: tuple[Change, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    unchecked: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """No row fails, at least one could be compared, and none that was valid went unchecked."""
        return (
            not any(change.fails for change in self.changes)
            and any(change.ratio for change in self.changes)
            and not self.unchecked
        )


def compare_reports(
    old: BenchReport, new: BenchReport, *, fail_above: float = FAIL_ABOVE, level: float = LEVEL
) -> Comparison:
    """Compares rows of the same file, target, precision, runtime and delegate.

    A row fails where its slow-down is shown (the interval lies above 1) and may be as large as
    `fail_above` (it reaches 1 + `fail_above`). Intervals hold for all m rows that can be compared
    together (Bonferroni: each at 1 - (1 - `level`) / m). Identical code then fails, in any row, in
    about half of 1 - `level` of all comparisons: noise costs power, it makes no false alarms.

    Args:
        old, new: reports of one device.
        fail_above: the smallest slow-down to refuse, above 0.
        level: the level of the intervals, all rows together.

    Example:
        >>> empty = BenchReport(rows=(), seed=0, versions={}, git_revision=None)
        >>> compare_reports(empty, empty).passed
        False
    """
    before, after = _keyed(old.rows), _keyed(new.rows)
    pairs = [(before[key], row) for key, row in after.items() if key in before]
    comparable = sum(not _hindrances(*pair) for pair in pairs)
    each = 1.0 - (1.0 - level) / max(comparable, 1)
    changes = tuple(_change(*pair, fail_above, each) for pair in pairs)
    left = [
        row.file
        for (row, _), change in zip(pairs, changes, strict=True)
        if row.valid and change.ratio is None
    ]
    return Comparison(
        fail_above=fail_above,
        level=level,
        changes=changes,
        unchecked=(
            *left,
            *(row.file for key, row in before.items() if row.valid and key not in after),
        ),
        only_old=tuple(row.file for key, row in before.items() if key not in after),
        only_new=tuple(row.file for key, row in after.items() if key not in before),
    )


def latency_ratio(
    old_R: Sequence[float], new_R: Sequence[float], level: float = LEVEL
) -> Ratio | None:
    """Ratio of new over old, by Welch's interval of the difference of mean log medians.

    d = mean log m_new - mean log m_old, d +- t(df) sqrt(s_new^2 / R_new + s_old^2 / R_old), df by
    Satterthwaite. Runs of one cold start share its clock, its memory and its neighbours, so the
    repeats are the sample, not the runs.

    Args:
        old_R, new_R: medians of repeats in milliseconds, above 0; at least two of each.
        level: probability that the interval should cover the true ratio.

    Returns:
        None where all repeats are equal to the last digit: the clock is too coarse for an interval.

    Example:
        >>> found = latency_ratio([1.0, 1.02, 0.99], [2.0, 2.02, 1.99])
        >>> round(found.value, 3), found.low < 2.0 < found.high
        (1.997, True)

    Reference:
        Welch, The generalization of "Student's" problem when several different population variances
        are involved, 1947.
    """
    from scipy.stats import t

    old, new = np.log(old_R), np.log(new_R)
    variances = [float(side.var(ddof=1)) / len(side) for side in (old, new)]
    if sum(variances) == 0.0:
        return None
    freedom = sum(variances) ** 2 / sum(
        variance**2 / (len(side) - 1) for variance, side in zip(variances, (old, new), strict=True)
    )
    difference = float(new.mean() - old.mean())
    half = float(t.ppf(0.5 + level / 2, freedom)) * math.sqrt(sum(variances))
    return Ratio(value=exp(difference), low=exp(difference - half), high=exp(difference + half))


def _keyed(rows: Sequence[BenchRow]) -> dict[tuple[object, ...], BenchRow]:
    """Rows by what they time; of several alike by their place too."""
    seen: Counter[tuple[object, ...]] = Counter()
    keyed: dict[tuple[object, ...], BenchRow] = {}
    for row in rows:
        key = (
            row.file,
            row.target,
            row.precision,
            row.runtime,
            row.delegate_asked,
            row.where,
            row.mode,
        )
        keyed[(*key, seen[key])] = row
        seen[key] += 1
    return keyed


def _change(old: BenchRow, new: BenchRow, fail_above: float, level: float) -> Change:
    medians = _medians(old, new)
    reasons = _hindrances(old, new)
    ratio = None if reasons else latency_ratio(medians[0], medians[1], level)
    if not reasons and ratio is None:
        reasons = ("every repeat took the same time to the last digit: the clock is too coarse",)
    verdict: Verdict = "not comparable"
    if ratio is not None:
        verdict = (
            "slower" if ratio.low > 1.0 else "faster" if ratio.high < 1.0 else "no difference shown"
        )
    return Change(
        file=new.file,
        target=new.target,
        precision=new.precision,
        device=new.device,
        runtime=new.runtime,
        delegate=new.delegate_asked,
        old_ms=old.median_ms,
        new_ms=new.median_ms,
        old_repeats=len(old.repeats),
        new_repeats=len(new.repeats),
        ratio=ratio,
        verdict=verdict,
        reasons=reasons,
        fails=ratio is not None and ratio.low > 1.0 and ratio.high >= 1.0 + fail_above,
    )


def _medians(old: BenchRow, new: BenchRow) -> list[list[float]]:
    return [[repeat.summary.p50 for repeat in row.repeats] for row in (old, new)]


def _hindrances(old: BenchRow, new: BenchRow) -> tuple[str, ...]:
    """Why two rows must not be compared."""
    reasons, medians = list[str](), _medians(old, new)
    for name, row in (("old", old), ("new", new)):
        typical = (
            typical_latency([repeat.summary.p50 for repeat in row.repeats]) if row.repeats else None
        )
        if typical is not None and not math.isclose(
            typical.value, row.median_ms or 0.0, rel_tol=1e-6
        ):
            reasons.append(
                f"the {name} row's median contradicts its cold starts: somebody edited it"
            )
        if row.mode == "sustained":
            reasons.append(
                f"the {name} row is a sustained run: one cold start says nothing of the spread"
            )
        if not row.valid:
            reasons.append(f"the {name} row is not valid: {'; '.join(row.reasons) or row.status}")
    for name in SAME:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            reasons.append(
                f"{name.replace('_', ' ')} changed from {_short(before)} to {_short(after)}"
            )
    if not reasons and min(map(len, medians)) < 2:
        reasons.append("one repeat says nothing of the spread between cold starts")
    if not reasons and min(map(min, medians)) <= 0.0:
        reasons.append("a repeat took no time: the clock is too coarse")
    return tuple(reasons)


def _short(value: object) -> str:
    return "unknown" if value is None else str(value)[:40]
