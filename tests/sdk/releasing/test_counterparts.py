"""What a release measures its files against, and a card where intervals are missing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from unplug.export import Artifact, measure_parity
from unplug.sdk.drawing.conditions import example_inputs
from unplug.sdk.evidence.auditing import Estimate, Utility
from unplug.sdk.forgetting.tasks import AgeTask
from unplug.sdk.learning.training import Recipe
from unplug.sdk.releasing import Release
from unplug.sdk.releasing.contents import bundle_card
from unplug.sdk.releasing.evidence import ReleaseEvidence
from unplug.sdk.releasing.stage import StageProgress
from unplug.sdk.releasing.stages_audit import AUDIT, Counterparts

from ..conftest import QUICK, World
from .conftest import material_of
from .test_gates import model, report

pytestmark = pytest.mark.long


@pytest.mark.nightly
def test_an_audit_of_a_release_says_what_export_did(
    world: World, artifacts: dict[str, Artifact], tmp_path: Path
) -> None:
    """The original and the oracle become files of the same form for as long as it takes; the file
    that ships is fp32.
    """
    (tmp_path / "work").mkdir()
    file = artifacts["age.fp32.tflite"]
    material = material_of(world, tmp_path / "work", replace(QUICK, rounding=True))
    parity = measure_parity(
        [file], world.unlearned.path, example_inputs("age", world.unlearned.model.iospec, 2)
    )
    evidence = ReleaseEvidence(
        results={
            "original": world.original,
            "unlearned": world.unlearned,
            "retrained": world.oracle,
            "artifacts": [file],
            "parity": parity,
        }
    )
    progress = StageProgress(tmp_path / "work", material.common, lambda _: None)
    evidence = progress.run(Counterparts(), material, evidence)
    made, unable = evidence["counterparts"]
    assert unable == {} and len(made) == 1 and not made[0].given
    assert made[0].original.card.checkpoint_sha256 == world.original.sha256
    assert made[0].retrained is not None
    assert made[0].retrained.card.checkpoint_sha256 == world.oracle.sha256
    report = progress.run(AUDIT, material, evidence).audit
    (row,) = report.rounding
    assert (row.model, row.target, row.precision) == ("age.fp32.tflite", "litert", "fp32")
    assert (
        row.original_sha256 == made[0].original.card.sha256
        and row.codes is not None
        and row.codes.changed > 0.5
    )
    # fp32 keeps the edit
    assert row.kept is not None and row.kept.value == pytest.approx(1.0, abs=1e-3)
    assert row.minus_retrained is not None and set(row.distance) == set(row.retrained) == {
        "forget",
        "test",
    }


def test_it_can_be_switched_off_and_the_report_says_so(
    world: World, released: Release, tmp_path: Path
) -> None:
    assert not Counterparts().wanted(material_of(world, tmp_path, replace(QUICK, rounding=False)))
    audit = json.loads((released.bundle / "reports" / "audit.json").read_text())
    assert audit["skipped"]["rounding"] == "it was switched off"


def card(mae: Estimate) -> str:
    use = Utility(n=4, accuracy=Estimate(value=0.5), mae=mae, loss=1.0, per_group=())
    audit = report(
        *(
            replace(model(role, role, 0.5), utility={"test": use})
            for role in ("original", "unlearned", "retrained")
        )
    )
    forget = {"samples": 3, "method": "msg", "cost": {"compute_fraction": 0.04}}
    unlearned: Any = SimpleNamespace(
        model_type="age", model=SimpleNamespace(image_size=32), record={"forget": forget}
    )
    found = {"unlearned": unlearned, "audit": audit, "artifacts": []}
    evidence = ReleaseEvidence(results=found | {"parity": SimpleNamespace(rows=())})
    task = AgeTask(recipe=Recipe(), edges=(0.0, 100.0))
    return bundle_card("age", task, evidence, {"gates": [], "tries": []})


def test_a_card_of_few_subjects_gives_the_number_alone() -> None:
    text = card(Estimate(value=7.25))
    assert "in years: 7.25 (original), 7.25 (this model),\n7.25 (oracle)." in text


def test_a_card_gives_intervals_where_there_are_any() -> None:
    text = card(Estimate(value=7.25, low=6.5, high=8.125))
    assert (
        "7.25 (6.50 to 8.12) (oracle)" in text and "| loss AUC | 0.500 (0.450 to 0.550) |" in text
    )
