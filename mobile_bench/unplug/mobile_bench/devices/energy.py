"""Energy that the machine itself counts: Linux's powercap (RAPL) of whole CPU packages, where it may be read."""

from __future__ import annotations

from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
ZONE = "intel-rapl:[0-9]*"
"""Packages; their parts have a second colon. AMD's CPUs have the same name there."""


class Meter:
    """Counts from its making on.

    Args:
        folder: where the zones are.
    """

    def __init__(self, folder: Path = POWERCAP) -> None:
        zones = [zone for zone in sorted(folder.glob(ZONE)) if zone.name.count(":") == 1]
        self._begun = {zone: value for zone in zones if (value := _read(zone / "energy_uj")) is not None}

    def millijoules(self) -> float | None:
        """Of all packages since the beginning, other work on the machine included; None where nothing is counted."""
        total, known = 0.0, False
        for zone, begun in self._begun.items():
            now, around = _read(zone / "energy_uj"), _read(zone / "max_energy_range_uj")
            if now is None:
                continue
            if now < begun and around is not None:  # the counter went round once
                now += around
            total, known = total + (now - begun) / 1e3, True
        return total if known else None


def _read(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return int(text) if text.isdigit() else None
