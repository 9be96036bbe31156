"""Which requests of a ledger a release answers, and that its forget set holds everybody whom they
name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from unplug.core import InputError
from unplug.sdk.learning.data import Dataset, named_samples
from unplug.trust.ledger import Ledger, Queue, Request, answered_in, open_queue, pick, releases_of

TAKE_OUT = (
    "Check the data; `unplug ledger withdraw ID --person NAME` takes a mistyped name, or one of "
    "other data, out of it"
)
OVER = "A request that is over stays so; leave it out, or add a new one"
ENDS = ("release", "answered", "refused", "withdrawn")


@dataclass(frozen=True, kw_only=True)
class AnsweredRequests:
    """What a release answers.

    Args:
        requests: their ids.
        others: forgotten samples that none of them names: those of earlier releases, say.
    """

    requests: tuple[str, ...]
    others: int


def cover(
    ledger: Ledger, wanted: Sequence[str], dataset: Dataset, forget_ids: Collection[str], model: str
) -> AnsweredRequests:
    """The requests that a release answers: each is open, and all whom it names are in the forget
    set.

    A ledger holds keyed digests: names of the data are tried against those of each request.

    Args:
        ledger: a ledger with the requests.
        wanted: their ids; none stands for all that are `answerable`.
        dataset: the data that the model was trained on.
        forget_ids: samples that are forgotten.
        model: SHA-256 of the weights that the release starts from.

    Raises:
        InputError: no such request; it is over or was released, or this model has forgotten it and
            others have not; it names somebody whom the data do not hold or the forget set leaves
            out; none is answerable. Or the operator's key is another than the digests were made
            with.
    """
    requests, samples = ledger.requests(), named_samples(dataset.samples)
    done = answered_in(model, releases_of(ledger.entries()))
    for name in wanted:
        check_open(pick(requests, name))
        if name in done:
            why = "this model has forgotten it, and it waits for others that hold samples of it"
            raise InputError(
                f"request {name}", why, f"Release those: `unplug ledger status {name}` lists them"
            )
    queue, gone = open_queue(ledger, samples), frozenset(forget_ids)
    answered = tuple(dict.fromkeys(wanted)) or tuple(_whole(queue, done))
    named: set[str] = set()
    for name in answered:
        _check_known(requests[name], queue)
        names = queue.of[name]
        if left := sum(not samples[one] <= gone for one in names):
            why = f"the forget file leaves out {left} of the {len(names)} that it names"
            raise InputError(
                f"request {name}", why, "`unplug ledger queue` writes a file for all open requests"
            )
        named |= {sample for one in names for sample in samples[one]}
    return AnsweredRequests(requests=answered, others=len(gone - named))


def answerable(
    ledger: Ledger, names: Iterable[str], model: str | None = None
) -> dict[str, tuple[str, ...]]:
    """Open requests that a release over some data can answer: the data hold everybody whom they
    name.

    One that the data hold in part is left open, for nobody may be told of half a request that it is
    done.

    Args:
        ledger: a ledger with the requests.
        names: sample ids of the data, and ``subject:NAME`` of the people in them.
        model: SHA-256 of the weights that the release starts from: what it has forgotten is left
            out; None leaves nothing out.

    Returns:
        Id to the names of the data that it names.

    Raises:
        InputError: there is none; it says how many wait for names that these data do not hold.
    """
    done = frozenset[str]() if model is None else answered_in(model, releases_of(ledger.entries()))
    return _whole(open_queue(ledger, names), done)


def _whole(queue: Queue, done: Collection[str]) -> dict[str, tuple[str, ...]]:
    whole = {id: held for id, held in queue.whole.items() if id not in done}
    if not whole:
        first = next((f" ({id}: {missing} unknown)" for id, missing in queue.elsewhere.items()), "")
        why = (
            f"these data hold no open request's names in full; {len(queue.elsewhere)} name somebody "
            f"else{first}"
        )
        if done & queue.whole.keys():
            why = (
                f"this model has forgotten all that is open, and {', '.join(sorted(done))[:60]} "
                "wait for other models"
            )
        raise InputError("the queue", why, TAKE_OUT)
    return whole


def check_open(request: Request) -> None:
    """Refuses a request that no model has to be released for any more; says since which entry."""
    if request.state != "open":
        last = next(entry for entry in reversed(request.history) if entry.kind in ENDS)
        raise InputError(
            f"request {request.id}", f"it is {request.state} (entry {last.sequence})", OVER
        )


def _check_known(request: Request, queue: Queue) -> None:
    if request.id in queue.shredded:
        raise InputError(
            f"request {request.id}",
            "its salt is gone, so it cannot be known whom it names",
            "Run `unplug ledger verify`",
        )
    if why := queue.unreadable.get(request.id):
        raise InputError(
            f"request {request.id}",
            f"nobody can tell here whom it names: {why}",
            "Get the key of that time",
        )
    if missing := queue.elsewhere.get(request.id, 0):
        why = f"{missing} of the {len(request.subjects)} that it names are unknown to these data"
        raise InputError(f"request {request.id}", why, TAKE_OUT)
