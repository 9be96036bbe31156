"""MUCAC: CelebA-HQ faces in eight joint classes; whole people are forgotten."""

from __future__ import annotations

from ..picks import fraction, random_split
from ..protocol import Protocol
from .mufac import RECIPE

MUCAC = Protocol(
    name="mucac",
    summary=(
        "MUCAC: CelebA-HQ faces at 128 pixels, ResNet-18 over the eight joint classes of gender, smile and youth (the paper "
        "has three binary outputs). Whole people are forgotten, a tenth of the training set drawn at random: the data says who "
        "is who, but not which people the paper forgets, and its re-implementations disagree on it. Training as for mufac."
    ),
    kind="class",
    recipe=RECIPE,
    data_help="mucac:DIR",
    split=random_split,
    pick=fraction(0.1),
    rank="nomus",
    originals=2,
    models=8,
)
