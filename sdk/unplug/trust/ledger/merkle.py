"""The Merkle tree of RFC 6962: one hash for a whole list, and short proofs of what is in it.

With H = SHA-256, a leaf is H(0x00 || data) and a node H(0x01 || left || right); a list of n > 1
leaves is split at the largest power of two below n. The *edge* of a tree is what is needed to
append to it: the roots of its perfect subtrees, the largest first, one for every 1 in the binary
form of n.

Reference: B. Laurie, A. Langley, E. Kasper, "Certificate Transparency", RFC 6962 (2013), section
    2.1; the iterative check of
a proof is that of RFC 9162 (2021), section 2.1.3.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

HASH_BYTES = 32
Edge = tuple[bytes, ...]
EMPTY = hashlib.sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    """H(0x00 || data)."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """H(0x01 || left || right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def push(edge: Edge, size: int, leaf: bytes) -> Edge:
    """The edge of a tree of `size` leaves after one more leaf hash.

    Example:
        >>> one = push((), 0, leaf_hash(b"a"))
        >>> len(push(push(one, 1, leaf_hash(b"b")), 2, leaf_hash(b"c")))
        2
    """
    kept, node = list(edge), leaf
    # Each 1 at the end of the size is a perfect subtree that the new leaf completes: a carry, as
    # where 1 is added to a binary number.
    while size & 1:
        node, size = node_hash(kept.pop(), node), size >> 1
    return (*kept, node)


def edge_root(edge: Edge) -> bytes:
    """The root of the tree with this edge; of no leaves, H of nothing."""
    if not edge:
        return EMPTY
    *rest, node = edge
    for left in reversed(rest):
        node = node_hash(left, node)
    return node


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """The root over leaf hashes, straight from the definition: the oracle of `push` and
    `edge_root`.
    """
    if len(leaves) < 2:
        return leaves[0] if leaves else EMPTY
    cut = _cut(len(leaves))
    return node_hash(tree_root(leaves[:cut]), tree_root(leaves[cut:]))


def _cut(size: int) -> int:
    """The largest power of two below `size`, which is at least 2."""
    return 1 << (size - 1).bit_length() - 1


def inclusion_path(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The hashes, from the leaf up, that lead from one leaf to the root.

    Args:
        leaves: all leaf hashes.
        index: the index of the leaf, from 0.
    """
    if len(leaves) < 2:
        return ()
    cut = _cut(len(leaves))
    if index < cut:
        return (*inclusion_path(leaves[:cut], index), tree_root(leaves[cut:]))
    return (*inclusion_path(leaves[cut:], index - cut), tree_root(leaves[:cut]))


def includes(path: Sequence[bytes], *, leaf: bytes, index: int, size: int, root: bytes) -> bool:
    """Whether a path leads from leaf `index` of a tree of `size` leaves to its root."""
    if not 0 <= index < size:
        return False
    place, last, node = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if place & 1 or place == last:
            node = node_hash(sibling, node)
            # the last of a level has no sibling there and goes up as it is
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            node = node_hash(node, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and node == root
