"""What a gate is: what it asks in words, and how it is measured on what a release has found."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from unplug.trust.bundle import Gate

from .evidence import ReleaseEvidence

if TYPE_CHECKING:
    from unplug.sdk.evidence.auditing import Certification


@dataclass(frozen=True, kw_only=True)
class Question:
    """What one gate asks, wherever it is asked.

    Args:
        name: the gate's; ``{}`` stands for what it is asked of, an attack say.
        asks: the condition, in one sentence.
        limit: the field of `Gates` that is its limit, or in words where its limit comes from.
        unit: the unit of its value, with the blank in front; ``{}`` as in the name.
        comparison: how the value is held to the limit.
    """

    name: str
    asks: str
    limit: str
    unit: str = ""
    comparison: Literal["<=", ">="] = "<="

    @property
    def summary(self) -> str:
        """The line of this question in a list of gates."""
        return f"{self.asks} ({self.limit})"

    def judged(
        self,
        value: float | None,
        limit: float,
        detail: str,
        *,
        of: str = "",
        unit: str = "",
        inconclusive: bool = False,
    ) -> Gate:
        """The gate with what was found; `inconclusive` says whether nobody can tell where it does
        not hold.
        """
        # What measured nothing does not hold, nor does NaN.
        holds = value is not None and (
            value <= limit if self.comparison == "<=" else value >= limit
        )
        return Gate(
            name=self.name.format(of),
            value=value,
            limit=limit,
            comparison=self.comparison,
            passed=holds,
            unit=self.unit.format(unit),
            detail=detail,
            inconclusive=inconclusive and not holds,
        )

    def unmeasured(self, why: str) -> Gate:
        """The gate where there was nothing that could be held to its limit."""
        return Gate(
            name=self.name,
            value=None,
            limit=0.0,
            comparison="<=",
            passed=False,
            unit="",
            detail=why,
            inconclusive=True,
        )

    def is_of(self, gate: Gate) -> bool:
        """Whether a gate, read from a report say, was asked this."""
        return self.is_named(gate.name) and (not gate.unit or _fits(self.unit, gate.unit))

    def is_named(self, name: str) -> bool:
        """Whether a gate of this name is asked this."""
        return _fits(self.name, name)


def _fits(pattern: str, text: str) -> bool:
    return re.fullmatch(".+".join(map(re.escape, pattern.split("{}"))), text) is not None


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What is known of a release before anything of it is computed.

    Args:
        exact: whether an equality shows that what ships has forgotten.
        certified: the certification of its method; None without one.
        pictures, forgotten: the pictures to forget, and the number of people on them.
        unseen: people that no model saw.
        ranked: whether nobody has to stand out least: a fleet ranks people, or they are not known.
        targets: the targets of its files.
        sides: minors and adults that a decision is asked about; None without one.
    """

    exact: bool
    certified: Certification | None
    pictures: int
    forgotten: int
    unseen: int
    ranked: bool
    targets: tuple[str, ...]
    sides: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """A gate that cannot hold whatever is computed: counts decide it.

    Args:
        asked: the gate.
        what: the count.
        why: the reason why it cannot hold.
        fix: the remedy; None where forgetting exactly is the way out.
    """

    asked: Question
    what: str
    why: str
    fix: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rule(ABC):
    """Something that must hold before a bundle is written, as one object.

    The fields of a rule are its thresholds, and each is a ``--gate`` of the command line. A new
    rule becomes a base of `Gates`; judging, explaining, overriding and the report go by that alone.
    """

    questions: ClassVar[tuple[Question, ...]]

    @abstractmethod
    def judge(self, evidence: ReleaseEvidence) -> Iterator[Gate]:
        """The gates of this release, measured; none where it does not apply."""

    def foresee(self, counts: Counts) -> Iterator[Foreseen]:
        """Gates that counts alone refuse, before anything is computed."""
        yield from ()
