"""What a reader yields, and the bounds that keep a hostile file from filling memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unplug.core import Array, ArtifactError

from ..artifact import MAX_ARTIFACT_BYTES

MAX_TENSORS = 16_384  # the largest network of the project stores under a thousand
MAX_NAME = 4096  # LiteRT joins the names of all layers that it fused
AGAIN = "Export it again"


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One constant of an artifact, as its bytes are.

    Args:
        name: in the file.
        codes: the stored numbers in their own type and shape; four-bit ones as one byte each, bfloat16 as uint16.
        quantized: an integer code stands for a weight (a scale belongs to it), so that it is no index or shape.
    """

    name: str
    codes: Array
    quantized: bool = False


def weights_of(path: Path, constants: Iterable[Stored]) -> dict[str, Array]:
    """Constants that are weights: floating point or quantized, of two elements or more.

    Scalars are arguments of operators (the 6 of a ReLU6), other integers are shapes and indices.

    Raises:
        ArtifactError: too many of them, or two of one name, where nothing would say which is which.
    """
    found: dict[str, Array] = {}
    total = 0
    for item in constants:
        if item.codes.size < 2 or not (item.quantized or np.issubdtype(item.codes.dtype, np.floating)):
            continue
        if item.name in found:
            raise ArtifactError(str(path), f"two of its constants are called {item.name[:200]!r}", AGAIN)
        found[item.name] = item.codes
        # Constants may share bytes, so a small file can claim many times its size.
        total += item.codes.nbytes
        if len(found) > MAX_TENSORS or total > MAX_ARTIFACT_BYTES:
            raise ArtifactError(str(path), f"it claims more than {MAX_TENSORS} constants or {MAX_ARTIFACT_BYTES} bytes", AGAIN)
    return found


def shaped(path: Path, name: str, raw: bytes | memoryview, dtype: str, shape: Sequence[int]) -> Array:
    """Bytes as an array of a shape.

    Raises:
        ArtifactError: the bytes are more or fewer than the shape says.
    """
    count = math.prod(shape) if min(shape, default=0) >= 0 else -1
    if count * np.dtype(dtype).itemsize != len(raw):
        raise ArtifactError(str(path), f"constant {name[:200]!r} has {len(raw)} bytes for the shape {list(shape)[:8]}", AGAIN)
    return np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).reshape(shape)


def unpacked(path: Path, name: str, raw: bytes | memoryview, bits: int, shape: Sequence[int]) -> Array:
    """Codes of 2 or 4 bits, low ones first, as one byte each.

    Example:
        >>> unpacked(Path("x"), "w", bytes([0x21, 0x03]), 4, [3]).tolist()
        [1, 2, 3]
    """
    per_byte = 8 // bits
    count = math.prod(shape) if min(shape, default=0) >= 0 else -1
    if -(-count // per_byte) != len(raw):
        raise ArtifactError(str(path), f"constant {name[:200]!r} has {len(raw)} bytes for the shape {list(shape)[:8]}", AGAIN)
    packed = np.frombuffer(raw, np.uint8)
    pieces = [packed >> (bits * place) & (2**bits - 1) for place in range(per_byte)]
    return np.stack(pieces, axis=1).reshape(-1)[:count].reshape(shape)


def checked_name(path: Path, name: bytes | str | None) -> str:
    """A name that is text and of a bounded length."""
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name or ""
    if not 0 < len(text) <= MAX_NAME:
        raise ArtifactError(str(path), f"a constant's name has {len(text)} characters", AGAIN)
    return text


def bounded(path: Path, what: str, count: int) -> Iterator[int]:
    """`range`, unless the file claims an absurd number."""
    if not 0 <= count <= MAX_TENSORS:
        raise ArtifactError(str(path), f"it claims {count} {what}", AGAIN)
    return iter(range(count))
