"""Many models of one family that differ by their seed, trained by any backend and kept as they are
finished.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from unplug.core import CheckpointError, InputError, TrainingError, json_sha256, temporary_folder
from unplug.sdk.evidence.fleet import (
    Context,
    FleetJob,
    Order,
    Result,
    has_result,
    job_fingerprint,
    pack,
    read_result,
    revive,
    run_jobs,
    write_result,
)
from unplug.sdk.evidence.fleet.job import resolve
from unplug.sdk.learning.training import ImageSet, Recipe, Task, fit_new, new_model

from .room import stack_width
from .stacked import fit_stacked

FitBackend = Literal["loop", "processes", "stacked", "ray"]
JOB = "benchmarks.studies.stacks.many:fit_job"
CONTEXT = "benchmarks.studies.stacks.many:fit_context"


@dataclass(frozen=True, kw_only=True)
class _FleetWork:
    """What the jobs share: built anew in each worker."""

    task: Task
    train: ImageSet
    validation: ImageSet


def fit_many(
    task: Task,
    train: ImageSet,
    validation: ImageSet,
    seeds: Sequence[int],
    out: Path,
    *,
    backend: FitBackend = "processes",
    workers: int | None = None,
    width: int | None = None,
    cluster: str | None = None,
    show: bool = False,
) -> list[nn.Module]:
    """Trains a model per seed, or reads those that are there: ``OUT/seed-N.safetensors`` of the
    same task and data.

    Args:
        task: with JSON-able fields and a `Recipe`, as `AgeTask` and `ClassTask` have.
        train, validation: on the device.
        seeds: all different.
        out: folder of the weights; a run that was killed goes on where it stood.
        backend: "loop" (one by one), "processes", "ray", or "stacked" (see `fit_stacked`).
        workers: of "processes" and "ray".
        width: of "stacked": models at once, which is also what a kill loses.
        cluster: of "ray": the address, or None for this machine.
        show: progress bar.

    Returns:
        The averaged models in eval mode on the device of `train`, in the order of `seeds`.

    Raises:
        InputError: a seed twice, or a task that cannot be written down.
        TrainingError: a training failed; the others are kept, of "stacked" those of finished
            stacks.
    """
    jobs = [FleetJob(name=f"seed-{seed}", target=JOB, arguments={"seed": seed}) for seed in seeds]
    if len(set(seeds)) < len(seeds):
        raise InputError("seeds", "one is given twice", "Give every model a seed of its own")
    facts = [_describe(task), *(_digest(part) for part in (train, validation)), torch.__version__]
    given = json_sha256(facts)
    missing = [job for job in jobs if not has_result(out, job.name, given)]
    failed: dict[str, str] = {}
    if backend == "stacked":
        _fit_stacked(task, train, validation, missing, out, given, width, show)
    elif missing:
        with _context(task, train, validation, in_file=backend != "ray") as context:
            summary = run_jobs(
                missing,
                context,
                out,
                backend=backend,
                workers=workers,
                show=show,
                fingerprint=given,
                cluster=cluster,
            )
        failed = summary.failed
    if failed:
        name, note = next(iter(failed.items()))
        raise TrainingError(
            f"{len(failed)} of {len(jobs)} models", f"{name} failed:\n{note}\n", "Run it again"
        )
    return [_load(task, train, out, job) for job in jobs]


def fit_job(work: _FleetWork, seed: int) -> Result:
    """Trains the model of one seed."""
    start = time.monotonic()
    fitted = fit_new(work.task, work.train, work.validation, seed=seed)
    return _result(fitted.model, seed, time.monotonic() - start)


def fit_context(task: dict[str, Any], device: str, path: str = "", data: str = "") -> _FleetWork:
    """Task and data on the device, from a file or from base64."""
    from safetensors.numpy import load

    where = torch.device(device)
    packed = Path(path).read_bytes() if path else base64.b64decode(data)
    arrays = load(packed)
    parts = [_revive(arrays, part, where) for part in ("train", "validation")]
    arguments = {**task["arguments"], "recipe": Recipe.from_dict(task["arguments"]["recipe"])}
    arguments = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in arguments.items()
    }
    built = cast(Task, resolve(task["target"])(**arguments))
    return _FleetWork(task=built, train=parts[0], validation=parts[1])


def _fit_stacked(
    task: Task,
    train: ImageSet,
    validation: ImageSet,
    jobs: Sequence[FleetJob],
    out: Path,
    given: str,
    width: int | None,
    show: bool,
) -> None:
    """As the jobs would, a stack after the other; each is written when it is finished."""
    if not jobs:
        return
    first = int(jobs[0].arguments["seed"])
    size = width or stack_width(new_model(task, train, first), train, task.recipe.batch_size)
    for start in range(0, len(jobs), size):
        part = jobs[start : start + size]
        seeds = [int(job.arguments["seed"]) for job in part]
        began = time.monotonic()
        models = fit_stacked(task, train, validation, seeds=seeds, show=show, width=width)
        seconds = (time.monotonic() - began) / len(part)
        for job, seed, model in zip(part, seeds, models, strict=True):
            order = Order(job=job, fingerprint=job_fingerprint(job, None, given), given=given)
            write_result(out, job.name, pack(_result(model, seed, seconds), order))


def _result(model: nn.Module, seed: int, seconds: float) -> Result:
    tensors = {name: value.detach().cpu().numpy() for name, value in model.state_dict().items()}
    return Result(tensors=tensors, facts={"seed": seed, "seconds": round(seconds, 3)})


def _load(task: Task, train: ImageSet, out: Path, job: FleetJob) -> nn.Module:
    result = read_result(out, job.name)
    if result.refused is not None:
        raise revive(result.refused)
    model = new_model(task, train, int(job.arguments["seed"]))
    own = model.state_dict()
    shapes = {name: tuple(value.shape) for name, value in own.items()}
    if shapes != {name: value.shape for name, value in result.tensors.items()}:
        raise CheckpointError(
            f"{out}/{job.name}",
            "it holds the weights of another network",
            "Remove it and train again",
        )
    model.load_state_dict({name: torch.from_numpy(value) for name, value in result.tensors.items()})
    return model.eval()


def _describe(task: Task) -> dict[str, Any]:
    """A task as JSON: its class and the fields it is made of."""
    kind = type(task)
    try:
        arguments = asdict(task)
        json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"task {kind.__name__}",
            f"it cannot be written down ({error})",
            "Make it a plain dataclass",
        ) from error
    return {"target": f"{kind.__module__}:{kind.__qualname__}", "arguments": arguments}


@contextmanager
def _context(
    task: Task, train: ImageSet, validation: ImageSet, *, in_file: bool
) -> Iterator[Context]:
    """The data for workers: in a file for those on this machine, inside the message for those
    elsewhere.
    """
    from safetensors.numpy import save

    packed = save(_arrays(train, "train") | _arrays(validation, "validation"))
    arguments = {"task": _describe(task), "device": str(train.device)}
    if not in_file:
        yield Context(
            target=CONTEXT, arguments={**arguments, "data": base64.b64encode(packed).decode()}
        )
        return
    with temporary_folder("unplug-fleet-") as folder:
        path = folder / "data.safetensors"
        path.write_bytes(packed)
        yield Context(target=CONTEXT, arguments={**arguments, "path": str(path)})


def _arrays(data: ImageSet, part: str) -> dict[str, np.ndarray[Any, Any]]:
    tensors: dict[str, Tensor] = {
        "image": data.image_NCHW,
        "age": data.age_N,
        "group": data.group_N,
    }
    arrays = {f"{part}/{name}": value.cpu().contiguous().numpy() for name, value in tensors.items()}
    ids = np.frombuffer("\n".join(data.ids).encode(), np.uint8)
    return arrays | {f"{part}/subject": np.ascontiguousarray(data.subject_N), f"{part}/ids": ids}


def _revive(arrays: dict[str, np.ndarray[Any, Any]], part: str, device: torch.device) -> ImageSet:
    def tensor(name: str) -> Tensor:
        return torch.from_numpy(arrays[f"{part}/{name}"].copy()).to(device)

    image_NCHW = tensor("image").contiguous(memory_format=torch.channels_last)
    ids = arrays[f"{part}/ids"].tobytes().decode()
    return ImageSet(
        ids=tuple(ids.split("\n")) if ids else (),
        image_NCHW=image_NCHW,
        age_N=tensor("age"),
        group_N=tensor("group"),
        subject_N=arrays[f"{part}/subject"],
    )


def _digest(data: ImageSet) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(_arrays(data, "").items()):
        digest.update(f"{name} {value.dtype} {value.shape}\n".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()
