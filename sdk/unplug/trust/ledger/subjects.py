"""The people that a request names, without their names: digests that nobody can link once a salt is
gone.

With the operator's key K and a random salt s per request, and HMAC = HMAC-SHA-256:

    k_r = HMAC(K, s)        the key of the request
    o   = HMAC(k_r, name)   the opening of one name, which only that person is given
    d   = SHA-256(o || name)   what the entry holds

of a name in the form in which all doors compare it (`unplug.core.name_form`).

Anyone who has K and s finds the name again among those of some data: after the random part of s
lies a tag of each name, t = HMAC(K, name) under a mask HMAC(HMAC(K, s), place), so that each name
of the data is tried once, and not once a request. Without K the masks are random, and nobody sees
that two requests name the same person. Anyone who has o and the name can check d, and learns
nothing of the other names of the request. Once s is shredded, K does not help: d is then a digest
under a key that nobody has, and the tags are gone with s.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from unplug.core import OperatorKey, name_form, name_forms

CONTEXT = "unplug-ledger/1"


TAGS = f"{CONTEXT} tags"
SALT, TAG = 64, 32
"""Hexadecimal digits of the random part of a salt, and of each tag after it."""


def new_salt(key: OperatorKey, names: Iterable[str]) -> str:
    """256 random bits, and a masked tag of each name of a request, in hexadecimal digits."""
    salt = secrets.token_hex(SALT // 2)
    return salt + "".join(_masked(key, salt, sorted(tag_of(key, name) for name in set(names))))


def tag_of(key: OperatorKey, name: str) -> str:
    """What finds a name, in its form, among the tags of any request under the same key."""
    return key.digest(name_form(name), TAGS)[:TAG]


def tags_in(key: OperatorKey, salt: str) -> tuple[str, ...]:
    """The tags of all names of a request; none where it was added before there were any."""
    return tuple(
        _masked(key, salt, [salt[start : start + TAG] for start in range(SALT, len(salt), TAG)])
    )


def _masked(key: OperatorKey, salt: str, tags: Sequence[str]) -> Iterator[str]:
    """Puts a mask on tags, or takes it off."""
    masks = OperatorKey(secret=bytes.fromhex(key.digest(salt[:SALT], TAGS)))
    for place, tag in enumerate(tags):
        yield f"{int(tag, 16) ^ int(masks.digest(str(place), TAGS)[:TAG], 16):0{TAG}x}"


def salt_digest(salt: str) -> str:
    """What the entry of a request keeps of its salt: enough to tell that it was exchanged, nothing
    to find it by.
    """
    return hashlib.sha256(f"{CONTEXT} salt {salt}".encode()).hexdigest()


def opening_of(key: OperatorKey, salt: str, name: str) -> str:
    """The opening of one name in one request: 64 hexadecimal digits."""
    return OperatorKey(secret=bytes.fromhex(key.digest(salt, CONTEXT))).digest(name, CONTEXT)


def digest_of(opening: str, name: str) -> str:
    """What the entry of a request holds for one name: 64 hexadecimal digits."""
    return hashlib.sha256(
        bytes.fromhex(opening) + name.encode("utf-8", "surrogateescape")
    ).hexdigest()


def digests_of(key: OperatorKey, salt: str, names: Iterable[str]) -> tuple[str, ...]:
    """The digests of all names of a request as they are given, sorted: their order must not tell
    which is whose.
    """
    return tuple(sorted(digest_of(opening_of(key, salt, name), name) for name in set(names)))


def names_behind(
    key: OperatorKey, salt: str, digests: Collection[str], candidates: Iterable[str]
) -> dict[str, str]:
    """Digest to name, of those of some candidates whom the digests of a request stand for, in the
    candidates' order.

    A digest is of a name in its form (see `name_form`), and in older ledgers of a name as it was
    typed, in any Unicode form. A form that several of the candidates share stands for none of them,
    unless it is one of them.
    """
    names, wanted = tuple(candidates), frozenset(digests)
    alike = Counter(map(name_form, names))
    return {
        digest: name
        for name in names
        for digest in held_as(key, salt, wanted, name, alone=alike[name_form(name)] == 1)
    }


def held_as(
    key: OperatorKey, salt: str, digests: Collection[str], name: str, *, alone: bool = True
) -> dict[str, str]:
    """Digest to text, of the texts of one name that digests of a request are of; empty where it
    names others.

    Args:
        key, salt: the request's key and salt.
        digests: the digests of the people that it names.
        name: the name as somebody writes it.
        alone: whether its form stands for nobody else.
    """
    texts = name_forms(name) if alone else (name,)
    return {
        digest: text
        for text in texts
        if (digest := digest_of(opening_of(key, salt, text), text)) in digests
    }


def opens(opening: str, name: str, digests: Sequence[str]) -> bool:
    """Whether an opening shows that one of the digests stands for a name."""
    return any(
        hmac.compare_digest(digest_of(opening, text), digest)
        for text in name_forms(name)
        for digest in digests
    )
