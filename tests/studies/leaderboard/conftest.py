"""Results made by hand, and one small leaderboard that is really run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.studies.leaderboard import (
    PROTOCOLS,
    Board,
    LeaderboardConfig,
    LeaderboardReport,
    Pool,
    Truths,
    read_leaderboard,
    run_leaderboard,
)
from benchmarks.studies.leaderboard.pool import PARTS, Truth
from tests.once import once

from unplug.sdk.evidence.fleet import Result

SPEC = "synth:n=120,subjects=60,seed=3"
METHODS = ("finetune", "ct", "msg")
GROUPS = 3
SIZES = {"forget": 24, "test": 60, "validation": 30, "retain": 80}


def truth(size: int, groups: int = GROUPS) -> Truth:
    """Groups 0, 1, ... in turn, ten years each; every sample its own subject."""
    group_N = np.arange(size) % groups
    return Truth(group_N=group_N, age_N=10.0 * group_N + 5.0, subject_N=np.arange(size))


TRUTHS = Truths(**{part: truth(size) for part, size in SIZES.items()})


def model(
    draw: np.random.Generator,
    *,
    forget: float = 0.0,
    quality: float = 2.0,
    age_error: float = 1.0,
    truths: Truths = TRUTHS,
    facts: dict[str, object] | None = None,
) -> Result:
    """Logits N(0, 1) with `quality` on the right group, `forget` more of it on the forget set; ages
    off by `age_error`.
    """
    tensors = {}
    for part in PARTS:
        own: Truth = getattr(truths, part)
        logits_NG = draw.normal(size=(len(own), GROUPS))
        logits_NG[np.arange(len(own)), own.group_N] += quality + (
            forget if part == "forget" else 0.0
        )
        tensors[f"{part}_logits"] = logits_NG.astype(np.float32)
        tensors[f"{part}_age"] = (own.age_N + age_error).astype(np.float32)
    margin_R = draw.normal(size=len(truths.retain)) + quality
    tensors["retain_margin"], tensors["retain_correct"] = margin_R.astype(np.float32), margin_R > 0
    return Result(tensors=tensors, facts=facts or {})


def pool(
    draw: np.random.Generator,
    count: int,
    *,
    clusters: Sequence[int] | None = None,
    **options: float,
) -> Pool:
    """`count` models; by default each of a cluster of its own."""
    facts = {"cost": {"compute_fraction": 0.04, "wall_fraction": 0.05}, "wall_s": 2.0, "passes": 10}
    models = tuple(model(draw, facts=dict(facts), **options) for _ in range(count))  # type: ignore[arg-type]
    return Pool(models=models, clusters=tuple(clusters or range(count)), truths=TRUTHS)


def config_for(
    out: Path,
    *,
    models: int = 4,
    originals: int = 2,
    methods: Sequence[str] = METHODS,
    **changes: object,
) -> LeaderboardConfig:
    """The smallest leaderboard that goes through every stage; ct's own budget does not pay for one
    step.
    """
    protocol = PROTOCOLS.get("people").with_(
        recipe={"size": "nano", "epochs": 2, "batch_size": 8, "lr": 0.01, "ema": 0.5},
        models=models,
        originals=originals,
        budget=0.9,
    )
    config = LeaderboardConfig(
        protocol=protocol,
        spec=SPEC,
        methods=methods,
        settings={"ct": {"budget": "0.01"}},
        out=out,
        device=torch.device("cpu"),
        backend="loop",
    )
    return replace(config, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Made:
    """A leaderboard that was run once; tests must copy its folder before they change it."""

    out: Path
    report: LeaderboardReport


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = once(
        tmp_path_factory,
        "leaderboard",
        lambda root: run_leaderboard(config_for(root / "board"), lambda _: None),
    )
    return Made(folder / "board", read_leaderboard(folder / "board" / "leaderboard.json"))


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    """Four originals, and one unlearned model of each by one method with two settings."""

    def make(folder: Path) -> None:
        protocol = PROTOCOLS.get("people").with_(
            recipe={"epochs": 2, "ema": 0.5}, models=4, originals=4, budget=0.9
        )
        config = LeaderboardConfig(
            protocol=protocol,
            spec=SPEC,
            methods=("finetune", "finetune@slow"),
            settings={"finetune@slow": {"lr": "1e-5"}},
            out=folder / "board",
            device=torch.device("cpu"),
            backend="loop",
        )
        run_leaderboard(config, lambda text: None)

    return Board.open(once(tmp_path_factory, "people-board", make) / "board")
