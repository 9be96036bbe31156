"""The JSON Schema of this package's report, generated from its dataclass."""

from ..report import BenchReport

SCHEMAS: dict[str, type] = {"unplug-bench-1.json": BenchReport}
