"""Verdicts by paired intervals."""

from __future__ import annotations

import pytest

from unplug.sdk.statistics import Estimate
from unplug.sdk.studies.control import Measure, Row
from unplug.sdk.studies.control.report import Verdict
from unplug.sdk.studies.control.summary import verdicts_of

Ends = tuple[float, float]


def verdict(condition: str = "face_landmark", ratio: Ends | None = None, **gaps: Ends | None) -> tuple[Verdict, Verdict]:
    def measure(ends: Ends | None) -> Measure:
        gap = None if ends is None else Estimate(value=sum(ends) / 2, low=ends[0], high=ends[1])
        return Measure(value=0.5, pictures=9, difference=gap)

    measures = {name: measure(ends) for name, ends in gaps.items()}
    if ratio is not None:
        measures["frechet_ratio"] = Measure(value=sum(ratio) / 2, low=ratio[0], high=ratio[1], pictures=9)
    rows = (
        Row(name="base", label="base", role="base", measures=measures),
        Row(name="controlnet", label="ControlNet", role="control"),
        Row(name="plugin", label="plugin", role="control", measures=measures, missing={"frechet_ratio": "too small"}),
    )
    first, second = verdicts_of(rows, "controlnet", condition)
    return first, second


@pytest.mark.parametrize(
    ("nme", "share", "outcome"),
    [
        ((-0.02, 0.0), (0.0, 0.1), "holds"),
        ((-0.02, -0.01), (-0.1, 0.1), "cannot tell"),
        ((-0.02, -0.01), (-0.1, -0.05), "does not hold"),  # a lower error, on fewer faces
        ((0.01, 0.02), (0.01, 0.1), "does not hold"),
        ((-0.01, 0.01), (0.01, 0.1), "cannot tell"),
        (None, (0.01, 0.1), "cannot tell"),
    ],
)
def test_error_and_share_of_faces_decide_together(nme: Ends | None, share: Ends, outcome: str) -> None:
    found, _ = verdict(nme=nme, nme_8=share)
    assert (found.row, found.claim, found.outcome) == ("plugin", "control error no worse than ControlNet's", outcome)
    assert "NME under 8 %" in found.why


def test_edges_are_better_where_f1_is_higher() -> None:
    assert verdict("canny", edge_f1=(0.0, 0.1))[0].outcome == "holds"
    assert verdict("canny", edge_f1=(-0.1, -0.01))[0].outcome == "does not hold"


def test_other_conditions_cannot_be_told() -> None:
    found, _ = verdict("depth")
    assert found.outcome == "cannot tell" and "no control error" in found.why


@pytest.mark.parametrize(
    ("ratio", "outcome"),
    [((0.5, 0.9), "holds"), ((0.95, 1.01), "holds"), ((0.95, 1.02), "cannot tell"), ((1.011, 1.2), "does not hold")],
)
def test_a_ratio_is_within_one_percent(ratio: Ends, outcome: str) -> None:
    _, found = verdict(ratio=ratio)
    assert (found.claim, found.outcome) == ("Fréchet distance within 1 % of ControlNet's", outcome)
    assert f"({ratio[0]:.3f} to {ratio[1]:.3f})" in found.why


def test_without_a_ratio_the_reason_stands() -> None:
    assert (verdict()[1].outcome, verdict()[1].why) == ("cannot tell", "too small")


def test_without_the_reference_there_are_none() -> None:
    assert verdicts_of((Row(name="plugin", label="plugin", role="control"),), None, "canny") == ()
