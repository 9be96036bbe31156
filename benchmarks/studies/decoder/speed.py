"""Milliseconds of decoders that take turns: on this processor, and in a browser."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import click

from unplug.core import temporary_folder
from unplug.export import Artifact, export_checkpoint
from unplug.mobile_bench import Plan, bench_artifacts
from unplug.sdk.drawing.diffusion import shipped_folder

from .race import race
from .shared import keep, quick_option

ROUNDS = 40
BROWSED = Plan(threads=1, repeats=5, iterations=10, warmup=2)
RUNTIMES = {"litert": "LiteRT", "onnx": "ONNX Runtime"}


@click.command()
@quick_option
def speed(quick: Path) -> None:
    """Milliseconds of both decoders in turn, on one and two threads and on WebAssembly."""
    rows, folders = [], {"vae": shipped_folder("small/vae"), "quick": quick}
    with temporary_folder("unplug-decoders-") as out:
        for target, named in RUNTIMES.items():
            files = exported(folders, target, out)
            for threads in (1, 2):
                rows.append([named, str(threads), *told(*raced(files, target, threads).values())])
            rows.append([f"{named} Web, Chromium", "1", *told(*_browsed(list(files.values())))])
    head = ["runtime", "threads", "autoencoder's, ms", "quick, ms", "times as fast (quartiles)"]
    keep("speed", head, rows)


def exported(folders: Mapping[str, Path], target: str, out: Path) -> dict[str, Artifact]:
    """The fp32 file of one target that each decoder's folder exports to, by the decoder's name."""
    return {
        name: export_checkpoint(
            folder, targets=[target], precisions=["fp32"], out=out / target / name
        )[0]
        for name, folder in folders.items()
    }


def raced(files: Mapping[str, Artifact], target: str, threads: int) -> dict[str, list[float]]:
    """Milliseconds of each file's runs, which take turns in a process of their own: what a decoder
    takes, and not what carrying its picture to another process does.
    """
    paths = {name: str(item.path) for name, item in files.items()}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        seconds = alone.submit(race, paths, target, threads, (1, 8, 16, 16), ROUNDS).result()
    return {name: [1000 * one for one in own] for name, own in seconds.items()}


def _browsed(files: Sequence[Artifact]) -> list[list[float]]:
    """Milliseconds of each file's starts, of which the medians count."""
    report = bench_artifacts(files, on="web:headless", plan=BROWSED, delegates=["wasm"])
    return [
        [statistics.median(repeat.latencies_ms) for repeat in row.repeats] for row in report.rows
    ]


def told(own: Sequence[float], quick: Sequence[float]) -> list[str]:
    """Both medians, and how many times the second is as fast."""
    ratios = [a / b for a, b in zip(own, quick, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    medians = [f"{statistics.median(each):.1f}" for each in (own, quick)]
    return [*medians, f"{middle:.1f} ({low:.1f} to {high:.1f})"]
