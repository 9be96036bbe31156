"""Rows of an audit report about people and attackers: who stands out, what is still used, who was
not tried.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from unplug.sdk.evidence.statistics import Estimate


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where a model's number on a person stands among those of models that never saw her.

    Args:
        value: the model's.
        mean, spread: the mean and standard deviation of the others.
        low, high: the range for her number if she were one of 95 in 100 unseen people.
        rank: 1 where all others are above it, `models` + 1 where all are below.
        models: how many never saw her.
        people: how many people of the test set say what is usual.
        p_value: share of them, and her, whose numbers are as far out; at least 1 / (`people` + 1).
        others: the numbers of the models that never saw her, in ascending order.
    """

    value: float
    mean: float
    spread: float
    low: float
    high: float
    rank: int
    models: int
    people: int
    p_value: float
    others: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PersonRow:
    """One forgotten person among strangers, all of her pictures at once; whose it is stays out of
    the report.

    Args:
        samples: her pictures.
        confidence: mean log odds of the truth, above the model's mean over unseen samples.
        error: mean error, above the model's over unseen samples; null for models without years.
    """

    samples: int
    confidence: Standing
    error: Standing | None = None

    @property
    def p_value(self) -> float:
        """The smaller p of both statistics, times how many there are (Bonferroni)."""
        values = (
            [self.confidence.p_value]
            if self.error is None
            else [self.confidence.p_value, self.error.p_value]
        )
        return min(1.0, len(values) * min(values))


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Shares of two sets that a model still uses; 1 is what the original used of them, 0 nothing."""

    forget: Estimate
    retain: Estimate


@dataclass(frozen=True, kw_only=True)
class Vulnerable:
    """The forgotten whom models of the fleet remember most, against unseen people.

    Args:
        auc: the AUC of their mean confidence against unseen people's.
        minus_retrained: the same minus the oracle's, paired; null without one.
        people, of: how many they are, of how many forgotten.
        gap: how much surer models that saw them are, in standard deviations of models that did not;
            the mean over people.
    """

    auc: Estimate
    minus_retrained: Estimate | None
    people: int
    of: int
    gap: float


@dataclass(frozen=True, kw_only=True)
class Threat:
    """What somebody holds, and what the audit tried of it.

    Args:
        holds: the attacker's means.
        covered: attacks and measures that ran; empty where it was not tested.
        missing: the reason for each attack that did not run.
    """

    holds: str
    covered: tuple[str, ...]
    missing: dict[str, str] = field(default_factory=dict)
