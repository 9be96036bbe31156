"""Calibration on published numbers: one throughput, which is all that they allow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from ..baselines import Baselines, PublishedRow
from .devices import device_slug
from .estimate_report import HeldOut, Setting
from .model import leave_one_out

ORDER = ("cpu", "gpu", "npu", "coreml", "nnapi")
"""The order of the accelerators, where none is asked for."""


def numeric_of(precision: str) -> Literal["float", "int8"] | None:
    """The arithmetic of an artifact's precision: weights alone in integers compute in floating
    point.

    Example:
        >>> numeric_of("fp16"), numeric_of("int8-weight"), numeric_of("int8-static"), numeric_of("int4-mixed")
        ('float', 'float', 'int8', None)
    """
    if precision in ("fp32", "fp16") or precision.endswith("-weight"):
        return "float"
    return "int8" if precision.startswith("int8") else None


def of_device(baselines: Baselines, device: str) -> list[PublishedRow]:
    """Rows of a device that may calibrate."""
    return [
        row
        for row in baselines.rows
        if row.calibrates and row.device and device_slug(row.device) == device
    ]


def settings(
    rows: Sequence[PublishedRow], precision: str, delegate: str | None, threads: int | None
) -> list[Setting]:
    """The settings of rows that fit; the CPU first, then the one with the most rows."""
    numeric = numeric_of(precision)
    counts = Counter(setting_of(row) for row in rows if row.numeric == numeric)
    fitting = [
        item
        for item in counts
        if delegate in (None, item.delegate) and threads in (None, item.threads)
    ]
    return sorted(fitting, key=lambda item: (ORDER.index(item.delegate), -counts[item]))


def setting_of(row: PublishedRow) -> Setting:
    """What a row was published for."""
    return Setting(
        runtime=row.software,
        delegate=row.accelerator or "",
        threads=row.threads,
        precision=row.numeric,
    )


def throughput(rows: Sequence[PublishedRow]) -> float:
    """Milliseconds a multiply-accumulate: the geometric mean of t / MACs over the rows.

    Raises:
        ValueError: there are no rows.
    """
    logs = [math.log(row.value / row.macs) for row in rows if row.value and row.macs]
    if not logs:
        raise ValueError("a throughput needs rows")
    return math.exp(math.fsum(logs) / len(logs))


def error_of(rows: Sequence[PublishedRow]) -> HeldOut | None:
    """The held-out error of one throughput on these rows."""
    return leave_one_out(
        rows,
        model_of=lambda row: row.model,
        measured=lambda row: row.value or math.nan,
        predicted=lambda kept, row: throughput(kept) * (row.macs or 0),
    )


def citation(row: PublishedRow, baselines: Baselines) -> str:
    """Where a published row stands: title, date and address."""
    source = baselines.sources[row.source]
    return (
        f"{source.title}, {source.published or f'undated, read {baselines.retrieved}'}, "
        f"{source.url}"
    )
