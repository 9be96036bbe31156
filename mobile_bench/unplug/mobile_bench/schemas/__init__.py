"""The JSON Schemas of this package's reports, generated from their dataclasses."""

from ..comparison import Comparison
from ..report import BenchReport

SCHEMAS: dict[str, type] = {"unplug-bench-1.json": BenchReport, "unplug-bench-comparison-1.json": Comparison}
