"""Drawn sizes, and the work that is counted without exporting them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unplug.core import Child
from unplug.export import export_checkpoint
from unplug.mobile_bench.estimate.operators import read_features
from unplug.plugins import AgePredictor, Classifier, check_written, save_checkpoint
from unplug.sdk.searching import SPACES, TimedOn
from unplug.sdk.searching.price import draw

BASELINES = TimedOn(on="pixel-3")


@pytest.mark.parametrize("side", [32, 48, 64, 96, 224])
def test_every_drawn_size_can_be_built_and_costs_no_more_on_smaller_pictures(side: int) -> None:
    space, smaller = (SPACES.get("age")(pixels, 13) for pixels in (side, max(32, side - 16)))
    rng = np.random.default_rng(1)
    for size in (space.draw(rng) for _ in range(200)):
        check_written(size, side)
        assert space.work(size).total_macs >= smaller.work(size).total_macs


def test_the_work_of_a_size_by_hand_is_that_of_the_networks_own_convolutions() -> None:
    # stem 27 x 16 at 32 x 32; depthwise 9 x 16 and 16 x 16 there; head 16 x 48; 48 x 13 logits
    work = SPACES.get("age")(64, 13).work("16:16x1e1:48:21")
    assert work.macs["conv"] == 27 * 16 * 32**2
    assert work.macs["depthwise"] == 9 * 16 * 32**2
    assert work.macs["conv1x1"] == (16 * 16 + 16 * 48) * 32**2
    assert work.macs["dense"] == 48 * 13
    # fused: one plain convolution of 9 x 16 x 32 in the place of two
    fused = SPACES.get("age")(64, 13).work("16:16x1e2f:48:21")
    assert fused.macs["conv"] == (27 * 16 + 9 * 16 * 32) * 32**2
    assert fused.macs["depthwise"] == 0
    assert fused.macs["conv1x1"] == (32 * 16 + 16 * 48) * 32**2


def test_candidates_take_at_most_a_budget_and_at_least_most_of_it() -> None:
    known, space = BASELINES.calibration(), SPACES.get("age")(64, 13)
    found = draw(space, known, (0.5, 2.0), 4, seed=0)
    for budget, sizes in found.sizes.items():
        assert len(sizes) == len({*sizes}) == 4
        assert all(0.7 * budget <= known.predict(space.work(size)) <= budget for size in sizes)
    assert found == draw(space, known, (0.5, 2.0), 4, seed=0)
    assert found.sizes != draw(space, known, (0.5, 2.0), 4, seed=1).sizes


@pytest.mark.long
def test_the_work_that_is_counted_is_that_of_the_exported_file(tmp_path: Path) -> None:
    rng, made = np.random.default_rng(5), []
    with Child() as child:
        for number, (task, side) in enumerate([("age", 48), ("age", 96), ("classes", 32)]):
            space = SPACES.get(task)(side, 10)
            size, place = space.draw(rng), tmp_path / f"{number}"
            if task == "age":
                model = AgePredictor(size=size, image_size=side, age_edges=range(0, 110, 10))
            else:
                model = Classifier(size=size, image_size=side, classes=[*"abcdefghij"])
            model.classifier.bias.data.uniform_()  # zeros are left out of a file
            save_checkpoint(model.eval(), place, record={}, card="")
            shared = {"targets": ["litert"], "children": {"litert": child}}
            (file,) = export_checkpoint(place, out=tmp_path / f"{number}-file", **shared)
            made.append((space.work(size), file))
    counted = read_features([file for _, file in made])
    assert [work for work, _ in made] == counted
