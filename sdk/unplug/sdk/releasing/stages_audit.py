"""The audit of a release: what attacks see in its models and files, and what export did to the
edit.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from unplug.core import ReportError, read_dataclass, seconds
from unplug.export import load_artifact
from unplug.plugins import Checkpoint
from unplug.sdk.evidence.auditing import (
    SWITCHED_OFF,
    ArtifactPredictor,
    AuditReport,
    CheckpointPredictor,
    Exports,
    audit,
    audit_use,
    called,
    criticise,
    form_of,
    gather,
    make_exports,
    merged,
    relearn_times,
)
from unplug.sdk.forgetting.unlearning import members_of
from unplug.sdk.learning.data import load_dataset, parse_spec

from .evidence import ReleaseEvidence
from .material import ReleaseMaterial
from .stage import Left, Stage
from .stages_files import as_here, converters

FOLDER = "counterparts"
FILES_LATER = "they are made after the audit, and compared with the attacked checkpoint (parity)"
"""Why a release attacks no file of a member of a family."""
SWITCHED_OFF_HERE: tuple[Sequence[Exports], dict[str, str]] = ([], {"rounding": SWITCHED_OFF})


class Audit(Stage):
    """The models, and every file that runs here, by the same attacks.

    Of a family each member's checkpoints as well; its files are made later, and have their parity.
    """

    gives = "audit"
    leaves = "audit.json"
    entry = "audit"
    costs_by = ("targets", "precisions", "references", "rounding", "audit")

    def check(self, material: ReleaseMaterial) -> None:
        """Checks that the other pictures exist that were named."""
        if material.config.others is not None:
            parse_spec(material.config.others).listing()

    def made_from(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Mapping[str, Any]:
        """All models and files, and which attacks are made."""
        config = material.config
        return {
            "models": {
                called(role, name): item.sha256
                for name in _family(evidence)
                for role, item in _models(evidence, name).items()
            },
            "references": [item.sha256 for item in evidence.references or ()],
            "artifacts": as_here(evidence.artifacts),
            "rounding": config.rounding,
            "seed": config.seed,
            "converters": converters(),
            "fleet": None if material.fleet is None else material.fleet.sha256,
            "relearn": config.gates.min_relearn_of_retrained is not None,
            "others": config.others,
            "attacked": material.attacked,
        }

    def make(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Left:
        """The attacks on the sets of the split, then those that read more."""
        path = material.work / self.leaves
        made = self._all_attacks if material.attacked else self._used
        first, *others = [(name, made(material, evidence, name)) for name in _family(evidence)]
        report = merged(first[1], {name: report for name, report in others if name is not None})
        report.save(path)
        return Left(files=[path])

    def _used(
        self, material: ReleaseMaterial, evidence: ReleaseEvidence, member: str | None
    ) -> AuditReport:
        return audit_use(
            _predictors(material, evidence, member),
            material.sets,
            material.split,
            edges=material.task.edges,
            data=_data_facts(material),
            seed=material.config.seed,
        )

    def _all_attacks(
        self, material: ReleaseMaterial, evidence: ReleaseEvidence, member: str | None
    ) -> AuditReport:
        report = self._attacked(material, evidence, member)
        report = self._with_relearning(report, material, evidence)
        started = time.perf_counter()
        report = self._criticised(report, material, evidence, member)
        took = seconds(time.perf_counter() - started)
        material.say(f"audit: {took} of it for attacks beyond the sets of the split")
        return report

    def _attacked(
        self, material: ReleaseMaterial, evidence: ReleaseEvidence, member: str | None
    ) -> AuditReport:
        named: dict[str, Any] = {}
        files: list[ArtifactPredictor] = []
        unable: Mapping[str, str] = {"exported files": FILES_LATER}
        if member is None:
            exports, unable = evidence.counterparts or SWITCHED_OFF_HERE
            named = {"fleet": material.fleet, "exports": exports}
            files = _files(material, evidence)
        task = material.task
        families = (_own(item, member) for item in evidence.references or ())
        report = audit(
            [*_predictors(material, evidence, member), *files],
            material.sets,
            material.split,
            edges=task.edges,
            data=_data_facts(material),
            references=[
                CheckpointPredictor(
                    name=item.path.name, role="retrained", checkpoint=item, task=task
                )
                for item in families
                if item is not None
            ],
            exact=material.exact,
            seed=material.config.seed,
            show=material.show,
            **named,
        )
        return replace(report, skipped={**report.skipped, **unable})

    def _with_relearning(
        self, report: AuditReport, material: ReleaseMaterial, evidence: ReleaseEvidence
    ) -> AuditReport:
        config = material.config
        if config.gates.min_relearn_of_retrained is None or material.exact:
            return report
        learned = {name: item for name, item in evidence.models.items() if name != "original"}
        times = relearn_times(
            material.original,
            learned,
            material.sets,
            material.task,
            config.seed,
            show=material.show,
        )
        models = tuple(replace(item, relearning=times.get(item.name)) for item in report.models)
        return replace(report, models=models)

    def _criticised(
        self,
        report: AuditReport,
        material: ReleaseMaterial,
        evidence: ReleaseEvidence,
        member: str | None,
    ) -> AuditReport:
        """The audit with the attacks that read more than its sets, on the checkpoints; of models of
        pictures alone.
        """
        task, config, sets = material.task, material.config, material.sets
        others = None
        if config.others is not None:
            others = load_dataset(config.others, task.image_size, show=material.show)
        more = gather(sets, material.dataset, task, others=others)
        if "views" in more.missing:
            return report
        named = _predictors(material, evidence, member)
        fleet = material.fleet if member is None else None
        return criticise(report, named, sets, more, fleet=fleet, seed=config.seed)

    def load(
        self, material: ReleaseMaterial, evidence: ReleaseEvidence, facts: Mapping[str, Any]
    ) -> AuditReport:
        """The report; what it was compared with is not needed any more."""
        report = read_dataclass(AuditReport, material.work / self.leaves, ReportError)
        shutil.rmtree(material.work / FOLDER, ignore_errors=True)
        return report

    def published(self, result: AuditReport) -> dict[str, Any]:
        """The report without what tells of single people."""
        return {"audit.json": result.published().to_dict()}


AUDIT = Audit()


class Counterparts(Stage):
    """The original and the oracle exported as what ships; see `make_exports`."""

    gives = "counterparts"
    called = "export the original and the oracle alike"
    costs_by = ("targets", "precisions", "workers")
    scales = False
    serves = AUDIT

    def wanted(self, material: ReleaseMaterial) -> bool:
        """Unless what export did to the edit is not asked for, or attacks are not made at all."""
        return material.config.rounding and material.attacked

    def made_from(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Mapping[str, Any]:
        """The same as the audit."""
        return AUDIT.made_from(material, evidence)

    def make(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Left:
        """A file of each model in every form that ships."""
        folder, work, artifacts = material.work / FOLDER, material.work, evidence.artifacts
        inputs = material.calibration(evidence.unlearned)
        known = (
            {}
            if inputs is None
            else {form_of(item): inputs for item in artifacts if item.card.calibration}
        )
        made, unable = make_exports(
            artifacts,
            material.original,
            evidence.retrained,
            {},
            {},
            folder,
            lambda _: None,
            material.config.workers,
            known,
        )
        facts = [
            {
                "of": item.artifact.path.name,
                "original": os.path.relpath(item.original.path, work),
                "retrained": None
                if item.retrained is None
                else os.path.relpath(item.retrained.path, work),
            }
            for item in made
        ]
        return Left(files=[folder] if made else [], facts={"made": facts, "unable": unable})

    def load(
        self, material: ReleaseMaterial, evidence: ReleaseEvidence, facts: Mapping[str, Any]
    ) -> tuple[list[Exports], dict[str, str]]:
        """Pairs of files, and why others could not be made."""
        files = {item.path.name: item for item in evidence.artifacts}
        made = [
            Exports(
                artifact=files[item["of"]],
                original=load_artifact(material.work / item["original"]),
                retrained=load_artifact(material.work / item["retrained"])
                if item["retrained"]
                else None,
            )
            for item in facts["made"]
        ]
        return made, dict(facts["unable"])


def _data_facts(material: ReleaseMaterial) -> dict[str, Any]:
    data = material.dataset
    return {"spec": data.spec, "digest": data.digest, "samples": len(data)}


def _own(model: Checkpoint, member: str | None) -> Checkpoint | None:
    """A model itself, or a member of its family; None where it has no such member."""
    return model if member is None else members_of(model).get(member)


def _family(evidence: ReleaseEvidence) -> list[str | None]:
    """None for the models themselves, then the name of each other member of their family."""
    return [None, *members_of(evidence.original)]


def _models(evidence: ReleaseEvidence, member: str | None) -> dict[str, Checkpoint]:
    """The models by role, or one member of each."""
    found = {role: _own(model, member) for role, model in evidence.models.items()}
    return {role: model for role, model in found.items() if model is not None}


def _files(material: ReleaseMaterial, evidence: ReleaseEvidence) -> list[ArtifactPredictor]:
    runnable = {row.file for row in evidence.parity.rows if row.status != "not_run"}
    return [
        ArtifactPredictor(name=item.path.name, artifact=item, task=material.task)
        for item in evidence.artifacts
        if item.path.name in runnable
    ]


def _predictors(
    material: ReleaseMaterial, evidence: ReleaseEvidence, member: str | None
) -> list[CheckpointPredictor]:
    return [
        CheckpointPredictor(
            name=called(role, member),
            role=role,  # type: ignore[arg-type]  # one of the three
            checkpoint=item,
            task=material.task,
        )
        for role, item in _models(evidence, member).items()
    ]
