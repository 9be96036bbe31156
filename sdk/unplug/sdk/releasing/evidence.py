"""What the stages of a release have found so far: what its gates look at, and what its bundle is
made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

if TYPE_CHECKING:
    from unplug.export import Artifact, ParityReport
    from unplug.mobile_bench import BenchReport
    from unplug.plugins import Checkpoint
    from unplug.sdk.evidence.assurance import EvaluationReport
    from unplug.sdk.evidence.auditing import AuditReport, Certification, Exports

    from .decided import Decided


T = TypeVar("T")


class StageResult(Generic[T]):
    """A result of a stage as an attribute of the evidence, by its own name; None where there is
    none.
    """

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, evidence: ReleaseEvidence | None, _owner: type) -> T:
        # A dataclass looks at its class first, where no release has found anything.
        return cast("T", None if evidence is None else evidence[self._name])


@dataclass(frozen=True, kw_only=True)
class ReleaseEvidence:
    """Each result under the name that its stage gives it; what is not made or not asked for is
    None.

    Args:
        results: name to result. Those that more than one reader needs are attributes as well.
    """

    results: Mapping[str, Any]

    original: ClassVar[StageResult[Checkpoint]] = StageResult()
    certified: ClassVar[StageResult[Certification | None]] = StageResult()
    retrained: ClassVar[StageResult[Checkpoint | None]] = StageResult()
    references: ClassVar[StageResult[Sequence[Checkpoint] | None]] = StageResult()
    unlearned: ClassVar[StageResult[Checkpoint]] = StageResult()
    artifacts: ClassVar[StageResult[Sequence[Artifact]]] = StageResult()
    parity: ClassVar[StageResult[ParityReport]] = StageResult()
    counterparts: ClassVar[StageResult[tuple[Sequence[Exports], dict[str, str]] | None]] = (
        StageResult()
    )
    audit: ClassVar[StageResult[AuditReport]] = StageResult()
    decided: ClassVar[StageResult[Decided | None]] = StageResult()
    evaluation: ClassVar[StageResult[EvaluationReport | None]] = StageResult()
    bench: ClassVar[StageResult[BenchReport]] = StageResult()

    def __getitem__(self, name: str) -> Any:
        return self.results.get(name)

    def plus(self, name: str, result: Any) -> ReleaseEvidence:
        """With one more result."""
        return replace(self, results={**self.results, name: result})

    @property
    def models(self) -> dict[str, Checkpoint]:
        """The checkpoints that are compared, by their role."""
        found = {"original": self.original, "unlearned": self.unlearned}
        return found if self.retrained is None else {**found, "retrained": self.retrained}

    @property
    def equal(self) -> bool:
        """Whether an equality can show that what ships has forgotten, so that no attack has to."""
        if self.retrained is None or self["unlearned"] is None:
            return False
        step = self.unlearned.record["forget"]
        return bool(step.get("exact") or step["method"] == "retrain")
