"""Numbers of a row, on results made by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unplug.core import InputError
from unplug.sdk.fleet import Job, Result, run_jobs
from unplug.sdk.statistics import auc
from unplug.sdk.studies.leaderboard import METRICS, PROTOCOLS, Measure, Oracle, Row, entry, measure_pool, read_pool
from unplug.sdk.studies.leaderboard.score import measure_cost
from unplug.sdk.studies.leaderboard.table import method_row, ranked

from .conftest import TRUTHS, model, pool

CHALLENGE = PROTOCOLS.get("challenge")


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle(pool(np.random.default_rng(0), 8))


@pytest.fixture(scope="module")
def leaky(oracle: Oracle) -> dict[str, Measure]:
    """Models that still know the forget set: its logits stand 3 above the test set's."""
    return measure_pool(pool(np.random.default_rng(1), 8, forget=3.0, clusters=[0, 1] * 4), oracle)[0]


@pytest.fixture(scope="module")
def clean(oracle: Oracle) -> dict[str, Measure]:
    """Models drawn as the oracle's are."""
    return measure_pool(pool(np.random.default_rng(2), 8, clusters=[0, 1] * 4), oracle)[0]


def test_every_number_has_an_interval_and_the_oracles_value(leaky: dict[str, Measure]) -> None:
    assert set(leaky) == set(METRICS) - {"compute", "wall", "wall_s", "score_gap"}
    for name, item in leaky.items():
        assert item.low is not None and item.high is not None and item.oracle is not None, name
        assert item.low <= item.high, name


def test_evaluation_seeds_have_a_spread(leaky: dict[str, Measure]) -> None:
    drawn = ("loss_auc", "logistic_accuracy", "nomus", "rmia_auc", "f_ratio", "ulira_auc", "klom_forget", "distance_test")
    assert all(leaky[name].spread is not None for name in drawn)
    assert max(leaky[name].spread or 0.0 for name in drawn) > 0.0
    assert leaky["test_mae"].spread is None


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
            expected.append(auc(says["forget"].log_prob_N[item.forget], says["test"].log_prob_N[item.unseen]))
    assert found == pytest.approx(np.mean(expected))


def test_utility_golden(oracle: Oracle) -> None:
    """Ages off by 3 against 1: an error of 3 years, 2 more than the oracle; equal models leave an interval of no width."""
    worse = pool(np.random.default_rng(3), 4, clusters=[0, 0, 1, 1], age_error=3.0)
    found, _ = measure_pool(worse, oracle)
    assert found["test_mae"].value == pytest.approx(3.0) and found["test_mae_gap"].value == pytest.approx(2.0)
    assert found["test_mae_gap"].low == pytest.approx(2.0) and found["test_mae_gap"].high == pytest.approx(2.0)
    right = np.mean([says["test"].correct_N.mean() for says in worse.says])
    best = np.mean([says["test"].correct_N.mean() for says in oracle.pool.says])
    assert found["test_accuracy"].value == pytest.approx(right)
    assert found["test_ratio"].value == pytest.approx(right / best)
    assert found["distance_test"].value == pytest.approx(2.0, abs=1e-5)
    assert found["score"].value == pytest.approx(
        found["f"].value * found["retain_ratio"].value * found["test_ratio"].value, rel=1e-9
    )


def test_the_oracles_own_row_is_retrained_against_retrained(oracle: Oracle) -> None:
    found, _ = measure_pool(oracle.pool, oracle)
    assert found["f"].value == found["f"].oracle == found["score"].value and found["f_ratio"].value == 1.0
    for name in ("test_accuracy_gap", "test_mae_gap", "attack_distance"):
        assert found[name].value == 0.0, name
    for name in ("rmia_auc", "ulira_auc", "klom_forget", "distance_forget", "loss_auc", "logistic_accuracy", "nomus"):
        assert found[name].value == pytest.approx(found[name].oracle), name


def test_few_models_give_the_numbers_that_they_can(oracle: Oracle) -> None:
    found, missing = measure_pool(pool(np.random.default_rng(4), 1), oracle)
    assert {"test_accuracy", "test_mae", "loss_auc", "nomus", "rmia_auc"} <= set(found)
    assert {"f", "f_ratio", "score", "ulira_auc", "klom_forget"} <= set(missing) and all(missing.values())
    assert found["test_mae"].low is None


def test_cost() -> None:
    found = measure_cost(pool(np.random.default_rng(5), 4))
    assert found["compute"].value == 0.04 and found["wall"].value == 0.05 and found["wall_s"].value == 2.0
    assert found["compute"].oracle == 1.0


def test_rows_keep_what_was_refused(oracle: Oracle) -> None:
    item = entry(CHALLENGE, "msg", {})
    row = method_row(item, pool(np.random.default_rng(6), 2), {"a": "over budget", "b": "over budget", "c": "x"}, oracle, 0.05)
    assert row.refused == "3 of 5 runs: over budget; others for 1 more reason(s)" and row.models == 2 and row.metrics
    empty = method_row(item, read_pool(Path("none"), [], TRUTHS)[0], {"a": "why"}, oracle, 0.05)
    assert empty.refused == "1 of 1 runs: why" and not empty.metrics and empty.models == 0


def test_ranking_orders_and_leaves_out() -> None:
    def row(name: str, value: float, **more: object) -> Row:
        numbers = {"score": Measure(value=value), "attack_distance": Measure(value=value), "nomus": Measure(value=value)}
        return Row(name=name, role="unlearned", metrics=numbers, **more)  # type: ignore[arg-type]

    rows = [row("b", 0.1), row("a", 0.1), row("c", 0.3), row("over", 0.9, note="larger budget"), row("no", 0.8, refused="x")]
    high = ranked(rows, "challenge")
    assert [(item.name, item.rank) for item in high] == [("c", 1), ("a", 2), ("b", 3), ("over", None), ("no", None)]
    assert [item.name for item in ranked(rows, "attack")][:3] == ["a", "b", "c"]
    assert next(item.name for item in ranked(rows, "nomus")) == "c"


def result_of(context: object, *, logits: int) -> Result:
    """A job for `read_pool` to read."""
    made = model(np.random.default_rng(0))
    tensors = {**made.tensors, "test_logits": made.tensors["test_logits"][:logits]}
    return Result(tensors=tensors, facts=made.facts)


def test_results_of_other_data_are_refused(tmp_path: Path) -> None:
    jobs = [
        Job(name=name, target=f"{__name__}:result_of", arguments={"logits": size}) for name, size in (("whole", 60), ("cut", 9))
    ]
    assert not run_jobs(jobs, None, tmp_path, backend="loop", show=False).failed
    found, refused = read_pool(tmp_path, [("whole", 7), ("gone", 8)], TRUTHS, {"gone": "Traceback\nBoom: x"})
    assert len(found) == 1 and found.clusters == (7,) and refused == {"gone": "it failed: Boom: x"}
    with pytest.raises(InputError, match="not of this data"):
        read_pool(tmp_path, [("cut", 0)], TRUTHS)
