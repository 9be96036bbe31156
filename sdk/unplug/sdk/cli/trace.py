"""``unplug trace``: where a person still is."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, json_sha256, table, write_json

from .base import Common, Outcome, command
from .ledger_options import ledger_option
from .options import out_option, path_option, spec_option

if TYPE_CHECKING:
    from unplug.trust.certificates import TracedPlace

REACH = (
    "What left this machine (phones that loaded a file, copies, backups, a disk's snapshots) "
    "cannot be searched from here."
)

UNSEEN = (
    "Pictures that were encoded, cut or resized anew have other pixels: they are found by their "
    "names alone, or not. So are "
    "pictures that the data never held."
)


@click.command()
@click.argument("person")
@spec_option("The data that hold, or held, the pictures.")
@path_option(
    "--in",
    "folders",
    multiple=True,
    metavar="DIR",
    help=(
        "A folder of unplug's, with all below it: checkpoints, references, exports, bundles; may "
        "be repeated."
    ),
)
@path_option(
    "--search",
    "deep",
    multiple=True,
    metavar="DIR",
    help=(
        "A folder of anything: every file is opened, pictures are compared by their exact pixels; "
        "may be repeated."
    ),
)
@click.option(
    "--request", metavar="ID", help="Record the search in the ledger, as a step of this request."
)
@ledger_option
@click.option(
    "--purge", is_flag=True, help="Delete what the cache keeps of the person; needs --request."
)
@out_option("Also write the result as JSON.", required=False)
@command
def trace(
    person: str,
    spec: str,
    folders: tuple[Path, ...],
    deep: tuple[Path, ...],
    request: str | None,
    where: str | None,
    purge: bool,
    out: Path | None,
    common: Common,
) -> Outcome:
    """Find what still holds PERSON (a sample id or subject:NAME), was trained on them, was made
    from that, or names them.
    """
    from unplug.sdk.learning.data import purge as delete
    from unplug.sdk.tracing import person_in
    from unplug.sdk.tracing import trace as look

    if not folders and not deep:
        fix = "Add --in DIR, where unplug's files lie, or --search DIR, any other"
        raise InputError("trace", "no folder is named", fix)
    if purge and request is None:
        fix = "Add --request ID, whose step it is"
        raise InputError("--purge", "what is deleted is recorded", fix)
    if request is not None:
        _check_request(where, request, person)
    places, cached = look(spec, person_in(spec, person), folders, deep=deep, show=common.show)
    freed = delete(cached) if purge and cached else 0
    held = [str(path) for entry in cached for path in entry.paths if not path.exists()]
    purged = held if purge else []
    places = tuple(
        replace(place, standing="deleted", goes_by="") if place.path in purged else place
        for place in places
    )
    value: dict[str, Any] = {
        "nonce": secrets.token_hex(32),  # else whoever reads its hash in the ledger could try names
        "person": person,
        "data": spec,
        "searched": [str(folder.resolve()) for folder in (*folders, *deep)],
        "places": [asdict(place) for place in places],
        "purged": purged,
        "out_of_reach": REACH,
    }
    if out is not None:
        write_json(out, value, private=True)
    lines = _lines(places)
    if purge:
        told = f"{freed:,} bytes of the cache were deleted"
        lines.append(told if purged else "the cache kept nothing of them")
    entry = None
    if request is not None:
        entry = _record(where, request, value, places)
        lines.append(f"recorded as entry {entry}")
    lines += [UNSEEN, REACH] if deep else [REACH]
    return Outcome(value=value | {"entry": entry}, text="\n".join(lines))


def _lines(places: Sequence[TracedPlace]) -> list[str]:
    rows = [
        [
            place.standing,
            place.kind,
            "" if place.samples is None else str(place.samples),
            place.path,
        ]
        for place in places
    ]
    counts = Counter(place.standing for place in places)
    return [
        table(["", "what", "samples", "where"], rows),
        ", ".join(f"{number} {name}" for name, number in counts.items()),
        *(
            f"{place.path}: {place.goes_by}"
            for place in places
            if place.goes_by and place.kind != "data"
        ),
    ]


def _check_request(where: str | None, request: str, person: str) -> None:
    """Before anything is deleted: the ledger has that request, and it names that person."""
    from unplug.trust.ledger import open_ledger, opening_for, pick, signing_key

    signing_key()
    ledger = open_ledger(where)
    opening_for(ledger, pick(ledger.requests(), request), person)


def _record(
    where: str | None, request: str, value: dict[str, Any], places: Sequence[TracedPlace]
) -> int:
    """As a step of the request: how many places, and the hash of what was found."""
    from unplug.trust.certificates import TraceFile, kept_facts
    from unplug.trust.ledger import open_ledger

    searched = {name: tuple(value[name]) for name in ("searched", "purged")}
    counts = Counter(place.standing for place in places)
    facts: dict[str, str] = {name: str(number) for name, number in counts.items()}
    facts |= kept_facts(TraceFile(**{**value, **searched, "places": tuple(places)}))
    facts |= {"trace_sha256": json_sha256(value), "purged": str(len(value["purged"]))}
    ledger = open_ledger(where)
    return ledger.record("step", [request], note="searched for traces", facts=facts).sequence
