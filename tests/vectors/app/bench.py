"""``python -m tests.vectors.app.bench``: the folder that the harness hands an app, for a port of
the benchmark's protocol.

``bench/plan.json``, files and vectors are the harness's.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np

from unplug.export import load_artifact
from unplug.export.checkpoint import Reference
from unplug.mobile_bench.apps.driven_app import write_folder
from unplug.mobile_bench.devices.bench_device import BenchJob, Plan
from unplug.mobile_bench.exchange import Exchange

from .bundle import run
from .networks import SPECS, WEIGHTS, write

HERE = Path(__file__).parent / "bench"
PLAN = Plan(threads=2, warmup=2, iterations=12, repeats=3, seed=7)


def jobs(folder: Path) -> tuple[BenchJob, ...]:
    """The tiny age predictor on three delegates, one of which is not to be run."""
    artifact = load_artifact(write(folder, "age", "age"))
    inputs = (
        np.random.default_rng(5)
        .uniform(0, 1, (2, *SPECS["age"].inputs[0].shape[1:]))
        .astype(np.float32)
    )
    runs = [run(artifact.path, inputs[sample : sample + 1]) for sample in range(2)]
    outputs = {name: np.concatenate([item[name] for item in runs]) for name in runs[0]}
    reference = Reference(checkpoint_sha256=WEIGHTS, model_type="age", outputs=outputs)
    return tuple(
        BenchJob(
            artifact=artifact,
            runtime="onnx-app",
            runtime_version=None,
            delegate=delegate,
            inputs={"image": inputs},
            reference=reference,
            not_run="nothing here has it" if delegate == "npu" else None,
        )
        for delegate in ("cpu", "gpu", "npu")
    )


def exchange(folder: Path) -> Exchange:
    """What is asked for."""
    asked = jobs(folder)
    return Exchange(
        asked,
        [None if job.reference is None else job.reference.outputs for job in asked],
        PLAN,
        where="device",
    )


def main() -> None:
    """Writes all but the report."""
    with tempfile.TemporaryDirectory() as folder:
        made = write_folder(exchange(Path(folder)), Path(folder) / "bench")
        for item in sorted(made.rglob("*")):
            if item.is_file():
                target = HERE / item.relative_to(made)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(item, target)


if __name__ == "__main__":
    main()
