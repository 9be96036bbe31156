"""What the stages of a release have found so far: what its gates look at, and what its bundle is
made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unplug.export import Artifact, ParityReport
    from unplug.mobile_bench import BenchReport
    from unplug.plugins import Checkpoint
    from unplug.sdk.assurance import EvaluationReport
    from unplug.sdk.auditing import AuditReport, Certification, Exports
    from unplug.sdk.auditing.report import Role

    from .decided import Decided


@dataclass(frozen=True, kw_only=True)
class ReleaseEvidence:
    """Each result under the name that its stage gives it; what is not made or not asked for is
    None.

    Args:
        results: name to result. The properties below are those that more than one reader needs.
    """

    results: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.results.get(name)

    def plus(self, name: str, result: Any) -> ReleaseEvidence:
        """With one more result."""
        return replace(self, results={**self.results, name: result})

    @property
    def original(self) -> Checkpoint:
        """What was trained, and shall forget."""
        return self.results["original"]

    @property
    def certified(self) -> Certification | None:
        """What is known of the method."""
        return self["certified"]

    @property
    def retrained(self) -> Checkpoint | None:
        """The oracle."""
        return self["retrained"]

    @property
    def references(self) -> Sequence[Checkpoint]:
        """Retrained like the oracle, with other seeds."""
        return self["references"] or []

    @property
    def unlearned(self) -> Checkpoint:
        """What ships."""
        return self.results["unlearned"]

    @property
    def artifacts(self) -> Sequence[Artifact]:
        """Its exported files."""
        return self.results["artifacts"]

    @property
    def parity(self) -> ParityReport:
        """How far their outputs are from the checkpoint's."""
        return self.results["parity"]

    @property
    def counterparts(self) -> tuple[Sequence[Exports], dict[str, str]] | None:
        """The original and the oracle in the form of what ships, and why others could not be
        made.
        """
        return self["counterparts"]

    @property
    def audit(self) -> AuditReport:
        """What attacks see in the models and the files."""
        return self.results["audit"]

    @property
    def decided(self) -> Decided | None:
        """What became of the decision."""
        return self["decided"]

    @property
    def evaluation(self) -> EvaluationReport | None:
        """What models and files are worth at age limits."""
        return self["evaluation"]

    @property
    def bench(self) -> BenchReport:
        """Times on this machine."""
        return self.results["bench"]

    @property
    def models(self) -> dict[Role, Checkpoint]:
        """The checkpoints that are compared, by their role."""
        found: dict[Role, Checkpoint] = {"original": self.original, "unlearned": self.unlearned}
        return found if self.retrained is None else {**found, "retrained": self.retrained}

    @property
    def equal(self) -> bool:
        """Whether an equality can show that what ships has forgotten, so that no attack has to."""
        if self.retrained is None or self["unlearned"] is None:
            return False
        step = self.unlearned.record["forget"]
        return bool(step.get("exact") or step["method"] == "retrain")
