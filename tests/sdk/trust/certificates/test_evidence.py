"""What a certificate repeats of an audit is what the audit itself says, read without the package
that measures.
"""

from __future__ import annotations

from pydantic import TypeAdapter

from unplug.sdk.evidence.auditing import AuditReport

from .conftest import Case


def test_the_numbers_are_those_of_the_audit(made: Case) -> None:
    raw = (made.bundle / "reports" / "audit.json").read_bytes()
    audit: AuditReport = TypeAdapter(AuditReport).validate_json(raw)
    evidence = made.issued.certificate.evidence
    released, never = audit.model("unlearned"), audit.model("retrained")
    assert [(line.attack, line.model, line.never_saw, line.gap) for line in evidence.attacks] == [
        (name, attack.auc, never.attacks[name].auc, attack.gap)
        for name, attack in sorted(released.attacks.items())
    ]
    assert evidence.use[0].error == released.utility["test"].error
    assert (evidence.too_few, evidence.skipped) == (audit.too_few, audit.skipped)
    assert evidence.alarms == tuple(alarm.message for alarm in audit.alarms)
