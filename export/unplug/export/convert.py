"""The child's side of an export: loads the checkpoint, prepares once, writes every precision of one target."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .child import Reply
from .targets import TARGETS
from .targets.base import Source, Target
from .worker import Job


@dataclass(frozen=True, kw_only=True)
class Written:
    """A file of one precision and how long it took."""

    precision: str
    file: str
    seconds: float


def convert_checkpoint(job: Job) -> Reply:
    """Converts ``values["checkpoint"]`` to one target; the files land in the folder ``values["staging"]``."""
    started = time.perf_counter()
    from unplug.plugins import load_checkpoint

    checkpoint = load_checkpoint(job.values["checkpoint"])
    source = Source(model=checkpoint.model, iospec=checkpoint.model.iospec, model_type=checkpoint.model_type)
    target: Target = TARGETS.get(job.values["target"])
    precisions = job.values["precisions"]
    job.progress(0, len(precisions), f"{target.name}: converting")
    flops = count_flops(source)
    prepared = target.prepare(source)
    prepare_seconds = time.perf_counter() - started
    written = []
    for index, precision in enumerate(precisions):
        written.append(write_precision(target, prepared, source, precision, Path(job.values["staging"])))
        job.progress(index + 1, len(precisions), f"{target.name} {precision}")
    values = {
        "model_type": checkpoint.model_type,
        "checkpoint_sha256": checkpoint.sha256,
        "iospec": source.iospec.to_dict(),
        "flops": flops,
        "prepare_seconds": prepare_seconds,
        "written": [vars(item) for item in written],
    }
    return Reply(values=values)


def write_precision(target: Target, prepared: Any, source: Source, precision: str, folder: Path) -> Written:
    """Writes one artifact, named ``<model_type>.<precision><suffix>``."""
    started = time.perf_counter()
    file = f"{source.model_type}.{precision}{target.suffix}"
    target.write(prepared, precision, folder / file)
    return Written(precision=precision, file=file, seconds=time.perf_counter() - started)


def count_flops(source: Source) -> int:
    """Floating-point operations of one forward pass, counted by PyTorch in convolutions and matrix products."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from .targets.wrappers import examples

    counter = FlopCounterMode(display=False)
    with torch.inference_mode(), counter:
        source.model(*examples(source))
    return int(counter.get_total_flops())
