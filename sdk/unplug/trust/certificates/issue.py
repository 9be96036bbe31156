"""Issues a certificate: everything in it is read from the ledger, the bundle and searches, or is
the operator's marked word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from unplug.core import CheckFailed, InputError, atomic_dir, check_replaceable, name_form
from unplug.trust.bundle import Signer, Trust, bundle_id
from unplug.trust.ledger import Ledger, Request, check_ledger, pick, refuse_findings

from .absent import proofs_for
from .certificate import NOT_CLAIMED, Certificate, PlaceLine, SearchLine
from .described import described
from .evidence import unanswered
from .history import ledger_line, request_line
from .places import TraceFile, place_lines, read_trace
from .policy import utc_now
from .sheet import certificate_html
from .statements import sealed

FILE = "certificate.intoto.jsonl"
PAGE = "certificate.html"
OURS = (PAGE, "certificate.pdf")
"""What an older certificate in its place may hold besides the statements."""
MAX_NAME = 120


@dataclass(frozen=True, kw_only=True)
class Issued:
    """A certificate and where it lies.

    Args:
        certificate: the certificate.
        folder: holds `file` and `page`.
    """

    certificate: Certificate
    folder: Path

    @property
    def file(self) -> Path:
        """The signed statements."""
        return self.folder / FILE

    @property
    def page(self) -> Path:
        """The two pages as HTML."""
        return self.folder / PAGE


def issue_certificate(
    request: str,
    *,
    ledger: Ledger,
    bundle: Path,
    signer: Signer,
    out: Path,
    superseded: Path | None = None,
    trust: Trust | None = None,
    traces: Mapping[str, Path] | None = None,
    places: Sequence[PlaceLine] = (),
    absence: Path | None = None,
    issuer: str = "",
    now: datetime | None = None,
) -> Issued:
    """Certifies what was done about one request.

    Args:
        request: its id in the ledger.
        ledger: the ledger that records the request and the release of this bundle for it.
        bundle: a folder or zip file; verified before anything is said of it.
        signer: the key that signs; P-256, as of bundles.
        out: folder to write; an older certificate there is replaced.
        superseded: the earlier bundle, which had the packs, if the bundle is of a base that packs
            left.
        trust: the keys that may have signed the bundle; None takes the key that signs here.
        traces: name of a system to the file that `unplug trace --request ... --out` wrote of it.
        places: the operator's word on places, see `said_place`.
        absence: the release's proofs that pictures are not in the sums; None looks next to
            the bundle, in the release's work folder.
        issuer: the issuer, as they want to be called.
        now: the time, UTC; None takes the clock's.

    Raises:
        InputError: no such request; a trace that the ledger does not hold; something in the ledger
            or the bundle cannot be read; a proof of another release.
        CheckFailed: the ledger was tampered with, or records no release of this bundle for the
            request; the bundle says that it answers others, or must not be used; the request was
            refused or withdrawn; the clock is earlier than the ledger.
        OutputError: `out` is taken by something else, or cannot be written.
    """
    check_replaceable(out, FILE, OURS)
    if len(issuer) > MAX_NAME or not issuer.isprintable():
        raise InputError(
            "the issuer", f"it is not a line of at most {MAX_NAME} characters", "Shorten it"
        )
    certificate = _gathered(
        request,
        ledger,
        bundle,
        superseded,
        trust or Trust(keys=(signer.key,)),
        traces or {},
        places,
        absence,
        issuer,
        now,
    )
    with atomic_dir(out, owner=FILE, ours=OURS, private=True) as folder:
        (folder / FILE).write_bytes(sealed(certificate, signer))
        (folder / PAGE).write_text(certificate_html(certificate, signer.key.hint), encoding="utf-8")
    return Issued(certificate=certificate, folder=out)


def _gathered(
    id: str,
    ledger: Ledger,
    bundle: Path,
    superseded: Path | None,
    trust: Trust,
    traces: Mapping[str, Path],
    places: Sequence[PlaceLine],
    absence: Path | None,
    issuer: str,
    now: datetime | None,
) -> Certificate:
    """What ledger, bundle and searches say, once each of them was checked; see `issue_certificate`."""
    refuse_findings(ledger.shown, check_ledger(ledger, ledger.identity()[1])[1])
    request = pick(ledger.requests(), id)
    line = request_line(id, bundle_id(bundle), request.history, f"request {id}")
    said = described(bundle, superseded, trust)
    if why := unanswered(said.manifest, id):
        raise CheckFailed(
            f"request {id}",
            why,
            "A release with `unplug release ... --request` or `--all-open` names those that it answers",
        )
    searched = [read_trace(path, request, system) for system, path in traces.items()]
    searches = tuple(search for _, search in searched)
    entries = ledger_line(ledger, request, [search.entry for search in searches])
    newest, issued = ledger.entries()[-1], (now or utc_now()).strftime("%Y-%m-%dT%H:%M:%SZ")
    if issued < newest.at:
        why = f"it is {issued} here, and the newest entry of the ledger is of {newest.at}"
        raise CheckFailed("the clock", why, "Set it right, or wait until then")
    return Certificate(
        issued=issued,
        issuer=issuer,
        searches=searches,
        not_claimed=NOT_CLAIMED,
        request=line,
        ledger=entries,
        model=said.model,
        evidence=said.evidence,
        absent=proofs_for(id, absence, bundle, said.manifest),
        places=place_lines(
            [trace for trace, _ in searched], places, everybody=_everybody(request, searched)
        ),
    )


def _everybody(request: Request, searched: Sequence[tuple[TraceFile, SearchLine]]) -> bool:
    """Whether all whom a request still names were searched for, in the same folders; it holds names
    as digests alone.
    """
    last = max(
        (entry.sequence for entry in request.history if entry.kind == "withdrawn"), default=0
    )
    folders: dict[str, set[str]] = {}
    for trace, line in searched:
        if line.entry > last:
            folders.setdefault(name_form(trace.person), set()).update(trace.searched)
    return len(folders) >= len(request.subjects) and len(set(map(frozenset, folders.values()))) == 1
