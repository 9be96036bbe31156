"""The files of a release: exported, compared with the checkpoint, and timed on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unplug.core import installed_versions
from unplug.export import (
    TARGETS,
    Artifact,
    ParityReport,
    card_path,
    export_checkpoint,
    load_artifact,
    measure_parity,
)
from unplug.mobile_bench import BenchReport, Plan, bench_artifacts
from unplug.plugins import Checkpoint
from unplug.sdk.drawing.conditions import example_inputs, real_inputs
from unplug.sdk.evidence.auditing import not_run_here
from unplug.sdk.forgetting.unlearning import members_of

from .evidence import MemberFiles, ReleaseEvidence
from .material import ReleaseMaterial
from .stage import Left, Stage

PARITY_SAMPLES = 16
BENCH_SAMPLES = 2


def converters() -> dict[str, str]:
    """Versions of everything that writes files."""
    return installed_versions(
        sorted({name for target in TARGETS for name in TARGETS.get(target).distributions})
    )


def as_here(artifacts: Sequence[Artifact]) -> dict[str, Any]:
    """Files by hash, and why one cannot run: a runtime that was installed meanwhile is tried."""
    return {item.path.name: [item.card.sha256, not_run_here(item)] for item in artifacts}


class Export(Stage):
    """Every target in every precision."""

    gives = "artifacts"
    called = "export"
    costs_by = ("targets", "precisions", "workers")
    scales = False

    def made_from(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Mapping[str, Any]:
        """The weights, and what writes them."""
        return {
            "model": evidence.unlearned.sha256,
            "targets": material.config.targets,
            "precisions": material.config.precisions,
            "converters": converters(),
        }

    def make(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Left:
        """The files, each with its card."""
        made = exported(material, evidence.unlearned, material.work / "artifacts")
        files = [path for item in made for path in (item.path, card_path(item.path))]
        places = [os.path.relpath(item.path, material.work) for item in made]
        return Left(files=files, facts={"artifacts": places})

    def load(
        self, material: ReleaseMaterial, evidence: ReleaseEvidence, facts: Mapping[str, Any]
    ) -> list[Artifact]:
        """The files with their cards."""
        return [load_artifact(material.work / path) for path in facts["artifacts"]]


class Parity(Stage):
    """The files against the checkpoint, on samples of the test set."""

    gives = "parity"
    leaves = "parity.json"
    costs_by = ("targets", "precisions")
    scales = False

    def made_from(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Mapping[str, Any]:
        """The weights and the files."""
        return {"model": evidence.unlearned.sha256, "artifacts": as_here(evidence.artifacts)}

    def make(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Left:
        """One report."""
        path = material.work / self.leaves
        compared(material, evidence.artifacts, evidence.unlearned).save(path)
        return Left(files=[path])

    read = ParityReport.load

    def published(self, result: ParityReport) -> dict[str, Any]:
        """All of it."""
        return {"parity.json": asdict(result)}


class Bench(Stage):
    """Latency on this machine, with the checkpoint's outputs as the reference.

    It is not published: what is signed holds no times, and its gate says how it went.
    """

    gives = "bench"
    leaves = "bench.json"
    costs_by = ("targets", "precisions", "bench_iterations", "bench_repeats", "threads")
    scales = False

    def made_from(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Mapping[str, Any]:
        """The weights, the files, and how they are timed."""
        return {
            "model": evidence.unlearned.sha256,
            "artifacts": as_here(evidence.artifacts),
            "plan": asdict(plan_of(material)),
        }

    def make(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Left:
        """One report, tried again by the next run where a busy machine spoilt a row."""
        path = material.work / self.leaves
        report = timed(material, evidence.artifacts, evidence.unlearned)
        report.save(path)
        return Left(
            files=[path], final=all(row.valid for row in report.rows if row.status != "not_run")
        )

    read = BenchReport.load


class Members(Stage):
    """The files of the other members of a family: exported, compared and timed as the reference's."""

    gives = "members"
    called = "export, compare and time the members"
    costs_by = Bench.costs_by
    scales = False

    def wanted(self, material: ReleaseMaterial) -> bool:
        """Whether it is a family that is released."""
        return bool((material.original.record.get("design") or {}).get("members"))

    def made_from(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Mapping[str, Any]:
        """The weights of each, what writes files, and how they are timed."""
        members = members_of(evidence.unlearned)
        return {
            **Export().made_from(material, evidence),
            "members": {name: item.sha256 for name, item in members.items()},
            "plan": asdict(plan_of(material)),
        }

    def make(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Left:
        """A folder and two reports a member."""
        folder, files, places = material.work / "members", list[Path](), dict[str, list[str]]()
        for name, member in members_of(evidence.unlearned).items():
            made = exported(material, member, folder / name)
            places[name] = [os.path.relpath(item.path, material.work) for item in made]
            reports = [folder / f"{name}.{kind}.json" for kind in ("parity", "bench")]
            compared(material, made, member).save(reports[0])
            timed(material, made, member).save(reports[1])
            files += [path for item in made for path in (item.path, card_path(item.path))]
            files += reports
        return Left(files=files, facts={"members": places})

    def load(
        self, material: ReleaseMaterial, evidence: ReleaseEvidence, facts: Mapping[str, Any]
    ) -> dict[str, MemberFiles]:
        """By name, best first."""
        folder = material.work / "members"
        return {
            name: MemberFiles(
                artifacts=[load_artifact(material.work / path) for path in places],
                parity=ParityReport.load(folder / f"{name}.parity.json"),
                bench=BenchReport.load(folder / f"{name}.bench.json"),
            )
            for name, places in facts["members"].items()
        }

    def published(self, result: dict[str, MemberFiles]) -> dict[str, Any]:
        """The parity of each."""
        return {f"parity-{name}.json": asdict(item.parity) for name, item in result.items()}


def exported(material: ReleaseMaterial, model: Checkpoint, out: Path) -> list[Artifact]:
    """Every target in every precision."""
    config = material.config
    return export_checkpoint(
        model.path,
        targets=config.targets,
        precisions=config.precisions,
        out=out,
        workers=config.workers,
        calibration=material.calibration(model),
    )


def compared(
    material: ReleaseMaterial, artifacts: Sequence[Artifact], model: Checkpoint
) -> ParityReport:
    """The files against the checkpoint, on samples of the test set."""
    inputs = real_inputs(model, material.dataset, PARITY_SAMPLES, part="test")
    return measure_parity(artifacts, model.path, inputs)


def plan_of(material: ReleaseMaterial) -> Plan:
    """How files are timed."""
    config = material.config
    return Plan(
        iterations=config.bench_iterations,
        repeats=config.bench_repeats,
        threads=config.threads,
        seed=config.seed,
    )


def timed(
    material: ReleaseMaterial, artifacts: Sequence[Artifact], model: Checkpoint
) -> BenchReport:
    """Latency on this machine."""
    # Procedural inputs, never pictures of people.
    inputs = example_inputs(model.model_type, model.model.iospec, BENCH_SAMPLES)
    return bench_artifacts(artifacts, plan=plan_of(material), inputs=inputs, checkpoint=model.path)


def latency(report: BenchReport) -> float | None:
    """The median of the fastest file, in milliseconds to three digits; None where none was timed."""
    known = [row.summary.p50 for row in report.rows if row.valid and row.summary is not None]
    return float(f"{min(known):.3g}") if known else None
