"""A sorted Merkle tree, by hand and by law."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unplug.core import InputError
from unplug.trust.ledger.sorted_tree import is_absent, prove_absence, sorted_root

A, B, C = (bytes([number]) * 32 for number in (1, 2, 3))
LISTS = st.sets(st.binary(min_size=32, max_size=32), max_size=20)


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def test_three_leaves_by_hand() -> None:
    leaf_a, leaf_b, leaf_c = (sha(b"\x00" + item) for item in (A, B, C))
    node = sha(b"\x01" + leaf_a + leaf_b)
    assert sorted_root([C, A, B]) == sha(b"\x01" + node + leaf_c).hex()
    assert sorted_root([A]) == leaf_a.hex()
    # SHA-256 of nothing, FIPS 180
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert sorted_root([]) == empty
    proof = prove_absence([A, C], B)
    assert proof.before is not None and proof.after is not None
    assert proof.before.path == (leaf_c.hex(),) and proof.after.path == (leaf_a.hex(),)


@settings(max_examples=60, deadline=None)
@given(LISTS, st.binary(min_size=32, max_size=32))
def test_what_is_absent_is_proved_and_under_no_other_list(inside: set[bytes], one: bytes) -> None:
    others = inside - {one}
    proof, root = prove_absence(others, one), sorted_root(others)
    assert is_absent(proof, root=root, size=len(others))
    # of another release
    assert not is_absent(proof, root=sorted_root(others | {one}), size=len(others) + 1)
    # neighbours that are not next to each other leave room for it
    if proof.after is not None:
        assert not is_absent(replace(proof, after=None), root=root, size=len(others))
        there = replace(proof, commitment=proof.after.commitment)
        assert not is_absent(there, root=root, size=len(others))


def test_a_repeated_leaf_and_a_leaf_that_is_in_are_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="is in the list twice"):
        sorted_root([A, B, A])
    with pytest.raises(InputError, match=r"is in the list\. Only"):
        prove_absence([A, B], A)
    with pytest.raises(InputError, match="not the 32 bytes"):
        sorted_root([b"short"])
