"""Running an artifact in Python: named arrays in, named arrays out, the runtime in a child process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unplug.core import (
    Array,
    Child,
    InputError,
    IOSpec,
    Job,
    Progress,
    Reply,
    memory_for,
    require_modules,
    seconds_for,
)

from .artifact import Artifact
from .runtime import RUNTIMES
from .runtime.base import Runtime
from .targets import TARGETS
from .tensors import check_inputs, relaid

CHUNK_BYTES = 256 * 2**20  # of inputs a call: bounds the temporary folder
REPORT_EVERY = 256  # samples between two progress lines

STAND_INS = {"coreml": "mil"}
"""Runtime to the one that gives the same numbers on other machines. For parity and audits, never
for times.
"""


def runtime_of(artifact: Artifact) -> Runtime:
    """The runtime of an artifact's target, or what stands in for it on this machine.

    The name of what is returned belongs into every result: a stand-in checks the file, not Apple's
    framework.
    """
    runtime = RUNTIMES.get(TARGETS.get(artifact.card.target).runtime)
    if runtime.unavailable() is not None and runtime.name in STAND_INS:
        runtime = RUNTIMES.get(STAND_INS[runtime.name])
    return runtime


class Session:
    """Runs one artifact. Its child process stays, and the file in it open, until `close`, a crash,
    or the end of this process.

    Args:
        artifact: an artifact from `load_artifact` or `export_checkpoint`.
        runtime: name in RUNTIMES; default: see `runtime_of`.
        delegate: one of the runtime's `delegates`; default: its first.
        threads: CPU threads.
        child: the child process that runs it; sessions of one runtime may share one and take turns
            (default: a process of its own).

    Raises:
        InputError: no such runtime or delegate, or it cannot run on this machine.
        MissingExtraError: the runtime is not installed.
    """

    def __init__(
        self,
        artifact: Artifact,
        *,
        runtime: str | None = None,
        delegate: str | None = None,
        threads: int = 1,
        child: Child | None = None,
    ) -> None:
        self.artifact = artifact
        self.runtime: Runtime = runtime_of(artifact) if runtime is None else RUNTIMES.get(runtime)
        if self.runtime.suffix != artifact.path.suffix:
            why = f"it runs {self.runtime.suffix} files, and this is {artifact.path.name}"
            raise InputError(
                f"runtime {self.runtime.name!r}", why, "Leave it out, or name one of this file's"
            )
        self.delegate = delegate or self.runtime.delegates[0]
        self.threads = threads
        check_runtime(self.runtime, self.delegate, threads)
        self._child = child or Child()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the child process; a later run starts another."""
        self._child.close()

    def run_channels_first(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """`run` with images as PyTorch has them, NCHW, whatever the file has."""
        spec = self.artifact.card.iospec
        first = spec.images_in("NCHW")
        return relaid(
            spec.outputs, self.run(relaid(first.inputs, inputs, spec.inputs)), first.outputs
        )

    def run(
        self,
        inputs: Mapping[str, Array],
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> dict[str, Array]:
        """Runs N samples one by one, as a phone would.

        Args:
            inputs: name to array of N samples, checked against the artifact's IOSpec.
            timeout: seconds for each 256 MiB of inputs; None takes `seconds_for` them.
            progress: called with (samples done, N, file name).

        Returns:
            Output name to array of N samples, as the runtime gave them: they may hold NaN.

        Raises:
            InputError: a wrong input; names the tensor.
            ArtifactError: the runtime cannot load the file, or its tensors are not those of its
                card.
            ConversionError: the runtime crashed.
        """
        spec = self.artifact.card.iospec
        samples = check_inputs(spec, inputs)
        chunk = max(1, CHUNK_BYTES // sum(array[:1].nbytes for array in inputs.values()))
        parts = []
        for start in range(0, samples, chunk):

            def forward(done: int, _total: int, text: str, start: int = start) -> None:
                if progress is not None:
                    progress(start + done, samples, text)

            part = {name: array[start : start + chunk] for name, array in inputs.items()}
            parts.append(self._run_chunk(part, timeout, forward))
        return {
            tensor.name: np.concatenate([part[tensor.name] for part in parts])
            for tensor in spec.outputs
        }

    def _run_chunk(
        self, inputs: Mapping[str, Array], timeout: float | None, progress: Progress
    ) -> dict[str, Array]:
        what = f"{self.artifact.path.name} on {self.runtime.name}"
        values = {
            **run_values(self.artifact),
            "runtime": self.runtime.name,
            "delegate": self.delegate,
            "threads": self.threads,
        }
        function = "unplug.export.session:run_samples"
        seconds = seconds_for(len(next(iter(inputs.values()))), timeout)
        memory = memory_for(self.artifact.path)
        return self._child.call(
            function, values, inputs, what=what, timeout=seconds, memory=memory, progress=progress
        ).arrays


def check_runtime(runtime: Runtime, delegate: str, threads: int) -> None:
    """Raises unless `runtime` is installed and can run on this machine with `delegate` and
    `threads`.
    """
    if (reason := runtime.unavailable()) is not None:
        raise InputError(
            f"runtime {runtime.name!r}",
            reason,
            "Run another target here, or this one on such a machine",
        )
    if delegate not in runtime.delegates:
        raise InputError(
            f"delegate {delegate!r}",
            f"{runtime.name} has none of this name",
            f"Known: {', '.join(runtime.delegates)}",
        )
    if threads < 1:
        raise InputError(f"{threads} threads", "at least one is needed", "Use 1 or more")
    require_modules(runtime.modules, runtime.extra)


def run_values(artifact: Artifact) -> dict[str, object]:
    """What a child needs to open an artifact."""
    return {"path": str(artifact.path.resolve()), "iospec": artifact.card.iospec.to_dict()}


def run_samples(job: Job) -> Reply:
    """The child's side of `Session.run`: runs sample by sample; the artifact stays open for the
    next call, until another's.
    """
    values, inputs = job.values, job.arrays
    iospec, path = IOSpec.from_dict(values["iospec"]), Path(values["path"])
    if job.kept.get("opened") != values:
        job.kept.clear()  # before the next one takes memory
        runtime = RUNTIMES.get(values["runtime"])
        job.kept["runner"] = runtime.open(
            path, iospec, threads=values["threads"], delegate=values["delegate"]
        )
        job.kept["opened"] = values
    runner = job.kept["runner"]
    samples = len(next(iter(inputs.values())))
    outputs = {
        tensor.name: np.empty((samples, *tensor.shape[1:]), tensor.dtype)
        for tensor in iospec.outputs
    }
    for index in range(samples):
        runner.feed(
            {name: np.ascontiguousarray(array[index : index + 1]) for name, array in inputs.items()}
        )
        runner.invoke()
        for name, array in runner.read().items():
            outputs[name][index] = array[0]
        if (index + 1) % REPORT_EVERY == 0 or index + 1 == samples:
            job.progress(index + 1, samples, path.name)
    return Reply(values={}, arrays=outputs)
