"""Age limits on the way to a bundle: numbers of what ships on its card and in its reports, and
refusals before any work.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.sdk.conftest import QUICK, World

from unplug.core import DataError, InputError
from unplug.sdk.evidence.assurance import read_evaluation
from unplug.sdk.evidence.assurance.card import HEADING
from unplug.sdk.learning.data import Dataset
from unplug.trust.bundle import verify_bundle

from .conftest import releasing

CONFIG = replace(QUICK, evaluate="fate-aev")


@pytest.mark.long
def test_what_ships_is_judged_at_age_limits(world: World, tmp_path: Path) -> None:
    out, work = tmp_path / "age.unplug", tmp_path / "work"
    done = releasing(world, tmp_path, CONFIG)
    report = read_evaluation(out / "reports" / "evaluation.json")
    assert [model.role for model in report.models] == ["original", "unlearned", "retrained", None]
    assert (
        report.models[3].precision == "fp32"
        and report.models[3].checkpoint_sha256 == report.models[1].sha256
    )
    assert (
        report.people.apart == "held out"
        and "spec" not in report.data
        and report.people.attributes_sha256 == ""
    )
    card = (out / "README.md").read_text()
    assert (
        card.count(HEADING) == 1
        and f"{report.models[1].mae.value:.2f} years" in card
        and "procedural faces" in card
    )
    assert (
        verify_bundle(out).files["reports/evaluation.json"]
        and work / "evaluation.json" in done.reports
    )


def test_it_is_refused_before_anything_is_computed(world: World, tmp_path: Path) -> None:
    def begin(dataset: Dataset, protocol: str) -> None:
        releasing(world, tmp_path, replace(CONFIG, evaluate=protocol), dataset=dataset)

    with pytest.raises(InputError, match="age protocol"):
        begin(world.dataset, "none")
    grown = tuple(
        replace(sample, age=20.0 + (sample.age or 0.0) / 2) for sample in world.dataset.samples
    )
    with pytest.raises(DataError, match="is under 18"):
        begin(replace(world.dataset, samples=grown), "fate-aev")
