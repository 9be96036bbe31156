"""A file of The Update Framework as a small reader takes it: strict JSON, whole numbers, P-256 keys, a threshold of signatures.

    signed bytes = OLPC canonical JSON of "signed": sorted keys, no spaces, only " and \\ escaped

Reference: The Update Framework specification 1.0.34, sections 4 and 5.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from unplug.core import InputError
from unplug.sdk.bundle import PublicKey, public_key, strict_json, time_of

from .refused import NotCurrent

Kind = Literal["root", "timestamp", "snapshot", "targets"]
KINDS: tuple[Kind, ...] = ("root", "timestamp", "snapshot", "targets")
LIMITS: dict[Kind, int] = {"root": 512_000, "timestamp": 16_384, "snapshot": 2_000_000, "targets": 5_000_000}
"""Bytes of a file of each kind, as python-tuf's client has them."""
MAX_KEYS = 64
SHA256 = re.compile(r"[0-9a-f]{64}")
_SPEC = re.compile(r"1\.[0-9]{1,4}(?:\.[0-9]{1,4})?")
_HEX = re.compile(r"(?:[0-9a-f]{2}){0,100}")


def canonical_text(value: Any) -> str:
    """OLPC's canonical JSON, over which TUF signs: unlike RFC 8785, control characters stand in it as they are.

    Example:
        >>> canonical_text({"b": [1, True, None], "a": 'x"y'})
        '{"a":"x\\\\"y","b":[1,true,null]}'
    """
    if isinstance(value, dict):
        return "{" + ",".join(f"{canonical_text(key)}:{canonical_text(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical_text, value)) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return (
        {True: "true", False: "false", None: "null"}[value] if value is None or value is True or value is False else str(value)
    )


def key_id(key: Any) -> str:
    """What TUF calls a key: SHA-256 of its canonical JSON."""
    return hashlib.sha256(canonical_text(key).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Signed:
    """One file of metadata that was read and not yet believed.

    Args:
        kind: which of the four.
        where: its name.
        version, expires: of every kind.
        body: what is signed, as JSON.
        signatures: DER by the id of the key.
    """

    kind: Kind
    where: str
    version: int
    expires: datetime
    body: dict[str, Any]
    signatures: dict[str, bytes]

    def signers(self, role: RoleOf) -> tuple[str, ...]:
        """Ids of the role's keys whose signature over the body holds, sorted."""
        message = canonical_text(self.body).encode()
        return tuple(
            sorted(name for name, key in role.keys.items() if _holds(key, self.signatures.get(name, b""), message))
        )  # fmt: skip

    def need_signed(self, role: RoleOf) -> tuple[str, ...]:
        """The signers, as many as the role asks for at least.

        Raises:
            NotCurrent: ``signature``.
        """
        found = self.signers(role)
        if len(found) < role.threshold:
            why = f"{len(found)} of its signatures are of keys that count, and {role.threshold} must be"
            raise NotCurrent("signature", self.where, why)
        return found


@dataclass(frozen=True, kw_only=True)
class RoleOf:
    """Whose signatures count for a kind of file, and how many of them it takes."""

    keys: dict[str, PublicKey]
    threshold: int


def _holds(key: PublicKey, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    try:
        if utils.encode_dss_signature(*utils.decode_dss_signature(signature)) != signature:
            return False  # BER, which other readers would judge differently
        key.loaded().verify(signature, message, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True


def read_signed(raw: bytes, kind: Kind, where: str) -> Signed:
    """Takes a file apart; nothing of it is believed by that.

    Raises:
        NotCurrent: ``format``: no strict JSON, another kind, another version of the specification, no whole numbers.
    """
    try:
        value = strict_json(raw)
    except ValueError as error:
        raise NotCurrent("format", where, f"it is no strict JSON ({error})") from error
    need(has_keys(value, "signed", "signatures") and isinstance(value["signed"], dict), where, "it is no signed metadata")
    body, listed = value["signed"], value["signatures"]
    need(not _has_fraction(value), where, "it holds a number that is no whole one")
    need(
        isinstance(listed, list) and len(listed) <= MAX_KEYS and all(_signature(item) for item in listed),
        where, "its signatures are not of the form",
    )  # fmt: skip
    found = {item["keyid"]: bytes.fromhex(item["sig"]) for item in listed}
    need(len(found) == len(listed), where, "a key signed it twice")
    need(body.get("_type") == kind, where, f"it is not of the type {kind}")
    spec, expires = body.get("spec_version"), time_of(body.get("expires"))
    need(isinstance(spec, str) and _SPEC.fullmatch(spec) is not None, where, "it is of another version of TUF than 1")
    need(is_count(body.get("version")) and expires is not None, where, "it has no version, or no time until when it counts")
    assert expires is not None
    return Signed(kind=kind, where=where, version=body["version"], expires=expires, body=body, signatures=found)


def read_roles(root: Signed) -> dict[Kind, RoleOf]:
    """Whose signatures a root file lets count.

    Raises:
        NotCurrent: ``format``: a key of another kind than P-256 or under another id than its own, a role without a key.
    """
    body, where = root.body, root.where
    keys: Any = body.get("keys")
    roles: Any = body.get("roles")
    need(body.get("consistent_snapshot") is True, where, "its files are not numbered (consistent_snapshot)")
    need(isinstance(keys, dict) and 1 <= len(keys) <= MAX_KEYS, where, "it lists no keys, or too many")
    known = {name: _key(name, key, where) for name, key in keys.items()}
    need(has_keys(roles, *KINDS), where, "it lists other roles than the four")
    return {kind: _role(roles[kind], known, where) for kind in KINDS}


def _role(role: Any, known: dict[str, PublicKey], where: str) -> RoleOf:
    need(has_keys(role, "keyids", "threshold") and isinstance(role["keyids"], list), where, "a role of it names no keys")
    names = role["keyids"]
    plain = all(isinstance(name, str) and name in known for name in names) and len({*names}) == len(names)
    need(plain and is_count(role["threshold"]), where, "a role of it names a key twice, or one that is not there")
    need(role["threshold"] <= len(names), where, "a role of it asks for more signatures than it has keys")
    return RoleOf(keys={name: known[name] for name in names}, threshold=role["threshold"])


def _key(name: str, key: Any, where: str) -> PublicKey:
    """A key under its own id, in the one spelling, so that none counts twice."""
    need(
        has_keys(key, "keytype", "scheme", "keyval") and has_keys(key["keyval"], "public")
        and (key["keytype"], key["scheme"]) == ("ecdsa", "ecdsa-sha2-nistp256") and isinstance(key["keyval"]["public"], str),
        where, "a key of it is of another kind than P-256",
    )  # fmt: skip
    need(key_id(key) == name, where, "a key of it stands under another id than its own")
    try:
        found = public_key(key["keyval"]["public"], where)
    except InputError as error:
        raise NotCurrent("format", where, f"a key of it is no public key of P-256 ({error.why})") from error
    need(found.pem == key["keyval"]["public"], where, "a key of it is in another spelling")
    return found


def need(holds: bool, where: str, why: str) -> None:
    """Raises ``format`` unless it holds."""
    if not holds:
        raise NotCurrent("format", where, why)


def has_keys(value: Any, *names: str) -> bool:
    """Whether a JSON value is an object of just these fields."""
    return isinstance(value, dict) and value.keys() == {*names}


def is_count(value: Any) -> bool:
    """Whether a JSON value is a whole number from 1 on."""
    return type(value) is int and value >= 1


def is_digest(value: Any) -> bool:
    """Whether a JSON value is a SHA-256 in 64 lower-case digits."""
    return isinstance(value, str) and SHA256.fullmatch(value) is not None


def _signature(item: Any) -> bool:
    return (
        has_keys(item, "keyid", "sig") and isinstance(item["keyid"], str)
        and isinstance(item["sig"], str) and _HEX.fullmatch(item["sig"]) is not None
    )  # fmt: skip


def _has_fraction(value: Any) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, float):
            return True
        waiting += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return False
