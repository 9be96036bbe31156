"""Which requests of a ledger a release answers, and that its forget set holds everybody whom they name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from unplug.core import InputError
from unplug.sdk.data import Dataset
from unplug.sdk.ledger import Ledger, Queue, Request, open_queue, pick

OVER = "A request that is over stays so; leave it out, or add a new one"
ENDS = ("release", "answered", "refused", "withdrawn")


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """What a release answers.

    Args:
        requests: their ids.
        others: forgotten samples that none of them names: those of earlier releases, say.
    """

    requests: tuple[str, ...]
    others: int


def cover(ledger: Ledger, wanted: Sequence[str], dataset: Dataset, forget_ids: Collection[str]) -> Coverage:
    """The requests that a release answers: each is open, and all whom it names are in the forget set.

    A ledger holds keyed digests: names of the data are tried against those of each request.

    Args:
        ledger: with the requests.
        wanted: their ids; none stands for all open ones that name somebody in the data.
        dataset: what the model was trained on.
        forget_ids: samples that are forgotten.

    Raises:
        InputError: no such request; it is over or was released; it names somebody whom the data do not hold or the forget set
            leaves out; none is open. Or the operator's key is another than the digests were made with.
    """
    requests, samples = ledger.requests(), named_samples(dataset)
    for name in wanted:
        check_open(pick(requests, name))
    queue, gone = open_queue(ledger, samples), frozenset(forget_ids)
    answered = tuple(dict.fromkeys(wanted)) or tuple(queue.of)
    if not answered:
        raise InputError("--all-open", "no open request names anybody in these data", "`unplug ledger list` shows what waits")
    named: set[str] = set()
    for name in answered:
        _check_known(requests[name], queue)
        found = queue.of[name]
        if left := sum(not samples[one] <= gone for one in found):
            why = f"the forget file leaves out {left} of the {len(found)} that it names"
            raise InputError(f"request {name}", why, "`unplug ledger queue` writes a file for all open requests")
        named |= {sample for one in found for sample in samples[one]}
    return Coverage(requests=answered, others=len(gone - named))


def check_open(request: Request) -> None:
    """Refuses a request that no model has to be released for any more; says since which entry."""
    if request.state != "open":
        last = next(entry for entry in reversed(request.history) if entry.kind in ENDS)
        raise InputError(f"request {request.id}", f"it is {request.state} (entry {last.sequence})", OVER)


def _check_known(request: Request, queue: Queue) -> None:
    if request.id in queue.shredded:
        raise InputError(
            f"request {request.id}", "its salt is gone: nobody can tell whom it names", "Run `unplug ledger verify`"
        )
    if missing := queue.elsewhere.get(request.id, 0):
        why = f"{missing} of the {len(request.subjects)} that it names are unknown to these data"
        raise InputError(f"request {request.id}", why, "Check --data; whom another data set holds is another request")


def named_samples(dataset: Dataset) -> dict[str, set[str]]:
    """Every name that a request can have in some data, a sample id or ``subject:NAME``, to the ids of its samples."""
    found: dict[str, set[str]] = {}
    for sample in dataset.samples:
        found.setdefault(sample.id, set()).add(sample.id)
        if sample.subject is not None:
            found.setdefault(f"subject:{sample.subject}", set()).add(sample.id)
    return found
