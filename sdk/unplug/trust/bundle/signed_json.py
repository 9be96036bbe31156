"""JSON of which there is one reading, and the DSSE envelope in which it is signed.

No key stands twice, numbers are those that every language keeps, and there is one canonical
spelling (RFC 8785). Of an envelope

    signed bytes = "DSSEv1" SP len(type) SP type SP len(payload) SP payload

Reference: DSSE protocol 1.0.2; in-toto Attestation Framework, Statement v1.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any, TypeVar

from unplug.core import parse_json

T = TypeVar("T")
LARGEST = 2**53 - 1
"""The largest integer that a double keeps apart from its neighbours; beyond it readers in other
languages round.
"""
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"


def strict_json(raw: bytes) -> Any:
    """A JSON value that every reader understands alike.

    Raises:
        ValueError: see `unplug.core.parse_json`; or a number is not finite or beyond 2^53 - 1, or a
            text holds half a character.
    """
    value = parse_json(raw)
    level = [value]
    while level:
        part = level.pop()
        if isinstance(part, dict):
            level += [*part, *part.values()]
        elif isinstance(part, list):
            level += part
        elif isinstance(part, str):
            part.encode()
        elif isinstance(part, int | float) and not (math.isfinite(part) and abs(part) <= LARGEST):
            raise ValueError(f"it holds a number beyond {LARGEST}, or none")
    return value


def canonical(value: Any) -> bytes:
    """A JSON value in the spelling of RFC 8785: sorted keys, no spaces, numbers as ECMAScript
    writes them.

    Raises:
        ValueError: it holds what no JSON has, or a number that `strict_json` refuses.

    Example:
        >>> canonical({"b": 1.0, "a": [1e-7, "ü"]}).decode()
        '{"a":[1e-7,"ü"],"b":1}'
    """
    import rfc8785  # by readers of unsigned files never needed

    return rfc8785.dumps(value)


def validated(kind: type[T], raw: bytes) -> T:
    """A dataclass out of JSON.

    Raises:
        ValueError: says where it does not follow its schema.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:60] for part in first["loc"]) or "the file"
        why = f"it does not follow its schema ({place}: {first['msg'][:200]})"
        raise ValueError(why) from error


def has_fields(value: Any, *required: str, optional: tuple[str, ...] = ()) -> bool:
    """Whether a JSON value is an object of just these fields."""
    return isinstance(value, dict) and {*required} <= value.keys() <= {*required, *optional}


def from_base64(text: Any) -> bytes | None:
    """Standard base64 with its padding, in the one spelling that encodes the bytes; else None."""
    try:
        raw = base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except ValueError:
        return None
    return raw if raw is not None and base64.b64encode(raw).decode() == text else None


def pae(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: what is signed, so that no payload passes for one of
    another type.

    Example:
        >>> pae(b"{}")
        b'DSSEv1 28 application/vnd.in-toto+json 2 {}'
    """
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def dsse(payload: bytes, signature: bytes, key_id: str = "") -> dict[str, Any]:
    """An envelope with one signature of `pae`."""
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": key_id}],
    }


class OtherPayload(ValueError):
    """An envelope of something else than an in-toto statement."""


def read_dsse(value: Any, most: int) -> tuple[bytes, Sequence[tuple[str, bytes]]]:
    """The payload of an envelope, and its signatures as (key id, bytes); none of them is checked.

    Args:
        value: a value from outside.
        most: signatures that it may hold.

    Raises:
        OtherPayload: its payload is not an in-toto statement.
        ValueError: it is not of the form.
    """
    if not has_fields(value, "payload", "payloadType", "signatures"):
        raise ValueError("it holds no DSSE envelope")
    if value["payloadType"] != PAYLOAD_TYPE:
        raise OtherPayload(f"its payload is not of the type {PAYLOAD_TYPE}")
    signatures = value["signatures"]
    if not (isinstance(signatures, list) and 0 < len(signatures) <= most):
        raise ValueError(
            f"it does not have 1 to {most} signatures"
            if most > 1
            else "it does not have one signature"
        )
    if not all(has_fields(item, "sig", optional=("keyid",)) for item in signatures):
        raise ValueError("a signature has other fields than DSSE's")
    payload = from_base64(value["payload"])
    pairs = [(item.get("keyid"), from_base64(item["sig"])) for item in signatures]
    if payload is None or any(raw is None for _, raw in pairs):
        raise ValueError("its base64 is not in the one standard spelling")
    if not all(name is None or isinstance(name, str) for name, _ in pairs):
        raise ValueError("a signature names its key by no text")
    return payload, [(name or "", raw or b"") for name, raw in pairs]
