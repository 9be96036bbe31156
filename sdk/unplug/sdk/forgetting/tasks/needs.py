"""What a method can need of a task. No torch: a help text lists it."""

from __future__ import annotations

from typing import Literal, get_args

Need = Literal[
    "retain data",
    "forget data",
    "labels",
    "validation data",
    "ages",
    "training-time hooks",
    "class logits",
    "out-of-fold answers",
]
"""What a method can need; a task says which of it no model of its kind has."""
NEEDS: tuple[Need, ...] = get_args(Need)
