"""Photographs: UTKFace, a random 2 % of its training set forgotten."""

from __future__ import annotations

from unplug.sdk.training import Recipe

from ..picks import fraction, random_split
from ..protocol import Protocol
from .challenge import TUNED

UTKFACE = Protocol(
    name="utkface",
    summary=(
        "UTKFace photographs; a random 2 % of the training set is forgotten, of all ages. UTKFace does not say "
        "who is in a picture, so the retain set may hold other pictures of forgotten people."
    ),
    kind="age",
    recipe=Recipe(
        size="nano", image_size=48, epochs=24, batch_size=64, augment="flip", dropout=0.0, lr=6e-3, weight_decay=0.02
    ),
    data_help="utkface:DIR",
    split=random_split,
    pick=fraction(0.02),
    rank="challenge",
    overrides=TUNED,
    originals=4,
    models=32,
)
