"""One search for a person, with what it purged and what the ledger keeps of it."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import json_sha256, write_json
from unplug.sdk.learning.data import purge as delete
from unplug.trust.certificates import TracedPlace, TraceFile, kept_facts
from unplug.trust.ledger import opening_for, pick, signing_key

from .search import person_in, trace

if TYPE_CHECKING:
    from unplug.trust.ledger import Ledger

REACH = (
    "What left this machine (phones that loaded a file, copies, backups, a disk's snapshots) "
    "cannot be searched from here."
)


@dataclass(frozen=True, kw_only=True)
class TracedSearch:
    """What a search came to.

    Args:
        places: the places where she was found or could not be looked for.
        value: the same as ``unplug trace --out`` writes it.
        freed: bytes of the cache that were deleted.
        entry: the ledger's entry that records it; None where no request is named.
    """

    places: tuple[TracedPlace, ...]
    value: dict[str, Any]
    freed: int
    entry: int | None


def search_for(
    spec: str,
    name: str,
    folders: Sequence[Path],
    *,
    deep: Sequence[Path] = (),
    purge: bool = False,
    ledger: Ledger | None = None,
    request: str | None = None,
    out: Path | None = None,
    show: bool = False,
) -> TracedSearch:
    """Finds every place of a person, deletes what the cache keeps of her, and records that.

    Args:
        spec, folders, deep, show: see `trace`.
        name: a sample id, or somebody's name with or without ``subject:``.
        purge: delete what the cache keeps of her.
        ledger, request: the ledger and the request that record it; None records nothing.
        out: file for the result, written before the ledger is told.

    Raises:
        InputError: no such request, or it names somebody else; a folder is not there.
        DataError: the data do not know that name.
    """
    person = person_in(spec, name)
    if ledger is not None and request is not None:  # before anything is deleted
        signing_key()
        opening_for(ledger, pick(ledger.requests(), request), person.name)
    places, cached = trace(spec, person, folders, deep=deep, show=show)
    freed = delete(cached) if purge and cached else 0
    held = [str(path) for entry in cached for path in entry.paths if not path.exists()]
    purged = held if purge else []
    places = tuple(
        replace(place, standing="deleted", goes_by="") if place.path in purged else place
        for place in places
    )
    value: dict[str, Any] = {
        "nonce": secrets.token_hex(32),  # else readers of its hash in the ledger could try names
        "person": person.name,
        "data": spec,
        "searched": [str(folder.resolve()) for folder in (*folders, *deep)],
        "places": [asdict(place) for place in places],
        "purged": purged,
        "out_of_reach": REACH,
    }
    if out is not None:
        write_json(out, value, private=True)
    entry = None
    if ledger is not None and request is not None:
        entry = _record(ledger, request, value, places)
    return TracedSearch(places=places, value=value, freed=freed, entry=entry)


def _record(
    ledger: Ledger, request: str, value: dict[str, Any], places: Sequence[TracedPlace]
) -> int:
    """The search as a step of the request: how many places, and the hash of what was found."""
    searched = {name: tuple(value[name]) for name in ("searched", "purged")}
    counts = Counter(place.standing for place in places)
    facts: dict[str, str] = {name: str(number) for name, number in counts.items()}
    facts |= kept_facts(TraceFile(**{**value, **searched, "places": tuple(places)}))
    facts |= {"trace_sha256": json_sha256(value), "purged": str(len(value["purged"]))}
    return ledger.record("step", [request], note="searched for traces", facts=facts).sequence
