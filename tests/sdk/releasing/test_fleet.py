"""A release with references that were trained once: it trains none, and tells of single people to nobody outside."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unplug.core import InputError
from unplug.sdk.fleet import train_references
from unplug.sdk.releasing import release

from ..conftest import CPU, QUICK, World


def released(world: World, folder: Path, **changes: Any) -> None:
    release(
        world.original, world.dataset, world.forget_ids, folder / "age.unplug", folder / "work", replace(QUICK, **changes),
        oracle=world.oracle, device=CPU, say=lambda _: None, show=False,
    )  # fmt: skip


@pytest.mark.long
def test_it_trains_none_and_publishes_nobody(world: World, tmp_path: Path) -> None:
    fleet = tmp_path / "references"
    train_references(world.original, world.dataset, fleet, models=8, folds=2, device=CPU, backend="loop", show=False)
    released(world, tmp_path, fleet=fleet, targets=("onnx",))
    assert not list((tmp_path / "work").glob("reference-*"))
    own = json.loads((tmp_path / "work" / "audit.json").read_text())
    unlearned = next(model for model in own["models"] if model["role"] == "unlearned")
    assert len(unlearned["people"]) == own["forget"]["subjects"] and {"lira", "rmia"} <= set(unlearned["attacks"])
    assert own["settings"]["fleet"]["never_saw"] == 4
    published = json.loads((tmp_path / "age.unplug" / "reports" / "audit.json").read_text())
    assert not any(model["people"] for model in published["models"])


def test_references_that_do_not_fit_are_told_before_anything_is_made(world: World, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no references\.json"):
        released(world, tmp_path, fleet=tmp_path / "nothing")
    assert not (tmp_path / "work" / "unlearned").exists()
