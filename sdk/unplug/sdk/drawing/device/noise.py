"""The portable noise stream: Philox4x32-10 to 32-bit words, to uniforms, to normals.

Counter-based: number k of a stream depends on (seed, stream, k) alone, not on how many are drawn,
in what order or by how many threads. Shapes: N blocks, K numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
MASK = 0xFFFFFFFF
INITIAL = 0
"""The stream of a picture's first latent; a sampler that adds noise at step s would take 1 + s."""
MAX_SEED, MAX_STREAM, MAX_COUNT = 2**64 - 1, 2**64 - 1, 2**28


def philox(counter_N4: NDArray[np.uint32], key: tuple[int, int]) -> NDArray[np.uint32]:
    """Philox4x32-10: ten rounds over each block of four 32-bit words.

    A round with (c0, c1, c2, c3) and (k0, k1) multiplies p = M0 c0 and q = M1 c2 in 64 bits and
    gives (hi(q) xor c1 xor k0, lo(q), hi(p) xor c3 xor k1, lo(p)); between rounds the key grows by
    `WEYL`, modulo 2^32.

    Args:
        counter_N4: N counters, least significant word first.
        key: two 32-bit words, least significant first.

    Returns:
        N blocks of four random words.

    Example:
        >>> [f"{word:08x}" for word in philox(np.zeros((1, 4), np.uint32), (0, 0))[0]]
        ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']

    Reference:
        Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011, section 3.3; Random123's
        known answers.
    """
    # In 64 bits: the high half of a product of two 32-bit words is needed too.
    first, second, third, fourth = (counter_N4[:, place].astype(np.uint64) for place in range(4))
    low, high = key
    for _ in range(ROUNDS):
        p, q = first * np.uint64(MULTIPLIERS[0]), third * np.uint64(MULTIPLIERS[1])
        first, second, third, fourth = (
            (q >> np.uint64(32)) ^ second ^ np.uint64(low),
            q & np.uint64(MASK),
            (p >> np.uint64(32)) ^ fourth ^ np.uint64(high),
            p & np.uint64(MASK),
        )
        low, high = (low + WEYL[0]) & MASK, (high + WEYL[1]) & MASK
    return np.stack([first, second, third, fourth], axis=1).astype(np.uint32)


def words(seed: int, stream: int, count: int) -> NDArray[np.uint32]:
    """The first `count` 32-bit words of a stream: word k is word k mod 4 of block floor(k / 4).

    Block n has the counter (n mod 2^32, floor(n / 2^32), stream mod 2^32, floor(stream / 2^32)) and
    the key (seed mod 2^32, floor(seed / 2^32)).

    Raises:
        InputError: a seed or a stream that 64 bits do not hold, or too many numbers.
    """
    for name, value, most in (
        ("seed", seed, MAX_SEED),
        ("stream", stream, MAX_STREAM),
        ("count", count, MAX_COUNT),
    ):
        if not 0 <= value <= most:
            raise InputError(f"{name} {value}", "out of range", f"Use 0 to {most}")
    blocks_N = np.arange(-(-count // 4), dtype=np.uint64)
    counter_N4 = np.empty((len(blocks_N), 4), np.uint32)
    counter_N4[:, 0] = blocks_N & np.uint64(MASK)
    counter_N4[:, 1] = blocks_N >> np.uint64(32)
    counter_N4[:, 2], counter_N4[:, 3] = stream & MASK, stream >> 32
    return philox(counter_N4, (seed & MASK, seed >> 32)).reshape(-1)[:count]


def uniforms(words_K: NDArray[np.uint32]) -> NDArray[np.float64]:
    """u = (w + 1/2) / 2^32, exactly, in (0, 1): neither end is ever drawn.

    Example:
        >>> uniforms(np.array([0, 2**32 - 1], np.uint32)) * 2**33
        array([1.00000000e+00, 8.58993459e+09])
    """
    return (words_K.astype(np.float64) + 0.5) * 2.0**-32


def normals(seed: int, stream: int, count: int) -> NDArray[np.float32]:
    """The first `count` standard normals of a stream, by Box and Muller, in float64 and then
    rounded to float32.

    From uniforms u_2j and u_2j+1: r = sqrt(-2 ln u_2j), a = 2 pi u_2j+1, z_2j = r cos a, z_2j+1 = r
    sin a.

    Args:
        seed: the seed of the picture, 0 to 2^64 - 1.
        stream: the purpose of the numbers, see `INITIAL`.
        count: K.

    Example:
        >>> bool((normals(7, 0, 5) == normals(7, 0, 4096)[:5]).all())
        True

    Reference:
        Box and Muller, A Note on the Generation of Random Normal Deviates, 1958.
    """
    # Pairs: an odd count draws one number that nobody gets.
    u_J2 = uniforms(words(seed, stream, count + count % 2)).reshape(-1, 2)
    radius_J, angle_J = np.sqrt(-2.0 * np.log(u_J2[:, 0])), 2.0 * np.pi * u_J2[:, 1]
    z_J2 = np.stack([radius_J * np.cos(angle_J), radius_J * np.sin(angle_J)], axis=1)
    return z_J2.astype(np.float32).reshape(-1)[:count]


def latent(seed: int, shape_CHW: tuple[int, int, int]) -> NDArray[np.float32]:
    """A picture's first latent (1, C, H, W): stream `INITIAL`, width running fastest, then height,
    then channels.
    """
    return normals(seed, INITIAL, int(np.prod(shape_CHW))).reshape(1, *shape_CHW)
