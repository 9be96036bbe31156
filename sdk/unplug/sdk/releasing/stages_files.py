"""The files of a release: exported, compared with the checkpoint, and timed on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
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
from unplug.sdk.drawing.conditions import example_inputs, real_inputs
from unplug.sdk.evidence.auditing import not_run_here

from .evidence import ReleaseEvidence
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
        config = material.config
        made = export_checkpoint(
            evidence.unlearned.path,
            targets=config.targets,
            precisions=config.precisions,
            out=material.work / "artifacts",
            workers=config.workers,
            calibration=material.calibration(evidence.unlearned),
        )
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
        unlearned, path = evidence.unlearned, material.work / self.leaves
        inputs = real_inputs(unlearned, material.dataset, PARITY_SAMPLES, part="test")
        measure_parity(evidence.artifacts, unlearned.path, inputs).save(path)
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

    def _plan(self, material: ReleaseMaterial) -> Plan:
        config = material.config
        return Plan(
            iterations=config.bench_iterations,
            repeats=config.bench_repeats,
            threads=config.threads,
            seed=config.seed,
        )

    def made_from(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Mapping[str, Any]:
        """The weights, the files, and how they are timed."""
        return {
            "model": evidence.unlearned.sha256,
            "artifacts": as_here(evidence.artifacts),
            "plan": asdict(self._plan(material)),
        }

    def make(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Left:
        """One report, tried again by the next run where a busy machine spoilt a row."""
        model, path = evidence.unlearned, material.work / self.leaves
        # Procedural inputs, never pictures of people.
        inputs = example_inputs(model.model_type, model.model.iospec, BENCH_SAMPLES)
        plan = self._plan(material)
        report = bench_artifacts(
            evidence.artifacts, plan=plan, inputs=inputs, checkpoint=model.path
        )
        report.save(path)
        return Left(
            files=[path], final=all(row.valid for row in report.rows if row.status != "not_run")
        )

    read = BenchReport.load
