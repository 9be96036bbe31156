"""The protocol's numbers against slow oracles, planted cases, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from tests.intervals import ends

from unplug.core import DataError, InputError, ReportError
from unplug.sdk.evidence.assurance import (
    PROTOCOLS,
    Asking,
    EvaluationReport,
    card_text,
    judge,
    people_needed,
    read_evaluation,
)
from unplug.sdk.evidence.assurance.exact import claim, people_missing, rate
from unplug.sdk.evidence.assurance.fate import det
from unplug.sdk.evidence.assurance.people import People
from unplug.sdk.evidence.statistics import PeopleDraws, upper_bound
from unplug.sdk.learning.data import SampleProblem
from unplug.sdk.report.assurance import assurance

from .planted import EDGES, crowd, said

FATE = PROTOCOLS.get("fate-aev")
RNG = np.random.default_rng(0)
AGES = np.arange(4, 60).repeat(12) + RNG.uniform(0, 1, 56 * 12)
SEXES = ["female", "male"] * (len(AGES) // 2)
QUICK = Asking(replicates=200)


@given(st.integers(1, 400), st.data())
def test_bounds_are_clopper_and_pearsons(people: int, data: st.DataObject) -> None:
    errors = data.draw(st.integers(0, people))
    oracle = binomtest(errors, people, alternative="less").proportion_ci(0.95, method="exact").high
    assert upper_bound(errors, people) == pytest.approx(oracle, abs=1e-9)


@pytest.mark.parametrize("limit", [0.5, 0.1, 0.01, 0.003])
def test_the_rule_of_three_and_whoever_is_missing(limit: float) -> None:
    needed = people_needed(limit)
    assert upper_bound(0, needed) <= limit < upper_bound(0, needed - 1)
    assert needed == pytest.approx(3 / limit, rel=0.35)
    assert people_missing(0, 0, limit) == needed and people_missing(0, needed, limit) == 0
    missing = people_missing(2, 10, limit)
    assert upper_bound(2, 10 + missing) <= limit < upper_bound(2, 9 + missing)
    for nonsense in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(InputError, match="not a share between 0 and 1"):
            people_needed(nonsense)


def test_a_rate_counts_people_and_not_their_pictures() -> None:
    event_N = np.array([True] * 4 + [False] * 36)
    once = rate(event_N, np.ones(40, bool), np.arange(40))
    often = rate(event_N, np.ones(40, bool), np.arange(40) // 4)
    assert (once.value, often.value) == (0.1, 0.1) and (once.people, often.people) == (40, 10)
    assert often.upper > once.upper
    few = rate(event_N, np.arange(40) < 4, np.arange(40))
    assert few.value is None and few.events == few.people == 4
    assert rate(event_N, np.zeros(40, bool), np.arange(40)).people == 0


def test_a_claim_is_held_broken_or_open() -> None:
    for errors, people, *wanted in (
        (0, 299, "held", None),
        (0, 298, "open", 1),
        (40, 200, "broken", None),
        (0, 3, "open", 296),
    ):
        share = rate(np.arange(people) < errors, np.ones(people, bool), np.arange(people))
        made = claim(share, 0.01)
        assert [made.held, made.missing] == wanted


def test_draws_of_people_agree_with_a_loop() -> None:
    person_N, value_N = np.array([0, 0, 1, 2, 2, 2, 3, 4, 5, 6]), np.arange(10.0)
    drawn = PeopleDraws(person_N=person_N, seed=3, replicates=40)
    columns = np.stack([value_N, np.ones(10)], axis=1)
    total_K, draws_RK = drawn.sums(columns)
    draws_RP = np.random.default_rng([3, 8525]).multinomial(7, np.full(7, 1 / 7), size=40)
    slow = [
        [
            sum(row[who] * value for who, value in zip(person_N, column, strict=True))
            for column in columns.T
        ]
        for row in draws_RP
    ]
    assert np.allclose(draws_RK, slow) and total_K.tolist() == [45.0, 10.0]
    again = drawn.sums(value_N[:, None])[1]
    assert np.array_equal(again[:, 0], draws_RK[:, 0]), "the same people in every number"


def test_every_number_of_a_small_crowd_by_hand() -> None:
    people = crowd(AGES, {"sex": SEXES})
    estimate_N = AGES + np.where(np.arange(len(AGES)) % 4 == 0, 9.0, -1.0)
    report = judge([said(people, estimate_N)], FATE, QUICK)
    (model,) = report.models
    error_N = estimate_N - AGES
    size_N, year_N = np.abs(error_N), np.floor(AGES)
    assert model.mae.value == pytest.approx(size_N.mean())
    assert model.bias.value == pytest.approx(error_N.mean())
    low, high = ends(model.mae)
    assert low < model.mae.value < high
    assert model.cumulative["5"].value == pytest.approx(0.75)
    assert model.cumulative["10"].value == 1.0
    for row in model.years:
        assert row.people == 12
        assert row.mae.value == pytest.approx(size_N[year_N == row.age].mean())
    minors, young = AGES < 18, (AGES >= 18) & (AGES < 25)
    for item in model.challenges:
        passes = estimate_N >= item.age
        assert (item.minors.events, item.minors.people) == (passes[minors].sum(), minors.sum())
        assert item.by_year["17"].value == pytest.approx(passes[year_N == 17].mean())
        assert item.rejected.value == pytest.approx((~passes[young]).mean())
        assert item.fate_minors.people == 48
        assert list(item.rejected_by_year) == [str(age) for age in range(18, 25)]
    teens, seems = (AGES >= 13) & (AGES < 17), (estimate_N >= 13) & (estimate_N < 17)
    entry = model.teenagers
    assert entry.true_positives.value == pytest.approx(seems[teens].mean())
    assert entry.false_positives.value == pytest.approx(seems[~teens].mean())
    assert entry.rejected_16["16"].value == pytest.approx((estimate_N[year_N == 16] < 16).mean())
    of_sex = [np.array(SEXES) == sex for sex in ("female", "male")]
    cells = [size_N[(year_N == age) & mask].mean() for age in range(18, 31) for mask in of_sex]
    assert model.fate_mae.value == pytest.approx(np.mean(cells))
    assert "false positives of at most 1 %" in report.refused
    assert report.people.minors == minors.sum()


def test_a_model_that_is_good_on_average_and_bad_on_one_group_is_caught() -> None:
    """The planted case: the mean hides one cell of two attributes, which neither attribute alone
    shows as clearly.
    """
    count = len(AGES)
    races = [("north", "south", "west")[index // 2 % 3] for index in range(count)]
    hidden = np.array(
        [sex == "female" and race == "west" for sex, race in zip(SEXES, races, strict=True)]
    )
    error_N = np.random.default_rng(1).normal(0.0, 3.0, count)
    fair = said(crowd(AGES, {"sex": SEXES, "race": races}), AGES + error_N, "fair")
    unfair = said(fair.people, AGES + np.where(hidden, error_N + 7.0, error_N), "unfair")
    report, cell = judge([fair, unfair], FATE, QUICK), "sex=female, race=west"
    better, worse = report.models
    assert worse.mae.value < 1.6 * better.mae.value
    (alarm,) = report.alarms
    assert (alarm.model, alarm.kind) == ("unfair", "worst-group") and cell in alarm.message
    assert worse.worst_group == cell and ends(worse.group(cell).gap)[0] > 2.0
    assert worse.minus_first is not None and better.minus_first is None


def test_a_group_of_older_people_is_not_called_worse_for_its_age() -> None:
    old_N = np.arange(len(AGES)) % 3 == 0
    ages_N = np.where(old_N, AGES + 10, AGES)
    error_N = np.random.default_rng(2).normal(0.0, 1.0, len(AGES)) * ages_N / 8
    people = crowd(ages_N, {"group": ["older" if old else "others" for old in old_N]})
    report = judge([said(people, ages_N + error_N)], FATE, QUICK)
    older, others = (report.models[0].group(f"group={name}").mae for name in ("older", "others"))
    assert older.value > 1.2 * others.value
    assert report.alarms == ()


def test_curves_agree_with_counting() -> None:
    age_N, score_N = np.array([3.0, 15, 17, 18, 22, 40]), np.array([0.1, 0.6, 0.4, 0.5, 0.9, 0.9])
    curve = det(score_N, age_N, "probability")
    assert curve.threshold == (0.9, 0.6, 0.5, 0.4, 0.1)
    minors, adults = score_N[age_N < 18], score_N[age_N >= 18]
    for place, threshold in enumerate(curve.threshold):
        shares = curve.false_positive[place], curve.false_rejection[place]
        counted = (minors >= threshold).mean(), (adults < threshold).mean()
        assert shares == pytest.approx(counted, abs=1e-6)
    assert det(score_N[:3], age_N[:3], "age") is None


def test_what_the_sample_cannot_say_is_refused_and_says_how_many_are_missing() -> None:
    few = Asking(replicates=50, limit=0.01)

    def judged(people: People) -> EvaluationReport:
        return judge([said(people, people.age_N)], FATE, few)

    half = ["female" if index % 3 == 0 else "unknown" for index in range(len(AGES))]
    report = judged(crowd(AGES, {"sex": half}))
    assert "nobody said it for 67 %" in report.refused["sex"] and report.models[0].groups == ()
    missing = 299 - int((AGES < 18).sum())
    assert report.refused["false positives of at most 1 %"].endswith(f"{missing} are missing")
    last = report.models[0].challenges[-1]
    assert (last.claim.held, last.claim.missing, last.minors.value) == ("open", missing, 0.0)
    names = [f"n{index}" for index in range(len(AGES))]
    assert "cells are made of at most 24" in judged(crowd(AGES, {"name": names})).refused["name"]
    refused = judged(crowd(np.arange(10.0, 30.0), without_age=3)).refused
    assert "groups" in refused and refused["pictures without an age"].startswith("3 of these data")


@pytest.mark.parametrize(
    ("people", "message"),
    [
        (
            crowd(np.arange(20.0, 60.0)),
            r"nobody of its 40 people is under 18.*1 % at 95 % needs 299",
        ),
        (crowd([17.1, 17.9, 17.5]), "all 3 pictures are of age 17"),
        (
            crowd(np.arange(10.0, 60.0), ranges=(0.0, 10.0, 20.0, 70.0)),
            "ages as ranges with the borders 0, 10, 20, 70",
        ),
    ],
)
def test_data_without_the_numbers_are_refused(people: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        judge([said(people, people.age_N)], FATE, QUICK)


@pytest.mark.parametrize(
    ("edges", "age", "words"),
    [
        (EDGES, 110.0, "age groups go from 0 to 100 years, so no output speaks of 110"),
        ((20.0, 40.0, 90.0), 25.0, "no output speaks of 18"),
    ],
)
def test_a_challenge_outside_of_the_groups_is_refused(
    edges: tuple[float, ...], age: float, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        judge([said(crowd(AGES), AGES, edges=edges)], FATE, Asking(challenges=(age,)))


def test_pictures_that_nobody_could_read_are_failures_and_strangers_raise_an_alarm(
    tmp_path: Path,
) -> None:
    broken = tuple(SampleProblem(id=f"b{index}", reason="broken") for index in range(7))
    people = crowd(
        AGES, apart="unknown", part=None, subjects_apart=None, failures=broken, listed=len(AGES) + 7
    )
    report = judge([said(people, AGES)], FATE, QUICK)
    failures = report.models[0].failures
    assert failures.events == 7 and failures.value == pytest.approx(7 / (len(AGES) + 7))
    assert [alarm.kind for alarm in report.alarms] == ["training-people"]
    report.save(tmp_path / "evaluation.json")
    assert read_evaluation(tmp_path / "evaluation.json") == report
    text = (tmp_path / "evaluation.json").read_text().replace('"limit"', '"limits"')
    (tmp_path / "cut.json").write_text(text)
    with pytest.raises(ReportError, match="does not follow its schema"):
        read_evaluation(tmp_path / "cut.json")


def test_failure_to_process_by_reason_stays_beside_the_other_numbers() -> None:
    """Planted faults: 6 of 60 pictures; nobody who has one leaves the other numbers."""
    ages = np.arange(60) % 50 + 10.0
    faults = (*("no face",) * 3, *("too dark",) * 2, "several faces", *(None,) * 54)
    report = judge([said(crowd(ages, faults=faults), ages)], FATE, Asking(replicates=20))
    result = report.processing
    assert result.unmeasured is None
    assert (result.any.events, result.any.people, report.people.pictures) == (6, 60, 60)
    assert result.any.low < 0.1 < result.any.high
    assert {fault: share.events for fault, share in result.faults.items()} == {
        "unreadable": 0,
        "no face": 3,
        "several faces": 1,
        "too small": 0,
        "too dark": 2,
    }
    card = card_text(report, report.models[0])
    assert "| failures to process: by the quality check of faces | 10.0 %" in card
    assert "| of these: too dark | 3.3 %" in card
    html = [block for section in assurance(report, 1) for block in section.blocks]
    assert any(getattr(block, "caption", "").startswith("Failure to process") for block in html)
    plain = judge([said(crowd(ages), ages)], FATE, Asking(replicates=20))
    assert plain.processing.unmeasured == "no face landmarker was given"
    assert "not measured: no face landmarker was given" in card_text(plain, plain.models[0])
