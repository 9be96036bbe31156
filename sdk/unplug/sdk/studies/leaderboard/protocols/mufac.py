"""MUFAC: Korean families in 8 age groups; the first 1,500 training rows are forgotten."""

from __future__ import annotations

from unplug.sdk.training import Recipe

from ..picks import first_rows, random_split
from ..protocol import Protocol, Published

RECIPE = Recipe(
    size="resnet18", image_size=128, epochs=30, batch_size=64, augment="flip", dropout=0.0, lr=1e-3, weight_decay=5e-4,
    loss="ce",
)  # fmt: skip

MUFAC = Protocol(
    name="mufac",
    summary=(
        "MUFAC: faces of Korean families at 128 pixels in 8 age groups, ResNet-18 from scratch; the first 1,500 training rows "
        "are forgotten. The attack tells them from the official test table (1,504 faces, 'unseen' in the paper), and accuracy "
        "is measured there too, because some methods read the validation table. The paper trains with SGD 0.01 in steps; here "
        "the recipe is AdamW with one cycle over as many epochs."
    ),
    kind="class",
    recipe=RECIPE,
    data_help="mufac:DIR",
    split=random_split,
    pick=first_rows(1500),
    rank="nomus",
    originals=2,
    models=8,
    published=(
        Published(model="original", metric="nomus", value=0.584),
        Published(model="retrained", metric="nomus", value=0.700),
        Published(model="finetune", metric="nomus", value=0.590),
        Published(model="cf-k", metric="nomus", value=0.582),
        Published(model="neggrad", metric="nomus", value=0.654),
        Published(model="unsir", metric="nomus", value=0.597),
        Published(model="scrub", metric="nomus", value=0.658),
        Published(model="neggrad+", metric="nomus", value=0.686),
    ),
)
