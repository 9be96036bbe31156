"""Numbers that others published, with where they stand. They are a series of their own: no row here
was measured by us.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from unplug.core import STRICT, ReportError, counted, read_dataclass

SCHEMA: Literal["unplug-baselines/1"] = "unplug-baselines/1"
SHIPPED = Path(__file__).with_name("baselines.json")
NOT_OURS = "published, not measured here"
"""What every list and plot of these rows says."""
Series = Literal["plugin", "controlnet", "adapter", "diffusion", "classifier"]
Unit = Literal["ms", "s", "%", "M parameters", "FID", "CLIP similarity"]
_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")


@dataclass(frozen=True, kw_only=True)
class PublishedSource:
    """The publication that numbers stand in.

    Args:
        title: the title of the page, paper or file.
        url: the web address.
        published: its date (year, month or day), or None where it tells none.
        commit: the commit of the repository, if it is a file in one.
    """

    title: str
    url: str
    published: str | None
    commit: str | None


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """One number that somebody published.

    Args:
        series: the series that it is a baseline of.
        model: the source's name for the model.
        device: phone, board or accelerator card; None where the number belongs to none.
        accelerator: "cpu", "gpu", "nnapi", "npu" or "coreml"; None where the source does not tell.
        software: runtime, as far as told.
        precision: the source's name for the precision, or None.
        numeric: arithmetic that it means: "float" or "int8"; None where neither.
        threads: CPU threads, or None where not told.
        input_size: side of the square input, or None.
        macs: multiply-accumulates of one run, or None.
        parameters: the number of the model's parameters, or None.
        value: the number; None where it could not be read in its source.
        unit: the unit of the number.
        measures: the quantity measured.
        source: key of `Baselines.sources`.
        verified: whether the number was read in its source.
        note: a caveat for readers.
    """

    series: Series
    model: str
    device: str | None
    accelerator: Literal["cpu", "gpu", "nnapi", "npu", "coreml"] | None
    software: str | None
    precision: str | None
    numeric: Literal["float", "int8"] | None
    threads: int | None
    input_size: int | None
    macs: int | None
    parameters: int | None
    value: float | None
    unit: Unit
    measures: str
    source: str
    verified: bool
    note: str

    @property
    def calibrates(self) -> bool:
        """Whether an estimate may lean on it: a checked latency of a network whose arithmetic is
        known.
        """
        known = (
            self.value is not None
            and self.macs is not None
            and self.device is not None
            and self.accelerator is not None
        )
        return self.verified and known and self.unit == "ms" and self.measures == "one run"


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """Published numbers.

    Args:
        schema: always ``unplug-baselines/1``.
        retrieved: day on which the sources were read.
        sources: the sources by key.
        rows: the numbers.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-baselines/1"] = SCHEMA
    retrieved: str
    sources: dict[str, PublishedSource]
    rows: tuple[PublishedRow, ...]


def load_baselines(path: Path = SHIPPED) -> Baselines:
    """Reads and checks published numbers.

    Args:
        path: the file; default: the one that ships with unplug.

    Raises:
        ReportError: it is missing, does not follow its schema, or a row of it cannot be.

    Example:
        >>> rows = load_baselines().rows
        >>> all(row.verified == (row.value is not None) for row in rows)
        True
    """
    baselines = read_dataclass(Baselines, Path(path), ReportError)
    for problem in _problems(baselines):
        raise ReportError(
            str(path),
            problem,
            "Correct the row; an unread number has value null and verified false",
        )
    return baselines


def _problems(baselines: Baselines) -> Iterator[str]:
    if not _DATE.fullmatch(baselines.retrieved):
        yield f"{baselines.retrieved[:40]!r} is not a date"
    for key, source in baselines.sources.items():
        if not source.title or not source.url.startswith("https://"):
            yield f"source {key[:40]!r} lacks a title or an https address"
        if source.published is not None and not _DATE.fullmatch(source.published):
            yield f"source {key[:40]!r} has the date {source.published[:40]!r}"
    for number, row in enumerate(baselines.rows, start=1):
        for problem in _row_problems(row, baselines):
            yield f"row {number} ({row.model[:40]}): {problem}"


def _row_problems(row: PublishedRow, baselines: Baselines) -> Iterator[str]:
    if row.source not in baselines.sources:
        yield f"no source {row.source[:40]!r}"
    if row.verified != (row.value is not None):
        yield (
            "it is verified without a number"
            if row.verified
            else "it has a number that nobody checked"
        )
    if not row.verified and not row.note:
        yield "it does not say why there is no number"
    if row.value is not None and not (math.isfinite(row.value) and row.value > 0):
        yield f"{row.value} is not a positive number"
    for name in ("threads", "input_size", "macs", "parameters"):
        if (value := getattr(row, name)) is not None and value < 1:
            yield f"{name} {value}"


def listing(baselines: Baselines) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of a plain table, for a terminal."""
    header = ("series", "model", "device", "on", "precision", "value", "of", "source", "date")
    rows: list[tuple[str, ...]] = []
    for row in baselines.rows:
        source = baselines.sources[row.source]
        value = "not read here" if row.value is None else f"{row.value:g} {row.unit}"
        threads = "" if row.threads is None else f" {counted(row.threads, 'thread')}"
        place = f"{row.accelerator or '?'}{threads}" if row.device else ""
        when = source.published or f"read {baselines.retrieved}"
        rows.append(
            (
                row.series,
                row.model,
                row.device or "",
                place,
                row.precision or "",
                value,
                row.measures,
                source.url,
                when,
            )
        )
    return header, rows
