"""The two pages that a reader sees: one HTML file, no script, no address outside, two sheets of A4
when printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from unplug.core import MINUS, NONE, Estimate, counted, fixed, percent, plain, signed, size, span

from .certificate import Certificate
from .described import PACKS
from .evidence import AUDIT

HERE = Path(__file__).parent
Tone = Literal["good", "bad", "open", ""]
MOST_FILES = 8
"""The files that fit the second page."""
TONES: dict[str, Tone] = {"deleted": "good", "none found": "good", "kept": "open", "unknown": "bad"}


@dataclass(frozen=True)
class Piece:
    """What stands in a cell.

    Args:
        text: first.
        note: smaller, after or below it.
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
        title: the title above it.
        head: the heads of the columns.
        widths: shares of the width, which add up to 1.
        rows: the rows of the table.
        note: the note below it.
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


def certificate_html(certificate: Certificate, key: str) -> str:
    """The pages; the same certificate and key give the same text.

    Args:
        certificate: the certificate to show.
        key: fingerprint of the key that signs.
    """
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (HERE / "certificate.css").read_text(encoding="utf-8")
    template = environment.get_template("certificate.html.j2")
    return template.render(sheet=_sheet(certificate, key), style=style)


def _sheet(certificate: Certificate, key: str) -> Sheet:
    attacks = () if certificate.model.model_type == PACKS else (_attacks(certificate),)
    first = (_dates(certificate), _model(certificate), *attacks, _gates(certificate))
    second = (
        _places(certificate),
        _files(certificate),
        _limits(certificate),
        _verifying(certificate, key),
    )
    issuer = f" by {certificate.issuer}" if certificate.issuer else ""
    return Sheet(
        title="Certificate of forgetting",
        subtitle=f"Request {certificate.request.id} · issued {_time(certificate.issued)}{issuer}",
        lead=_lead(certificate),
        pages=(first, second),
        foot=(
            "This page is a view: what is signed is certificate.intoto.jsonl. No person is named "
            "or shown. No legal advice."
        ),
    )


def _lead(certificate: Certificate) -> str:
    evidence, model = certificate.evidence, certificate.model
    if model.model_type == PACKS:
        return (
            f"{counted(model.forget_samples, 'pack')} left the base. Its other parts never saw what "
            "was learned there, and are, by SHA-256, those of the bundle before: anyone who has these "
            "files has nothing of it."
        )
    count = counted(model.forget_samples, "sample")
    gates = {gate.name: gate for gate in evidence.gates}
    if evidence.shown_by == "equality":
        worst = gates["equality"].value
        return (
            f"{count} were forgotten by {model.method}. Every weight of the released model was "
            "compared with a model computed "
            f"without them: the largest difference is {NONE if worst is None else f'{worst:.3g}'}."
        )
    gaps = [
        line.gap for line in evidence.attacks if line.gap is not None and line.gap.low is not None
    ]
    ends = [abs(end) for gap in gaps for end in (gap.low, gap.high) if end is not None]
    shown = f"at most {max(ends):.3f} AUC" if ends else "by an amount that could not be bounded"
    text = (
        f"{count} were forgotten by {model.method}. {len(evidence.attacks)} attacks tell the "
        "forgotten from strangers; on the "
        f"released model they differ from models that never saw them {shown} (ends of the "
        "intervals)."
    )
    if evidence.shown_by == "certification":
        text += " The method was certified on many other people."
    return text


def _dates(certificate: Certificate) -> Pairs:
    request = certificate.request
    day = (
        ""
        if request.answered_on is None
        else f"on {request.told_on} where they were told (UTC{request.answered_on[10:]})"
    )
    told = Piece(_time(request.answered), tone="good" if request.in_time else "bad", note=day)
    answered = Piece("not yet", tone="open") if request.in_time is None else told
    return Pairs(
        title="The request",
        across=4,
        rows=(
            ("Received", Piece(request.received)),
            ("Due", Piece(request.due, note="extended once" if request.extended else "")),
            ("Released", Piece(_time(request.released))),
            ("Answered", answered),
            ("Identity", Piece("checked" if request.identity_checked else "no entry says so")),
            ("Recipients told", Piece(str(request.informed))),
            (
                _counted(certificate),
                Piece(
                    text=str(certificate.model.forget_samples), note="all requests of this release"
                ),
            ),
            (
                "Entries in the ledger",
                Piece(str(len(certificate.ledger.entries)), note="proved in this file"),
            ),
        ),
    )


def _counted(certificate: Certificate) -> str:
    return "Packs that left" if certificate.model.model_type == PACKS else "Samples forgotten"


def _model(certificate: Certificate) -> Pairs:
    model = certificate.model
    name = (
        f"release {model.release} of {model.product}"
        if model.release is not None
        else "not signed by itself"
    )
    bundle = ("Bundle", Piece(model.bundle, note=name, mono=True))
    if model.model_type == PACKS:
        left = model.method.split("; ")
        rows = [("Bundle before", Piece(model.original_sha256, mono=True)), bundle]
        return Pairs(title="The base", rows=(*rows, *(("", Piece(text)) for text in left)))
    return Pairs(
        title="The model",
        rows=(
            bundle,
            ("Weights, before", Piece(model.original_sha256, mono=True)),
            ("Weights, released", Piece(model.checkpoint_sha256, mono=True)),
            ("Training data", Piece(model.data_digest, mono=True)),
            (
                "Design or method",
                Piece(model.method, note=f"cost {percent(model.compute, 2)} of retraining"),
            ),
            *_absent(certificate),
        ),
    )


def _absent(certificate: Certificate) -> Iterator[tuple[str, Piece]]:
    if certificate.absent:
        count = counted(len(certificate.absent), "picture")
        note = "each proved to be between its neighbours of a sorted list, and not in it"
        yield "Not in the sums", Piece(count, note=note, tone="good")


def _attacks(certificate: Certificate) -> Grid:
    evidence = certificate.evidence
    rows = [
        (
            Piece(line.attack),
            _number(line.model),
            _number(line.never_saw),
            _number(line.original),
            _number(line.gap, sign=True),
        )
        for line in evidence.attacks
    ]
    errors = {line.who: line for line in evidence.use}
    ours, theirs, before = (
        errors.get("released"),
        errors.get("never saw them"),
        errors.get("before"),
    )
    if ours is not None and theirs is not None:
        digits = 2 if evidence.unit == "years" else 3
        gap = signed(ours.error.value - theirs.error.value, digits)
        rows.append(
            (
                Piece("error, strangers", note=evidence.unit),
                _number(ours.error, digits),
                _number(theirs.error, digits),
                _number(None if before is None else before.error, digits),
                Piece(gap),
            )
        )
    more = [
        f"Careful: {text}."
        for text in filter(None, [evidence.too_few and plain(evidence.too_few, 300)])
    ]
    more += [f"Alarm: {plain(text, 200)}" for text in evidence.alarms]
    more += [f"Not measured: {', '.join(sorted(evidence.skipped))}."] if evidence.skipped else []
    if not evidence.attacks:
        return Grid(
            title="What the model is worth, compared with one that never saw the person",
            head=("", "released model", "never saw them", "before", "difference"),
            widths=(0.2, 0.2, 0.2, 0.2, 0.2),
            rows=tuple(rows),
            note=(
                "No attack was made: every weight was compared with one computed without the "
                f"forgotten, and no attack could add to that. Compared with: {evidence.beside}."
            ),
        )
    return Grid(
        title="What attacks find, compared with models that never saw the person",
        head=("", "released model", "never saw them", "before", "difference"),
        widths=(0.2, 0.2, 0.2, 0.2, 0.2),
        rows=tuple(rows),
        note=(
            "Area under the curve (AUC) of telling the forgotten from strangers, with 95 % "
            "intervals. 0.5 is guessing; people "
            "may differ from strangers without any training, so the difference counts. Compared with: "
            f"{evidence.beside}. "
            f"{' '.join(more)}"
        ),
    )


def _number(item: Estimate | None, digits: int = 3, *, sign: bool = False) -> Piece:
    if item is None:
        return Piece(NONE)
    return Piece(
        text=(signed if sign else fixed)(item.value, digits),
        note=span(item.low, item.high, digits, sign=sign),
    )


def _gates(certificate: Certificate) -> Grid:
    """Two gates side by side, so that a release with many of them still fits the page."""
    overridden = {line.gate: line.reason for line in certificate.evidence.overrides}
    cells: list[tuple[Piece, ...]] = []
    for gate in certificate.evidence.gates:
        word = Piece("holds", tone="good") if gate.passed else Piece("fails", tone="bad")
        if gate.name in overridden:
            word = Piece("overridden", note=plain(overridden[gate.name], 120), tone="bad")
        value = "not measured" if gate.value is None else f"{gate.value:.3g}"
        end = "at most" if gate.comparison == "<=" else "at least"
        text = f"{value}, {end} {gate.limit:g}".replace("-", MINUS)
        cells.append(
            (
                Piece(plain(gate.name)),
                Piece(text, note=plain(gate.unit.strip(), 60)),
                word,
            )
        )
    cells += [(Piece(""),) * 3] * (len(cells) % 2)
    half = len(cells) // 2
    return Grid(
        title="What the release was held to",
        head=("gate", "measured, and its limit", "") * 2,
        widths=(0.16, 0.22, 0.12) * 2,
        rows=tuple((*cells[at], *cells[half + at]) for at in range(half)),
    )


def _places(certificate: Certificate) -> Grid:
    searched = [
        f"{plain(item.system)} ({counted(item.folders, 'folder')}, {_time(item.at)})"
        for item in certificate.searches
    ]
    told = f"Searched: {'; '.join(searched)}." if searched else "No search is recorded."
    return Grid(
        title="Where the person may still be",
        head=("place", "", "found", "why", "says"),
        widths=(0.21, 0.15, 0.08, 0.44, 0.12),
        rows=tuple(
            (
                Piece(line.place),
                Piece(line.outcome, tone=TONES[line.outcome]),
                Piece(NONE if line.count is None else str(line.count)),
                Piece(plain(line.why, 200)),
                Piece(line.by),
            )
            for line in certificate.places
        ),
        note=f"{told} What a search found stays with the operator; its hash is in the ledger.",
    )


def _files(certificate: Certificate) -> Grid:
    files = [
        item for item in certificate.model.files if item.name == AUDIT or _is_model(item.name)
    ][:MOST_FILES]
    rows = tuple(
        (
            Piece(_short(item.name.partition("/")[2])),
            Piece(item.sha256, mono=True),
            Piece(size(item.bytes)),
        )
        for item in files
    )
    hidden = len(certificate.model.files) - len(rows)
    return Grid(
        title="Files of the bundle",
        head=("file", "SHA-256", "size"),
        widths=(0.31, 0.57, 0.12),
        rows=rows,
        note=f"And {hidden} more, each with its hash in the signed file." if hidden else "",
    )


def _is_model(name: str) -> bool:
    """Whether it is an exported file, or a part of one, and not the card next to it."""
    return "/" in name and not name.endswith(".json")


def _short(name: str, most: int = 28) -> str:
    """The beginning and the end of a long name."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[1 - most // 2 :]}"


def _limits(certificate: Certificate) -> Prose:
    return Prose(
        title="What this does not say",
        lines=tuple(Piece(line) for line in certificate.not_claimed),
    )


def _verifying(certificate: Certificate, key: str) -> Prose:
    return Prose(
        title="How to verify, without the issuer and without a network",
        lines=(
            Piece(
                text=(
                    "Get the issuer's public key and the ledger's by another way than this page, "
                    "and set your own limits."
                )
            ),
            Piece(
                text=(
                    "unplug certificate verify certificate.intoto.jsonl --trust KEY.pub --bundle "
                    "BUNDLE --policy policy.json"
                ),
                mono=True,
            ),
            Piece("Signed by the key", note=key),
            Piece("Ledger", note=certificate.ledger.vkey),
        ),
    )


def _time(text: str | None) -> str:
    """A UTC time as a page shows it, to the minute."""
    return NONE if text is None else f"{text[:10]} {text[11:16]} UTC"
