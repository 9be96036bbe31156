"""``unplug-family/1``: models of several sizes that share one head, as a bundle's manifest lists
them, and which of them a device takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unplug.core import InputError

FAMILY_KEY = "family"
"""Where it stands in a manifest: in ``postprocessing``."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """One size of a family.

    Args:
        name: its folder in the bundle is ``members/NAME``; the reference has none, and is the
            bundle's own model.
        trunk_sha256: all of its weights but the head's, see `trunk_sha256` of a design.
        latency_ms: median of one picture on the machine that released it, the fastest of its files;
            a device puts its own there once it has measured. None where nobody has.
    """

    name: str
    trunk_sha256: str
    latency_ms: float | None


def choose_member(members: Sequence[Member], budget_ms: float) -> Member:
    """The best member that fits: the first, in the order of the manifest (best first), whose
    latency is known and at most the budget.

    Raises:
        InputError: no member fits; a budget or a latency that is no time above 0; two members of
            one name, or none at all.

    Example:
        >>> small = Member(name="small", trunk_sha256="0" * 64, latency_ms=2.0)
        >>> nano = Member(name="nano", trunk_sha256="1" * 64, latency_ms=0.5)
        >>> choose_member([small, nano], 1.0).name
        'nano'
    """
    if not 0.0 < budget_ms < float("inf"):
        raise InputError(f"budget {budget_ms:g} ms", "it is no time", "Give milliseconds above 0")
    known = [item.latency_ms for item in members if item.latency_ms is not None]
    names = {item.name for item in members}
    if not members or len(names) < len(members) or not all(0 < ms < float("inf") for ms in known):
        why = "it needs members of different names, and latencies above 0"
        raise InputError("family", why, "Get another release")
    for member in members:
        if member.latency_ms is not None and member.latency_ms <= budget_ms:
            return member
    fastest = f"the fastest takes {min(known):g} ms" if known else "none was timed"
    raise InputError(f"budget {budget_ms:g} ms", f"no member fits: {fastest}", "Raise the budget")
