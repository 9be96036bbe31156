"""The estimates of one call, ``unplug-estimate/1``: never rows of a benchmark, and never read as
such.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Literal

from unplug.core import STRICT, ReportError, read_dataclass, write_json

SCHEMA: Literal["unplug-estimate/1"] = "unplug-estimate/1"
LABEL = "ESTIMATE, not a measurement"
"""What every text of an estimate begins with."""


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """The error on rows that the fit did not see: each model's rows predicted from the other
    models'.

    Args:
        low, high: smallest and largest of measured over predicted.
        median_error: median of |measured / predicted - 1|.
        rows, models: how many.
        coverage: probability that the next model of the same kind lies in between: (models - 1) /
            (models + 1).
    """

    low: float
    high: float
    median_error: float
    rows: int
    models: int
    coverage: float


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What was calibrated; None where a published source does not tell.

    Args:
        runtime, delegate: the runtime and delegate that run the file.
        threads: CPU threads.
        precision: the precision of the rows.
    """

    runtime: str | None
    delegate: str
    threads: int | None
    precision: str | None


@dataclass(frozen=True, kw_only=True)
class LatencyEstimate:
    """The estimate for one file.

    Args:
        kind: always "estimate".
        file, artifact_sha256, precision: the file.
        macs, bytes, operators: totals over its operators.
        latency_ms: the estimate.
        low_ms, high_ms: it times the held-out factors; None where those are unknown.
        warnings: why it may be worse than the held-out error says.
    """

    kind: Literal["estimate"] = "estimate"
    file: str
    artifact_sha256: str
    precision: str
    macs: int
    bytes: int
    operators: int
    latency_ms: float
    low_ms: float | None
    high_ms: float | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class EstimateReport:
    """Estimates for one device in one setting.

    Args:
        schema: always ``unplug-estimate/1``.
        kind: always "estimate".
        device: short name.
        source: the rows that it was calibrated on.
        setting: the setting of those rows.
        calibration: those rows: files with their hash, or published models.
        sources: the places of published numbers; empty for measured rows.
        left_out: rows of the device that could not be used, and why.
        costs_ms: the costs of the fit, by column of `unplug.mobile_bench.estimate.model.COLUMNS`,
            or one per multiply-accumulate.
        held_out: None where fewer than two models are known.
        estimates: one a file.
        versions: the versions of Python, unplug and numpy.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-estimate/1"] = SCHEMA
    kind: Literal["estimate"] = "estimate"
    device: str
    source: Literal["measured rows", "published numbers"]
    setting: Setting
    calibration: tuple[str, ...]
    sources: tuple[str, ...]
    left_out: tuple[str, ...]
    costs_ms: dict[str, float]
    held_out: HeldOut | None
    estimates: tuple[LatencyEstimate, ...]
    versions: dict[str, str]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as JSON, atomically."""
        write_json(Path(path), asdict(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> EstimateReport:
        """Reads a report; raises `ReportError` if the file is missing or does not follow the
        schema.
        """
        return read_dataclass(cls, Path(path), ReportError)

    def error_text(self) -> str:
        """What is known of the error, for a terminal."""
        if self.held_out is None:
            return (
                "error on held-out rows unknown: fewer than two models are known for this device "
                "and setting"
            )
        error = self.held_out
        return (
            f"held-out error: measured is x{error.low:.2f} to x{error.high:.2f} of predicted "
            f"(median off by {error.median_error:.0%}), from {error.rows} held-out rows of "
            f"{error.models} models; "
            f"the next model of their kind lies inside with probability {error.coverage:.0%}"
        )
