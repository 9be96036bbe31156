"""The JSON Schemas of this package's reports, generated from their dataclasses."""

from ..baselines import Baselines
from ..comparison import Comparison
from ..estimate.report import EstimateReport
from ..report import BenchReport

SCHEMAS: dict[str, type] = {
    "unplug-bench-1.json": BenchReport,
    "unplug-bench-comparison-1.json": Comparison,
    "unplug-baselines-1.json": Baselines,
    "unplug-estimate-1.json": EstimateReport,
}
