"""A number with its interval: what statistics give and reports keep."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number and its 95 % interval (bootstrap over subjects; null where it was not computed)."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> tuple[float, float] | None:
        """Both ends of the interval, or None where there is none."""
        return None if self.low is None or self.high is None else (self.low, self.high)
