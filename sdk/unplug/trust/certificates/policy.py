"""What a verifier asks of a certificate, ``unplug-certificate-policy/1``: no threshold comes
from the certificate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Literal

from unplug.core import STRICT, InputError, read_dataclass
from unplug.trust.bundle import CERTIFIED, EXACT, time_of

from .certificate import Certificate, Evidence, PlaceName, Shown

MAX_POLICY_BYTES = 2**20


@dataclass(frozen=True, kw_only=True)
class CertificatePolicy:
    """What must hold.

    Args:
        shown_by: ways in which forgetting may be shown.
        max_weight_difference: the largest difference from a refit's weights, if they must be equal.
        max_auc_above: how far an attack on the released model may be above what never saw the
            person, at the upper end of its interval; where the method is certified, on other
            people.
        max_auc_below: how far below, at the lower end: over-forgetting tells as well.
        max_error_above: how far the error on unseen people may be above that of what never saw
            them, in the audit's unit; null does not ask.
        overrides: gates that may have been overridden.
        must_be_gone: kinds of places of which nothing may be left.
        must_be_known: kinds of places that somebody must have said something of.
        answered: whether the person must have been told already.
        in_time: whether the answer, or this certificate where there was none yet, must be within
            the due day.
        max_age_days: the greatest age of the certificate; null takes any.
        signed_bundle: whether the bundle must be signed.
        minimum_release: the lowest release of the bundle; older ones are refused.
        bundle_keys: keys of bundles, in PEM form; the certificate's key counts as well.
        ledger_key: the ledger's public key, from elsewhere; null takes the one in the certificate,
            and the result says so.
    """

    __pydantic_config__: ClassVar = STRICT

    shown_by: tuple[Shown, ...] = ("equality", "certification", "attacks")
    max_weight_difference: float = 1e-8
    max_auc_above: float = 0.10
    max_auc_below: float = 0.10
    max_error_above: float | None = None
    overrides: tuple[str, ...] = ()
    must_be_gone: tuple[PlaceName, ...] = ()
    must_be_known: tuple[PlaceName, ...] = ()
    answered: bool = False
    in_time: bool = True
    max_age_days: int | None = None
    signed_bundle: bool = False
    minimum_release: int = 1
    bundle_keys: tuple[str, ...] = ()
    ledger_key: str | None = None
    schema: Literal["unplug-certificate-policy/1"] = "unplug-certificate-policy/1"

    def problems(self, certificate: Certificate, now: datetime) -> Iterator[str]:
        """One line for each thing that does not hold; nothing where all does."""
        yield from self._request(certificate, now)
        yield from self._evidence(certificate.evidence)
        for line in certificate.places:
            if line.place in self.must_be_gone and line.outcome not in ("deleted", "none found"):
                yield f"{line.place}: {line.outcome}, and nothing may be left there"
            if line.place in self.must_be_known and line.outcome == "unknown":
                yield f"{line.place}: nobody knows, and somebody must"
        model = certificate.model
        if self.signed_bundle and model.release is None:
            yield "the bundle is not signed"
        if model.release is not None and model.release < self.minimum_release:
            yield f"the bundle is release {model.release}, older than {self.minimum_release}"

    def _request(self, certificate: Certificate, now: datetime) -> Iterator[str]:
        request, issued = certificate.request, time_of(certificate.issued)
        told = request.told_on or certificate.issued[:10]
        if issued is None or issued > now:
            yield (
                f"it says that it was issued at {certificate.issued[:40]!r}, which is not a time "
                "before now"
            )
        elif self.max_age_days is not None and (now - issued).days > self.max_age_days:
            yield f"it is {(now - issued).days} days old, older than {self.max_age_days}"
        if self.answered and request.answered is None:
            yield "the ledger does not say that the person was told"
        if self.in_time and told > request.due:
            word = "was told on" if request.answered else "was not told, and it was issued on"
            yield f"the person {word} {told}, after the due day {request.due}"

    def _evidence(self, evidence: Evidence) -> Iterator[str]:
        if evidence.shown_by not in self.shown_by:
            yield (
                f"forgetting is shown by {evidence.shown_by}, and only "
                f"{', '.join(self.shown_by) or 'nothing'} counts"
            )
        elif evidence.shown_by == "equality":
            yield from self._gate(evidence, EXACT, self.max_weight_difference)
        elif evidence.shown_by == "certification":
            yield from self._gate(evidence, CERTIFIED, min(self.max_auc_above, self.max_auc_below))
        else:
            yield from self._attacks(evidence)
        for line in evidence.overrides:
            if line.gate not in self.overrides:
                yield (
                    f"the gate {line.gate[:60]!r} was overridden ({line.reason[:120]}), and the "
                    "policy does not allow it"
                )
        overridden = {line.gate for line in evidence.overrides}
        for gate in evidence.gates:
            if not gate.passed and gate.name not in overridden:
                yield f"the gate {gate.name[:60]!r} did not hold"
        yield from self._use(evidence)

    def _gate(self, evidence: Evidence, name: str, limit: float) -> Iterator[str]:
        value = next((gate.value for gate in evidence.gates if gate.name == name), None)
        if value is None or not value <= limit:
            yield (
                f"{name} is {'not measured' if value is None else f'{value:.4g}'}, and must be at "
                f"most {limit:g}"
            )

    def _attacks(self, evidence: Evidence) -> Iterator[str]:
        if evidence.too_few:
            yield f"no interval counts: {evidence.too_few}"
        for line in evidence.attacks:
            if line.gap is None or line.gap.low is None or line.gap.high is None:
                yield (
                    f"the attack {line.attack[:40]!r} has no interval for what never saw the person"
                )
            elif line.gap.high > self.max_auc_above or line.gap.low < -self.max_auc_below:
                interval = f"{line.gap.low:+.3f} to {line.gap.high:+.3f}"
                limits = f"{-self.max_auc_below:+g} to {self.max_auc_above:+g}"
                yield (
                    f"the attack {line.attack[:40]!r} is {interval} AUC from what never saw the "
                    f"person, and must be {limits}"
                )

    def _use(self, evidence: Evidence) -> Iterator[str]:
        if self.max_error_above is None:
            return
        errors = {line.who: line.error.value for line in evidence.use}
        if not {"released", "never saw them"} <= errors.keys():
            yield "no error was compared with that of what never saw the person"
            return
        above = errors["released"] - errors["never saw them"]
        if above > self.max_error_above:
            most = f"more than {self.max_error_above:g}"
            yield f"its error is {above:.3f} {evidence.unit} above what never saw the person, {most}"


def read_policy(path: Path) -> CertificatePolicy:
    """A policy from a file; `InputError` for what is none."""
    return read_dataclass(CertificatePolicy, path, InputError, max_bytes=MAX_POLICY_BYTES)


def utc_now() -> datetime:
    """Now, in UTC and whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)
