"""Where the person was looked for, as a certificate may say it: kinds of places and counts, never a
path or a name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, ClassVar, Literal, get_args

from unplug.core import STRICT, InputError, json_sha256, read_dataclass, read_json
from unplug.trust.ledger import Request

from .certificate import Outcome, PlaceLine, PlaceName, SearchLine

PlaceStanding = Literal["holds", "deleted", "remembers", "derived", "names", "forgot", "unknown"]
"""``holds``: pictures, or what was computed of them. ``deleted``: it held them until this search
purged it. ``remembers``: a model that was trained on them, or what such models say. ``derived``:
made from such a model. ``names``: her name or an id is in it. ``forgot``: made to forget her.
``unknown``: it could not be looked into.
"""
MAX_TRACE_BYTES = 64 * 2**20
MAX_WHY = 200
PLACES: tuple[PlaceName, ...] = get_args(PlaceName)
SEARCHED: tuple[PlaceName, ...] = (
    "raw data",
    "caches",
    "work folders",
    "checkpoints",
    "references and folds",
    "earlier bundles",
    "lists and reports",
)
"""What `unplug trace` looks through; of the others only the operator can say something."""
WORK = ".release"
"""The end of the name of a release's work folder."""
KEPT = {
    "raw data": "the data still hold pictures",
    "caches": "decoded pictures are cached",
    "work folders": "a model from before the forget step lies there",
    "checkpoints": "a model from before the forget step",
    "references and folds": "models that saw the person, for audits",
    "earlier bundles": "files made from a model that saw the person",
    "lists and reports": "the name or an id stands there",
}
KINDS: dict[str, PlaceName] = {
    "checkpoint": "checkpoints",
    "pack": "checkpoints",
    "base": "checkpoints",
    "decoder": "checkpoints",
    "LoRA": "checkpoints",
    "weights": "checkpoints",
    "references": "references and folds",
    "bundle": "earlier bundles",
    "exported file": "earlier bundles",
}
"""The kinds of traced places, where the kind alone says it."""
REMAINS = ("holds", "remembers", "derived", "names")
"""How places stand, by `unplug trace`, that are to be cleared."""
NOBODY = "not searched, and nothing was said"
FACT = "kept "
CLOSED = "unknown "
"""What facts of a search in the ledger begin with: after it the kind of place, and how many of
them as the value.
"""
ANYTHING = ("archive", "file", "files", "folder", "link")
"""Kinds that could hold whatever one looks for, where they could not be looked into."""
SPARED = "not everybody whom the request names was searched for in all of it"
_MORE = "could not be looked into"


@dataclass(frozen=True, kw_only=True)
class TracedPlace:
    """Where a person was found, or could not be looked for.

    Args:
        path: file or folder.
        kind: the kind of place, in words.
        standing: see `PlaceStanding`.
        samples: how many of hers, where that is known.
        goes_by: the way to remove it, or why that cannot be told.
    """

    path: str
    kind: str
    standing: PlaceStanding
    samples: int | None = None
    goes_by: str = ""


@dataclass(frozen=True, kw_only=True)
class TraceFile:
    """What `unplug trace --out` writes; see there."""

    __pydantic_config__: ClassVar[Any] = STRICT

    nonce: str
    person: str
    data: str
    searched: tuple[str, ...]
    places: tuple[TracedPlace, ...]
    purged: tuple[str, ...]
    out_of_reach: str


def read_trace(path: Path, request: Request, system: str) -> tuple[TraceFile, SearchLine]:
    """A search that the ledger holds as a step of the request.

    Raises:
        InputError: it is not such a file, or the ledger holds no such search for this request: it
            was edited, or made without ``--request``.
    """
    trace = read_dataclass(TraceFile, path, InputError, max_bytes=MAX_TRACE_BYTES)
    if not trace.searched:
        raise InputError(
            str(path), "it searched no folder", "Search with `unplug trace ... --in DIR`"
        )
    sha256 = json_sha256(read_json(path, max_bytes=MAX_TRACE_BYTES))
    entry = next(
        (item for item in request.history if item.facts.get("trace_sha256") == sha256), None
    )
    if entry is None:
        why = f"the ledger holds no search with this result for the request {request.id}"
        raise InputError(
            str(path),
            why,
            f"Search with `unplug trace ... --request {request.id} --out FILE`, and do not edit it",
        )
    line = SearchLine(
        system=system,
        folders=len(trace.searched),
        trace_sha256=sha256,
        entry=entry.sequence,
        at=entry.at,
    )
    return trace, line


def said_place(text: str) -> PlaceLine:
    """The operator's word on a kind of place: ``backups=kept: overwritten after 30 days``.

    Raises:
        InputError: no such place or outcome; or kept or unknown without why.
    """
    place, _, rest = text.partition("=")
    name, (outcome, _, why) = place.strip(), (part.strip() for part in rest.partition(":"))

    def refusal(why: str, fix: str) -> InputError:
        return InputError(f"`place={text[:80]}`", why, fix)

    if name not in PLACES:
        raise refusal("there is no such place", f"Use one of: {', '.join(PLACES)}")
    if outcome not in get_args(Outcome):
        known = ", ".join(get_args(Outcome))
        example = "Write for example 'backups=kept: overwritten after 30 days'"
        raise refusal("no outcome is said", f"{example}; outcomes are {known}")
    if outcome in ("kept", "unknown") and not why:
        raise refusal(f"it does not say why it is {outcome}", "Write the reason after a colon")
    if len(why) > MAX_WHY or not why.isprintable():
        raise refusal(f"its reason is not a line of at most {MAX_WHY} characters", "Shorten it")
    return PlaceLine(place=name, outcome=outcome, count=None, why=why, by="operator")  # type: ignore[arg-type]


def place_lines(
    traces: Sequence[TraceFile], said: Sequence[PlaceLine], *, everybody: bool = True
) -> tuple[PlaceLine, ...]:
    """One line for every kind of place.

    The operator's word goes before a search, for it may be newer: what is said was found stands
    there as a count all the same.

    Args:
        traces: traces from `read_trace`.
        said: statements from `said_place`.
        everybody: whether they are of all whom the request names; else nothing counts as not there.

    Raises:
        InputError: the operator spoke twice of one kind.
    """
    words = {line.place: line for line in said}
    if len(words) < len(said):
        raise InputError("`place`", "one kind of place is given twice", "Say one thing of each")
    lines = [_found(name, traces, everybody) for name in PLACES]
    return tuple(
        line if (word := words.get(line.place)) is None else replace(word, count=line.count)
        for line in lines
    )


def kept_facts(trace: TraceFile) -> dict[str, str]:
    """What a search says of kinds of places, ready to be a ledger's facts: how many of each hold
    the person, or may.
    """
    words = {"kept": FACT, "unknown": CLOSED}
    lines = [
        line for line in place_lines([trace], []) if line.by == "search" and line.outcome in words
    ]
    return {f"{words[line.outcome]}{line.place}": str(line.count) for line in lines}


def unlike_places(
    places: Sequence[PlaceLine], searches: Sequence[SearchLine], facts: Sequence[Mapping[str, str]]
) -> list[str]:
    """What is said of places by a search, or by nobody, and is not what a search could have found.

    Args:
        places, searches: the parts of a certificate.
        facts: the facts of the ledger's entries on these searches; those of older ledgers say less.
    """
    problems = []
    for line in places:
        kept, closed = (
            any(f"{word}{line.place}" in item for item in facts) for word in (FACT, CLOSED)
        )
        if line.by == "nobody" and (line.outcome, line.count, line.why) != (
            "unknown",
            None,
            NOBODY,
        ):
            problems.append(f"{line.place}: nobody said {line.outcome!r} of it")
        elif line.by != "search":
            continue
        elif line.place not in SEARCHED or not any(search.folders > 0 for search in searches):
            problems.append(f"{line.place}: {line.outcome} by a search, and there was none")
        elif re.sub(r"\d+", "0", line.why) not in _reasons(line):
            problems.append(f"{line.place}: {line.why[:80]!r} is not what a search says of it")
        elif line.outcome not in (
            ("kept",) if kept else ("kept", "unknown") if closed else get_args(Outcome)
        ):
            problems.append(
                f"{line.place}: {line.outcome}, and the ledger's entry of the search says otherwise"
            )
    return problems


def _reasons(line: PlaceLine) -> tuple[str, ...]:
    """What a search may say of a kind of place, with 0 for every number."""
    if line.outcome == "kept":
        return KEPT[line.place], f"{KEPT[line.place]}; 0 more {_MORE}"
    if line.outcome == "unknown":
        return f"0 of them {_MORE}", f"none found, and 0 files or folders {_MORE}", SPARED
    return ("", f"0 files or folders {_MORE}") if line.outcome == "deleted" else ("",)


def remainder(lines: Sequence[PlaceLine]) -> str:
    """What stays of the person besides what was answered, in one clause; empty where every kind of
    place is clean.

    Args:
        lines: the lines of a certificate.
    """
    kept = [
        line.place if line.count is None else f"{line.place} ({line.count})"
        for line in lines
        if line.outcome == "kept"
    ]
    unknown = [line.place for line in lines if line.outcome == "unknown"]
    parts = [
        f"{word}: {', '.join(names)}"
        for word, names in (("kept", kept), ("not known", unknown))
        if names
    ]
    return "; ".join(parts)


def remainder_on_record(request: Request) -> str:
    """The same as far as the ledger tells, by the last search that it holds for a request."""
    search = next(
        (entry for entry in reversed(request.history) if "trace_sha256" in entry.facts), None
    )
    if search is None:
        return (
            f"no search says what stays of the person in {', '.join(SEARCHED)}: `unplug trace ... "
            f"--request {request.id}`"
        )
    kept = [
        f"{name.removeprefix(FACT)} ({count})"
        for name, count in search.facts.items()
        if name.startswith(FACT)
    ]
    if not kept:  # a search of before kinds of places were told
        kept = [f"{search.facts[name]} that {name}" for name in REMAINS if name in search.facts]
    told = f"kept: {', '.join(kept)}" if kept else "nothing found that is kept"
    beyond = ", ".join(name for name in PLACES if name not in SEARCHED)
    return f"{told}, by the search of entry {search.sequence}; not searched: {beyond}"


def _found(name: PlaceName, traces: Sequence[TraceFile], everybody: bool) -> PlaceLine:
    if not traces or name not in SEARCHED:
        return PlaceLine(place=name, outcome="unknown", count=None, why=NOBODY, by="nobody")

    def line(outcome: Outcome, count: int, why: str = "") -> PlaceLine:
        return PlaceLine(place=name, outcome=outcome, count=count, why=why, by="search")

    places = [(place, place.path in trace.purged) for trace in traces for place in trace.places]
    mine = [(place, purged) for place, purged in places if _kind(place) == name]
    closed = sum(place.standing == "unknown" for place, _ in mine)
    hiding = sum(
        place.standing == "unknown" and place.kind in ANYTHING and _kind(place) != name
        for place, _ in places
    )
    here = [purged for place, purged in mine if place.standing not in ("forgot", "unknown")]
    if left := here.count(False):
        more = f"; {closed + hiding} more {_MORE}" if closed or hiding else ""
        return line("kept", left, f"{KEPT[name]}{more}")
    if closed:
        return line("unknown", closed, f"{closed} of them {_MORE}")
    hidden = f"{hiding} files or folders {_MORE}" if hiding else ""
    if here:
        return line("deleted", len(here), hidden)
    if hiding or not everybody:
        return line("unknown", 0, f"none found, and {hidden}" if hiding else SPARED)
    return line("none found", 0)


def _kind(place: TracedPlace) -> PlaceName:
    if place.kind in ("data", "picture"):
        return "raw data"
    if place.kind.startswith("cache"):
        return "caches"
    if any(part.startswith(".") and part.endswith(WORK) for part in PurePath(place.path).parts):
        return "work folders"
    return KINDS.get(place.kind, "lists and reports")
