"""Small harm to files that unplug reads: values of other types, numbers that cannot be, missing,
surplus and repeated keys.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

REPEATED = "\x00twice\x00"
"""Begins a key that `written` writes without it, beside the key that has the name already."""


def deep(levels: int) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


NESTED = "\x00nested\x00"
"""Written as lists, two thousand deep."""
ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    10**39,
    10**400,
    -(10**30),
    0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    " ",
    "1",
    "12",
    "nan",
    "a" * 5000,
    "\x1b[2J\r\n\u2028\u202e\x85",
    "\ud800",
    "e\u0301\u200b\ufeff",
    "\x00",
    "/dev/zero",
    "../../etc/passwd",
    "subject:12",
    [],
    {},
    [None],
    ["a"],
    [[]],
    [0, 0],
    {"": None},
    {"a": {"b": [1]}},
    deep(70),
    NESTED,
)
"""What is put in the place of a value."""
ODD_KEYS = ("", "\ud800", "\x1b[2J", "schema", "__class__", "a" * 5000, "surplus")


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a JSON value; of a list its first and its last."""
    yield at
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*at, key))
    elif isinstance(value, list):
        for index in sorted({0, len(value) - 1}) if value else ():
            yield from places(value[index], (*at, index))


def related(value: Any) -> Iterator[Any]:
    """The same thing as another type, which a reader without types would take."""
    if isinstance(value, str):
        yield from (
            list(value[:50]),
            [value],
            value.encode().hex() or "0",
            value.upper(),
            value + "\n",
            value[:-1],
        )
    elif isinstance(value, bool):
        yield from (int(value), str(value), not value)
    elif isinstance(value, int | float):
        yield from (str(value), [value], float(value), -value, value * 10**18, bool(value))
    elif isinstance(value, list):
        yield from (
            "".join(map(str, value[:9])),
            dict(enumerate(value[:9])),
            value * 2,
            value[:-1],
            value[::-1],
            value[:1] * 300,
        )
    elif isinstance(value, dict):
        yield from (
            [*value],
            [*value.items()],
            [value],
            str(value)[:300],
            dict.fromkeys(value, value),
        )
    else:
        yield from ("null", 0, [])


def with_repeat(value: dict[str, Any], key: str, other: Any) -> dict[str, Any]:
    """An object in which a key stands twice, once `written`."""
    return {REPEATED + key: other, **value}


def harms(value: Any) -> Iterator[tuple[tuple[Any, ...], Callable[[Any], Any]]]:
    """Every place of a value with every harm that is done there."""
    for at in places(value):
        for odd in ODD:
            yield at, lambda _, odd=odd: odd
        own = value
        for step in at:
            own = own[step]
        for other in related(own):
            yield at, lambda _, other=other: other
        if isinstance(own, dict):
            for key in own:
                yield (
                    at,
                    lambda found, key=key: {name: found[name] for name in found if name != key},
                )
                yield at, lambda found, key=key: with_repeat(found, key, None)
                yield (
                    at,
                    lambda found, key=key: {
                        f"{name} " if name == key else name: found[name] for name in found
                    },
                )
            for key in ODD_KEYS:
                yield at, lambda found, key=key: {**found, key: 1}


def changed(value: Any, at: tuple[Any, ...], harm: Callable[[Any], Any]) -> Any:
    """A copy of a value, harmed in one place."""
    if not at:
        return harm(value)
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[at[0]] = changed(value[at[0]], at[1:], harm)
    return copied


def written(value: Any) -> bytes:
    """JSON with whatever JSON can hold: NaN, halves of surrogate pairs, a key twice."""
    text = json.dumps(value).replace(json.dumps(REPEATED)[1:-1], "")
    return text.replace(json.dumps(NESTED), "[" * 2000 + "]" * 2000).encode()


TEXTS: tuple[Callable[[bytes], bytes], ...] = (
    lambda raw: b"",
    lambda raw: raw[: len(raw) // 2],
    lambda raw: raw + raw,
    lambda raw: b"\xef\xbb\xbf" + raw,
    lambda raw: raw.decode().encode("utf-16"),
    lambda raw: b"\xff" + raw,
    lambda raw: b"\x00" * 64,
    lambda raw: b"[" * 100_000,
    lambda raw: b'{"a":' * 100_000,
    lambda raw: b"1" * 100_000,
    lambda raw: raw.replace(b":", b"=", 1),
    lambda raw: b"null",
    lambda raw: raw.replace(b'"', b"'"),
    lambda raw: raw.replace(b"\n", b"\r"),
    lambda raw: b'"' + b"\\u0000" * 9999 + b'"',
)
"""What is done to a file as a whole."""


def mutated(value: Any, count: int | None, seed: str) -> Iterator[bytes]:
    """Files that hold a value harmed in one place each, and files harmed as a whole.

    Args:
        value: JSON-ready.
        count: so many, drawn at random; None gives all there are.
        seed: of the draw.
    """
    whole = [harm(written(value)) for harm in TEXTS]
    found = list(harms(value))
    if count is not None:
        rng = random.Random(seed)
        found, whole = (
            rng.sample(found, min(count, len(found))),
            rng.sample(whole, min(max(1, count // 12), len(whole))),
        )
    yield from whole
    for at, harm in found:
        yield written(changed(value, at, harm))
