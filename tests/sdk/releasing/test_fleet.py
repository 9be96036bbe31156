"""A release with references that were trained once: it trains none, and tells of single people to
nobody outside.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from unplug.core import InputError
from unplug.sdk.evidence.fleet import train_references
from unplug.sdk.report import write_report

from ..conftest import CPU, QUICK, World
from .conftest import releasing


@pytest.mark.long
def test_it_trains_none_and_publishes_nobody(world: World, tmp_path: Path) -> None:
    fleet = tmp_path / "references"
    train_references(
        world.original,
        world.dataset,
        fleet,
        models=8,
        folds=2,
        device=CPU,
        backend="loop",
        show=False,
    )
    lines: list[str] = []
    releasing(world, tmp_path, replace(QUICK, fleet=fleet, targets=("onnx",)), say=lines.append)
    assert not list((tmp_path / "work").glob("reference-*"))
    local = json.loads((tmp_path / "work" / "audit.json").read_text())
    unlearned = next(model for model in local["models"] if model["role"] == "unlearned")
    assert len(unlearned["people"]) == local["forget"]["subjects"] and {"lira", "rmia"} <= set(
        unlearned["attacks"]
    )
    assert local["settings"]["fleet"]["never_saw"] == 4
    published = json.loads((tmp_path / "age.unplug" / "reports" / "audit.json").read_text())
    assert not any(model["people"] for model in published["models"])
    further = [attack for model in published["models"] for attack in model["further"].values()]
    assert further and not any(
        attack["forget_scores"] or attack["unseen_scores"] for attack in further
    )
    named = {name for model in local["models"] for name in model["further"]}
    assert {"views", "best-view", "other-pictures", "features", "two-versions"} <= named
    assert not named & {
        name for model in local["models"] for name in model["attacks"]
    } and not named & set(local["skipped"])
    told = {row["holds"]: row["covered"] for row in published["threats"]}
    assert told["the old file as well"] == ["two-versions"]
    assert [line for line in lines if "of it for attacks beyond the sets of the split" in line]
    write_report([tmp_path / "work" / "audit.json"], tmp_path / "page.html")
    assert "a retrained model shows it too" in (tmp_path / "page.html").read_text()


def test_references_that_do_not_fit_are_told_before_anything_is_made(
    world: World, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"there is no references\.json"):
        releasing(world, tmp_path, replace(QUICK, fleet=tmp_path / "nothing"))
    assert not (tmp_path / "work" / "unlearned").exists()
