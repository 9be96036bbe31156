"""JSON of which there is one reading: no key twice, numbers that every language keeps, one canonical spelling (RFC 8785)."""

from __future__ import annotations

import math
from typing import Any

from unplug.core import parse_json

LARGEST = 2**53 - 1
"""The largest integer that a double keeps apart from its neighbours; beyond it readers in other languages round."""


def strict_json(raw: bytes) -> Any:
    """A JSON value that every reader understands alike.

    Raises:
        ValueError: see `unplug.core.parse_json`; or a number is not finite or beyond 2^53 - 1, or a text
            holds half a character.
    """
    value = parse_json(raw)
    level = [value]
    while level:
        item = level.pop()
        if isinstance(item, dict):
            level += [*item, *item.values()]
        elif isinstance(item, list):
            level += item
        elif isinstance(item, str):
            item.encode()
        elif isinstance(item, int | float) and not (math.isfinite(item) and abs(item) <= LARGEST):
            raise ValueError(f"it holds a number beyond {LARGEST}, or none")
    return value


def canonical(value: Any) -> bytes:
    """A JSON value in the spelling of RFC 8785: sorted keys, no spaces, numbers as ECMAScript writes them.

    Raises:
        ValueError: it holds what no JSON has, or a number that `strict_json` refuses.

    Example:
        >>> canonical({"b": 1.0, "a": [1e-7, "ü"]}).decode()
        '{"a":[1e-7,"ü"],"b":1}'
    """
    import rfc8785  # by readers of unsigned files never needed

    return rfc8785.dumps(value)
