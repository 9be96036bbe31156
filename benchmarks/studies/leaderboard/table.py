"""From the results in a folder to the report: a row per method, ranked, with the original and the
oracle below.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unplug.core import progress, versions
from unplug.sdk.evidence.statistics import CONFIDENCE
from unplug.sdk.learning.training import describe_device

from .half_samples import MIN_MODELS
from .intervals import as_measure, cluster_mean
from .jobs import Bench
from .membership import MAX_RMIA, REPLICATES, Oracle, two_versions
from .metrics import METRICS, RANKING, Rank
from .plan import (
    EVALUATION_SEEDS,
    Entry,
    original_name,
    original_seeds,
    retrained_name,
    retrained_seeds,
    unlearned_names,
    unlearning_seeds,
)
from .pool import Pool, Truths, read_pool
from .probe import probed_measures
from .report import LeaderboardReport, Row
from .score import MAX_FORGET, MAX_SAMPLES, behind, measure_cost, measure_pool

if TYPE_CHECKING:
    from .run import LeaderboardConfig

FEW_MODELS = 16
CUT_OFF = 0.2  # of retraining: what the challenge rejected


def score_all(
    config: LeaderboardConfig,
    entries: Sequence[Entry],
    local: Bench,
    failed: Mapping[str, str],
    *,
    show: bool = False,
) -> LeaderboardReport:
    """Reads every result and makes the report; deterministic, and free of training.

    Args:
        config: protocol, seed and folder.
        entries: the methods.
        local: data and family.
        failed: runs that left no result.
        show: progress bar.
    """
    protocol, truths = config.protocol, Truths.of(local.sets)
    originals = [
        (original_name(seed), seed) for seed in original_seeds(config.seed, protocol.originals)
    ]
    oracles = [
        (retrained_name(seed), seed) for seed in retrained_seeds(config.seed, protocol.models)
    ]
    oracle = Oracle(read_pool(config.models, oracles, truths)[0], config.rule)
    before = read_pool(config.models, originals, truths)[0]
    made_from = dict(zip(before.clusters, before.weights_sha256, strict=True))
    rows, pools = [], {}
    for method in progress(entries, label="score", unit="method", show=show):
        names = unlearned_names(method, config.seed, protocol.originals, protocol.models)
        pool, refused = read_pool(
            config.models, names, truths, failed, {} if method.hooked else made_from
        )
        pools[method.label], row = pool, method_row(method, pool, refused, oracle, protocol.budget)
        rows.append(with_more(row, pool, before, oracle, config, names, local))
    placed = ranked(rows, protocol.rank)
    if protocol.rank == "challenge":
        placed = compared(placed, pools, oracle)
    last = [
        with_more(_plain_row(name, pool, oracle), pool, before, oracle, config, names, local)
        for name, pool, names in (
            ("original", before, originals),
            ("retrained", oracle.pool, oracles),
        )
    ]
    return LeaderboardReport(
        protocol=protocol.name,
        summary=protocol.summary,
        kind=protocol.kind,
        rank=protocol.rank,
        data=_data(local, config),
        forget=_forget(local, truths, config),
        recipe=protocol.recipe.to_dict(),
        seeds=_seeds(config),
        retraining=_retraining(oracle.pool, config),
        rows=(*placed, *last),
        published=protocol.published,
        notes=tuple(_notes(config)),
        settings={
            "confidence": CONFIDENCE,
            "replicates": REPLICATES,
            "max_samples": MAX_SAMPLES,
            "max_forget_samples": MAX_FORGET,
            "max_rmia_models": MAX_RMIA,
            "budget": protocol.budget,
            "challenge_rule": config.rule,
        },
        versions=versions(),
    )


def method_row(
    item: Entry, pool: Pool, refused: Mapping[str, str], oracle: Oracle, budget: float
) -> Row:
    """The row of one method; with refusals it keeps the numbers of the runs that came through."""
    row = Row(
        name=item.label,
        role="unlearned",
        models=len(pool),
        originals=len(set(pool.clusters)),
        settings=item.settings,
        needs=item.needs,
        budget=item.budget,
        refused=_refusal(refused, len(pool) + len(refused)),
        note=_note(item, budget),
        weights_sha256=pool.weights_sha256,
    )
    if not len(pool):
        return row
    metrics, missing = measure_pool(pool, oracle)
    return replace(row, metrics={**metrics, **measure_cost(pool)}, missing=missing)


def with_more(
    row: Row,
    pool: Pool,
    before: Pool,
    oracle: Oracle,
    config: LeaderboardConfig,
    names: Sequence[tuple[str, int]],
    local: Bench,
) -> Row:
    """The row with what needs the originals' answers, or the models themselves, beside it."""
    more = {}
    if len(pool) and row.role != "original" and all(item.enough for item in oracle.matches):
        more["two_versions_auc"] = two_versions(pool, before, oracle)
    more |= probed_measures(
        config.out, [name for name, _ in names], oracle, retrained_first(config)
    )
    return replace(row, metrics={**row.metrics, **more})


def retrained_first(config: LeaderboardConfig) -> list[str]:
    """Names of the retrained models."""
    return [retrained_name(seed) for seed in retrained_seeds(config.seed, config.protocol.models)]


def _note(item: Entry, budget: float) -> str:
    """Why a row has no rank: it might spend more than the others, or it is a method that stands
    there already.
    """
    if item.budget > budget:
        return f"may spend {100 * item.budget:.3g} % of retraining, others {100 * budget:.3g} %"
    return (
        ""
        if item.label == item.method
        else f"{item.method} once more, with other settings than the ranked row"
    )


def _refusal(refused: Mapping[str, str], runs: int) -> str | None:
    if not refused:
        return None
    reasons = list(dict.fromkeys(refused.values()))
    more = f"; others for {len(reasons) - 1} more reason(s)" if len(reasons) > 1 else ""
    return f"{len(refused)} of {runs} runs: {reasons[0]}{more}"


def _plain_row(name: str, pool: Pool, oracle: Oracle) -> Row:
    metrics, missing = measure_pool(pool, oracle)
    if pool is oracle.pool:
        metrics["wall_s"] = as_measure(cluster_mean(pool.per_model("wall_s"), pool.clusters), None)
    return Row(
        name=name,
        role="retrained" if pool is oracle.pool else "original",
        models=len(pool),
        originals=len(pool),
        metrics=metrics,
        missing=missing,
        weights_sha256=pool.weights_sha256,
    )


def ranked(rows: Sequence[Row], rank: Rank) -> list[Row]:
    """Ranked rows from the best on, then those with a larger budget, then those that were refused;
    each part by name.

    Equal values are told apart by name, so that the same numbers always give the same table.
    """
    name = RANKING[rank]
    sign = 1.0 if METRICS[name].better == "lower" else -1.0
    fair = [row for row in rows if row.refused is None and not row.note and name in row.metrics]
    fair.sort(key=lambda row: (sign * row.metrics[name].value, row.name))
    rest = sorted(
        (row for row in rows if row not in fair),
        key=lambda row: (row.refused is not None, row.name),
    )
    return [*(replace(row, rank=place) for place, row in enumerate(fair, start=1)), *rest]


def compared(rows: Sequence[Row], pools: Mapping[str, Pool], oracle: Oracle) -> list[Row]:
    """Every ranked row with its distance from the first one."""
    if not rows or rows[0].rank is None:
        return list(rows)
    best, placed = rows[0], []
    for row in rows:
        metrics = dict(row.metrics)
        if row.rank is not None and row is not best:
            factors = (_factor(row), _factor(best))
            metrics["score_gap"] = behind(pools[row.name], pools[best.name], oracle, factors)
        placed.append(replace(row, metrics=metrics))
    return placed


def _factor(row: Row) -> float:
    return (
        row.metrics["score"].value / row.metrics["f"].value if row.metrics["f"].value > 0 else 0.0
    )


def _data(local: Bench, config: LeaderboardConfig) -> dict[str, Any]:
    sets = local.sets
    return {
        "spec": local.dataset.spec,
        "digest": local.dataset.digest,
        "split_sha256": local.split.sha256,
        "subject_disjoint": local.split.subject_disjoint,
        "retain": len(sets.train),
        "validation": len(sets.validation),
        "test": len(sets.test),
        "device": describe_device(config.device),
    }


def _forget(local: Bench, truths: Truths, config: LeaderboardConfig) -> dict[str, Any]:
    groups, counts = np.unique(truths.forget.group_N, return_counts=True)
    edges = local.task.edges
    names = local.dataset.classes
    if local.kind == "age":
        names = tuple(f"{low:g}-{high:g}" for low, high in itertools.pairwise(edges))
    return {
        "samples": len(truths.forget),
        "subjects": len(np.unique(truths.forget.subject_N)),
        "share": len(truths.forget) / (len(truths.forget) + len(truths.retain)),
        "groups": {
            names[int(group)]: int(count) for group, count in zip(groups, counts, strict=True)
        },
        **({} if config.forget is None else {"file": config.forget.name}),
    }


def _seeds(config: LeaderboardConfig) -> dict[str, list[int]]:
    protocol, seed = config.protocol, config.seed
    pairs = unlearning_seeds(seed, protocol.originals, protocol.models)
    return {
        "split": [seed],
        "originals": original_seeds(seed, protocol.originals),
        "retrained": retrained_seeds(seed, protocol.models),
        "unlearning": sorted({own for _, own in pairs}),
        "evaluation": list(EVALUATION_SEEDS),
    }


def _retraining(pool: Pool, config: LeaderboardConfig) -> dict[str, Any]:
    return {
        "passes": int(pool.models[0].facts["passes"]),
        "wall_s": float(pool.per_model("wall_s").mean()),
        "source": f"mean of {len(pool)} trainings, backend {config.backend}",
    }


def _notes(config: LeaderboardConfig) -> list[str]:
    protocol = config.protocol
    notes = []
    if config.forget is not None:
        notes.append(
            f"The forget set is that of {config.forget.name}, in the place of the protocol's own."
        )
    if protocol.originals == 1:
        notes.append(
            "There is one original: intervals are over unlearning seeds alone and say nothing of "
            "other originals."
        )
    if protocol.models < FEW_MODELS:
        notes.append(
            f"F is made of {protocol.models} models a side: its tail counts are coarse; read F / "
            "F_null with its interval."
        )
    if MIN_MODELS <= protocol.originals < protocol.models:
        notes.append(
            f"The original's F comes from {protocol.originals} models, which makes F larger; "
            "compare its F / F_null, where "
            "both sides have as many."
        )
    if protocol.budget > CUT_OFF:
        notes.append(
            f"The budget is over the challenge's cut-off of {100 * CUT_OFF:g} % of retraining."
        )
    return notes
