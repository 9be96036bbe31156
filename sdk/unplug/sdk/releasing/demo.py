"""``unplug demo``: the whole journey, from faces to a bundle and an HTML report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from unplug.core import CheckpointError, GateFailed, atomic_path, one_writer, read_json, write_json
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.evidence.auditing import CheckpointPredictor, audit
from unplug.sdk.forgetting.tasks import task_of, train_age
from unplug.sdk.forgetting.unlearning import build_design, forget, request_split, slow_clock
from unplug.sdk.learning.data import (
    Dataset,
    OnBad,
    Split,
    load_dataset,
    make_split,
    pick_forget,
    read_forget_file,
)
from unplug.sdk.learning.training import Recipe, split_of
from unplug.sdk.report import write_report

from .gates import Gates, forgetting_gates
from .pipeline import Release, release
from .release_config import ReleaseConfig

DEMO_SPEC = "synth:n=2400,subjects=800,seed=0"
DEMO_TRUNK = "synth:n=2400,subjects=2400,seed=1"
"""Other people, who agreed for good: what the trunk is trained on. Nobody of them is in
`DEMO_SPEC`.
"""
DEMO_RECIPE = Recipe(
    size="nano",
    image_size=64,
    epochs=12,
    batch_size=64,
    augment="flip",
    dropout=0.0,
    lr=6e-3,
    weight_decay=0.05,
)
"""Light augmentation on purpose: the ordinary model must remember its training faces, or there is
nothing to forget.
"""
DEMO_RELEASE = ReleaseConfig(
    precisions=("fp16",), bench_iterations=200, rounding=False, audit="full"
)
"""What ships, alone: twice the files are a minute more."""
DEMO_METHOD, DEMO_BUDGET = "fcs", 0.05
"""The approximate way, compared with the exact one, at a release's own budget."""
ONE_PERSON = 1e-9
"""The share of the training set that is one person: `pick_forget` takes one at least."""


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """What the demo does.

    Args:
        spec: data spec of personal pictures.
        trunk_spec: the pictures for the trunk of a model made to forget; None trains an ordinary
            model instead, and releases it by a method of `release`.
        on_bad: see `load_dataset`.
        recipe: the recipe of the trunk and of the ordinary model.
        fraction: the fraction of the training set to forget, in whole people.
        release: how to forget, audit, export and bench; without what export did to the edit.
        seed: the seed of everything random.
    """

    spec: str = DEMO_SPEC
    trunk_spec: str | None = DEMO_TRUNK
    on_bad: OnBad = "error"
    recipe: Recipe = DEMO_RECIPE
    fraction: float = ONE_PERSON
    release: ReleaseConfig = DEMO_RELEASE
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way of forgetting the same request, as a line of the demo's table.

    Args:
        model, method: the model trained, and how it forgot.
        wall_s: the seconds of the forget step.
        compute_fraction: the compute, as a fraction of retraining.
        test_mae: years, before and after forgetting.
        error: mean error on the forgotten pictures, in years: before, after, and of the same
            training without them.
        verdict: the verdict on it.
    """

    model: str
    method: str
    wall_s: float
    compute_fraction: float
    test_mae: tuple[float, float]
    error: tuple[float, float, float]
    verdict: str


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Where the demo's results are; `ways` has the exact and the approximate way, where both were
    walked.
    """

    report: Path
    bundle: Path | None
    summary: dict[str, Any]
    seconds: float
    refusal: GateFailed | None
    ways: tuple[Way, ...] = ()


@one_writer
def run_demo(
    config: DemoConfig,
    out: Path,
    *,
    device: torch.device,
    say: Callable[[str], None],
    show: bool = True,
    restart: bool = False,
) -> Demo:
    """Walks the journey; models that an earlier, killed run left in `out` are used again.

    Args:
        config: see `DemoConfig`.
        out: folder for everything.
        device: the device to compute on.
        say: called with one line a stage.
        show: progress bars.
        restart: drop unfinished trainings in `out` instead of continuing them.

    Returns:
        The report is written also when a gate refuses the release; ``refusal`` then says why.
    """
    started = time.perf_counter()
    say(f"data {config.spec} at {config.recipe.image_size} px ...")
    dataset = load_dataset(config.spec, config.recipe.image_size, on_bad=config.on_bad, show=show)
    trained = _Trained(
        config=config, dataset=dataset, device=device, say=say, show=show, restart=restart
    )
    original = trained.original(out / "original")
    ids = _request(trained, original, out / "forget.txt")
    refusal: GateFailed | None = None
    done: Release | None = None
    try:
        done = release(
            original,
            dataset,
            ids,
            out / "face-age.unplug",
            out,
            config.release,
            say=say,
            foresee=False,
            **trained.how,
        )
    except GateFailed as error:
        refusal = error
    ways: tuple[Way, ...] = ()
    if done and config.trunk_spec:
        ways = (_exact_way(out), trained.approximate(ids, out / "approximate"))
    say("report ...")
    report = out / "report.html"
    write_report(done.reports if done else _existing_reports(out), report, title="unplug demo")
    seconds = time.perf_counter() - started
    if ways:
        facts = {
            "schema": "unplug-demo/1",
            "ways": [asdict(way) for way in ways],
            "seconds": seconds,
        }
        write_json(out / "approximate" / "demo.json", facts)
    return Demo(
        report=report,
        bundle=done.bundle if done else None,
        summary=read_json(out / "release.json"),
        seconds=seconds,
        refusal=refusal,
        ways=ways,
    )


def _request(trained: _Trained, original: Checkpoint, path: Path) -> tuple[str, ...]:
    """The people that the demo forgets: picked, written into a forget file, and read from it."""
    config, dataset, split = trained.config, trained.dataset, split_of(original)
    names = pick_forget(dataset, split, fraction=config.fraction, seed=config.seed)
    with atomic_path(path, private=True) as temporary:
        temporary.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    ids = read_forget_file(path, dataset)
    trained.say(f"a request to forget {len(ids)} of {len(split.train)} training samples: {path}")
    return ids


@dataclass(frozen=True, kw_only=True)
class _Trained:
    """The demo's trainings; what an earlier run left is taken where it is the same."""

    config: DemoConfig
    dataset: Dataset
    device: torch.device
    say: Callable[[str], None]
    show: bool
    restart: bool

    @property
    def how(self) -> dict[str, Any]:
        """The device, progress bars and restart, which every training is given alike."""
        return {"device": self.device, "show": self.show, "restart": self.restart}

    def original(self, path: Path) -> Checkpoint:
        """A model made to forget where there is data for a trunk, else an ordinary one."""
        config = self.config
        if config.trunk_spec is None:
            return self.ordinary(path)
        split = make_split(self.dataset, seed=config.seed)
        if (known := self._found(path, split)) is not None:
            return known
        self.say(
            f"data {config.trunk_spec} for a trunk: other people, none of whom may ask to be "
            "forgotten ..."
        )
        trunk_data = load_dataset(config.trunk_spec, config.recipe.image_size, show=self.show)
        self.say(
            f"train the trunk ({config.recipe.epochs} epochs), then a head on {len(split.train)} "
            "faces ..."
        )
        return build_design("closed-form").train(
            self.dataset,
            split,
            config.recipe,
            path,
            trunk_data=trunk_data,
            seed=config.seed,
            **self.how,
        )

    def ordinary(self, path: Path) -> Checkpoint:
        """A network trained on the personal pictures themselves."""
        config, split = self.config, make_split(self.dataset, seed=self.config.seed)
        if (known := self._found(path, split)) is not None:
            return known
        self.say(
            f"train {path.name} ({config.recipe.size}, {config.recipe.epochs} epochs, "
            f"{len(split.train)} faces) ..."
        )
        return train_age(
            self.dataset,
            split,
            config.recipe,
            path,
            seed=config.seed,
            **self.how,
        )

    def _found(self, path: Path, split: Split) -> Checkpoint | None:
        with contextlib.suppress(CheckpointError):
            checkpoint = load_checkpoint(path, expect="age")
            record = checkpoint.record
            same = (record.get("recipe"), record.get("seed"), record.get("split", {}).get("sha256"))
            if same == (self.config.recipe.to_dict(), self.config.seed, split.sha256):
                self.say(f"{path.name}: {path} is there already")
                return checkpoint
        return None

    def approximate(self, ids: tuple[str, ...], out: Path) -> Way:
        """The same request on an ordinary model, by a method at a release's budget, and what its
        gates say.
        """
        config = self.config
        original = self.ordinary(out / "ordinary")
        options = {**self.how, "seed": config.seed}
        self.say("retrain it without the forgotten ...")
        oracle = forget(original, self.dataset, ids, "retrain", out / "retrained", **options)
        self.say(f"forget by {DEMO_METHOD} ...")
        unlearned = forget(
            original,
            self.dataset,
            ids,
            DEMO_METHOD,
            out / "unlearned",
            budget=DEMO_BUDGET,
            oracle=oracle,
            **options,
        )
        if (slow := slow_clock(unlearned.record["forget"]["cost"])) is not None:
            self.say(slow)
        task = task_of(original, device=self.device, base=None)
        split = request_split(original, self.dataset, ids)
        sets = task.sets(self.dataset, split, self.device, show=self.show)
        models = {"original": original, "unlearned": unlearned, "retrained": oracle}
        report = audit(
            [
                CheckpointPredictor(name=role, role=role, checkpoint=checkpoint, task=task)  # type: ignore[arg-type]
                for role, checkpoint in models.items()
            ],
            sets,
            split,
            edges=task.edges,
            data={"spec": self.dataset.spec, "digest": self.dataset.digest},
            seed=config.seed,
            show=self.show,
        )
        report.save(out / "audit.json")
        failed = [gate for gate in forgetting_gates(Gates(), report) if not gate.passed]
        if refused := [gate for gate in failed if not gate.inconclusive]:
            return _way("ordinary", out, f"refused: {refused[0].explain()}")
        return _way(
            "ordinary", out, f"inconclusive: {failed[0].detail}" if failed else "equivalent"
        )


def _exact_way(out: Path) -> Way:
    return _way("made to forget", out, "equal to the model that never saw them, bit for bit")


def _way(model: str, folder: Path, verdict: str) -> Way:
    """Reads a way from the audit and the record of the forget step in a folder."""
    rows = {
        row["role"]: row
        for row in read_json(folder / "audit.json")["models"]
        if row["role"] != "artifact"
    }
    step = read_json(folder / "unlearned" / "unplug.json")["forget"]
    before, after, without = (
        {part: rows[role]["utility"][part]["mae"]["value"] for part in ("test", "forget")}
        for role in ("original", "unlearned", "retrained")
    )
    return Way(
        model=model,
        method=step["method"],
        wall_s=step["cost"]["wall_s"],
        compute_fraction=step["cost"]["compute_fraction"],
        test_mae=(before["test"], after["test"]),
        error=(before["forget"], after["forget"], without["forget"]),
        verdict=verdict,
    )


def _existing_reports(out: Path) -> list[Path]:
    names = ("release", "audit", "parity", "bench", "faces")
    paths = [out / f"{name}.json" for name in names]
    paths += [out / role / "unplug.json" for role in ("original", "unlearned", "retrained")]
    paths += sorted((out / "artifacts").glob("*.json"))
    return [path for path in paths if path.is_file()]
