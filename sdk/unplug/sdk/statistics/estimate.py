"""A number with its interval: what statistics give and reports keep. Imports nothing, so that both may have it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number and its 95 % interval (bootstrap over subjects; null where it was not computed)."""

    value: float
    low: float | None = None
    high: float | None = None
