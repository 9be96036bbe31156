"""A sorted Merkle tree: one hash for a list, and a proof that something is not in it.

The leaves are H(0x00 || commitment) of RFC 6962 in the order of the commitments, each once. What is
absent would stand between two neighbours, so a proof of absence is both neighbours with their paths;
before the first and after the last there is one.

A root tells nobody who is in the list, and its size how many are. The neighbours in a proof are
commitments to samples of other people. A commitment is a hash of name, features and truth, without a
salt: a reader of the proof who has such a picture, its name, its truth and the trunk can compute
it, and see that this sample is in. To everybody else it tells nothing.

Reference: RFC 6962 (2013), section 2.1; Laurie and Kasper, Revocation Transparency, 2012 (sorted
    trees).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

from unplug.core import STRICT, InputError

from .merkle import HASH_BYTES, edge_root, includes, inclusion_path, leaf_hash, push


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A leaf that is in the list, with the path that shows it under the root.

    Args:
        index: its place in the sorted list, from 0.
        commitment: 64 hexadecimal digits.
        path: hashes from the leaf up, as commitments are written.
    """

    index: int
    commitment: str
    path: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Absence:
    """A proof that a commitment is not in a list.

    Args:
        commitment: 64 hexadecimal digits; it is in no leaf.
        before, after: the leaves on its two sides, or null at an end.
    """

    commitment: str
    before: Neighbour | None
    after: Neighbour | None


@dataclass(frozen=True, kw_only=True)
class CommittedList:
    """``unplug-commitments/1``: who is in the sums of a model, by one hash.

    Args:
        root: the root of the sorted tree, 64 hexadecimal digits.
        samples: how many commitments are under it.
    """

    __pydantic_config__: ClassVar = STRICT

    root: str
    samples: int
    schema: Literal["unplug-commitments/1"] = "unplug-commitments/1"

    @classmethod
    def of(cls, commitments: Iterable[bytes]) -> CommittedList:
        """The list of some commitments; raises as `in_order` does."""
        listed = [*commitments]
        return cls(root=sorted_root(listed), samples=len(listed))


def in_order(commitments: Iterable[bytes]) -> list[bytes]:
    """The commitments, sorted.

    Raises:
        InputError: one is there twice, or has not the 32 bytes of a SHA-256.

    Example:
        >>> [item[:1] for item in in_order([b"b" * 32, b"a" * 32])]
        [b'a', b'b']
    """
    ordered = sorted(commitments)
    if any(len(item) != HASH_BYTES for item in ordered):
        raise InputError(
            "commitments", "one has not the 32 bytes of a SHA-256", "Give the list as it was saved"
        )
    if twice := next((a for a, b in pairwise(ordered) if a == b), None):
        why = f"{twice.hex()[:16]} is in the list twice"
        raise InputError("commitments", why, "Give each sample once")
    return ordered


def sorted_root(commitments: Iterable[bytes]) -> str:
    """The root over the leaves of `in_order`, as 64 hexadecimal digits; raises as it does."""
    edge: tuple[bytes, ...] = ()
    for size, item in enumerate(in_order(commitments)):
        edge = push(edge, size, leaf_hash(item))
    return edge_root(edge).hex()


def prove_absence(commitments: Iterable[bytes], absent: bytes) -> Absence:
    """The neighbours between which a commitment would stand.

    Raises:
        InputError: see `in_order`; or it is in the list.
    """
    ordered = in_order(commitments)
    place, leaves = bisect_left(ordered, absent), [leaf_hash(item) for item in ordered]
    if ordered[place : place + 1] == [absent]:
        why = f"{absent.hex()[:16]} is in the list"
        raise InputError("commitments", why, "Only of what is absent is there such a proof")

    def neighbour(index: int) -> Neighbour | None:
        if not 0 <= index < len(ordered):
            return None
        path = tuple(item.hex() for item in inclusion_path(leaves, index))
        return Neighbour(index=index, commitment=ordered[index].hex(), path=path)

    return Absence(commitment=absent.hex(), before=neighbour(place - 1), after=neighbour(place))


def is_absent(proof: Absence, *, root: str, size: int) -> bool:
    """Whether a proof shows that its commitment is not among the `size` leaves under a root."""
    before, after = proof.before, proof.after
    # next to each other, or at an end of the list
    first = -1 if before is None else before.index
    last = size if after is None else after.index
    if last != first + 1:
        return False
    try:
        absent = bytes.fromhex(proof.commitment)
        sides = [(item, bytes.fromhex(item.commitment)) for item in (before, after) if item]
        held = all(
            includes(
                [bytes.fromhex(node) for node in item.path],
                leaf=leaf_hash(leaf),
                index=item.index,
                size=size,
                root=bytes.fromhex(root),
            )
            for item, leaf in sides
        )
    except ValueError:
        return False
    right = [leaf < absent if item is before else absent < leaf for item, leaf in sides]
    sized = all(len(leaf) == HASH_BYTES for leaf in (absent, *(leaf for _, leaf in sides)))
    empty = size == 0 and root == edge_root(()).hex()
    return sized and held and all(right) and (bool(sides) or empty)
