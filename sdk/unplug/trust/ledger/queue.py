"""The queue: all open requests as one forget set, so that one release covers them; and whom
requests in other states name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from unplug.core import InputError, OperatorKey, operator_key

from .ledger import Ledger
from .requests import Request
from .subjects import held_as, names_behind, opening_of, salt_digest, tag_of, tags_in

HEX = re.compile(r"[0-9a-f]+")


@dataclass(frozen=True, kw_only=True)
class Queue:
    """The people whom the open requests (see `open_queue`) name among some names.

    Args:
        names: sample ids and ``subject:NAME``, in the order of the names they were looked for in.
        of: id of each request that names somebody there, to its names.
        elsewhere: id to the number of its names that are not there.
        shredded: such requests whose salt is gone: nobody can tell whom they name.
        unreadable: id to the reason why nobody can tell here whom it names.
    """

    names: tuple[str, ...]
    of: Mapping[str, tuple[str, ...]]
    elsewhere: Mapping[str, int]
    shredded: tuple[str, ...]
    unreadable: Mapping[str, str]

    @property
    def whole(self) -> dict[str, tuple[str, ...]]:
        """Those of `of` all of whose names are there: a release over these names answers them, and
        no others.
        """
        return {id: names for id, names in self.of.items() if id not in self.elsewhere}

    def waiting(self) -> list[str]:
        """What is to be said of each request that a release over these names leaves open, a line
        each.
        """
        lines = []
        for id, count in self.elsewhere.items():
            some = "1 of its names is" if count == 1 else f"{count} of its names are"
            way = (
                f"`unplug ledger withdraw {id} --person NAME` takes out one that is mistyped, or "
                "of other data"
            )
            lines.append(f"{id} stays open: {some} not in these data; {way}")
        lines += [
            f"{id} stays open: its salt is gone, nobody can tell whom it names"
            for id in self.shredded
        ]
        return [*lines, *(f"{id} stays open: {why}" for id, why in self.unreadable.items())]


def open_queue(
    ledger: Ledger, candidates: Iterable[str], states: Collection[str] = ("open",)
) -> Queue:
    """Finds the names of the digests of all open requests, each candidate tried once.

    Args:
        ledger: a ledger with requests.
        candidates: all sample ids of some data, and ``subject:NAME`` of all people in them.
        states: the states of the requests to look into.

    Raises:
        InputError: the ledger cannot be read. A request that cannot is named, and holds none of the
            others up.
    """
    waiting = {id: one for id, one in ledger.requests().items() if one.state in states}
    salts, lookup = ledger.salts(), _Lookup(candidates)
    of: dict[str, tuple[str, ...]] = {}
    elsewhere: dict[str, int] = {}
    unreadable: dict[str, str] = {}
    for id in (id for id in waiting if id in salts):
        try:
            names = lookup.names_of(waiting[id], salts[id])
        except InputError as error:
            unreadable[id] = f"{error.what}: {error.why}"
            continue
        if names:
            of[id] = tuple(dict.fromkeys(names.values()))
        if lacking := len(waiting[id].subjects) - len(names):
            elsewhere[id] = lacking
    wanted = {name for names in of.values() for name in names}
    return Queue(
        names=tuple(name for name in lookup.places if name in wanted),
        of=of,
        elsewhere=elsewhere,
        shredded=tuple(id for id in waiting if id not in salts),
        unreadable=unreadable,
    )


class _Lookup:
    """Names of some data, each tried once under the operator's key, whatever the number of
    requests.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        self._key: OperatorKey | None = None
        self._tagged: dict[str, list[str]] = {}

    def names_of(self, request: Request, salt: object) -> dict[str, str]:
        """Digest to name; `InputError` where the key is another, or the salt not the one that it
        was added with.
        """
        if self._key is None or self._key.id != request.key:
            self._key = operator_key(request.key)
        if (
            not isinstance(salt, str)
            or not HEX.fullmatch(salt)
            or salt_digest(salt) != request.salt_sha256
        ):
            raise InputError(
                "its salt", "it is another than when it was added", "Run `unplug ledger verify`"
            )
        # requests of before tags: every name of the data is tried under the request's own key
        if not (tags := tags_in(self._key, salt)):
            return names_behind(self._key, salt, request.subjects, self.places)
        if not self._tagged:
            for name in self.places:
                self._tagged.setdefault(tag_of(self._key, name), []).append(name)
        tagged = {name for tag in tags for name in self._tagged.get(tag, ())}
        return names_behind(
            self._key, salt, request.subjects, sorted(tagged, key=self.places.__getitem__)
        )


def opening_for(ledger: Ledger, request: Request, name: str) -> str:
    """What shows to one person, and to nobody else, that a request names her.

    Raises:
        InputError: the request was shredded, or names somebody else.
    """
    salt = ledger.salts().get(request.id)
    if salt is None:
        raise InputError(
            f"request {request.id}",
            "it was shredded: nobody can show any more whom it named",
            "Leave `name` out",
        )
    key = operator_key(request.key)
    if not (held := held_as(key, salt, request.subjects, name)):
        raise InputError(
            f"request {request.id}",
            "it does not name that person",
            "Write the name as the forget file did",
        )
    return opening_of(key, salt, next(iter(held.values())))
