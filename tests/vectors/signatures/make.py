"""``python -m tests.vectors.signatures.make``: SHA-256 digests, and ECDSA signatures over P-256
with whether they hold.

Every verdict is that of the ``cryptography`` package. Among the cases are those that verifiers were
seen to get wrong: r and s of zero, of the order and beyond, an r that stands for a larger x, both
scalars leading to the same point, to opposite ones and to infinity, keys that are no points of the
curve. Keys are fixed and public, and sign nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

HERE = Path(__file__).parent
P = 2**256 - 2**224 + 2**192 + 2**96 - 1
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
GENERATOR = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
Point = tuple[int, int]
EDGES = (0, 1, 2, N - 2, N - 1, N, N + 1, P, 2**256 - 1, N // 2, N // 2 + 1)


def add(one: Point | None, other: Point | None) -> Point | None:
    """The sum of two points; None is infinity."""
    if one is None or other is None:
        return one or other
    if one[0] == other[0] and (one[1] + other[1]) % P == 0:
        return None
    if one == other:
        slope = (3 * one[0] ** 2 - 3) * pow(2 * one[1], -1, P)
    else:
        slope = (other[1] - one[1]) * pow(other[0] - one[0], -1, P)
    x = (slope**2 - one[0] - other[0]) % P
    return x, (slope * (one[0] - x) - one[1]) % P


def times(factor: int, point: Point) -> Point | None:
    """A multiple of a point."""
    found: Point | None = None
    for bit in bin(factor % N)[2:]:
        found = add(found, found)
        found = add(found, point) if bit == "1" else found
    return found


def lifted(x: int) -> Point | None:
    """A point of the curve with this x, or None."""
    square = (x**3 - 3 * x + B) % P
    y = pow(square, (P + 1) // 4, P)
    return (x, y) if y * y % P == square else None


def holds(key: Point, r: int, s: int, message: bytes) -> bool:
    """What the package says; numbers that DER cannot hold, and keys that are no points, do not."""
    try:
        public = ec.EllipticCurvePublicNumbers(*key, ec.SECP256R1()).public_key()
        public.verify(utils.encode_dss_signature(r, s), message, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True


def case(what: str, key: Point, r: int, s: int, message: bytes) -> dict[str, Any]:
    """One signature as the file has it."""
    numbers = {"x": key[0], "y": key[1], "r": r, "s": s}
    told = {name: f"{number:064x}" for name, number in numbers.items()}
    return {
        "what": what,
        **told,
        "message": base64.b64encode(message).decode(),
        "holds": holds(key, r, s, message),
    }


def hashed(message: bytes) -> int:
    return int.from_bytes(hashlib.sha256(message).digest(), "big")


def made_for(big_r: Point, r: int, message: bytes, s: int = 12345) -> Point:
    """The key whose signature (r, s) of a message leads to a point: Q = (s R - h G) / r."""
    minus = times(N - hashed(message) % N, GENERATOR)
    sum_ = add(times(s, big_r), minus)
    found = None if sum_ is None else times(pow(r, -1, N), sum_)
    assert found is not None
    return found


def plain() -> list[dict[str, Any]]:
    """Sound signatures, each also with one bit of one part changed, and with the other s."""
    found = []
    for number in range(40):
        private = ec.derive_private_key(hashed(b"key %d" % number) % N or 1, ec.SECP256R1())
        numbers = private.public_key().public_numbers()
        key, message = (numbers.x, numbers.y), b"message %d" % number * number
        made = private.sign(message, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
        r, s = utils.decode_dss_signature(made)
        found.append(case(f"sound {number}", key, r, s, message))
        found.append(case(f"other s {number}", key, r, N - s, message))
        bit = 1 << (7 * number) % 256
        found += [
            case(f"changed r {number}", key, r ^ bit, s, message),
            case(f"changed s {number}", key, r, s ^ bit, message),
            case(f"changed message {number}", key, r, s, message + b"."),
        ]
    return found


def edges() -> list[dict[str, Any]]:
    """Numbers at both ends."""
    private = ec.derive_private_key(20261124, ec.SECP256R1()).public_key().public_numbers()
    key = (private.x, private.y)
    return [
        case(f"edge {i} {j}", key, r, s, b"edge")
        for i, r in enumerate(EDGES)
        for j, s in enumerate(EDGES)
    ]


def special() -> list[dict[str, Any]]:
    """Points that meet each other."""
    message, found = b"special", []
    x = next(value for value in range(N, P) if lifted(value))
    wrapped = lifted(x)
    assert wrapped is not None
    key = made_for(wrapped, x - N, message)
    found += [
        case("r is x less the order", key, x - N, 12345, message),
        case("r is x itself", key, x, 12345, message),
    ]
    h = hashed(message)
    found.append(case("infinity", GENERATOR, (N - h) % N, 777, message))
    minus = (GENERATOR[0], P - GENERATOR[1])
    found += [
        case("infinity of the opposite", minus, h % N, 777, message),
        case("equal parts", GENERATOR, h % N, 777, message),
    ]
    for factor in (1, 2, 3, N - 1, N - 2):
        own = times(factor, GENERATOR)
        assert own is not None
        for nonce in (1, 2, 3, 2**128, N - 1):
            point = times(nonce, GENERATOR)
            assert point is not None
            r = point[0] % N
            s = pow(nonce, -1, N) * (h + r * factor) % N
            found.append(case(f"key {factor % 1000} nonce {nonce % 1000}", own, r, s, message))
    wrong = [
        (0, 0),
        (1, 1),
        (GENERATOR[0], GENERATOR[1] ^ 1),
        (P, GENERATOR[1]),
        (2**256 - 1, 2**256 - 1),
        (GENERATOR[0], P),
    ]
    found += [case(f"no point {place}", item, 5, 7, message) for place, item in enumerate(wrong)]
    return found


def digests() -> list[dict[str, str]]:
    """Messages of every length around the blocks, and longer ones."""
    texts = [
        bytes(range(256))[: length % 256] * (1 + length // 256)
        for length in (*range(130), 1000, 4096, 65537)
    ]
    return [
        {"message": base64.b64encode(text).decode(), "sha256": hashlib.sha256(text).hexdigest()}
        for text in texts
    ]


def files() -> dict[str, str]:
    """File name to text."""
    made: dict[str, Any] = {
        "p256.json": {"cases": plain() + edges() + special()},
        "sha256.json": {"cases": digests()},
    }
    return {name: json.dumps(value, indent=0) + "\n" for name, value in made.items()}


if __name__ == "__main__":
    for name, text in files().items():
        (HERE / name).write_text(text, encoding="utf-8")
