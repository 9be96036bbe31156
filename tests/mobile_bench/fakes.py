"""A device whose measurements a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unplug.export import Artifact, Placement
from unplug.mobile_bench import (
    BenchReport,
    BenchRow,
    Plan,
    Repeat,
    summarize,
)
from unplug.mobile_bench.devices.bench_device import (
    BenchJob,
    DeviceInfo,
    DeviceOrder,
    DeviceTiming,
    State,
    Untimed,
)
from unplug.mobile_bench.drive import drive
from unplug.mobile_bench.rows import derived


class FakeDevice:
    """Every fact as given; `latencies` gives those of one cold start by its number."""

    def __init__(
        self,
        *,
        latencies: Callable[[int, Plan], tuple[float, ...]] = lambda start, plan: (
            (1.0,) * plan.iterations
        ),
        offset: float = 0.0,
        got: str | None = "cpu",
        pending_ms: float = 0.0,
        crash: Exception | None = None,
        states: Callable[[], State] = State,
        info: dict[str, Any] | None = None,
        back: bool = False,
        compared: int = 1,
    ) -> None:
        self.latencies, self.offset, self.got, self.pending_ms = latencies, offset, got, pending_ms
        self.crash, self.states, self.info, self.back = crash, states, info or {}, back
        self.starts, self.compared = 0, compared

    def bench(self, place: str | None, order: DeviceOrder) -> tuple[BenchRow, ...]:
        return drive(self, order, f"fake:{place}")

    def describe(self) -> DeviceInfo:
        return DeviceInfo(**{"where": "emulated", "device": "fake", "os": "none", **self.info})

    def state(self) -> State:
        return self.states()

    def runtimes(self, artifact: Artifact) -> tuple[str, ...]:
        return ("onnx",)

    def delegates(self, runtime: str) -> tuple[str, ...]:
        return ("cpu",)

    def version(self, runtime: str) -> str | None:
        return "1"

    def unavailable(self, artifact: Artifact, runtime: str) -> str | None:
        return None

    def peak_flops(self, artifact: Artifact, plan: Plan, delegate: str) -> float | None:
        return 1e9

    def returned(self, seconds: float) -> bool:
        return self.back

    def _outputs(self, samples: int) -> dict[str, np.ndarray]:
        sides = {"age_logits": 13, "expected_age": 1}
        return {name: np.ones((samples, side), np.float32) for name, side in sides.items()}

    def untimed(self, job: BenchJob, plan: Plan) -> Untimed:
        return Untimed(
            outputs=self._outputs(len(job.inputs["image"])),
            peak_memory_bytes=None,
            base_memory_bytes=None,
        )

    def timed(self, job: BenchJob, plan: Plan) -> DeviceTiming:
        self.starts += 1
        if self.crash is not None:
            raise self.crash
        return DeviceTiming(
            init_ms=1.0,
            first_inference_ms=1.0,
            latencies_ms=self.latencies(self.starts, plan),
            enqueue_ms=0.0,
            read_back_ms=0.0,
            pending_ms=self.pending_ms,
            placement=Placement(delegate_asked=job.delegate, delegate_got=self.got),
            outputs=[(0, {name: array + self.offset for name, array in self._outputs(1).items()})],
            compared=self.compared,
        )


def repeat_of(latencies: Sequence[float], **changes: Any) -> Repeat:
    """A cold start with these timed runs."""
    made = Repeat(
        init_ms=3.0,
        first_inference_ms=2.0,
        latencies_ms=tuple(latencies),
        summary=summarize(latencies),
        compared=1,
        parity_db=90.0,
        parity_reason=None,
    )
    return replace(made, **changes)


def row_of(latencies: Sequence[Sequence[float]], **changes: Any) -> BenchRow:
    """A row of a phone with these cold starts; what follows from them is worked out before the
    changes.
    """
    base = BenchRow(
        file="age.fp32.tflite",
        model_type="age",
        model_sha256="0" * 64,
        artifact_sha256="1" * 64,
        target="litert",
        precision="fp32",
        bytes=1_500_000,
        where="device",
        device="Google Pixel 7",
        os="Android 14",
        runtime="litert",
        runtime_version="2.3.0",
        threads=2,
        delegate_asked="xnnpack",
        status="ok",
        valid=True,
        reasons=(),
        warmup=1,
        iterations=len(latencies[0]),
        repeats=tuple(map(repeat_of, latencies)),
        parity_reference="checkpoint",
        inputs_sha256="2" * 64,
        flops=10,
    )
    return replace(derived(base), **changes)


def report_of(*rows: BenchRow) -> BenchReport:
    return BenchReport(rows=rows, seed=0, versions={}, git_revision=None)
