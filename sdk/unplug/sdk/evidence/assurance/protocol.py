"""Which numbers are reported of an age model, and which data support them; one object a protocol,
in a registry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unplug.core import Registry

if TYPE_CHECKING:
    from .answers import Answers
    from .evaluation_report import ModelEvaluation
    from .people import People


@dataclass(frozen=True, kw_only=True)
class Asking:
    """What is asked for, whatever the protocol.

    Args:
        limit: the claims' limit on false positives over minors.
        challenges: T in years of Challenge-T; empty takes the protocol's.
        seed: the seed of the draws of people.
        replicates: how many draws.
    """

    limit: float = 0.01
    challenges: tuple[float, ...] = ()
    seed: int = 0
    replicates: int = 1000


@dataclass(frozen=True, kw_only=True)
class AgeProtocol:
    """A way to judge age models.

    Args:
        name: the name on the command line.
        summary: one sentence for lists and reports.
        check: refuses people of whom its numbers cannot be had, with a `DataError`.
        measure: all numbers of one model; the second is the first model of the report, or None.
    """

    name: str
    summary: str
    check: Callable[[People], None]
    measure: Callable[[Answers, Answers | None, Asking], ModelEvaluation]


PROTOCOLS: Registry[AgeProtocol] = Registry(
    "age protocol",
    {"fate-aev": "unplug.sdk.evidence.assurance.fate_aev:FATE_AEV"},
    group="unplug.age_protocols",
)
