"""What a classifier is worth, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unplug.core import DataError
from unplug.sdk.evidence.assurance import Answers, judge_classes

from .planted import crowd, said

SURE = np.log([3.0, 1.0])
"""Probabilities .75 and .25."""


def answers(count: int = 4) -> Answers:
    """Of pictures a, a, b, b it names a, b, b, b, each with .75."""
    people = replace(
        crowd([np.nan] * count, {"light": ["day", "night"] * (count // 2)}),
        labels=("a", "a", "b", "b") * (count // 4),
    )
    logits_NG = np.stack([SURE, SURE[::-1], SURE[::-1], SURE[::-1]] * (count // 4))
    return replace(said(people, np.zeros(count)), edges=(), classes=("a", "b"), logits_NG=logits_NG)


def test_numbers_by_hand() -> None:
    report = judge_classes([answers()])
    (model,) = report.models
    assert model.accuracy.value == pytest.approx(0.75)
    assert model.loss.value == pytest.approx(-(3 * np.log(0.75) + np.log(0.25)) / 4)
    assert model.brier.value == pytest.approx((3 * 2 * 0.25**2 + 2 * 0.75**2) / 4)
    assert model.calibration_error == pytest.approx(0.0), "three of four answers are right, at .75"
    assert [(row.n, row.confidence, row.accuracy) for row in model.bins] == [(4, 0.75, 0.75)]
    first, second = model.classes
    assert (first.label, first.n, first.found, first.right) == ("a", 2, 0.5, 1.0)
    assert (second.n, second.found, second.right) == (2, 1.0, pytest.approx(2 / 3))
    assert model.groups == (), "four people are too few to speak of groups"
    assert report.pictures == 4 and report.to_dict()["schema"] == "unplug-class-evaluation/1"


def test_groups_of_enough_people() -> None:
    (model,) = judge_classes([answers(40)]).models
    found = {row.cell: (row.n, row.people, row.accuracy.value) for row in model.groups}
    assert found == {"light: day": (20, 20, 1.0), "light: night": (20, 20, 0.5)}
    low, high = model.accuracy.ends or (0.0, 0.0)
    assert low < 0.75 < high


def test_a_class_without_pictures_and_a_label_that_it_never_had() -> None:
    one = answers()
    more = replace(one, classes=("a", "b", "c"), logits_NG=np.pad(one.logits_NG, ((0, 0), (0, 1))))
    assert judge_classes([more]).models[0].classes[2].found is None
    strange = replace(one, people=replace(one.people, labels=("a", "a", "b", "zebra")))
    with pytest.raises(DataError, match="sample p3 has the label 'zebra', which planted never had"):
        judge_classes([strange])
