"""The mark that a decoder leaves in its pictures: its key, and whether a picture carries it.

Shapes: N readings, K bits.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unplug.core import (
    DataError,
    InputError,
    Progress,
    atomic_path,
    read_regular,
    temporary_folder,
)
from unplug.export import Session
from unplug.plugins import shipped_path
from unplug.sdk.learning.data import decode_upright

from .bare_graphs import filled

MARKS = "marks"
"""The folder of the reader, and of the public key of the decoder that ships, among the weights."""
READER, DEMONSTRATION = "reader", "demonstration.key"
BITS = 48
SIDE = 128
LEAST_SIDE = 64
"""Pixels below which a picture is refused: the reader averages 2x2 of its own 128 first."""
READINGS = (1.0, 0.8)
"""Shares of the reader's side that a picture is laid on: as a whole, and as a crop of a whole."""
CHANCE = 1e-6
"""A picture without a mark is called marked no more often than this."""
_KEY = re.compile(rf"[0-9a-f]{{{BITS // 4}}}")


@dataclass(frozen=True, kw_only=True)
class FoundMark:
    """What one picture says.

    Args:
        file: its path.
        bits: the bits of the reading that agrees best, as hexadecimal digits.
        agree: bits that are those of the key, of `BITS`.
        chance: the probability that a picture without a mark agrees so well in one of its readings.
        marked: whether that is at most `CHANCE`.
    """

    file: Path
    bits: str
    agree: int
    chance: float
    marked: bool

    @property
    def accuracy(self) -> float:
        """The share of bits that agree."""
        return self.agree / BITS


def read_key(path: Path) -> str:
    """A mark's key: a file of 12 hexadecimal digits.

    Raises:
        InputError: it is missing, or of another length.
    """
    raw = read_regular(path, max_bytes=4096, error=InputError)
    text = raw.decode("ascii", "replace").strip().lower()
    if not _KEY.fullmatch(text):
        why = f"it is not {BITS // 4} hexadecimal digits"
        raise InputError(str(path), why, "Give a key that `unplug train decoder --mark` wrote")
    return text


def make_key(path: Path) -> str:
    """The key in a file, which is made, for its owner alone, where there is none."""
    if not path.exists():
        with atomic_path(path, private=True) as temporary:
            temporary.write_text(secrets.token_hex(BITS // 8) + "\n", encoding="ascii")
    return read_key(path)


def key_bits(key: str) -> NDArray[np.uint8]:
    """The K bits of a key, the first digit's highest first.

    Example:
        >>> key_bits("f00000000001")[:5].tolist(), int(key_bits("f00000000001")[-1])
        ([1, 1, 1, 1, 0], 1)
    """
    return np.unpackbits(np.frombuffer(bytes.fromhex(key), np.uint8))


def chance_of(agree: int, readings: int = len(READINGS)) -> float:
    """P(at least so many bits agree in one of the readings) <= n sum_{j >= k} C(K, j) / 2^K for bits
    that are tossed.

    That is exact for one reading and a key that was drawn at random after the picture; for a given
    key it asks that the reader's bits are fair and independent over pictures without a mark, which
    docs/marks.md measures.

    Args:
        agree: k, of `BITS`.
        readings: n.

    Example:
        >>> chance_of(48, 1) == 2.0**-48, chance_of(0, 1)
        (True, 1.0)
    """
    tail = sum(math.comb(BITS, count) for count in range(agree, BITS + 1))
    return min(1.0, float(readings * tail / 2**BITS))


def readings_of(path: Path) -> NDArray[np.float32]:
    """A picture as the reader sees it (N, 3, 128, 128) in [0, 1], once a share of `READINGS`: its longer
    side that share of the reader's, what is missing mirrored.

    Raises:
        DataError: no picture, a broken or too large one, or one that is too small.
    """
    if path.is_dir():
        raise DataError(str(path), "it is a folder", "Give a picture in it")
    picture = decode_upright(path)
    if min(picture.size) < LEAST_SIDE:
        why = f"it has {picture.width}x{picture.height} pixels"
        raise DataError(str(path), why, f"A mark is read from {LEAST_SIDE} pixels a side on")
    return np.stack([_laid(picture, round(share * SIDE)) for share in READINGS])


def _laid(picture: Image.Image, longest: int) -> NDArray[np.float32]:
    scale = longest / max(picture.size)
    size = tuple(max(1, round(scale * side)) for side in picture.size)
    small = np.asarray(picture.resize((size[0], size[1]), Image.Resampling.BILINEAR), np.float32)
    missing = [SIDE - side for side in small.shape[:2]]
    around = [(gap // 2, gap - gap // 2) for gap in missing]
    full = np.pad(small, (*around, (0, 0)), mode="symmetric")
    return np.ascontiguousarray(full.transpose(2, 0, 1) / 255.0, dtype=np.float32)


def find_marks(
    files: Sequence[Path], key: Path | None = None, *, progress: Progress | None = None
) -> tuple[FoundMark, ...]:
    """Whether pictures carry a key's mark, by the reader that ships, in ONNX Runtime.

    Args:
        files: pictures.
        key: the key's file; None is the public demonstration key.
        progress: called with (pictures done, pictures in all, what).

    Raises:
        InputError, DataError: see `read_key` and `readings_of`; found before any picture is read.
        MissingExtraError: ONNX Runtime is not installed.
    """
    place = shipped_path("small", MARKS)
    wanted = key_bits(read_key(key or place / DEMONSTRATION))
    readings = [readings_of(file) for file in files]
    found = []
    with temporary_folder("unplug-mark-") as out:
        reader = filled(READER, place / READER, out)
        with Session(reader) as session:
            for number, (file, seen) in enumerate(zip(files, readings, strict=True)):
                logits = [session.run({"image": one[None]})["bits"][0] for one in seen]
                found.append(_found(file, np.stack(logits) > 0, wanted))
                if progress is not None:
                    progress(number + 1, len(files), file.name)
    return tuple(found)


def _found(file: Path, bits_NK: NDArray[np.bool_], wanted: NDArray[np.uint8]) -> FoundMark:
    agree_N = (bits_NK == wanted.astype(bool)).sum(axis=1)
    best = int(agree_N.argmax())
    agree = int(agree_N[best])
    return FoundMark(
        file=file,
        bits=np.packbits(bits_NK[best]).tobytes().hex(),
        agree=agree,
        chance=chance_of(agree),
        marked=chance_of(agree) <= CHANCE,
    )
