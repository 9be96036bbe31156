"""Gates that somebody overrides: they do not hold, and the release ships all the same, for a reason
that is written down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from unplug.core import InputError
from unplug.trust.bundle import Gate

MAX_REASON = 300


def check_reasons(overrides: Mapping[str, str]) -> None:
    """Refuses an override without a reason, or with one that is not a plain line, before anything
    is computed.

    Raises:
        InputError: a reason is empty, too long or not one plain line.
    """
    for name, reason in overrides.items():
        if not reason.strip() or len(reason) > MAX_REASON or not reason.isprintable():
            why = f"its reason is empty, longer than {MAX_REASON} characters or not one plain line"
            raise InputError(
                f"`overrides` {name[:60]}", why, "Say why it ships; it stands in the manifest"
            )


def overridden(gates: Sequence[Gate], overrides: Mapping[str, str]) -> tuple[Gate, ...]:
    """The gates as they were judged, those that do not hold with the reason why they were
    overridden.

    An override of a gate that holds changes nothing, and leaves no trace but in the command.

    Raises:
        InputError: an override of a gate by which this release is not judged.

    Example:
        >>> gate = Gate(name="utility", value=2.0, limit=1.0, comparison="<=", passed=False, unit=" years", detail="")
        >>> (found,) = overridden([gate], {"utility": "the old model is worse for everybody"})
        >>> found.passed, found.ships, found.override
        (False, True, 'the old model is worse for everybody')
    """
    known = {gate.name for gate in gates}
    for name in overrides:
        if name not in known:
            names = ", ".join(sorted(known))
            raise InputError(
                f"`overrides` {name[:60]}",
                "this release is not judged by such a gate",
                f"It is by: {names}",
            )
    return tuple(
        gate if gate.passed else replace(gate, override=overrides.get(gate.name)) for gate in gates
    )
