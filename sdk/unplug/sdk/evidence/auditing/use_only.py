"""An audit without attacks: what models are worth, where an equality shows that one has forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unplug.core import settled, versions
from unplug.sdk.learning.data import Split
from unplug.sdk.learning.training import Predictions, Sets

from .audit_report import EQUALITY_SHOWS, AuditReport, ModelAudit
from .audit_run import people_in, settings_of
from .measure import utility_of
from .predictor import CheckpointPredictor, check_finite


@settled
def audit_use(
    predictors: Sequence[CheckpointPredictor],
    sets: Sets,
    split: Split,
    *,
    edges: tuple[float, ...],
    data: dict[str, Any],
    seed: int = 0,
) -> AuditReport:
    """Measures models on the forgotten and on people whom none of them saw, and attacks none.

    Args:
        predictors: the models; of two with the same weights one is asked.
        sets: the sets of the request, on the device.
        split: the split that gives the sets.
        edges: age-group borders.
        data: facts about the data, copied into the report.
        seed: the seed of the intervals.

    Raises:
        InputError: a model whose outputs are not finite.
    """
    parts = {"forget": sets.forget, "test": sets.test}
    known: dict[str, dict[str, Predictions]] = {}
    for model in predictors:
        if model.sha256 not in known:
            known[model.sha256] = {name: model.says(part) for name, part in parts.items()}
            check_finite(model.name, known[model.sha256].values())
    models = tuple(
        ModelAudit(
            name=model.name,
            role=model.role,
            sha256=model.sha256,
            utility={
                name: utility_of(said, parts[name].subject_N, edges, seed)
                for name, said in known[model.sha256].items()
            },
            attacks={},
        )
        for model in predictors
    )
    return AuditReport(
        data=data,
        forget={"samples": len(sets.forget), "subjects": people_in(sets.forget)},
        models=models,
        oracle_band={},
        skipped={"attacks": EQUALITY_SHOWS},
        alarms=(),
        settings={**settings_of(sets, split, edges, seed), "references": [], "fleet": None},
        versions=versions(),
    )
