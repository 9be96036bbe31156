"""One tiny trained model, its oracle and what came of them, made once a session; tests must not
write to these files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from tests.once import once

from unplug.export import Artifact, load_artifact
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.forgetting.tasks import train_age
from unplug.sdk.forgetting.unlearning import forget
from unplug.sdk.learning.data import (
    Dataset,
    Split,
    load_dataset,
    make_split,
    pick_forget,
    resolve_names,
)
from unplug.sdk.learning.training import Recipe, Sets, load_sets
from unplug.sdk.releasing import Gates, Release, ReleaseConfig, release

SPEC = "synth:n=240,subjects=80,seed=0"
RECIPE = Recipe(
    size="nano", image_size=32, epochs=3, batch_size=32, augment="flip", dropout=0.0, lr=6e-3
)
CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class World:
    """What most tests start from."""

    spec: str
    dataset: Dataset
    split: Split
    forget_ids: tuple[str, ...]
    forget_file: Path
    original: Checkpoint
    oracle: Checkpoint
    unlearned: Checkpoint
    sets: Sets


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny networks are slower on two threads than on one, and others use this machine too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # what the steps go by
        yield
    torch.set_num_threads(before)


def train_world(root: Path) -> None:
    """The files of `World`."""
    dataset = load_dataset(SPEC, RECIPE.image_size, show=False)
    split = make_split(dataset)
    original = train_age(dataset, split, RECIPE, root / "original", seed=0, device=CPU, show=False)
    names = pick_forget(dataset, split, fraction=0.15, seed=0)
    (root / "forget.txt").write_text("".join(f"{name}\n" for name in names))
    ids = resolve_names(names, dataset, "test")
    oracle = forget(
        original, dataset, ids, "retrain", root / "retrained", seed=5, device=CPU, show=False
    )
    forget(
        original,
        dataset,
        ids,
        "msg",
        root / "unlearned",
        budget=0.6,
        oracle=oracle,
        seed=0,
        device=CPU,
        show=False,
    )


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = once(tmp_path_factory, "world", train_world)
    dataset = load_dataset(SPEC, RECIPE.image_size, show=False)
    split, file = make_split(dataset), root / "forget.txt"
    ids = resolve_names(file.read_text().split(), dataset, "test")
    original, oracle, unlearned = (
        load_checkpoint(root / role) for role in ("original", "retrained", "unlearned")
    )
    edges = tuple(original.model.age_edges)
    return World(
        spec=SPEC,
        dataset=dataset,
        split=split,
        forget_ids=ids,
        forget_file=file,
        original=original,
        oracle=oracle,
        unlearned=unlearned,
        sets=load_sets(dataset, split.with_forget(ids), edges, CPU),
    )


OPEN = Gates(
    max_auc_above_retrained=1.0,
    max_auc_below_retrained=1.0,
    max_mae_above_retrained=100.0,
    max_accuracy_below_retrained=1.0,
    worst_person=False,
    max_compute=0.6,
    max_artifact_auc_shift=0.05,
)
"""Gates that a model of three epochs passes."""

QUICK = ReleaseConfig(
    budget=0.6,
    references=1,
    targets=("litert",),
    precisions=("fp32",),
    gates=OPEN,
    bench_iterations=3,
    bench_repeats=2,
    threads=1,
    workers=1,
    rounding=False,
)


@pytest.fixture(scope="session")
def released(world: World, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A bundle; tests must copy it before they harm it."""

    def make(root: Path) -> None:
        release(
            world.original,
            world.dataset,
            world.forget_ids,
            root / "age.unplug",
            root / "work",
            QUICK,
            oracle=world.oracle,
            device=CPU,
            say=lambda _: None,
            show=False,
        )

    root = once(tmp_path_factory, "released", make)
    return Release(
        bundle=root / "age.unplug",
        reports=(),
        summary=json.loads((root / "work" / "release.json").read_text()),
    )


@pytest.fixture(scope="session")
def artifacts(world: World, released: Release) -> dict[str, Artifact]:
    """The unlearned model as LiteRT, by file name. The release forgot with the same seed, so the
    weights are the same.
    """
    found = {
        path.name: load_artifact(path)
        for path in sorted((released.bundle / "artifacts").glob("*.tflite"))
    }
    assert {item.card.checkpoint_sha256 for item in found.values()} == {world.unlearned.sha256}
    return found
