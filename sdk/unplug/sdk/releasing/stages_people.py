"""What a release says of people: whether a decision moved, what models are worth at age limits,
faces for the report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from unplug.core import ReportError, read_dataclass, write_json
from unplug.export import Artifact
from unplug.plugins import Checkpoint
from unplug.sdk.drawing.inference import DecisionRecord
from unplug.sdk.evidence.assurance import UNKNOWN as NOBODY_SAID
from unplug.sdk.evidence.assurance import (
    Answers,
    Asking,
    EvaluationReport,
    Limits,
    Shift,
    ask,
    decide,
    decision_shift,
    judge,
    read_evaluation,
)
from unplug.sdk.evidence.auditing import not_run_here
from unplug.sdk.forgetting.unlearning import members_of

from .contents import face_samples
from .decided import Decided
from .evidence import ReleaseEvidence
from .material import ReleaseMaterial
from .stage import Left, Stage
from .stages_files import as_here


class Decide(Stage):
    """Whether the decision moved, and the one that ships; its file is hidden, for it is not a
    report of its own.
    """

    gives = "decided"
    called = "decision"
    leaves = ".decision.json"

    def wanted(self, material: ReleaseMaterial) -> bool:
        """Whether a decision is in force."""
        return material.decision is not None

    def check(self, material: ReleaseMaterial) -> None:
        """Checks that it can be read and belongs to the original."""
        _ = material.decision

    def made_from(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Mapping[str, Any]:
        """The decision, who is asked, and about whom."""
        assert material.decision is not None
        return {
            "decision": asdict(material.decision),
            "data": material.config.decision_data,
            "model": evidence.unlearned.sha256,
            "artifacts": as_here(evidence.artifacts),
            "members": {
                name: as_here(item.artifacts) for name, item in (evidence.members or {}).items()
            },
            "seed": material.config.seed,
        }

    def make(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Left:
        """One record."""
        assert material.decision is not None
        path = material.work / self.leaves
        decided = decide_release(material, material.decision, evidence)
        write_json(path, asdict(decided))
        return Left(files=[path])

    @staticmethod
    def read(path: Path) -> Decided:
        """From its JSON."""
        return read_dataclass(Decided, path, ReportError)

    def published(self, result: Decided) -> dict[str, Any]:
        """All of it."""
        return {"decision.json": asdict(result)}


def decide_release(
    material: ReleaseMaterial, record: DecisionRecord, evidence: ReleaseEvidence
) -> Decided:
    """Asks the original, the unlearned model and its files about the same people, whom none of them
    learned from; every member of a family too, for a phone may take any of them.

    Raises:
        DataError: see `decide` and `decision_shift`.
    """
    seed, not_run = material.config.seed, dict[str, str]()
    asked = list[list[Answers]]()
    for place, before, after, artifacts in _sizes(material.original, evidence):
        why = {item.path: not_run_here(item) for item in artifacts}
        not_run |= {f"{place}{path.name}": said for path, said in why.items() if said is not None}
        answers = ask(
            [before, after, *(path for path, said in why.items() if said is None)],
            material.config.decision_data or material.dataset,
            training=[material.dataset.spec],
            device=material.device,
            show=material.show,
        )
        named = [(item, item.name.rpartition("/")[2]) for item in answers]
        asked.append([replace(item, name=f"{place}{name}") for item, name in named])
    limits = Limits(
        age=record.age,
        max_fpr=record.max_fpr,
        max_fnr=record.max_fnr,
        method=record.method,
        minors_from=record.minors_from,
        **({} if record.confidence is None else {"confidence": record.confidence}),
    )
    held = [item for _, *after in asked for item in after]
    ships, _ = decide(held, limits, by=record.by, unseen=record.apart == "said")
    forgetting, *members = (_shift(record, before, after, seed) for before, after, *_ in asked)
    rounding = [(after, item) for _, after, *rounded in asked for item in rounded]
    return Decided(
        record=ships,
        forgetting=forgetting,
        members=tuple(members),
        rounding=tuple(_shift(record, after, item, seed) for after, item in rounding),
        not_run=not_run,
        copies=held[0].people.copies,
    )


def _sizes(
    original: Checkpoint, evidence: ReleaseEvidence
) -> Iterator[tuple[str, Checkpoint, Checkpoint, Sequence[Artifact]]]:
    """The place in the bundle, the original, the unlearned model and the files: of the model itself
    with no place, then of each other member of a family.
    """
    yield "", original, evidence.unlearned, evidence.artifacts
    if evidence.members:
        before, after = members_of(original), members_of(evidence.unlearned)
        for name, item in evidence.members.items():
            yield f"members/{name}/", before[name], after[name], item.artifacts


def _shift(record: DecisionRecord, before: Answers, after: Answers, seed: int) -> Shift:
    people, groups = after.people, None
    if record.by is not None:
        groups = [None if item == NOBODY_SAID else item for item in people.attributes[record.by]]
    return decision_shift(
        before.over(record.age),
        after.over(record.age),
        people.age_N,
        people.person_N,
        record.rule,
        name=after.name,
        sha256=after.sha256,
        minors_from=record.minors_from,
        group_N=groups,
        seed=seed,
    )


class AgeLimits(Stage):
    """What the original, what ships and the oracle are worth at age limits, on the test set."""

    gives = "evaluation"
    leaves = "evaluation.json"

    def wanted(self, material: ReleaseMaterial) -> bool:
        """Whether a protocol is named."""
        return material.config.evaluate is not None

    def check(self, material: ReleaseMaterial) -> None:
        """Checks that there is such a protocol, and that its numbers can be computed."""
        _ = material.protocol

    def _files(self, evidence: ReleaseEvidence) -> list[Artifact]:
        return [item for item in evidence.artifacts if not_run_here(item) is None]

    def made_from(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Mapping[str, Any]:
        """The protocol, and who is asked."""
        assert material.protocol is not None
        return {
            "protocol": material.protocol.name,
            "models": [item.sha256 for item in evidence.models.values()],
            "artifacts": as_here(self._files(evidence)),
            "seed": material.config.seed,
        }

    def make(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Left:
        """One report."""
        assert material.protocol is not None
        path, files = material.work / self.leaves, [item.path for item in self._files(evidence)]
        models: list[Path | Checkpoint] = [*evidence.models.values(), *files]
        answers = ask(models, material.dataset, device=material.device, show=material.show)
        judge(answers, material.protocol, Asking(seed=material.config.seed)).save(path)
        return Left(files=[path])

    @staticmethod
    def read(path: Path) -> EvaluationReport:
        """From its JSON."""
        return read_evaluation(path)

    def published(self, result: EvaluationReport) -> dict[str, Any]:
        """The report without what tells where the data lie."""
        return {"evaluation.json": result.published().to_dict()}


class ShownFaces(Stage):
    """Pictures of people of the test set, where they were asked for, with what each model says;
    none in a bundle.
    """

    gives = "faces"
    called = "pictures of people"
    leaves = "faces.json"

    def wanted(self, material: ReleaseMaterial) -> bool:
        """Whether the model says an age."""
        return material.config.faces and "ages" not in material.task.lacks

    def made_from(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Mapping[str, Any]:
        """The models that say something of them."""
        return {name: item.sha256 for name, item in evidence.models.items()}

    def make(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Left:
        """One sheet."""
        path = material.work / self.leaves
        write_json(path, asdict(face_samples(material.sets, material.dataset, evidence.models)))
        return Left(files=[path])
