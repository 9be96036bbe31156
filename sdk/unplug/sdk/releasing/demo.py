"""``unplug demo``: the whole journey, from faces to a bundle and an HTML report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from unplug.core import CheckpointError, GateFailed, atomic_path, one_writer, read_json
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.data import Dataset, OnBad, load_dataset, make_split, pick_forget, read_forget_file
from unplug.sdk.report import write_report
from unplug.sdk.tasks import train_age
from unplug.sdk.training import Recipe, split_of

from .gates import Gates, ReleaseConfig
from .pipeline import Release, release

DEMO_SPEC = "synth:n=2400,subjects=800,seed=0"
DEMO_RECIPE = Recipe(
    size="nano", image_size=48, epochs=20, batch_size=64, augment="flip", dropout=0.0, lr=6e-3, weight_decay=0.05
)
"""Light augmentation on purpose: the demo's original must remember its training faces, or there is nothing to forget."""
DEMO_FRACTION = 0.1
"""Of the training samples, in whole people: with fewer, the audit's intervals are as wide as what it looks for."""
DEMO_BUDGET = 0.25
"""Five times a release's: 5 % of the demo's short training is some forty steps, too few to mend what forgetting breaks."""
DEMO_GATES = Gates(max_mae_above_retrained=1.5, max_compute=DEMO_BUDGET)
"""Half a year looser than a release, for the same reason."""
DEMO_METHOD, DEMO_OPTIONS = "fcs", {"flatten_lr": "0.01"}
"""The widest margin on five originals; another processor's rounding makes one more: docs/forgetting.md."""


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """What the demo does.

    Args:
        spec: data spec.
        on_bad: see `load_dataset`.
        recipe: of the original.
        fraction: of the training set that is forgotten.
        release: how to forget, audit, export and bench; without what export did to the edit, which takes a minute more.
        seed: of everything random.
    """

    spec: str = DEMO_SPEC
    on_bad: OnBad = "error"
    recipe: Recipe = DEMO_RECIPE
    fraction: float = DEMO_FRACTION
    release: ReleaseConfig = field(
        default_factory=lambda: ReleaseConfig(
            method=DEMO_METHOD, options=DEMO_OPTIONS, budget=DEMO_BUDGET, bench_iterations=200, gates=DEMO_GATES, rounding=False
        )
    )
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Where the demo's results are."""

    report: Path
    bundle: Path | None
    summary: dict[str, Any]
    seconds: float
    refusal: GateFailed | None


@one_writer
def run_demo(
    config: DemoConfig, out: Path, *, device: torch.device, say: Callable[[str], None], show: bool = True, restart: bool = False
) -> Demo:
    """Walks the journey; models that an earlier, killed run left in `out` are used again.

    Args:
        config: see `DemoConfig`.
        out: folder for everything.
        device: where to compute.
        say: called with one line a stage.
        show: progress bars.
        restart: drop unfinished trainings in `out` instead of continuing them.

    Returns:
        The report is written also when a gate refuses the release; ``refusal`` then says why.
    """
    started = time.perf_counter()
    say(f"data {config.spec} at {config.recipe.image_size} px ...")
    dataset = load_dataset(config.spec, config.recipe.image_size, on_bad=config.on_bad, show=show)
    original = _original(config, dataset, out / "original", device, say, show, restart)
    forget_file = out / "forget.txt"
    names = pick_forget(dataset, split_of(original), fraction=config.fraction, seed=config.seed)
    with atomic_path(forget_file) as temporary:
        temporary.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    ids = read_forget_file(forget_file, dataset)
    say(f"a request to forget {len(ids)} of {len(split_of(original).train)} training samples: {forget_file}")
    refusal: GateFailed | None = None
    done: Release | None = None
    try:
        done = release(
            original, dataset, ids, out / "face-age.unplug", out, config.release, device=device, say=say, show=show,
            restart=restart,
        )  # fmt: skip
    except GateFailed as error:
        refusal = error
    reports = done.reports if done else tuple(_existing_reports(out))
    say("report ...")
    report = out / "report.html"
    write_report(reports, report, title="unplug demo")

    return Demo(
        report=report, bundle=done.bundle if done else None, summary=read_json(out / "release.json"),
        seconds=time.perf_counter() - started, refusal=refusal,
    )  # fmt: skip


def _original(
    config: DemoConfig,
    dataset: Dataset,
    path: Path,
    device: torch.device,
    say: Callable[[str], None],
    show: bool,
    restart: bool,
) -> Checkpoint:
    split = make_split(dataset, seed=config.seed)
    with contextlib.suppress(CheckpointError):
        found = load_checkpoint(path, expect="age")
        record = found.record
        same = (record.get("recipe"), record.get("seed"), record.get("split", {}).get("sha256"))
        if same == (config.recipe.to_dict(), config.seed, split.sha256):
            say(f"original: {path} is there already")
            return found
    say(f"train the original ({config.recipe.size}, {config.recipe.epochs} epochs, {len(split.train)} faces) ...")
    return train_age(dataset, split, config.recipe, path, seed=config.seed, device=device, show=show, restart=restart)


def _existing_reports(out: Path) -> list[Path]:
    names = ("release", "audit", "parity", "bench", "faces")
    found = [out / f"{name}.json" for name in names]
    found += [out / role / "unplug.json" for role in ("original", "unlearned", "retrained")]
    found += sorted((out / "artifacts").glob("*.json"))
    return [path for path in found if path.is_file()]
