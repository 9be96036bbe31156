"""What a release adds to its audit: the attacks that read more than the sets of a split, on its
checkpoints.

They stand apart from the others, for they are judged in another way: none must surely tell the
forgotten, and none has to show that it does not. Those that a retrained model fails as well are
reported alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unplug.sdk.evidence.fleet import References
from unplug.sdk.evidence.statistics import resamples
from unplug.sdk.learning.training import Sets

from .attack import ATTACKS
from .audit_report import AuditReport
from .audit_run import enough_people, measure_all, usable
from .critic import add_critic
from .evidence import AuditEvidence
from .measure import attack_results, of_role
from .predictor import CheckpointPredictor, fitted_to
from .threats import threat_model


def criticise(
    report: AuditReport,
    predictors: Sequence[CheckpointPredictor],
    sets: Sets,
    evidence: AuditEvidence,
    *,
    fleet: References | None = None,
    seed: int = 0,
) -> AuditReport:
    """A report with ``further`` attacks, the shares used and the threat model that these leave.

    Args:
        report: a report of `audit` for the same request, seed and models among others.
        predictors: the checkpoints, by the names that they have in the report; its oracle, if it is
            a checkpoint, among them.
        sets: the sets on the device.
        evidence: see `gather`.
        fleet: the report's fleet.
        seed: the seed of the resampling.
    """
    names = [name for name in ATTACKS if hasattr(ATTACKS.get(name), "reads")]
    attacks, reasons = usable(names, 0, evidence)
    draws = resamples(sets.forget.subject_N, sets.test.subject_N, seed=seed)
    measured, unable = measure_all(predictors, sets, evidence, attacks, [], draws)
    oracle = of_role(measured, "retrained") if enough_people(sets) else None
    if fleet is not None:
        fleet = fleet.apart(fitted_to(predictors))
    rows = [report.model(model.name) for model in predictors]
    rows, missing = add_critic(rows, measured, fleet, sets, seed)  # type: ignore[assignment]
    judged = {
        row.name: replace(
            row, further=attack_results(one, None if one is oracle else oracle, draws)
        )
        for row, one in zip(rows, measured, strict=True)
    }
    skipped = {name: why for name, why in report.skipped.items() if name not in attacks}
    report = replace(
        report,
        models=tuple(judged.get(model.name, model) for model in report.models),
        skipped=skipped | reasons | unable | missing,
    )
    return replace(report, threats=threat_model(report))
