"""From files and a device's name to a report of estimates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from unplug.core import InputError, counted, installed_versions, milliseconds
from unplug.export import Artifact

from ..baselines import Baselines, load_baselines
from ..bench_report import BenchReport
from . import measured, published
from .devices import device_slug, pick_device
from .estimate_report import EstimateReport, HeldOut, LatencyEstimate, Setting
from .model import fit
from .operators import Features, read_features

FAR = 2.0
"""Times as much work as the largest known model, or as little as the smallest, from which an
estimate extrapolates.
"""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Something that predicts milliseconds of a file's operators, and what is known of it."""

    device: str = ""
    left_out: tuple[str, ...] = ()
    source: Literal["measured rows", "published numbers"]
    setting: Setting
    rows: tuple[str, ...]
    macs: tuple[int, ...]
    costs_ms: dict[str, float]
    held_out: HeldOut | None
    predict: Callable[[Features], float]
    sources: tuple[str, ...] = ()
    measured_ms: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def known_devices(reports: Sequence[BenchReport], baselines: Baselines) -> dict[str, str]:
    """Short names of the devices that an estimate can be made for, each with what supports it."""
    devices = {
        device_slug(row.device): "published numbers"
        for row in baselines.rows
        if row.device is not None and row.calibrates
    }
    rows = (row for report in reports for row in report.rows if row.valid)
    return devices | {name: "measured rows" for row in rows for name in measured.slugs(row)}


def estimate_artifacts(
    artifacts: Sequence[Artifact],
    *,
    device: str,
    rows: Sequence[Path] = (),
    files: Sequence[Path] = (),
    delegate: str | None = None,
    threads: int | None = None,
) -> EstimateReport:
    """Estimates latencies on a device that need not be here.

    Args:
        artifacts: LiteRT files of one precision.
        device: short name.
        rows: bench reports; valid rows of the device calibrate, where there are any.
        files: the artifacts of those rows, or folders with them; those next to the reports are
            found without.
        delegate, threads: the settings of the rows to calibrate on (default: those of most rows).

    Raises:
        InputError: nothing supports an estimate for this device, setting or precision.
        ReportError, ArtifactError: a file that was given is missing or broken.
    """
    calibration = calibrate(
        _precision(artifacts),
        device=device,
        rows=rows,
        files=files,
        delegate=delegate,
        threads=threads,
    )
    pairs = zip(artifacts, read_features(artifacts), strict=True)
    return EstimateReport(
        device=calibration.device,
        source=calibration.source,
        setting=calibration.setting,
        calibration=calibration.rows,
        sources=calibration.sources,
        left_out=calibration.left_out,
        costs_ms=calibration.costs_ms,
        held_out=calibration.held_out,
        estimates=tuple(_estimate(*pair, calibration) for pair in pairs),
        versions=installed_versions(["numpy", "scipy"]),
    )


def calibrate(
    precision: str,
    *,
    device: str,
    rows: Sequence[Path] = (),
    files: Sequence[Path] = (),
    delegate: str | None = None,
    threads: int | None = None,
) -> Calibration:
    """What estimates on a device rest on; arguments as for `estimate_artifacts`.

    Args:
        precision: the precision of the files to estimate.

    Raises:
        InputError, ReportError, ArtifactError: see `estimate_artifacts`.
    """
    baselines, reports = load_baselines(), [BenchReport.load(path) for path in rows]
    slug = _device(device, reports, baselines)
    known, left_out = measured.usable(reports, slug, measured.find_files(rows, files))
    found = (
        _from_rows(known, precision, delegate, threads)
        if known
        else _from_published(slug, baselines, precision, delegate, threads, left_out)
    )
    return replace(found, device=slug, left_out=tuple(left_out))


def _precision(artifacts: Sequence[Artifact]) -> str:
    precisions = {artifact.card.precision for artifact in artifacts}
    if len(precisions) != 1:
        what = f"files of {len(precisions)} precisions" if precisions else "no file"
        raise InputError("estimate", f"{what} given", "Name LiteRT files of one precision")
    return precisions.pop()


def _device(asked: str, reports: Sequence[BenchReport], baselines: Baselines) -> str:
    known = known_devices(reports, baselines)
    try:
        return pick_device(asked, known)
    except InputError as error:
        told = [
            row
            for row in baselines.rows
            if row.device and device_slug(row.device) == device_slug(asked)
        ]
        if not told:
            raise
        why = (
            f"{error.why}; what {baselines.sources[told[0].source].title} says of it names no "
            "multiply-accumulates or no accelerator"
        )
        fix = "Measure a few models on it (`unplug bench --on adb`) and give that report as `rows`"
        raise InputError(error.what, why, fix) from error


def _from_rows(
    known: Sequence[measured.Known], precision: str, delegate: str | None, threads: int | None
) -> Calibration:
    fitting = measured.settings(known, precision, delegate, threads)
    if not fitting:
        have = "; ".join(sorted({_name(measured.setting_of(item.row)) for item in known}))
        raise InputError(
            f"{precision} on {delegate or 'any delegate'}",
            f"the device's rows are of other settings: {have}",
            "Ask for these",
        )
    chosen = [item for item in known if measured.setting_of(item.row) == fitting[0]]
    predictor = fit([item.features for item in chosen], [item.median_ms for item in chosen])
    others = f"rows of {len(fitting) - 1} other settings were left aside: `delegate` and `threads` choose"
    return Calibration(
        source="measured rows",
        setting=fitting[0],
        rows=tuple(
            f"{item.row.file} {item.row.artifact_sha256[:12]}: {item.median_ms:.3f} ms"
            for item in chosen
        ),
        measured_ms={item.row.artifact_sha256: item.median_ms for item in chosen},
        macs=tuple(item.features.total_macs for item in chosen),
        costs_ms=predictor.costs,
        held_out=measured.error_of(chosen),
        predict=predictor.latency_ms,
        warnings=(others,) if len(fitting) > 1 else (),
    )


def _from_published(
    slug: str,
    baselines: Baselines,
    precision: str,
    delegate: str | None,
    threads: int | None,
    left_out: Sequence[str],
) -> Calibration:
    rows = published.of_device(baselines, slug)
    fitting = published.settings(rows, precision, delegate, threads)
    if not fitting:
        have = "; ".join(sorted({_name(published.setting_of(row)) for row in rows})) or "none"
        why = f"no published number of {slug} is for this setting (there are: {have})"
        raise InputError(
            f"{precision} on {delegate or slug}",
            "; ".join([why, *left_out]),
            "Ask for one of these, or measure",
        )
    chosen = [row for row in rows if published.setting_of(row) == fitting[0]]
    cost = published.throughput(chosen)
    warnings = [
        "calibrated on published networks by their arithmetic alone: no bytes, no kinds of operator"
    ]
    if any(row.precision is None for row in chosen):
        warnings.append("the source does not state the precision; floating point is assumed")
    return Calibration(
        source="published numbers",
        setting=fitting[0],
        rows=tuple(f"{row.model}: {row.value:g} {row.unit}" for row in chosen),
        sources=tuple(dict.fromkeys(published.citation(row, baselines) for row in chosen)),
        macs=tuple(row.macs or 0 for row in chosen),
        costs_ms={"MACs": cost},
        held_out=published.error_of(chosen),
        predict=lambda features: cost * features.total_macs,
        warnings=tuple(warnings),
    )


def _estimate(artifact: Artifact, features: Features, calibration: Calibration) -> LatencyEstimate:
    latency, error = calibration.predict(features), calibration.held_out
    warnings = list(calibration.warnings)
    if (known_ms := calibration.measured_ms.get(artifact.card.sha256)) is not None:
        warnings.append(
            f"{artifact.card.file} was measured ({milliseconds(known_ms)} ms) and is among the rows of the fit: "
            "use that number"
        )
    if features.total_macs > FAR * max(calibration.macs) or FAR * features.total_macs < min(
        calibration.macs
    ):
        smallest, largest = (
            f"{number / 1e6:.3g} M" for number in (min(calibration.macs), max(calibration.macs))
        )
        warnings.append(
            f"it extrapolates: {features.total_macs / 1e6:.3g} M multiply-accumulates, where the "
            "known models have "
            f"{smallest} to {largest}"
        )
    return LatencyEstimate(
        file=artifact.card.file,
        artifact_sha256=artifact.card.sha256,
        precision=artifact.card.precision,
        macs=features.total_macs,
        bytes=features.total_bytes,
        operators=features.operators,
        latency_ms=latency,
        low_ms=None if error is None else latency * error.low,
        high_ms=None if error is None else latency * error.high,
        warnings=tuple(warnings),
    )


def _name(setting: Setting) -> str:
    threads = "" if setting.threads is None else f" {counted(setting.threads, 'thread')}"
    return f"{setting.precision or 'unknown precision'} {setting.delegate}{threads}"
