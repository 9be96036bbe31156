"""Whom a request names, without naming them: digests that nobody can link once a salt is gone.

With the operator's key K and a random salt s per request, and HMAC = HMAC-SHA-256:

    k_r = HMAC(K, s)        the key of the request
    o   = HMAC(k_r, name)   the opening of one name, which only that person is given
    d   = SHA-256(o || name)   what the entry holds

of a name in Unicode's NFC without blanks around it; entries of older versions hold digests of names as they were written.

Whoever has K and s finds the name again among those of some data. Whoever has o and the name can check d, and learns nothing of
the other names of the request. Once s is shredded, K does not help: d is then a digest under a key that nobody has.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence

from unplug.core import OperatorKey, bare_name, name_forms

CONTEXT = "unplug-ledger/1"


def new_salt() -> str:
    """256 random bits, in hexadecimal digits."""
    return secrets.token_hex(32)


def salt_digest(salt: str) -> str:
    """What the entry of a request keeps of its salt: enough to tell that it was exchanged, nothing to find it by."""
    return hashlib.sha256(f"{CONTEXT} salt {salt}".encode()).hexdigest()


def opening_of(key: OperatorKey, salt: str, name: str) -> str:
    """The opening of one name in one request: 64 hexadecimal digits."""
    return OperatorKey(secret=bytes.fromhex(key.digest(salt, CONTEXT))).digest(name, CONTEXT)


def digest_of(opening: str, name: str) -> str:
    """What the entry of a request holds for one name: 64 hexadecimal digits."""
    return hashlib.sha256(bytes.fromhex(opening) + name.encode("utf-8", "surrogateescape")).hexdigest()


def digests_of(key: OperatorKey, salt: str, names: Iterable[str]) -> tuple[str, ...]:
    """The digests of all names of a request, sorted: their order must not tell which is whose.

    Of each name as all doors compare it: `unplug.core.bare_name`.
    """
    return tuple(sorted(digest_of(opening_of(key, salt, name), name) for name in set(map(bare_name, names))))


def names_behind(key: OperatorKey, salt: str, digests: Sequence[str], candidates: Iterable[str]) -> dict[str, str]:
    """Digest to name, of those of some candidates whom the digests of a request stand for.

    Digests of older requests are of names as they stood there, in any Unicode form. Where a digest stands for one candidate as
    it is written, others that are merely trimmed alike are not meant; where it is several that are trimmed alike, none is.
    """
    names, found = tuple(dict.fromkeys(candidates)), dict[str, str]()
    for forms in (slice(0, 1), slice(1, None)):  # as it is written, then otherwise
        left, meant = set(digests) - found.keys(), dict[str, list[str]]()
        for name in names if left else ():
            for form in name_forms(name)[forms]:
                if (digest := digest_of(opening_of(key, salt, form), form)) in left:
                    meant.setdefault(digest, []).append(name)
        found |= {digest: own[0] for digest, own in meant.items() if len(own) == 1}
    return found


def forms_behind(key: OperatorKey, salt: str, digests: Sequence[str], name: str) -> dict[str, str]:
    """Digest to text, of the texts of one name that digests of a request were made of; empty where it names others."""
    made = {digest_of(opening_of(key, salt, form), form): form for form in name_forms(name)}
    return {digest: form for digest, form in made.items() if digest in digests}


def opens(opening: str, name: str, digests: Sequence[str]) -> bool:
    """Whether an opening shows that one of the digests stands for a name."""
    made = [digest_of(opening, form) for form in name_forms(name)]
    return any(hmac.compare_digest(found, digest) for found in made for digest in digests)
