"""Prometheus metrics, of all worker processes together. Labels are templates of routes, states,
names of models.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, multiprocess
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Where the worker processes of one server put their numbers; set before this package is imported.
"""
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """What one process counts."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._own = registry
        self.requests = Counter(
            "unplug_http_requests_total",
            "Answers",
            ("method", "route", "status"),
            registry=registry,
        )
        self.seconds = Histogram(
            "unplug_http_seconds",
            "Until the answer",
            ("route",),
            buckets=SECONDS,
            registry=registry,
        )
        self.batches = Histogram(
            "unplug_predict_batch",
            "Pictures in one run of the model",
            ("model",),
            buckets=(1, 2, 4, 8, 16, 32),
            registry=registry,
        )
        self.swaps = Counter(
            "unplug_model_swaps_total",
            "Models that took the place of another",
            ("model",),
            registry=registry,
        )

    def text(self, now: Callable[[], Mapping[str, Mapping[str, float]]]) -> bytes:
        """All metrics in Prometheus' text format.

        Args:
            now: gives what the database says: name of a gauge to label to value.
        """
        registry = self._own
        if os.environ.get(FOLDER):
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        gauges = CollectorRegistry()
        gauges.register(_Gauges(now()))
        return generate_latest(registry) + generate_latest(gauges)


class _Gauges(Collector):
    def __init__(self, values: Mapping[str, Mapping[str, float]]) -> None:
        self._values = values

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One family a name."""
        for name, by_label in self._values.items():
            family = GaugeMetricFamily(f"unplug_{name}", name.replace("_", " "), labels=["state"])
            for label, value in by_label.items():
                family.add_metric([label], value)
            yield family
