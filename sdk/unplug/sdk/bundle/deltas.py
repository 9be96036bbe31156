"""One file as the difference from another: by bsdiff, by zstd with the old file before its window, or whole, by zstd alone.

bsdiff adds the new bytes to the old ones modulo 256 where they are alike, which suits weights that all moved a little: sign,
exponent and the first bits of the mantissa stay, and bzip2 packs the zeros. zstd only finds what is the same.

A patch is hostile input: nothing is unpacked beyond the size that was said before, which is bounded itself.

Reference: C. Percival, Naive differences of executable code, 2003; RFC 8878 (zstd).
"""

from __future__ import annotations

import bz2
from collections.abc import Callable
from typing import Literal, get_args

from unplug.core import CheckFailed, require_modules

How = Literal["bsdiff", "zstd", "whole"]
WAYS: tuple[How, ...] = get_args(How)
MAX_DELTA_BYTES = 128 * 2**20
"""Of an old or a new file that is compared; what is larger ships whole. bsdiff takes some 17 bytes of memory a byte."""
PACKAGES = ("bsdiff4", "zstandard")
LEVEL = 19
_MAGIC, _HEADER = b"BSDIFF40", 32
_TRIPLE = 24
MAX_TRIPLES = 2**20
"""Steps of a bsdiff patch: an honest one of the largest file that is compared has fewer."""


class PatchBroken(CheckFailed):
    """A patch that does not lead from the old file to the one that it names."""


def make_delta(how: How, old: bytes, new: bytes) -> bytes:
    """The bytes from which, and `old`, `apply_delta` makes `new`; the same bytes every time.

    Args:
        how: see `WAYS`; ``whole`` does not look at `old`.
        old, new: two files.

    Example:
        >>> old, new = bytes(range(256)) * 40, bytes(range(255)) * 40
        >>> all(apply_delta(how, old, make_delta(how, old, new), len(new), "doc") == new for how in WAYS)
        True
    """
    require_modules(PACKAGES, "patches")
    import bsdiff4
    import zstandard

    if how == "bsdiff":
        return bytes(bsdiff4.diff(old, new))
    if how == "whole":
        return zstandard.ZstdCompressor(level=LEVEL).compress(new)
    window = min(max((len(old) + len(new)).bit_length(), zstandard.WINDOWLOG_MIN), zstandard.WINDOWLOG_MAX)
    settings = zstandard.ZstdCompressionParameters.from_level(LEVEL, window_log=window, enable_ldm=True)
    return zstandard.ZstdCompressor(dict_data=_before(old), compression_params=settings).compress(new)


def smallest_delta(old: bytes | None, new: bytes) -> tuple[How, bytes]:
    """The way that ships the fewest bytes, and these; without an old file, or with one too large to compare, ``whole``."""
    compared = old is not None and max(len(old), len(new)) <= MAX_DELTA_BYTES
    made = [(how, make_delta(how, old or b"", new)) for how in WAYS if compared or how == "whole"]
    return min(made, key=lambda item: len(item[1]))


def apply_delta(how: str, old: bytes, patch: bytes, size: int, where: str) -> bytes:
    """The new file.

    Args:
        how: see `WAYS`.
        old: the file that the patch was made from.
        patch: from anybody.
        size: bytes of the new file; no more are ever unpacked.
        where: what the patch is called.

    Raises:
        PatchBroken: it leads to another number of bytes, reads beyond the old file, or is not of the form.
    """
    require_modules(PACKAGES, "patches")
    apply = _APPLY.get(how)
    if apply is None:
        raise PatchBroken(where, f"no such way as {how[:40]!r}", f"Ways are {', '.join(WAYS)}")
    found = apply(old, patch, size, where)
    if len(found) != size:
        raise _broken(where, f"it leads to {len(found)} bytes, and {size} were said")
    return found


def _broken(where: str, why: str) -> PatchBroken:
    return PatchBroken(where, why, "Fetch or make the patches again")


def _before(old: bytes):  # type: ignore[no-untyped-def]  # a class of zstandard's
    """The old file as what came before the new one: what ``zstd --patch-from`` does."""
    import zstandard

    return zstandard.ZstdCompressionDict(old, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def _apply_zstd(old: bytes, patch: bytes, size: int, where: str) -> bytes:
    import zstandard

    # A frame may ask for a window of its own: never for more than both files, or the least that zstd takes.
    window = max(1 << max(len(old) + size, 1).bit_length(), 2**20)
    given = {"dict_data": _before(old)} if old else {}
    try:
        with zstandard.ZstdDecompressor(max_window_size=window, **given).stream_reader(patch) as reader:
            return b"".join(iter(_bounded(reader.read, size + 1), b""))
    except zstandard.ZstdError as error:
        raise _broken(where, f"zstd cannot unpack it ({error})") from error


def _apply_whole(old: bytes, patch: bytes, size: int, where: str) -> bytes:
    return _apply_zstd(b"", patch, size, where)


def _bounded(read: Callable[[int], bytes], left: int) -> Callable[[], bytes]:
    """Reads on until `left` bytes were read."""

    def more() -> bytes:
        nonlocal left
        block = read(min(left, 2**20)) if left else b""
        left -= len(block)
        return block

    return more


def _apply_bsdiff(old: bytes, patch: bytes, size: int, where: str) -> bytes:
    """new = old[at : at + x] + difference, then y bytes as they are, then `at` moves on by z; for each (x, y, z)."""
    import numpy as np

    if len(patch) < _HEADER or patch[:8] != _MAGIC:
        raise _broken(where, "it is no bsdiff patch")
    control, difference, said = (_offset(patch[at : at + 8]) for at in (8, 16, 24))
    if said != size or min(control, difference) < 0 or _HEADER + control + difference > len(patch):
        raise _broken(where, f"it leads to {said} bytes, and {size} were said, or its parts do not fit")
    ends = (_HEADER, _HEADER + control, _HEADER + control + difference, len(patch))
    limits = (MAX_TRIPLES * _TRIPLE, size, size)
    triples, added, extra = (
        _unpacked(patch[start:end], limit, where) for start, end, limit in zip(ends, ends[1:], limits, strict=False)
    )
    if len(triples) % _TRIPLE:
        raise _broken(where, "its steps are cut")
    old_N, added_N, new = np.frombuffer(old, np.uint8), np.frombuffer(added, np.uint8), bytearray()
    at = used = taken = 0
    for step in range(0, len(triples), _TRIPLE):
        x, y, z = (_offset(triples[step + part : step + part + 8]) for part in (0, 8, 16))
        if min(x, y) < 0 or used + x > len(added) or taken + y > len(extra) or len(new) + x + y > size:
            raise _broken(where, "a step leads out of it")
        new += _sum(old_N, at, added_N[used : used + x]) + extra[taken : taken + y]
        at, used, taken = at + x + z, used + x, taken + y
    return bytes(new)


def _sum(old_N, at: int, added_N) -> bytes:  # type: ignore[no-untyped-def]  # arrays of uint8
    """Old bytes from a place on, and what is added to each; outside of the old file they are zeros, as in bsdiff itself."""
    found_N = added_N.copy()
    first, last = max(at, 0), min(at + len(added_N), len(old_N))
    if last > first:
        found_N[first - at : last - at] += old_N[first:last]
    return bytes(found_N.tobytes())


def _offset(raw: bytes) -> int:
    """bsdiff's integer: 63 bits, little-endian, and a sign."""
    value = int.from_bytes(raw, "little")
    return -(value - 2**63) if value >= 2**63 else value


def _unpacked(raw: bytes, limit: int, where: str) -> bytes:
    """A block of bzip2, as far as `limit`; `PatchBroken` where there is more."""
    unpacker = bz2.BZ2Decompressor()
    try:
        found = unpacker.decompress(raw, max_length=limit + 1)
    except (OSError, ValueError) as error:
        raise _broken(where, f"bzip2 cannot unpack it ({error})") from error
    if len(found) > limit or (len(found) <= limit and not unpacker.eof):
        raise _broken(where, "a part of it unpacks to more than was said, or is cut")
    return found


_APPLY: dict[str, Callable[[bytes, bytes, int, str], bytes]] = {
    "bsdiff": _apply_bsdiff, "zstd": _apply_zstd, "whole": _apply_whole,
}  # fmt: skip
