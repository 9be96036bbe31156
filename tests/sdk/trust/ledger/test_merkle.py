"""The tree against published vectors, its own slow definition, and proofs that were tampered with."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.trust.ledger.merkle import (
    edge_root,
    includes,
    inclusion_path,
    leaf_hash,
    push,
    tree_root,
)

INPUTS = (
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
)
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
"""The test vectors of Certificate Transparency's reference implementation: the root over the first
1 ... 8 inputs.
"""


def leaves(count: int) -> list[bytes]:
    return [leaf_hash(b"%d" % number) for number in range(count)]


def test_roots_are_the_published_ones() -> None:
    assert edge_root(()) == tree_root([]) == hashlib.sha256(b"").digest()
    edge, hashes = (), [leaf_hash(bytes.fromhex(text)) for text in INPUTS]
    for size, root in enumerate(ROOTS, 1):
        edge = push(edge, size - 1, hashes[size - 1])
        assert edge_root(edge).hex() == tree_root(hashes[:size]).hex() == root


def test_an_edge_grows_as_the_definition_says() -> None:
    edge, hashes = (), leaves(130)
    for size, leaf in enumerate(hashes):
        edge = push(edge, size, leaf)
        assert len(edge) == (size + 1).bit_count()
        assert edge_root(edge) == tree_root(hashes[: size + 1])


@pytest.mark.parametrize("size", [*range(1, 20), 33, 64])
def test_every_path_leads_to_the_root_and_nowhere_else(size: int) -> None:
    hashes = leaves(size)
    root = tree_root(hashes)
    for index, leaf in enumerate(hashes):
        path = inclusion_path(hashes, index)
        assert includes(path, leaf=leaf, index=index, size=size, root=root)
        assert not includes(path, leaf=leaf_hash(b"x"), index=index, size=size, root=root)
        assert not includes((*path, root), leaf=leaf, index=index, size=size, root=root)
        assert not path or not includes(path[:-1], leaf=leaf, index=index, size=size, root=root)
        assert not includes(path, leaf=leaf, index=index + size, size=size, root=root)


@given(st.integers(2, 40), st.data())
def test_a_changed_hash_proves_nothing(size: int, data: st.DataObject) -> None:
    hashes, index = leaves(size), data.draw(st.integers(0, size - 1))
    path = list(inclusion_path(hashes, index))
    place = data.draw(st.integers(0, len(path) - 1))
    path[place] = bytes([path[place][0] ^ 1]) + path[place][1:]
    assert not includes(path, leaf=hashes[index], index=index, size=size, root=tree_root(hashes))
