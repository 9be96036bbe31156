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

from .attack import ATTACKS, Attack
from .audit_report import AuditReport
from .audit_run import enough_people, signals_of, with_old_file
from .critic import add_critic
from .evidence import AuditEvidence
from .measure import attack_results, measure, run_attacks
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
        report: of `audit`, of the same request, seed and models among others.
        predictors: the checkpoints, by the names that they have in the report; its oracle, if it is
            a checkpoint, among them.
        sets: on the device.
        evidence: see `gather`.
        fleet: of the report.
        seed: of the resampling.
    """
    attacks, reasons = _readable(evidence)
    signals = with_old_file(
        [signals_of(item, sets, evidence) for item in predictors], predictors, evidence
    )
    names = [item.name for item in predictors]
    oracle = next(
        (number for number, item in enumerate(predictors) if item.role == "retrained"), None
    )
    scores, unable = run_attacks(attacks, signals, [], names=names, oracle=oracle)
    draws = resamples(sets.forget.subject_N, sets.test.subject_N, seed=seed)
    measured = [measure(*each, draws) for each in zip(predictors, signals, scores, strict=True)]
    never = None if oracle is None or not enough_people(sets) else measured[oracle]
    own = [report.model(name) for name in names]
    if fleet is not None:
        fleet = fleet.apart(fitted_to(predictors))
    own, missing = add_critic(own, measured, fleet, sets, seed)  # type: ignore[assignment]
    found = {
        model.name: replace(
            model, further=attack_results(item, None if item is never else never, draws)
        )
        for model, item in zip(own, measured, strict=True)
    }
    skipped = {name: why for name, why in report.skipped.items() if name not in attacks}
    report = replace(
        report,
        models=tuple(found.get(model.name, model) for model in report.models),
        skipped=skipped | reasons | unable | missing,
    )
    return replace(report, threats=threat_model(report))


def _readable(evidence: AuditEvidence) -> tuple[dict[str, Attack], dict[str, str]]:
    """The attacks that read more than the sets, by name, and why some of them cannot."""
    attacks, reasons = {}, {}
    for name in ATTACKS:
        attack = ATTACKS.get(name)()
        reads = getattr(attack, "reads", None)
        if reads is not None and reads in evidence.missing:
            reasons[name] = evidence.missing[reads]
        elif reads is not None:
            attacks[name] = attack
    return attacks, reasons
