"""``python -m benchmarks.on_gpu OUT``: what a GPU is needed for, in one sitting of some minutes.

``smoke``: every command with next to no steps. ``base``: the base that ships learns on, from its
weights. ``ship``: beside it the plugins and LoRA weights that ship. ``compare``: ControlNet,
T2I-Adapter and plugin of `studies compare` beside the base in OUT, or the one that ships; their
trainings share the GPU and are then found by that command. ``budgets``: the overhead of a residual
and the fleet. ``decoder``: quick decoders of three sizes. ``erasure``: the base that is taught five
concepts, the one that never saw the eye patch, and the table of erasure methods beside it. Every
line that runs is kept in OUT/commands.txt; what was finished is not done again, and what was killed
goes on.

Measured on an H200 with 16 cores, 2026-11-26: smoke 119 s, in which 30,000 faces were drawn as
well; 5,042 steps of 256 in 453 s, 60 to 110 ms a step beside other work (40 ms alone, on random
latents); the overhead 96 s. ``ship`` and ``compare`` only in small there; ``--stage compare --sizes
cpu --device cpu --workers 2`` is what docs/results/comparison.md shows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks.studies.control import (
    JUDGE_RECIPE,
    CompareRequest,
    Contender,
    contender,
    make_reader,
    prepare,
)
from benchmarks.studies.erasure.taught import folder_of
from unplug.core import use_threads
from unplug.plugins import DECODER_SIZES
from unplug.sdk.drawing.diffusion import ControlRecipe
from unplug.sdk.forgetting.erasing import ERASURES

STAGES = ("smoke", "base", "ship", "compare", "budgets", "decoder", "erasure")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much of everything.

    Args:
        faces, base, batch: of the base's training: pictures, steps, pictures a step.
        control_faces: of the controls'.
        search, steps, controlnet: steps of a training that chooses rates, of the others, and of
            ControlNet.
        ship: steps of the plugins that ship.
        lora: of the LoRA.
        decoder: steps of each quick decoder.
        judge: steps of the comparison's judge.
        seeds, pictures: of the comparison.
        control_batch: pictures a step of its trainings.
        threads: of each of its workers.
        taught: steps of the base that is taught concepts.
        erasures: seeds of the erasures.
        presence: steps of the judges that see a concept.
        erasing: methods of the table; none stands for all.
        cell: pictures of an erased base in each row.
    """

    faces: int = 30_000
    base: int = 5000
    batch: int = 256
    control_faces: int = 12_000
    search: int = 800
    steps: int = 1500
    controlnet: int = 3000
    ship: int = 1500
    lora: int = 600
    decoder: int = 20_000
    judge: int = JUDGE_RECIPE.steps
    seeds: int = 3
    pictures: int = 256
    control_batch: int = 32
    threads: int = 2
    taught: int = 1800
    erasures: int = 2
    presence: int = 500
    erasing: tuple[str, ...] = ()
    cell: int = 200

    @property
    def base_data(self) -> str:
        """Faces that no training and no page has seen."""
        return f"synth:n={self.faces},subjects={self.faces},seed=8"

    @property
    def control_data(self) -> str:
        """Of the trainings beside the base."""
        return f"synth:n={self.control_faces},subjects={self.control_faces},seed=5"


QUICK = Sizes(
    faces=96,
    base=2,
    batch=8,
    control_faces=240,
    search=2,
    steps=3,
    controlnet=4,
    ship=2,
    lora=2,
    decoder=2,
    judge=2,
    seeds=2,
    pictures=8,
    taught=2,
    erasures=1,
    presence=4,
    erasing=("uce",),
    cell=8,
)
SIZES = {
    "gpu": Sizes(),
    "cpu": Sizes(search=1500, steps=3000, controlnet=3000, control_batch=8, threads=1, cell=48),
    "quick": QUICK,
}
"""By name; "cpu" has a comparison that two cores finish in about three hours by its trainings'
times.
"""


class Runner:
    """Runs commands beside one another; each has a log in OUT, and a name under which it is
    finished once.

    Args:
        out: where logs go. device: "cuda" or "cpu".
    """

    def __init__(self, out: Path, device: str) -> None:
        self.out, self.device, self.started = out, device, time.monotonic()
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def say(self, text: str) -> None:
        click.echo(f"[{time.monotonic() - self.started:5.0f} s] {text}")

    def start(self, name: str, words: str, *paths: object) -> None:
        """Starts ``python -m WORDS PATHS`` unless it was finished in OUT."""
        line = [sys.executable, "-m", *words.split(), *map(str, paths)]
        if (self.out / f"{name}.done").exists():
            return
        with (self.out / "commands.txt").open("a", encoding="utf-8") as commands:
            commands.write(" ".join(["python", *line[1:]]) + "\n")
        with (self.out / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(line, stdout=log, stderr=subprocess.STDOUT)

    def train(self, name: str, base: str, words: str) -> None:
        """A training of the command line, whose result goes to OUT/NAME."""
        paths = ("--half", "--device", self.device, "--out", self.out / name)
        self.start(name, f"unplug.sdk.cli train {words}", *(base and ("--base", base)), *paths)

    def compare(self, asked: CompareRequest) -> None:
        """The comparison that a request asks for."""
        self.start("compare", compare_words(asked), "--device", self.device, *paths_of(asked))
        self.wait("compare")

    def wait(self, *names: str) -> None:
        """Until they have ended; one that failed ends everything, and each that did shows the end
        of its log.
        """
        codes = {name: self.running.pop(name).wait() for name in names if name in self.running}
        for name, code in codes.items():
            self.say(f"{name}: {'done' if code == 0 else f'exit {code}'}")
            if code == 0:
                (self.out / f"{name}.done").touch()
            else:
                click.echo((self.out / f"{name}.log").read_text(errors="replace")[-2500:])
        if any(codes.values()):
            raise SystemExit(1)


def request(base: str, sizes: Sizes, out: Path) -> CompareRequest:
    """What ``compare`` asks of `benchmarks.studies compare`: all three controls on canny, and a
    search of ControlNet's rates.

    Args:
        base: name or folder of the base beside which all are trained.
        sizes: how many steps, seeds and pictures.
        out: where trainings, pictures and the report go.
    """
    recipe = ControlRecipe(
        steps=sizes.steps, batch_size=sizes.control_batch, warmup=min(100, sizes.search)
    )
    return CompareRequest(
        base=base,
        spec=sizes.control_data,
        condition="canny",
        out=out,
        recipe=recipe,
        lrs={"controlnet": (3e-4, 1e-3), "t2i-adapter": (3e-3,), "plugin": (4e-3,)},
        zero_rates={"controlnet": (1.0, 10.0)},
        steps={"controlnet": sizes.controlnet},
        search_steps=sizes.search,
        curve_every=max(1, sizes.search // 4),
        seeds=sizes.seeds,
        pictures=sizes.pictures,
        rounds=5,
        judge=replace(JUDGE_RECIPE, steps=sizes.judge),
    )


def compare_words(asked: CompareRequest) -> str:
    """A `request` as arguments of ``python -m``, but for its `paths_of`."""

    def pairs(option: str, by: Mapping[str, Sequence[float]]) -> str:
        return " ".join(
            f"--{option} {name}={','.join(f'{one:g}' for one in some)}" for name, some in by.items()
        )

    steps = {name: (count,) for name, count in asked.steps.items()}
    recipe = asked.recipe
    return (
        f"benchmarks.studies compare --condition {asked.condition} --data {asked.spec} "
        f"--steps {recipe.steps} --batch-size {recipe.batch_size} --warmup {recipe.warmup} "
        f"{pairs('lr', asked.lrs)} {pairs('zero-rate', asked.zero_rates)} "
        f"{pairs('control-steps', steps)} --search-steps {asked.search_steps} "
        f"--curve-every {asked.curve_every} --seeds {asked.seeds} --pictures {asked.pictures} "
        f"--rounds {asked.rounds} --judge-steps {asked.judge.steps}"
    )


def paths_of(asked: CompareRequest) -> tuple[object, ...]:
    """What a `request` names of files."""
    return "--base", asked.base, "--out", asked.out


_SETUP: Any = None


def _open(asked: CompareRequest, device: str, threads: int) -> None:
    global _SETUP
    use_threads(threads)
    _SETUP = prepare(asked, device=torch.device(device), show=False, say=lambda _: None)


def _train(
    name: str, seed: int, lr: float, zero_rate: float, search: bool
) -> tuple[str, float, float, float]:
    made: Contender = contender(_SETUP, name, seed, lr, zero_rate, search=search)
    assert made.training.validation is not None, "rates are chosen by it"
    return name, lr, zero_rate, made.training.validation


def train_beside(asked: CompareRequest, runner: Runner, workers: int, threads: int) -> None:
    """All trainings of the comparison, several at once: first those that choose ControlNet's rates,
    then its own.
    """
    rest = [
        (name, seed, *asked.trials_of(name)[0], False)
        for seed in asked.training_seeds
        for name in ("t2i-adapter", "plugin")
    ]
    pool = ProcessPoolExecutor(
        workers, get_context("spawn"), _open, (asked, runner.device, threads)
    )
    with pool:
        trials = [
            pool.submit(_train, "controlnet", 0, *trial, True)
            for trial in asked.trials_of("controlnet")
        ]
        jobs: list[Future[Any]] = [pool.submit(_train, *job) for job in rest[:2]]
        tried = [trial.result() for trial in trials]
        for _, lr, zero_rate, loss in tried:
            runner.say(
                f"controlnet, rate {lr:g}, zero kernels times {zero_rate:g}: validation {loss:.4f}"
            )
        best = min(tried, key=lambda one: one[3])
        jobs += [
            pool.submit(_train, "controlnet", seed, best[1], best[2], False)
            for seed in asked.training_seeds
        ]
        jobs += [pool.submit(_train, *job) for job in rest[2:]]
        for job in as_completed(jobs):
            name, lr, _, loss = job.result()
            runner.say(f"{name}, rate {lr:g}: validation {loss:.4f}")


def smoke(out: Path, device: str) -> None:
    """Every command with next to no steps: what breaks breaks now."""
    tiny = out / "smoke"
    tiny.mkdir(exist_ok=True)
    runner = Runner(tiny, device)
    train(runner, QUICK)
    ship(runner, QUICK)
    runner.compare(request(base_in(tiny), QUICK, tiny / "compare"))


def warm(sizes: Sizes, out: Path, device: str) -> None:
    """Fills the cache with the comparison's faces, conditions, latents and judge, which its workers
    then only read.
    """
    setup = prepare(
        request("small", sizes, out / "none"),
        device=torch.device(device),
        show=False,
        say=lambda _: None,
    )
    make_reader(setup)


def train(runner: Runner, sizes: Sizes) -> None:
    """The base, from the weights that ship."""
    words = f"base --start small --data {sizes.base_data} --vae-steps 1 --steps {sizes.base}"
    more = f"--batch-size {sizes.batch} --lr 0.0006 --sample-every 0"
    runner.train("base", "", f"{words} {more}")
    runner.wait("base")


def base_in(out: Path) -> str:
    """The base that was trained there; else the one that ships."""
    return str(out / "base") if (out / "base").is_dir() else "small"


def ship(runner: Runner, sizes: Sizes) -> None:
    """Plugins and LoRA weights beside the base; landmarks need MediaPipe and no GPU."""
    base, data = base_in(runner.out), sizes.control_data
    for name, more in (("canny", "--clutter 0.5"), ("depth", "")):
        words = f"plugin --kind {name} --start {name} --data {data} --steps {sizes.ship} {more}"
        runner.train(name, base, f"{words} --batch-size 32 --lr 0.0015 --sample-every 0")
    students = {
        "four-steps": "--drawn-steps 4",
        "two-steps": "--drawn-steps 2 --substeps 12 --lr 0.0003",
    }
    for name, how in students.items():
        runner.train(name, base, f"student --data {data} {how} --rank 16 --steps {sizes.lora}")
    runner.wait("canny", "depth", *students)


def compare(runner: Runner, out: Path, named: str, workers: int) -> None:
    """Trains ControlNet, T2I-Adapter and plugin beside one frozen base, then measures them with
    `studies compare`.
    """
    sizes = SIZES[named]
    asked = request(base_in(out), sizes, out / "compare")
    words = f"--stage warm --device {runner.device} --sizes {named}"
    runner.start("warm", f"benchmarks.on_gpu {words}", out)
    runner.wait("warm")
    train_beside(asked, runner, workers, sizes.threads)
    runner.compare(asked)


def budgets(runner: Runner, *, quick: bool) -> None:
    """One after the other: their times must not share the GPU."""
    overhead = "--dtype fp32 --rounds 1 --quick" if quick else "--dtype fp16 --rounds 3"
    fleet = "--rounds 1 --epochs 1" + (" --models 2" if quick else "")
    for name, words in (("overhead", f"--no-check {overhead}"), ("fleet", fleet)):
        out = runner.out / f"{name}-gpu.json"
        runner.start(name, f"benchmarks.{name} --device {runner.device} {words}", "--out", out)
        runner.wait(name)


def decoders(runner: Runner, sizes: Sizes) -> None:
    """Quick decoders of every size, beside one another."""
    data = f"--data {sizes.control_data} --steps {sizes.decoder} --drawn {min(2000, sizes.faces)}"
    names = {f"decoder-{size}": f"decoder {data} --size {size}" for size in DECODER_SIZES}
    for name, words in names.items():
        runner.train(name, base_in(runner.out), words)
    runner.wait(*names)


def erasure(runner: Runner, sizes: Sizes, minutes: float | None) -> None:
    """`small-taught`, its oracle for the eye patch, and every method on it; cells that do not fit
    into the minutes are left for the next run.
    """
    study, word = runner.out / "erasure", "eye patch"
    start, device = "benchmarks.studies erasure", ("--device", runner.device)
    some = ("--steps", sizes.taught, "--pictures", sizes.cell, *device, "--seed", 1, "--out", study)
    judges = ("--judge-steps", sizes.presence)
    runner.start("taught", f"{start} taught", *some, *judges)
    runner.wait("taught")
    runner.start("oracle", f"{start} taught", "--without", word, *some, *judges)
    runner.wait("oracle")
    named = [part for name in sizes.erasing or sorted(ERASURES) for part in ("--method", name)]
    base, oracle = (folder_of(study, without) for without in ((), (word,)))
    asked = ("--concept", word, "--oracle", f"{word}={oracle}", "--base", base, *named, *device)
    cells = ("--seeds", sizes.erasures, "--pictures", sizes.cell, "--plugin", "canny")
    left = () if minutes is None else ("--minutes", minutes)
    runner.start("erasures", f"{start} table", *asked, *cells, *left, "--out", study / "table")
    runner.wait("erasures")


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--stage", "stages", type=click.Choice([*STAGES, "warm"]), multiple=True, help="[default: all]"
)
@click.option("--device", default="cuda", show_default=True)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=6,
    show_default=True,
    help="Trainings of the comparison at once.",
)
@click.option(
    "--sizes",
    "named",
    type=click.Choice(list(SIZES)),
    default="gpu",
    show_default=True,
    help="How much; quick has next to no steps and shows that it runs.",
)
@click.option("--minutes", type=float, help="Of the table of erasures: no new cell after them.")
def main(
    out: Path,
    stages: tuple[str, ...],
    device: str,
    workers: int,
    named: str,
    minutes: float | None,
) -> None:
    """Trains what ships and measures what only a GPU can."""
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    out.mkdir(parents=True, exist_ok=True)
    sizes, runner = SIZES[named], Runner(out, device)
    todo = {
        "smoke": lambda: smoke(out, device),
        "base": lambda: train(runner, sizes),
        "ship": lambda: ship(runner, sizes),
        "compare": lambda: compare(runner, out, named, workers),
        "budgets": lambda: budgets(runner, quick=named == "quick"),
        "decoder": lambda: decoders(runner, sizes),
        "erasure": lambda: erasure(runner, sizes, minutes),
        "warm": lambda: warm(sizes, out, device),
    }
    for stage in stages or STAGES:
        runner.say(f"stage {stage}")
        todo[stage]()
    runner.say("all done")


if __name__ == "__main__":
    main()
