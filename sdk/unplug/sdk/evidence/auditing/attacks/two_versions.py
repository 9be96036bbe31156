"""The two-versions attack: who holds the old file and the new one sees whom the model no longer
knows as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..attack import Array, Lacks, Signals


@dataclass(frozen=True, kw_only=True)
class TwoVersionsAttack:
    """score(x) = phi_old(x) - phi_new(x), phi = ln p_y - ln(1 - p_y): who was forgotten fell
    furthest.

    A retrained model shows it too: the old file knows them, and forgetting cannot take it back. So
    only the distance to the oracle's number is the method's; the number itself is what an update
    gives away (docs/audit.md has the remedies).

    Raises:
        Lacks: from the call, of the old file itself, or without one.

    Reference:
        Chen et al., When Machine Unlearning Jeopardizes Privacy, 2021, section 3 (the difference of
        two versions).
    """

    min_references: ClassVar[int] = 0
    reads: ClassVar[str] = "before"
    inherent: ClassVar[bool] = True

    def __call__(self, target: Signals, references: Sequence[Signals]) -> tuple[Array, Array]:
        """Falls of phi, of forget (F,) and unseen (U,)."""
        old = target.before
        if old is None:
            raise Lacks(
                "attack two-versions",
                "it is the old file itself, or there is none",
                "Give the original and another",
            )
        return (
            old.forget.confidence_N - target.forget.confidence_N,
            old.unseen.confidence_N - target.unseen.confidence_N,
        )
