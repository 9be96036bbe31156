"""What was released, of which model, for which requests: read from the entries, the one record of
it.

A request that names people in several models is released when each of them was: a release of one of
the others is a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .entries import LedgerEntry

RELEASE = "release"
"""The kind of an entry that ends a release, and the fact that all entries of one release share."""
STAGE, IN_PART = "stage", "released in part"
"""The fact of a step that says what was done, and what it says of requests that wait for other
models.
"""
BUNDLE = ("bundle_sha256", "bundle", "sha256 manifest.json")


@dataclass(frozen=True, kw_only=True)
class OnRecord:
    """A release that the ledger tells of; None where it does not say.

    Args:
        entry: its number.
        requests: the requests that it answered.
        in_part: whether these wait for other models.
        name: the name of the model.
        number: the number of the release in its product.
        job: the job of the service that made it.
        began, shipped: SHA-256 of the weights that it started from, and of those in its bundle.
        bundle: SHA-256 of its manifest.
        whole: whether its requests name everybody whom it forgot.
    """

    entry: int
    requests: tuple[str, ...]
    in_part: bool
    name: str | None
    number: int | None
    job: str | None
    began: str | None
    shipped: str | None
    bundle: str | None
    whole: bool


def releases_of(entries: Iterable[LedgerEntry]) -> Iterator[OnRecord]:
    """All releases of a ledger, in their order."""
    begun: dict[str, Mapping[str, str]] = {}
    shipped: dict[str, str] = {}
    for entry in entries:
        facts, number = entry.facts, entry.facts.get(RELEASE, "")
        in_part = facts.get(STAGE) == IN_PART
        if facts.get(STAGE) == "begin":
            begun[number] = facts
        elif entry.kind == "try" and facts.get("ships") == "yes" and "model_sha256" in facts:
            shipped[number] = facts["model_sha256"]
        elif entry.kind == RELEASE or in_part:
            first = begun.get(number, {})
            yield OnRecord(
                entry=entry.sequence,
                requests=entry.requests,
                in_part=in_part,
                name=facts.get("name", facts.get("model")),
                number=int(told) if (told := facts.get("number", "")).isdecimal() else None,
                job=facts.get("job"),
                began=first.get("model_sha256", facts.get("original_sha256")),
                shipped=shipped.get(number, facts.get("model_sha256")),
                bundle=next((facts[name] for name in BUNDLE if facts.get(name)), None),
                whole=first.get("samples_of_others") == "0",
            )


def made_from(releases: Iterable[OnRecord]) -> dict[str, set[str]]:
    """Weights that were shipped, to those that they were made from."""
    parents: dict[str, set[str]] = {}
    for release in releases:
        if release.shipped and release.began:
            parents.setdefault(release.shipped, set()).add(release.began)
    return parents


def with_all_before(models: Iterable[str], parents: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Some models, and all from which they were made.

    Args:
        models: SHA-256 of their weights.
        parents: each model to those that it was made from; circles do no harm.
    """
    known: set[str] = set()
    level = set(models)
    while level:
        known |= level
        level = {parent for one in level for parent in parents.get(one, ())} - known
    return frozenset(known)


def models_left(
    request: str, history: Iterable[LedgerEntry], releases: Iterable[OnRecord]
) -> frozenset[str]:
    """Models that hold samples of a request, by the last entry ``touched`` on each, and no release
    of which has answered it.

    Args:
        request: its id.
        history: its entries.
        releases: the releases of the whole ledger, including the newest.
    """
    touched = {
        entry.facts.get("model_sha256", ""): entry.facts
        for entry in history
        if entry.kind == "touched"
    }
    held = {model for model, facts in touched.items() if facts.get("samples") != "0"}
    if not held:
        return frozenset()
    known = tuple(releases)
    began = {item.began for item in known if request in item.requests and item.began}
    return frozenset(held - with_all_before(began, made_from(known)))


def answered_in(model: str, releases: Iterable[OnRecord]) -> frozenset[str]:
    """Requests whom a model, or one that it was made from, has forgotten already and that wait for
    other models.
    """
    known = tuple(releases)
    line = with_all_before([model], made_from(known))
    return frozenset(
        name for item in known if item.in_part and item.shipped in line for name in item.requests
    )
