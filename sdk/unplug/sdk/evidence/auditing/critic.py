"""What a critic measures of every model besides the attacks: shares used, and the most remembered
people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unplug.sdk.evidence.fleet import References
from unplug.sdk.learning.training import Sets

from .audit_report import ModelAudit
from .measure import Measured, given, of_role
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
    original, oracle = of_role(measured, "original"), of_role(measured, "retrained")
    missing: dict[str, str] = {}
    if original is None:
        missing["usage"] = "it needs the original, and none was given"
    if fleet is None:
        missing["vulnerable"] = "it needs a fleet of references (`fleet`), and none was given"
    rows = []
    for model, one in zip(models, measured, strict=True):
        shares, people = None, None
        if original is not None:
            shares = given(usage(one.own, original.own, sets, seed), "usage", missing)
        if fleet is not None:
            other = None if oracle is None or one is oracle else oracle.own
            remembered = vulnerable(one.own, other, fleet, sets, seed)
            people = given(remembered, "vulnerable", missing)
        rows.append(replace(model, usage=shares, vulnerable=people))
    return tuple(rows), missing
