"""The queue: all open requests as one forget set, so that one release covers them; and whom requests in other states name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from unplug.core import InputError, operator_key

from .ledger import Ledger
from .requests import Request
from .subjects import held_as, names_behind, opening_of


@dataclass(frozen=True, kw_only=True)
class Queue:
    """Whom the open requests (see `open_queue`) name among some names.

    Args:
        names: sample ids and ``subject:NAME``, in the order of the names they were looked for in.
        of: id of each request that names somebody there, to its names.
        elsewhere: id to the number of its names that are not there.
        shredded: such requests whose salt is gone: nobody can tell whom they name.
    """

    names: tuple[str, ...]
    of: Mapping[str, tuple[str, ...]]
    elsewhere: Mapping[str, int]
    shredded: tuple[str, ...]

    @property
    def whole(self) -> dict[str, tuple[str, ...]]:
        """Those of `of` all of whose names are there: a release over these names answers them, and no others."""
        return {id: names for id, names in self.of.items() if id not in self.elsewhere}

    def waiting(self) -> list[str]:
        """What is to be said of each request that a release over these names leaves open, a line each."""
        lines = []
        for id, count in self.elsewhere.items():
            some = "1 of its names is" if count == 1 else f"{count} of its names are"
            way = f"`unplug ledger withdraw {id} --person NAME` takes out one that is mistyped, or of other data"
            lines.append(f"{id} stays open: {some} not in these data; {way}")
        return [*lines, *(f"{id} stays open: its salt is gone, nobody can tell whom it names" for id in self.shredded)]


def open_queue(ledger: Ledger, candidates: Iterable[str], states: Collection[str] = ("open",)) -> Queue:
    """Finds the names behind the digests of all open requests.

    Args:
        ledger: with requests.
        candidates: all sample ids of some data, and ``subject:NAME`` of all people in them.
        states: of the requests that are looked into.

    Raises:
        InputError: the operator's key is not the one that the digests were made with.
    """
    waiting = {name: request for name, request in ledger.requests().items() if request.state in states}
    salts, names = ledger.salts(), tuple(dict.fromkeys(candidates))
    of: dict[str, tuple[str, ...]] = {}
    elsewhere: dict[str, int] = {}
    for name, request in waiting.items():
        if name not in salts:
            continue
        found = names_behind(operator_key(request.key), salts[name], request.subjects, names)
        of |= {name: tuple(dict.fromkeys(found.values()))} if found else {}
        elsewhere |= {name: len(request.subjects) - len(found)} if len(found) < len(request.subjects) else {}
    wanted = {name for found in of.values() for name in found}
    return Queue(
        names=tuple(name for name in names if name in wanted), of=of, elsewhere=elsewhere,
        shredded=tuple(name for name in waiting if name not in salts),
    )  # fmt: skip


def opening_for(ledger: Ledger, request: Request, name: str) -> str:
    """What shows to one person, and to nobody else, that a request names her.

    Raises:
        InputError: the request was shredded, or names somebody else.
    """
    salt = ledger.salts().get(request.id)
    if salt is None:
        raise InputError(f"request {request.id}", "it was shredded: nobody can show any more whom it named", "Leave --name out")
    key = operator_key(request.key)
    if not (held := held_as(key, salt, request.subjects, name)):
        raise InputError(f"request {request.id}", "it does not name that person", "Write the name as the forget file did")
    return opening_of(key, salt, next(iter(held.values())))
