"""What the stages of a release have found so far: what its gates look at, and what its bundle is
made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unplug.export import Artifact, ParityReport
    from unplug.mobile_bench import BenchReport
    from unplug.plugins import Checkpoint
    from unplug.sdk.evidence.assurance import EvaluationReport
    from unplug.sdk.evidence.auditing import AuditReport, Certification, Exports

    from .decided import Decided


@dataclass(frozen=True, kw_only=True)
class MemberFiles:
    """What ships of one member of a family, but for the reference.

    Args:
        artifacts: its files.
        parity: those against its checkpoint.
        bench: their latency on this machine.
    """

    artifacts: Sequence[Artifact]
    parity: ParityReport
    bench: BenchReport


class ReleaseEvidence:
    """Each result under the name that its stage gives it; what is not made or not asked for is
    None.

    Args:
        results: name to result. Those that more than one reader needs are attributes as well.
    """

    original: Checkpoint
    certified: Certification | None
    retrained: Checkpoint | None
    references: Sequence[Checkpoint] | None
    unlearned: Checkpoint
    artifacts: Sequence[Artifact]
    parity: ParityReport
    counterparts: tuple[Sequence[Exports], dict[str, str]] | None
    audit: AuditReport
    decided: Decided | None
    evaluation: EvaluationReport | None
    bench: BenchReport
    members: Mapping[str, MemberFiles] | None

    def __init__(self, results: Mapping[str, Any]) -> None:
        self.results = results

    def __getattr__(self, name: str) -> Any:
        if name not in type(self).__annotations__:
            raise AttributeError(name)
        return self.results.get(name)

    def __getitem__(self, name: str) -> Any:
        return self.results.get(name)

    def plus(self, name: str, result: Any) -> ReleaseEvidence:
        """The evidence with one more result."""
        return ReleaseEvidence({**self.results, name: result})

    @property
    def models(self) -> dict[str, Checkpoint]:
        """The checkpoints that are compared, by their role."""
        models = {"original": self.original, "unlearned": self.unlearned}
        return models if self.retrained is None else {**models, "retrained": self.retrained}

    @property
    def equal(self) -> bool:
        """Whether an equality can show that what ships has forgotten, so that no attack has to."""
        if self.retrained is None or self["unlearned"] is None:
            return False
        step = self.unlearned.record["forget"]
        return bool(step.get("exact") or step["method"] == "retrain")
