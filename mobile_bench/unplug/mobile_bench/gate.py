"""Waiting until a device is cool enough for an honest cold start."""

from __future__ import annotations

import time
from threading import Event

from .devices.base import Driven, Plan, State
from .validity import THROTTLING

POLL_S = 2.0
ORDER = ("gave up", "waited", "open")
"""How outcomes begin, the worst first."""


def cool(device: Driven, plan: Plan, cancel: Event) -> tuple[State, str | None]:
    """The device's state when the wait is over, and what it came to; None where the device tells nothing."""
    state, started = device.state(), time.monotonic()
    while is_hot(state, plan) and not cancel.is_set():
        waited = time.monotonic() - started
        if waited >= plan.cool_down_s:
            return state, f"gave up after {waited:.0f} s at {_heat(state)}"
        cancel.wait(min(POLL_S, max(plan.cool_down_s - waited, 0.0)))
        state = device.state()
    if (waited := time.monotonic() - started) > POLL_S:
        return state, f"waited {waited:.0f} s until {_heat(state)}"
    told = state.thermal is not None or state.temperature_c is not None
    return state, "open" if told else None


def is_hot(state: State, plan: Plan) -> bool:
    """Whether a cold start must wait."""
    limit = plan.max_temperature_c
    too_warm = limit is not None and state.temperature_c is not None and state.temperature_c > limit
    return too_warm or state.thermal in THROTTLING


def worst(outcomes: list[str]) -> str | None:
    """Of several cold starts' outcomes.

    Example:
        >>> worst(["open", "waited 9 s until 38.0 °C", "open"])
        'waited 9 s until 38.0 °C'
    """
    return next((outcome for word in ORDER for outcome in outcomes if outcome.startswith(word)), None)


def _heat(state: State) -> str:
    parts = [f"{state.temperature_c:.1f} °C"] if state.temperature_c is not None else []
    return ", ".join([*parts, *([f"status {state.thermal}"] if state.thermal else [])])
