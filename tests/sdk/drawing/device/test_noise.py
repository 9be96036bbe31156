"""The noise stream: published words, stated formulas, and numbers that depend on nothing but where
they stand.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.core import InputError
from unplug.sdk.drawing.device import latent, normals, philox, uniforms, words

KNOWN = (
    ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
)
"""Of Random123's kat_vectors, philox4x32 with 10 rounds."""


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_gives_the_published_words(
    counter: tuple[int, ...], key: tuple[int, int], expected: str
) -> None:
    (block,) = philox(np.array([counter], np.uint32), key)
    assert " ".join(f"{word:08x}" for word in block) == expected


def slow_philox(counter: list[int], key: list[int]) -> list[int]:
    """In Python's own integers."""
    for _ in range(10):
        p, q = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (q >> 32) ^ counter[1] ^ key[0],
            q % 2**32,
            (p >> 32) ^ counter[3] ^ key[1],
            p % 2**32,
        ]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return counter


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 40))
def test_a_word_is_its_block_and_its_place_in_it(seed: int, stream: int, place: int) -> None:
    counter = [place // 4, 0, stream % 2**32, stream >> 32]
    word = slow_philox(counter, [seed % 2**32, seed >> 32])[place % 4]
    assert words(seed, stream, place + 1)[place] == word


def test_the_kth_number_does_not_depend_on_how_many_are_drawn() -> None:
    whole = normals(5, 0, 1001)
    for count in (0, 1, 2, 3, 4, 5, 64, 1000):
        assert np.array_equal(normals(5, 0, count), whole[:count])
    assert not np.array_equal(normals(6, 0, 64), whole[:64]) and not np.array_equal(
        normals(5, 1, 64), whole[:64]
    )
    assert np.array_equal(latent(5, (2, 3, 4)).ravel(), whole[:24]) and latent(
        5, (2, 3, 4)
    ).shape == (1, 2, 3, 4)


def test_uniforms_are_exact_and_never_an_end() -> None:
    ends = uniforms(np.array([0, 1, 2**32 - 1], np.uint32))
    assert (
        ends.tolist() == [0.5 / 2**32, 1.5 / 2**32, (2**32 - 0.5) / 2**32]
        and ends.min() > 0
        and ends.max() < 1
    )


def test_normals_are_box_and_mullers_of_the_uniforms() -> None:
    u = uniforms(words(3, 0, 6)).tolist()
    pairs = [
        (math.sqrt(-2 * math.log(a)), 2 * math.pi * b) for a, b in zip(u[::2], u[1::2], strict=True)
    ]
    expected = [value for r, angle in pairs for value in (r * math.cos(angle), r * math.sin(angle))]
    assert normals(3, 0, 6).dtype == np.float32
    assert np.allclose(normals(3, 0, 6), np.array(expected, np.float32), rtol=2**-23, atol=0)


def test_normals_are_standard() -> None:
    """Each within five standard errors of a million draws."""
    drawn = normals(0, 0, 10**6).astype(np.float64)
    assert abs(drawn.mean()) < 5e-3 and abs(drawn.var() - 1) < 5 * math.sqrt(2 / 10**6)
    assert abs((drawn**3).mean()) < 5 * math.sqrt(15 / 10**6) and abs(
        (drawn**4).mean() - 3
    ) < 5 * math.sqrt(96 / 10**6)
    assert abs(np.corrcoef(drawn[::2], drawn[1::2])[0, 1]) < 5 / math.sqrt(5 * 10**5)


@pytest.mark.parametrize(
    ("seed", "stream", "count"), [(-1, 0, 1), (2**64, 0, 1), (0, -1, 1), (0, 0, 2**28 + 1)]
)
def test_what_64_bits_do_not_hold_is_refused(seed: int, stream: int, count: int) -> None:
    with pytest.raises(InputError, match="out of range"):
        normals(seed, stream, count)
