"""An Android phone over adb (`adb:SERIAL`): LiteRT's `benchmark_model`, a process for each cold
start, outputs compared.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from unplug.core import Array, ArtifactError, DeviceError, temporary_folder
from unplug.export import Artifact, Placement

from ..bench_report import BenchRow, Window
from ..devices.bench_device import (
    BenchJob,
    DeviceInfo,
    DeviceOrder,
    DeviceTiming,
    Plan,
    State,
    Untimed,
)
from ..drive import drive
from ..parity import ParityWatch
from ..statistics import Summary
from .client import Adb, claimed
from .edges import Edges, read_edges
from .phone import ABIS, ASK, ASK_STATE, elf_machine, read_info, read_properties, read_state
from .result import DELEGATES, WHERE, AdbResult, check_log, read_placement, read_result
from .workspace import Workspace

BINARY_VARIABLE = "UNPLUG_BENCHMARK_MODEL"
RUNTIME = "benchmark_model"
MARGIN_S = 600.0
"""For one process, besides a sustained run's own seconds."""
CPU_PEAK, GPU_PEAK = 4.5e9 * 128.0, 3e13
"""Operations a second that no phone reaches: of a core (four 128-bit units, half precision), and of
a GPU.
"""
ALWAYS = (
    "--warmup_min_secs=0",
    "--output_filepath=out.bin",
    "--result_file_path=result.pb",
    "--export_model_runtime_info=true",
    "--model_runtime_info_output_file=info.pb",
)
CHUNKS, MIN_CHUNK_S = 30, 2.0
"""A sustained run is that many processes one after the other, since the tool tells a summary only.
"""


class Android:
    """Any Android device that adb knows."""

    def bench(self, place: str | None, order: DeviceOrder) -> tuple[BenchRow, ...]:
        """See `Device.bench`; whatever happens, nothing is left running and no mode on."""
        with claimed(place) as adb:
            workspace = Workspace(adb, order.say)
            try:
                workspace.open()
                return drive(Phone(adb, workspace, binary(adb)), order, f"adb:{adb.serial}")
            finally:
                workspace.close()


def binary(adb: Adb) -> Path:
    """The benchmark tool, checked against the phone's ABI.

    Raises:
        DeviceError: it is not given, not there, or for another ABI.
    """
    given = os.environ.get(BINARY_VARIABLE)
    if not given or not Path(given).is_file():
        why = (
            f"{BINARY_VARIABLE} names no file ({given})"
            if given
            else f"{BINARY_VARIABLE} does not say where it is"
        )
        raise DeviceError(RUNTIME, why, WHERE)
    with Path(given).open("rb") as handle:
        machine = elf_machine(handle.read(20))
    abi = read_properties(adb.shell("getprop").text).get("ro.product.cpu.abi")
    if machine is not None and abi in ABIS and machine != ABIS[abi]:
        name = next(
            (name for name, number in ABIS.items() if number == machine), f"machine {machine}"
        )
        raise DeviceError(RUNTIME, f"it is for {name}, and the device is {abi}", WHERE)
    return Path(given)


class Phone:
    """One phone with an open workspace."""

    def __init__(self, adb: Adb, workspace: Workspace, tool: Path) -> None:
        self._adb, self._space, self._tool = adb, workspace, tool
        workspace.fix_performance()
        self._edges: dict[str, Edges] = {}
        self._runs: dict[tuple[str, str], int] = {}

    def describe(self) -> DeviceInfo:
        """Model, SoC, OS and what else a row says of the phone; see `Driven.describe`."""
        return read_info(self._adb.shell(ASK).text, self._space.clock_mode)

    def state(self) -> State:
        """See `Driven.state`; while it is waited for to cool, this is the only command that comes."""
        self._space.keep_if_there()
        return replace(
            read_state(self._adb.shell(ASK_STATE).text), clock_mode=self._space.clock_mode
        )

    def runtimes(self, artifact: Artifact) -> tuple[str, ...]:
        """LiteRT's benchmark tool is all that runs files over adb."""
        return (RUNTIME,)

    def delegates(self, runtime: str) -> tuple[str, ...]:
        """XNNPACK, and the GPU and NNAPI in both precisions."""
        return tuple(DELEGATES)

    def version(self, runtime: str) -> str | None:
        """The tool tells none, so its hash stands for it."""
        return f"sha256:{hashlib.sha256(self._tool.read_bytes()).hexdigest()[:12]}"

    def unavailable(self, artifact: Artifact, runtime: str) -> str | None:
        """It runs LiteRT files only."""
        return (
            None
            if artifact.card.target == "litert"
            else f"{RUNTIME} runs LiteRT files, and this is {artifact.card.target}"
        )

    def peak_flops(self, artifact: Artifact, plan: Plan, delegate: str) -> float | None:
        """Generous; of NPUs under NNAPI nothing is known."""
        if delegate.startswith("nnapi"):
            return None
        return GPU_PEAK if delegate.startswith("gpu") else plan.threads * CPU_PEAK

    def untimed(self, job: BenchJob, plan: Plan) -> Untimed:
        """Every sample once, in a process of its own."""
        parts, peaks = [], []
        for sample in range(len(next(iter(job.inputs.values())))):
            result, _, outputs = self._process(job, plan, sample, runs=1, warmup=1, memory=True)
            parts.append(outputs)
            peaks.append(result.peak_memory_bytes)
        known = [peak for peak in peaks if peak is not None]
        outputs = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return Untimed(
            outputs=outputs, peak_memory_bytes=max(known, default=None), base_memory_bytes=None
        )

    def timed(self, job: BenchJob, plan: Plan) -> DeviceTiming:
        """One process; of a sustained run, many, with the temperature between them."""
        key = job.artifact.card.sha256, job.delegate
        sample = self._runs.get(key, 0) % len(next(iter(job.inputs.values())))
        self._runs[key] = self._runs.get(key, 0) + 1
        if plan.sustain_s:
            return self._sustained(job, plan, sample, plan.sustain_s)
        result, log, outputs = self._process(
            job, plan, sample, runs=plan.iterations, warmup=plan.warmup + 1
        )
        watch = ParityWatch()
        watch.look(sample, outputs)
        return _timing(result, read_logged(log, job.delegate), watch, summary=result.summary)

    def returned(self, seconds: float) -> bool:
        """Waits for the phone, then sets its folder up again: its watchdog may have deleted it."""
        if not self._adb.wait(seconds):
            return False
        self._space.open()
        return True

    def _sustained(self, job: BenchJob, plan: Plan, sample: int, seconds: float) -> DeviceTiming:
        chunk, begun = max(seconds / CHUNKS, MIN_CHUNK_S), time.monotonic()
        curve, results, placed, watch = (
            list[Window](),
            list[AdbResult](),
            list[Placement](),
            ParityWatch(),
        )
        while (start := time.monotonic() - begun) < seconds:
            warmup = plan.warmup + 1 if not results else 1
            result, log, outputs = self._process(
                job, plan, sample, runs=1, warmup=warmup, seconds=chunk
            )
            results.append(result)
            placed.append(read_logged(log, job.delegate))
            watch.look(sample, outputs)
            summary = result.summary
            curve.append(
                Window(
                    start_s=start,
                    end_s=time.monotonic() - begun,
                    count=summary.count,
                    p50=summary.p50,
                    p95=summary.p50 if summary.p95 is None else summary.p95,
                    temperature_c=self.state().temperature_c,
                )
            )
        placement = min(
            placed,
            key=lambda item: (item.delegate_got == item.delegate_asked, item.nodes_delegated or 0),
        )
        return _timing(results[0], placement, watch, summary=_merged(results), curve=tuple(curve))

    def _process(
        self,
        job: BenchJob,
        plan: Plan,
        sample: int,
        *,
        runs: int,
        warmup: int,
        memory: bool = False,
        seconds: float = 0.0,
    ) -> tuple[AdbResult, bytes, dict[str, Array]]:
        """One process of the tool: what it measured, its log and runtime details, its outputs."""
        self._space.ready()
        what, edges = job.artifact.path.name, self._push(job, sample)
        command = [
            *_inputs(job, edges, sample),
            f"--num_threads={plan.threads}",
            f"--num_runs={runs}",
            f"--min_secs={seconds}",
            f"--max_secs={MARGIN_S + seconds}",
            f"--warmup_runs={warmup}",
            f"--report_peak_memory_footprint={str(memory).lower()}",
            *ALWAYS,
            *DELEGATES[job.delegate],
        ]
        answer = self._space.run(" ".join(map(shlex.quote, command)), 2 * MARGIN_S + seconds)
        check_log(answer.said, answer.code, what)
        with self._space.fetched("result.pb", "out.bin", "info.pb") as files:
            missing = [name for name in ("result.pb", "out.bin") if name not in files]
            if missing:
                raise ArtifactError(
                    what, f"benchmark_model wrote no {missing[0]}", "Look for space on the device"
                )
            result = read_result(files["result.pb"], None if seconds else runs, what)
            log = answer.said.encode() + b"\0" + files.get("info.pb", b"")
            return result, log, _outputs(files["out.bin"], edges, what)

    def _push(self, job: BenchJob, sample: int) -> Edges:
        digest = job.artifact.card.sha256
        if digest not in self._edges:
            self._edges[digest] = read_edges(job.artifact.path)
        self._space.put(self._tool, "benchmark_model", executable=True)
        self._space.put(job.artifact.path, f"{digest[:16]}.tflite")
        with temporary_folder("unplug-adb-") as folder:
            for name, array in job.inputs.items():
                file = folder / "input"
                file.write_bytes(np.ascontiguousarray(array[sample : sample + 1]).tobytes())
                self._space.put(file, _input_name(job, name, sample))
        return self._edges[digest]


def _inputs(job: BenchJob, edges: Edges, sample: int) -> list[str]:
    """The tool, and what it runs on what."""
    # a colon in a tensor's name is written twice, since one stands in front of the file
    files = (
        f"{edge.tensor.replace(':', '::')}:{_input_name(job, edge.name, sample)}"
        for edge in edges.inputs
    )
    shapes = (",".join(map(str, edge.shape)) for edge in edges.inputs)
    return [
        "./benchmark_model",
        f"--graph={job.artifact.card.sha256[:16]}.tflite",
        f"--input_layer={','.join(edge.tensor for edge in edges.inputs)}",
        f"--input_layer_shape={':'.join(shapes)}",
        f"--input_layer_value_files={','.join(files)}",
    ]


def _input_name(job: BenchJob, name: str, sample: int) -> str:
    array = job.inputs[name][sample : sample + 1]
    return f"{hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]}.bin"


def _outputs(raw: bytes, edges: Edges, what: str) -> dict[str, Array]:
    """All outputs, one after the other in the interpreter's order."""
    sizes = [int(np.prod(edge.shape)) * np.dtype(edge.dtype).itemsize for edge in edges.outputs]
    if len(raw) != sum(sizes):
        raise ArtifactError(
            what,
            f"its outputs have {len(raw)} bytes where {sum(sizes)} belong",
            "Use another build of the tool",
        )
    outputs, start = dict[str, Array](), 0
    for edge, size in zip(edges.outputs, sizes, strict=True):
        outputs[edge.name] = (
            np.frombuffer(raw[start : start + size], edge.dtype).reshape(edge.shape).copy()
        )
        start += size
    return outputs


def read_logged(log: bytes, delegate: str) -> Placement:
    """What ran the operators, of a log and, after a zero byte, the tool's runtime details."""
    text, _, details = log.partition(b"\0")
    return read_placement(text.decode("utf-8", "replace"), details or None, delegate)


def _timing(
    result: AdbResult,
    placement: Placement,
    watch: ParityWatch,
    *,
    summary: Summary,
    curve: tuple[Window, ...] = (),
) -> DeviceTiming:
    return DeviceTiming(
        init_ms=result.init_ms,
        first_inference_ms=result.first_inference_ms,
        latencies_ms=(),
        summary=summary,
        enqueue_ms=None,
        read_back_ms=None,
        outputs=watch.kept(),
        compared=watch.count,
        curve=curve,
        placement=placement,
    )


def _merged(found: list[AdbResult]) -> Summary:
    """Merges several processes: means weighted by their runs; the median of medians, since no runs
    are told.
    """
    parts = [result.summary for result in found]
    count = sum(part.count for part in parts)
    mean = sum(part.count * part.mean for part in parts) / count
    square = sum(part.count * (part.std**2 + (part.mean - mean) ** 2) for part in parts) / count
    return Summary(
        count=count,
        p50=float(np.median([part.p50 for part in parts])),
        p90=None,
        p95=None,
        p99=None,
        mean=mean,
        std=square**0.5,
        min=min(part.min for part in parts),
        max=max(part.max for part in parts),
    )


ADB = Android()
