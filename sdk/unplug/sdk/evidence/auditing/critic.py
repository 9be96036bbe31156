"""What a critic measures of every model beside the attacks: shares used, and the most remembered
people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unplug.sdk.evidence.fleet import References
from unplug.sdk.evidence.statistics import NotGiven
from unplug.sdk.learning.training import Sets

from .audit_report import ModelAudit
from .measure import Measured
from .usage import usage
from .vulnerable import vulnerable


def add_critic(
    models: Sequence[ModelAudit],
    measured: Sequence[Measured],
    fleet: References | None,
    sets: Sets,
    seed: int,
) -> tuple[tuple[ModelAudit, ...], dict[str, str]]:
    """Adds both measures to every model that they can be told of.

    Returns:
        The models, and what could not be told with the reason.
    """
    original = next((item.own for item in measured if item.item.role == "original"), None)
    oracle = next((item.own for item in measured if item.item.role == "retrained"), None)
    missing: dict[str, str] = {}
    if original is None:
        missing["usage"] = "it needs the original, and none was given"
    if fleet is None:
        missing["vulnerable"] = "it needs a fleet of references (`fleet`), and none was given"
    found = []
    for model, item in zip(models, measured, strict=True):
        shares = None if original is None else usage(item.own, original, sets, seed)
        if isinstance(shares, NotGiven):
            missing["usage"] = shares.reason
        other = None if item.own is oracle else oracle
        people = None if fleet is None else vulnerable(item.own, other, fleet, sets, seed)
        if isinstance(people, NotGiven):
            missing["vulnerable"] = people.reason
        found.append(
            replace(
                model,
                usage=None if isinstance(shares, NotGiven) else shares,
                vulnerable=None if isinstance(people, NotGiven) else people,
            )
        )
    return tuple(found), missing
