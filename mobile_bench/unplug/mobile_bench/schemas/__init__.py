"""The JSON Schemas of this package's reports, generated from their dataclasses."""

from ..baselines import Baselines
from ..bench_report import BenchReport
from ..comparison import Comparison
from ..estimate.estimate_report import EstimateReport

SCHEMAS: dict[str, type] = {
    "unplug-bench-1.json": BenchReport,
    "unplug-bench-comparison-1.json": Comparison,
    "unplug-baselines-1.json": Baselines,
    "unplug-estimate-1.json": EstimateReport,
}
