"""Calibration on measured rows: those of a device whose files are at hand, in one setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unplug.core import ArtifactError, InputError, counted
from unplug.export import Artifact, card_path, load_artifact

from ..bench_report import BenchReport, BenchRow
from .devices import HOST, device_slug
from .estimate_report import HeldOut, Setting
from .model import fit, leave_one_out
from .operators import Features, read_features

MAX_FILES = 1000  # of one folder that is searched for artifacts


@dataclass(frozen=True, kw_only=True)
class Known:
    """A measured row with the operators of its file."""

    row: BenchRow
    features: Features

    @property
    def median_ms(self) -> float:
        """Its latency; only rows that have one become `Known`."""
        if self.row.median_ms is None:
            raise ValueError("a row without a median cannot calibrate")
        return self.row.median_ms

    @property
    def model(self) -> tuple[str, int]:
        """What it is a row of: networks that do the same work are one model, whatever their weights
        and precision.
        """
        return self.row.model_type, self.features.total_macs


def slugs(row: BenchRow) -> tuple[str, ...]:
    """Short names that mean a row's device."""
    return (device_slug(row.device), *((HOST,) if row.where == "host" else ()))


def find_files(reports: Sequence[Path], given: Iterable[Path]) -> dict[str, Artifact]:
    """Artifacts by SHA-256: those that were named, and those next to the reports.

    Args:
        reports: bench reports.
        given: artifacts, or folders that hold some.

    Raises:
        ArtifactError: a file that was named is not an artifact.
        InputError: a folder holds too many files.
    """
    artifacts: dict[str, Artifact] = {}
    for path in given:
        if not path.is_dir() or card_path(path).is_file():  # a Core ML artifact is a folder too
            artifact = load_artifact(path)
            artifacts[artifact.card.sha256] = artifact
    folders = [path for path in given if path.is_dir() and not card_path(path).is_file()]
    for folder in dict.fromkeys([*folders, *(report.parent for report in reports)]):
        for artifact in _in_folder(folder):
            artifacts.setdefault(artifact.card.sha256, artifact)
    return artifacts


def _in_folder(folder: Path) -> list[Artifact]:
    cards = sorted([*folder.glob("*.tflite.json"), *folder.glob("*/*.tflite.json")])
    if len(cards) > MAX_FILES:
        raise InputError(
            str(folder),
            f"more than {MAX_FILES} artifacts in it",
            "Name those that were timed as `artifacts`",
        )
    artifacts = []
    for card in cards:
        try:
            artifacts.append(load_artifact(card))
        except ArtifactError:
            # nobody named it: a broken neighbour is not ours to report, and its row is listed as
            # without a file
            continue
    return artifacts


def usable(
    reports: Sequence[BenchReport], device: str, files: dict[str, Artifact]
) -> tuple[list[Known], list[str]]:
    """The rows of a device that can calibrate, and why the others cannot.

    Args:
        reports: bench reports.
        device: short name.
        files: the files by SHA-256.

    Raises:
        InputError: the name means several machines.
    """
    machines = {row.device for report in reports for row in report.rows if device in slugs(row)}
    if len(machines) > 1:
        listed = ", ".join(sorted(device_slug(name) for name in machines))
        raise InputError(
            f"device {device!r}",
            f"these reports have {len(machines)} of them",
            f"Name one: {listed}",
        )
    rows: list[BenchRow] = []
    left: Counter[str] = Counter()
    for row in (row for report in reports for row in report.rows if device in slugs(row)):
        if not row.valid or row.median_ms is None or row.median_ms <= 0.0:
            left["not valid"] += 1
        elif row.where == "emulated":
            left["of an emulator"] += 1
        elif row.mode != "burst":
            left["of a sustained run"] += 1
        elif row.target != "litert":
            left["not of a LiteRT file, whose operators alone are read"] += 1
        elif row.artifact_sha256 not in files:
            left["its file was not found (`artifacts`)"] += 1
        else:
            rows.append(row)
    wanted = list(dict.fromkeys(row.artifact_sha256 for row in rows))
    counted_features = read_features([files[digest] for digest in wanted]) if wanted else []
    features = dict(zip(wanted, counted_features, strict=True))
    known = [Known(row=row, features=features[row.artifact_sha256]) for row in rows]
    return known, [f"{counted(number, 'row')}: {why}" for why, number in left.items()]


def setting_of(row: BenchRow) -> Setting:
    """What a row was measured with."""
    return Setting(
        runtime=row.runtime,
        delegate=row.delegate_got or row.delegate_asked,
        threads=row.threads,
        precision=row.precision,
    )


def settings(
    known: Sequence[Known], precision: str, delegate: str | None, threads: int | None
) -> list[Setting]:
    """The settings of rows that fit, the one with the most rows first."""
    counts = Counter(setting_of(item.row) for item in known)
    return [
        setting
        for setting, _ in counts.most_common()
        if setting.precision == precision
        and delegate in (None, setting.delegate)
        and threads in (None, setting.threads)
    ]


def error_of(rows: Sequence[Known]) -> HeldOut | None:
    """The held-out error of the fit on these rows."""

    def predicted(kept: Sequence[Known], row: Known) -> float:
        return fit([item.features for item in kept], [item.median_ms for item in kept]).latency_ms(
            row.features
        )

    return leave_one_out(
        rows,
        model_of=lambda item: item.model,
        measured=lambda item: item.median_ms,
        predicted=predicted,
    )
