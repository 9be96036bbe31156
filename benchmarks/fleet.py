"""Models per minute: a loop, worker processes and stacks, side by side in one run.

``python -m benchmarks.fleet --out FILE.json`` trains the same small models with the same seeds in
every way, each way once a round, so that a drifting clock or a busy machine does not favour one;
the ratios are taken within a round. Then it times one training step by itself: the models one by
one, by `torch.func.vmap`, and stacked with 1x1 convolutions grouped or as matrix products. With
CUDA there, all of it is done on the GPU as well.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from benchmarks.studies.stacks.many import fit_many
from benchmarks.studies.stacks.stacked import fit_stacked
from benchmarks.studies.stacks.stacking import side_by_side, stack
from unplug.core import cores, table, versions, write_json
from unplug.plugins import AGE_EDGES
from unplug.sdk.forgetting.tasks import AgeTask
from unplug.sdk.learning.training import (
    ImageSet,
    Recipe,
    autocast,
    describe_device,
    fit_new,
    new_model,
    synchronize,
)

SCHEMA = "unplug-fleet-bench/1"


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is trained: small enough for minutes, large enough that starting a process is not all of
    it.
    """

    size: str
    image_size: int
    samples: int
    batch_size: int
    epochs: int
    models: int


SIZES = {
    "cpu": Size(size="nano", image_size=32, samples=320, batch_size=32, epochs=3, models=8),
    "cuda": Size(size="small", image_size=64, samples=4096, batch_size=64, epochs=2, models=32),
}
STEPS = 4  # timed steps of each kind a round


def noise(size: Size, device: torch.device, seed: int) -> ImageSet:
    """Random pixels and ages: speed does not depend on what they show."""
    draw = np.random.default_rng(seed)
    pixels = torch.from_numpy(
        draw.integers(0, 256, (size.samples, 3, size.image_size, size.image_size), np.uint8)
    )
    group_N = torch.from_numpy(draw.integers(0, 10, size.samples))
    return ImageSet(
        ids=tuple(map(str, range(size.samples))),
        image_NCHW=pixels.to(device, memory_format=torch.channels_last),
        age_N=(group_N * 9.0 + 3.0).float().to(device),
        group_N=group_N.to(device),
        subject_N=np.arange(size.samples),
    )


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Lets torch use so many threads within the context."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


def ways(
    task: AgeTask, train: ImageSet, validation: ImageSet, size: Size
) -> dict[str, Callable[[], object]]:
    """How the models can be trained on the device of `train`."""
    seeds = range(size.models)

    def loop(count: int) -> None:
        with threads(count):
            for seed in seeds:
                fit_new(task, train, validation, seed=seed)

    def processes() -> None:
        with tempfile.TemporaryDirectory() as folder:
            fit_many(task, train, validation, seeds, Path(folder), backend="processes")

    def stacked(count: int) -> None:
        with threads(count):
            fit_stacked(task, train, validation, seeds=seeds)

    if train.age_N.device.type == "cuda":
        return {
            "loop": lambda: loop(1),
            f"processes, {cores()}": processes,
            "stacked": lambda: stacked(1),
        }
    return {
        "loop, all threads": lambda: loop(cores()),
        "loop, 1 thread": lambda: loop(1),
        f"processes, {cores()}": processes,
        "stacked, all threads": lambda: stacked(cores()),
        "stacked, 1 thread": lambda: stacked(1),
    }


def steps(task: AgeTask, train: ImageSet, size: Size) -> dict[str, Callable[[], object]]:
    """One forward and backward pass of all models, by four ways; without dropout, which `vmap`
    cannot draw model by model.
    """
    task = replace(task, recipe=replace(task.recipe, dropout=0.0))
    models = [new_model(task, train, seed).train() for seed in range(size.models)]
    device, batch_size = train.age_N.device, size.batch_size
    index = torch.arange(size.models * batch_size, device=device) % len(train)
    image_NCHW, label_N = train.batch(index).image_BCHW, train.group_N[index]

    def loss(outputs: dict[str, Tensor], label_B: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs["age_logits"].float(), label_B)

    def alone() -> None:
        for model, image, label in zip(
            models, image_NCHW.split(batch_size), label_N.split(batch_size), strict=True
        ):
            with autocast(device):
                outputs = model(image)
            loss(outputs, label).backward()

    parameters, buffers = stack_module_state(models)
    skeleton = new_model(task, train, 0).train().to("meta")

    def one(weights: Any, state: Any, image: Tensor, label: Tensor) -> Tensor:
        return loss(functional_call(skeleton, (weights, state), (image,)), label)

    def vmapped() -> None:
        images = image_NCHW.unflatten(0, (size.models, batch_size))
        with autocast(device):
            values = vmap(one)(parameters, buffers, images, label_N.view(size.models, -1))
        values.sum().backward()

    def together(net: nn.Module) -> None:
        with autocast(device):
            outputs = net(*side_by_side([image_NCHW], size.models))
        (loss(outputs, label_N) * size.models).backward()

    grouped, products = (stack(models, matmul=matmul).train() for matmul in (False, True))
    return {
        "one by one": alone,
        "vmap": vmapped,
        "stacked, grouped 1x1": lambda: together(grouped),
        "stacked, 1x1 as products": lambda: together(products),
    }


def measure(
    runs: dict[str, Callable[[], object]], rounds: int, device: torch.device, repeat: int = 1
) -> dict[str, list[float]]:
    """Seconds of each way in each round; one round before them warms up where a way is repeated."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + (repeat > 1)):
        for name, run in runs.items():
            synchronize(device)
            start = time.perf_counter()
            for _ in range(repeat):
                run()
            synchronize(device)
            if number or repeat == 1:
                seconds[name].append((time.perf_counter() - start) / repeat)
            click.echo(
                f"{device.type}: {name}: {(time.perf_counter() - start) / repeat:.3g} s", err=True
            )
    return seconds


def rows(
    seconds: dict[str, list[float]], reference: str, models: int, device: str, what: str
) -> list[dict[str, Any]]:
    """Median models a minute and the ratio to the reference within each round."""
    lines = []
    for name, values in seconds.items():
        ratios = [base / own for base, own in zip(seconds[reference], values, strict=True)]
        lines.append(
            {
                "device": device,
                "what": what,
                "way": name,
                "models": models,
                "seconds": values,
                "models_per_minute": 60 * models / statistics.median(values),
                "ratio": statistics.median(ratios),
                "ratio_min": min(ratios),
                "ratio_max": max(ratios),
                "reference": reference,
            }
        )
    return lines


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="JSON file.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option(
    "--models",
    type=click.IntRange(1),
    default=None,
    help="Models of each way.  [default: 8 on CPU, 32 on CUDA]",
)
@click.option("--epochs", type=click.IntRange(1), default=None)
@click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), multiple=True, help="[default: all there are]"
)
@click.option(
    "--one-thread",
    is_flag=True,
    help="Leave out what needs idle cores: on a busy machine threads wait for each other.",
)
def main(
    out: Path,
    rounds: int,
    models: int | None,
    epochs: int | None,
    device: tuple[str, ...],
    one_thread: bool,
) -> None:
    """Measures, prints a table and writes every time."""
    lines: list[dict[str, Any]] = []
    sizes: dict[str, Any] = {}
    for kind in device or ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
        base, place = SIZES[kind], torch.device(kind)
        size = Size(
            **{**asdict(base), "models": models or base.models, "epochs": epochs or base.epochs}
        )
        recipe = Recipe(
            size=size.size,
            image_size=size.image_size,
            epochs=size.epochs,
            batch_size=size.batch_size,
        )
        task = AgeTask(recipe=recipe, edges=tuple(map(float, AGE_EDGES)))
        train, validation = noise(size, place, 0), noise(size, place, 1).subset(range(64))
        sizes[kind] = asdict(size) | {"device": describe_device(place)}
        runs = ways(task, train, validation, size)
        runs = {
            name: run for name, run in runs.items() if not (one_thread and "all threads" in name)
        }
        lines += rows(measure(runs, rounds, place), next(iter(runs)), size.models, kind, "training")
        with threads(1):
            timed = measure(steps(task, train, size), rounds, place, STEPS)
        lines += rows(timed, "one by one", size.models, kind, "step")
    write_json(
        out,
        {"schema": SCHEMA, "sizes": sizes, "rounds": rounds, "rows": lines, "versions": versions()},
    )
    click.echo(
        table(
            ("device", "what", "way", "models/min", "ratio (range)"), [_cells(row) for row in lines]
        )
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    rate = f"{row['models_per_minute']:.1f}" if row["what"] == "training" else ""
    ratio = f"{row['ratio']:.2f} ({row['ratio_min']:.2f}-{row['ratio_max']:.2f})"
    return row["device"], row["what"], row["way"], rate, ratio


if __name__ == "__main__":
    main()
