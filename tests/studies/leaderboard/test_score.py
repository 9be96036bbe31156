"""Numbers of a row and their intervals, on results made by hand, and who meets whom in the attacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.studies.leaderboard import (
    METRICS,
    PROTOCOLS,
    Measure,
    Oracle,
    Row,
    entry,
    measure_pool,
    read_pool,
)
from benchmarks.studies.leaderboard.intervals import absolute, cluster_mean, difference
from benchmarks.studies.leaderboard.membership import match, nomus
from benchmarks.studies.leaderboard.score import measure_cost
from benchmarks.studies.leaderboard.table import method_row, ranked
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t, ttest_ind

from unplug.core import InputError
from unplug.sdk.evidence.fleet import FleetJob, Result, run_jobs
from unplug.sdk.evidence.statistics import auc

from .conftest import TRUTHS, model, pool

PEOPLE = PROTOCOLS.get("people")


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle(pool(np.random.default_rng(0), 8))


@pytest.fixture(scope="module")
def leaky(oracle: Oracle) -> dict[str, Measure]:
    """Models that still know the forget set: its logits stand 3 above the test set's."""
    return measure_pool(pool(np.random.default_rng(1), 8, forget=3.0, clusters=[0, 1] * 4), oracle)[
        0
    ]


@pytest.fixture(scope="module")
def clean(oracle: Oracle) -> dict[str, Measure]:
    """Models drawn as the oracle's are."""
    return measure_pool(pool(np.random.default_rng(2), 8, clusters=[0, 1] * 4), oracle)[0]


def test_every_number_has_an_interval_and_the_oracles_value(leaky: dict[str, Measure]) -> None:
    # originals, models, or ages
    beside = {
        "two_versions_auc",
        "views_auc",
        "rounded_auc",
        "relearn",
        "retain_mae_gap",
    }
    assert set(leaky) == set(METRICS) - {"compute", "wall", "wall_s", "score_gap"} - beside
    for name, item in leaky.items():
        assert item.low is not None and item.high is not None and item.oracle is not None, name
        assert item.low <= item.high, name


def test_phi_of_the_oracles_equals_has_no_shift_of_its_own(
    leaky: dict[str, Measure], clean: dict[str, Measure]
) -> None:
    """Means of four models a side differ by chance alone, which the oracle's value says; +3 on the
    truth is 3 sd.
    """
    assert abs(clean["phi_shift"].value - (clean["phi_shift"].oracle or 0.0)) < 0.25
    assert abs(clean["phi_sd"].value - 1.0) < 0.25
    assert leaky["phi_shift"].value > 1.5 > (leaky["phi_shift"].oracle or 0.0) * 2


def test_every_attack_sees_the_leak_and_none_sees_the_oracles_equals(
    leaky: dict[str, Measure], clean: dict[str, Measure]
) -> None:
    for name in ("loss_auc", "logistic_accuracy", "rmia_auc", "ulira_auc", "klom_forget"):
        assert leaky[name].value > (leaky[name].oracle or 0) + 0.1, name
        assert abs(clean[name].value - (clean[name].oracle or 0)) < 0.12, name
    assert leaky["f_ratio"].value < 0.5 * clean["f_ratio"].value
    assert leaky["klom_validation"].value == pytest.approx(leaky["klom_validation"].oracle, abs=0.2)


def test_loss_auc_is_the_mean_over_models(oracle: Oracle) -> None:
    found = oracle.auc[0].value
    expected = []
    for item in oracle.matches:
        for says in oracle.pool.says:
            expected.append(
                auc(says["forget"].log_prob_N[item.forget], says["test"].log_prob_N[item.unseen])
            )
    assert found == pytest.approx(np.mean(expected))


def test_utility_golden(oracle: Oracle) -> None:
    """Ages off by 3 against 1: an error of 3 years, 2 more than the oracle; equal models leave an
    interval of no width.
    """
    worse = pool(np.random.default_rng(3), 4, clusters=[0, 0, 1, 1], age_error=3.0)
    row, _ = measure_pool(worse, oracle)
    assert row["test_mae"].value == pytest.approx(3.0) and row[
        "test_mae_gap"
    ].value == pytest.approx(2.0)
    assert row["test_mae_gap"].low == pytest.approx(2.0) and row[
        "test_mae_gap"
    ].high == pytest.approx(2.0)
    right = np.mean([says["test"].correct_N.mean() for says in worse.says])
    best = np.mean([says["test"].correct_N.mean() for says in oracle.pool.says])
    assert row["test_accuracy"].value == pytest.approx(right)
    assert row["test_ratio"].value == pytest.approx(right / best)
    assert row["distance_test"].value == pytest.approx(2.0, abs=1e-5)
    assert row["score"].value == pytest.approx(
        row["f"].value * row["retain_ratio"].value * row["test_ratio"].value, rel=1e-9
    )


def test_the_oracles_own_row_is_retrained_against_retrained(oracle: Oracle) -> None:
    row, _ = measure_pool(oracle.pool, oracle)
    assert row["f"].value == row["f"].oracle == row["score"].value and row["f_ratio"].value == 1.0
    for name in ("test_accuracy_gap", "test_mae_gap", "attack_distance"):
        assert row[name].value == 0.0, name
    for name in (
        "rmia_auc",
        "ulira_auc",
        "klom_forget",
        "distance_forget",
        "loss_auc",
        "logistic_accuracy",
        "nomus",
    ):
        assert row[name].value == pytest.approx(row[name].oracle), name


def test_few_models_give_the_numbers_that_they_can(oracle: Oracle) -> None:
    row, missing = measure_pool(pool(np.random.default_rng(4), 1), oracle)
    assert {"test_accuracy", "test_mae", "loss_auc", "nomus", "rmia_auc"} <= set(row)
    assert {"f", "f_ratio", "score", "ulira_auc", "klom_forget"} <= set(missing) and all(
        missing.values()
    )
    assert row["test_mae"].low is None


def test_cost() -> None:
    row = measure_cost(pool(np.random.default_rng(5), 4))
    assert row["compute"].value == 0.04 and row["wall"].value == 0.05 and row["wall_s"].value == 2.0
    assert row["compute"].oracle == 1.0


def test_rows_keep_what_was_refused(oracle: Oracle) -> None:
    item = entry(PEOPLE, "msg", {})
    row = method_row(
        item,
        pool(np.random.default_rng(6), 2),
        {"a": "over budget", "b": "over budget", "c": "x"},
        oracle,
        0.05,
    )
    assert (
        row.refused == "3 of 5 runs: over budget; others for 1 more reason(s)"
        and row.models == 2
        and row.metrics
    )
    empty = method_row(item, read_pool(Path("none"), [], TRUTHS)[0], {"a": "why"}, oracle, 0.05)
    assert empty.refused == "1 of 1 runs: why" and not empty.metrics and empty.models == 0


def test_ranking_orders_and_leaves_out() -> None:
    def row(name: str, value: float, **more: object) -> Row:
        metrics = {name: Measure(value=value) for name in ("score", "attack_distance", "nomus")}
        return Row(name=name, role="unlearned", metrics=metrics, **more)  # type: ignore[arg-type]

    rows = [
        row("b", 0.1),
        row("a", 0.1),
        row("c", 0.3),
        row("over", 0.9, note="larger budget"),
        row("no", 0.8, refused="x"),
    ]
    places = {"c": 1, "a": 2, "b": 3, "over": None, "no": None}
    assert [(row.name, row.rank) for row in ranked(rows, "challenge")] == list(places.items())
    assert [row.name for row in ranked(rows, "attack")][:3] == ["a", "b", "c"]
    assert ranked(rows, "nomus")[0].name == "c"


def result_of(context: object, *, logits: int) -> Result:
    """A job for `read_pool` to read."""
    made = model(np.random.default_rng(0))
    tensors = {**made.tensors, "test_logits": made.tensors["test_logits"][:logits]}
    return Result(tensors=tensors, facts=made.facts | {"weights_sha256": "0" * 64})


def test_results_of_other_data_are_refused(tmp_path: Path) -> None:
    jobs = [
        FleetJob(name=name, target=f"{__name__}:result_of", arguments={"logits": size})
        for name, size in (("whole", 60), ("cut", 9))
    ]
    assert not run_jobs(jobs, None, tmp_path, backend="loop", show=False).failed
    found, refused = read_pool(
        tmp_path, [("whole", 7), ("gone", 8)], TRUTHS, {"gone": "Traceback\nBoom: x"}
    )
    assert len(found) == 1 and found.clusters == (7,) and refused == {"gone": "it failed: Boom: x"}
    with pytest.raises(InputError, match="not of this data"):
        read_pool(tmp_path, [("cut", 0)], TRUTHS)


def test_unseen_samples_have_the_forget_sets_proportions() -> None:
    forget_F = np.array([0] * 10 + [1] * 30)
    unseen_U = np.array([0] * 50 + [1] * 60 + [2] * 500)
    matched = match(forget_F, unseen_U, seed=0)
    groups, counts = np.unique(unseen_U[matched.unseen], return_counts=True)
    # Group 1 is the scarce one: 60 are three quarters of 80, so 20 of group 0 join them.
    assert dict(zip(groups.tolist(), counts.tolist(), strict=True)) == {0: 20, 1: 60}
    assert len(matched.forget) == 40 and matched.enough


def test_forget_samples_that_meet_nobody_are_left_out() -> None:
    matched = match(np.array([0, 0, 9]), np.array([0] * 20), seed=0)
    assert matched.forget.tolist() == [0, 1] and not matched.enough
    assert not match(np.array([9] * 20), np.array([0] * 20), seed=0).enough


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.lists(st.integers(0, 3), min_size=1, max_size=60),
)
def test_no_sample_twice_and_shares_within_one(forget: list[int], unseen: list[int]) -> None:
    forget_F, unseen_U = np.array(forget), np.array(unseen)
    matched = match(forget_F, unseen_U, seed=0)
    assert len(set(matched.unseen.tolist())) == len(matched.unseen)
    kept = forget_F[matched.forget]
    for group in np.unique(kept):
        wanted = (kept == group).mean() * len(matched.unseen)
        assert abs((unseen_U[matched.unseen] == group).sum() - wanted) <= 2


@pytest.mark.parametrize(
    ("accuracy", "attack", "expected"),
    [(1, 0.5, 1.0), (0, 1, 0.0), (0.4, 0.5, 0.7), (0.6, 0.4, 0.7)],
)
def test_nomus(accuracy: float, attack: float, expected: float) -> None:
    assert nomus(accuracy, attack) == pytest.approx(expected)


def test_clusters_are_what_varies() -> None:
    """Ten models of one original agree exactly: they are no more than one observation."""
    mean = cluster_mean([1.0] * 10 + [3.0] * 10, [0] * 10 + [1] * 10)
    assert (mean.value, mean.variance, mean.freedom) == (2.0, 1.0, 1)
    assert mean.interval == pytest.approx((2 - t.ppf(0.975, 1), 2 + t.ppf(0.975, 1)))


def test_one_cluster_is_over_its_models_and_one_model_has_no_interval() -> None:
    values = [1.0, 2.0, 6.0]
    mean = cluster_mean(values, [5, 5, 5])
    assert mean.value == 3.0 and mean.variance == pytest.approx(np.var(values, ddof=1) / 3)
    assert cluster_mean([1.0], [0]).interval is None


def test_difference_is_welch() -> None:
    draw = np.random.default_rng(0)
    ours, theirs = draw.normal(1.0, 2.0, 9), draw.normal(0.0, 0.5, 14)
    gap = difference(cluster_mean(ours, range(9)), cluster_mean(theirs, range(14)))
    low, high = ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert gap.interval == pytest.approx((low, high), rel=1e-6)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [((1, 2), (1, 2)), ((-2, -1), (1, 2)), ((-2, 1), (0, 2)), ((0, 1), (0, 1))],
)
def test_absolute(ends: tuple[float, float], expected: tuple[float, float]) -> None:
    assert absolute(*ends) == expected


def test_coverage_of_the_clustered_interval() -> None:
    """With originals that differ, 95 % of intervals must hold the truth; treating models as
    independent would hold far less.
    """
    draw = np.random.default_rng(1)
    held = naive = 0
    for _ in range(400):
        values = (draw.normal(size=(5, 1)) + 0.3 * draw.normal(size=(5, 8))).ravel()
        low, high = cluster_mean(values, np.repeat(np.arange(5), 8)).interval or (0, 0)
        held += low <= 0 <= high
        low, high = cluster_mean(values, np.arange(40)).interval or (0, 0)
        naive += low <= 0 <= high
    assert held / 400 > 0.92 and naive / 400 < 0.7
