"""The JSON Schemas of this package's files, generated from their dataclasses."""

from ..artifact import Card
from ..layers.explain import Explanation
from ..parity import ParityReport

SCHEMAS: dict[str, type] = {
    "unplug-artifact-1.json": Card,
    "unplug-layers-1.json": Explanation,
    "unplug-parity-1.json": ParityReport,
}
