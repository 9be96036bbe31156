"""The two pages, as blocks that HTML and PDF draw alike: what a reader sees is decided here, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from unplug.core import NONE, fixed, percent, plain, signed, size, span
from unplug.sdk.statistics import Estimate

from .certificate import AttackLine, Certificate, FileLine, PlaceLine

Tone = Literal["good", "bad", "open", ""]
TONES: dict[str, Tone] = {"deleted": "good", "none found": "good", "kept": "open", "unknown": "bad"}


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What stands in a cell.

    Args:
        text: first.
        note: smaller, behind or below it.
        mono: a hash or a command.
        tone: colours the text.
    """

    text: str
    note: str = ""
    mono: bool = False
    tone: Tone = ""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Labels with what they stand for; `across` of them side by side."""

    title: str
    rows: tuple[tuple[str, Piece], ...]
    across: int = 1


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table.

    Args:
        title: above it.
        head: of the columns.
        widths: shares of the width, which add up to 1.
        rows: of it.
        note: below it.
    """

    title: str
    head: tuple[str, ...]
    widths: tuple[float, ...]
    rows: tuple[tuple[Piece, ...], ...]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Prose:
    """Sentences, one a line; `mono` ones are commands."""

    title: str
    lines: tuple[Piece, ...]


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """The whole of it: the head, then a list of blocks a page."""

    title: str
    subtitle: str
    lead: str
    pages: tuple[tuple[Pairs | Grid | Prose, ...], ...]
    foot: str


def sheet_of(certificate: Certificate, key: str) -> Sheet:
    """The two pages of a certificate.

    Args:
        certificate: what to show.
        key: fingerprint of the key that signs.
    """
    first = (_dates(certificate), _model(certificate), _attacks(certificate), _gates(certificate))
    second = (_places(certificate), _files(certificate), _limits(certificate), _verifying(certificate, key))
    issuer = f" by {certificate.issuer}" if certificate.issuer else ""
    return Sheet(
        title="Certificate of forgetting",
        subtitle=f"Request {certificate.request.id} · issued {_time(certificate.issued)}{issuer}",
        lead=_lead(certificate), pages=(first, second),
        foot="This page is a view: what is signed is certificate.intoto.jsonl. No person is named or shown. No legal advice.",
    )  # fmt: skip


def _lead(certificate: Certificate) -> str:
    evidence, model = certificate.evidence, certificate.model
    count = f"{model.forget_samples} sample{'' if model.forget_samples == 1 else 's'}"
    gates = {gate.name: gate for gate in evidence.gates}
    if evidence.shown_by == "equality":
        worst = gates["equality"].value
        return (
            f"{count} were forgotten by {model.method}. Every weight of the released model was compared with a model computed "
            f"without them: the largest difference is {NONE if worst is None else f'{worst:.3g}'}."
        )
    gaps = [line.gap for line in evidence.attacks if line.gap is not None and line.gap.low is not None]
    ends = [abs(end) for gap in gaps for end in (gap.low, gap.high) if end is not None]
    shown = f"at most {max(ends):.3f} AUC" if ends else "by an amount that could not be bounded"
    text = (
        f"{count} were forgotten by {model.method}. {len(evidence.attacks)} attacks tell the forgotten from strangers; on the "
        f"released model they differ from models that never saw them {shown} (ends of the intervals)."
    )
    if evidence.shown_by == "certification":
        text += " The method was certified on many other people."
    return f"{text} The intervals count nobody: {evidence.too_few}." if evidence.too_few else text


def _dates(certificate: Certificate) -> Pairs:
    request = certificate.request
    late = {True: Piece(text=_time(request.answered), tone="good"), False: Piece(text=_time(request.answered), tone="bad")}
    answered = Piece(text="not yet", tone="open") if request.in_time is None else late[request.in_time]
    return Pairs(
        title="The request", across=4,
        rows=(
            ("Received", Piece(text=request.received)),
            ("Due", Piece(text=request.due, note="extended once" if request.extended else "")),
            ("Released", Piece(text=_time(request.released))),
            ("Answered", answered),
            ("Identity", Piece(text="checked" if request.identity_checked else "no entry says so")),
            ("Recipients told", Piece(text=str(request.informed))),
            ("Samples forgotten", Piece(text=str(certificate.model.forget_samples), note="all requests of this release")),
            ("Entries in the ledger", Piece(text=str(len(certificate.ledger.entries)), note="proved in this file")),
        ),
    )  # fmt: skip


def _model(certificate: Certificate) -> Pairs:
    model = certificate.model
    name = f"release {model.release} of {model.product}" if model.release is not None else "not signed by itself"
    return Pairs(
        title="The model",
        rows=(
            ("Bundle", Piece(text=model.bundle, note=name, mono=True)),
            ("Weights, before", Piece(text=model.original_sha256, mono=True)),
            ("Weights, released", Piece(text=model.checkpoint_sha256, mono=True)),
            ("Training data", Piece(text=model.data_digest, mono=True)),
            ("Design or method", Piece(text=model.method, note=f"cost {percent(model.compute, 2)} of retraining")),
        ),
    )  # fmt: skip


def _attacks(certificate: Certificate) -> Grid:
    evidence = certificate.evidence
    rows = [_attack(line) for line in evidence.attacks]
    errors = {line.who: line for line in evidence.use}
    ours, theirs, before = (errors.get(who) for who in ("released", "never saw them", "before"))
    if ours is not None and theirs is not None:
        digits = 2 if evidence.unit == "years" else 3
        gap = signed(ours.error.value - theirs.error.value, digits)
        rows.append((
            Piece(text="error, strangers", note=evidence.unit), _number(ours.error, digits), _number(theirs.error, digits),
            _number(None if before is None else before.error, digits), Piece(text=gap),
        ))  # fmt: skip
    skipped = f" Not measured: {', '.join(sorted(evidence.skipped))}." if evidence.skipped else ""
    return Grid(
        title="What attacks find, beside models that never saw the person",
        head=("", "released model", "never saw them", "before", "difference"), widths=(0.2, 0.2, 0.2, 0.2, 0.2),
        rows=tuple(rows),
        note=(
            "Area under the curve (AUC) of telling the forgotten from strangers, with 95 % intervals. 0.5 is guessing; people "
            f"may differ from strangers without any training, so the difference counts. Beside it: {evidence.beside}.{skipped}"
        ),
    )  # fmt: skip


def _attack(line: AttackLine) -> tuple[Piece, ...]:
    return (
        Piece(text=line.attack), _number(line.model), _number(line.never_saw), _number(line.original),
        _number(line.gap, sign=True),
    )  # fmt: skip


def _number(item: Estimate | None, digits: int = 3, *, sign: bool = False) -> Piece:
    if item is None:
        return Piece(text=NONE)
    return Piece(text=(signed if sign else fixed)(item.value, digits), note=span(item.low, item.high, digits, sign=sign))


def _gates(certificate: Certificate) -> Grid:
    overridden = {line.gate: line.reason for line in certificate.evidence.overrides}
    rows = []
    for gate in certificate.evidence.gates:
        value = "not measured" if gate.value is None else f"{gate.value:.4g}"
        word = Piece(text="holds", tone="good") if gate.passed else Piece(text="fails", tone="bad")
        if gate.name in overridden:
            word = Piece(text="overridden", note=plain(overridden[gate.name], 120), tone="bad")
        text = f"{value} {gate.comparison} {gate.limit:g}"
        rows.append((Piece(text=gate.name), Piece(text=text, note=plain(gate.unit.strip(), 80)), word))
    return Grid(
        title="What the release was held to", head=("gate", "measured, and its limit", ""), widths=(0.3, 0.54, 0.16),
        rows=tuple(rows),
    )  # fmt: skip


def _places(certificate: Certificate) -> Grid:
    searched = [f"{plain(item.system)} ({item.folders} folders, {_time(item.at)})" for item in certificate.searches]
    told = f"Searched: {'; '.join(searched)}." if searched else "No search is recorded."
    return Grid(
        title="Where the person may still be", head=("place", "", "found", "why", "says"),
        widths=(0.21, 0.13, 0.08, 0.46, 0.12),
        rows=tuple(_place(line) for line in certificate.places),
        note=f"{told} What a search found stays with the operator; its hash is in the ledger.",
    )  # fmt: skip


def _place(line: PlaceLine) -> tuple[Piece, ...]:
    counted = NONE if line.count is None else str(line.count)
    return (
        Piece(text=line.place), Piece(text=line.outcome, tone=TONES[line.outcome]), Piece(text=counted),
        Piece(text=plain(line.why, 200)), Piece(text=line.by),
    )  # fmt: skip


def _files(certificate: Certificate) -> Grid:
    rows = tuple(
        (Piece(text=plain(item.name, 48)), Piece(text=item.sha256, mono=True), Piece(text=size(item.bytes)))
        for item in _shown(certificate)
    )
    hidden = len(certificate.model.files) - len(rows)
    return Grid(
        title="Files of the bundle", head=("file", "SHA-256", "size"), widths=(0.26, 0.62, 0.12), rows=rows,
        note=f"And {hidden} more, each with its hash in the signed file." if hidden else "",
    )  # fmt: skip


def _shown(certificate: Certificate, most: int = 8) -> Sequence[FileLine]:
    """The exported files and the audit, as many as fit a page."""
    files = [
        item for item in certificate.model.files if not item.name.startswith("artifacts/") or not item.name.endswith(".json")
    ]
    return [item for item in files if item.name.startswith("artifacts/") or item.name.endswith("audit.json")][:most]


def _limits(certificate: Certificate) -> Prose:
    return Prose(title="What this does not say", lines=tuple(Piece(text=line) for line in certificate.not_claimed))


def _verifying(certificate: Certificate, key: str) -> Prose:
    return Prose(
        title="How to verify, without the issuer and without a network",
        lines=(
            Piece(text="Get the issuer's public key and the ledger's by another way than this page. Your limits are in a policy."),
            Piece(
                text="unplug certificate verify certificate.intoto.jsonl --key KEY.pub --bundle BUNDLE --policy policy.json",
                mono=True,
            ),
            Piece(text="Signed by the key", note=key),
            Piece(text="Ledger", note=certificate.ledger.vkey),
        ),
    )  # fmt: skip


def _time(text: str | None) -> str:
    """A UTC time as a page shows it."""
    return NONE if text is None else text.replace("T", " ").replace(":00Z", " UTC").replace("Z", " UTC")
