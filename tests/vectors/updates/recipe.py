"""How a case of the corpus is made: the four files of update metadata in the order in which a publisher signs them.

Keys are fixed and signatures are RFC 6979's, so that the same bytes are made anywhere. The keys sign nothing else. Nothing of
`unplug.sdk.updates` is used: a corpus made by the reader that it judges would agree with its mistakes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from securesystemslib.formats import encode_canonical

KINDS = ("root", "timestamp", "snapshot", "targets")
SECRETS = {
    name: ec.derive_private_key(20261200 + number, ec.SECP256R1())
    for number, name in enumerate(("root1", "root2", "root3", "root4", "root5", "targets", "snapshot", "timestamp",
                                   "targets2", "snapshot2", "timestamp2", "stranger"))
}  # fmt: skip
NOW, LATER = "2026-12-01T12:00:00Z", "2027-06-01T00:00:00Z"
IDS = {number: hashlib.sha256(f"manifest of release {number}".encode()).hexdigest() for number in range(1, 12)}
BYTES = 5000
Change = Callable[[Any], Any]


def same(value: Any) -> Any:
    return value


def key_of(name: str) -> dict[str, Any]:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    pem = SECRETS[name].public_key().public_bytes(serialization.Encoding.PEM, form).decode()
    return {"keytype": "ecdsa", "scheme": "ecdsa-sha2-nistp256", "keyval": {"public": pem}}


def canonical(value: Any) -> bytes:
    text = encode_canonical(value)
    assert isinstance(text, str)
    return text.encode()


def id_of(name: str) -> str:
    return hashlib.sha256(canonical(key_of(name))).hexdigest()


def sign(name: str, message: bytes) -> dict[str, str]:
    raw = SECRETS[name].sign(message, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
    return {"keyid": id_of(name), "sig": raw.hex()}


def spelled(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass(frozen=True, kw_only=True)
class Part:
    """One file: what may be done to it before it is signed, by whom it is signed, and what is done to it afterwards.

    Args:
        body: changes what is signed.
        by: names of the keys; None takes those of its role.
        whole: changes signatures and body together.
        raw: changes the bytes, before they are listed anywhere.
        sent: changes the bytes that the reader gets, after they were listed.
        entry: changes what the file before it says of it.
    """

    body: Change = same
    by: tuple[str, ...] | None = None
    whole: Change = same
    raw: Change = same
    sent: Change = same
    entry: Change = same


PLAIN = Part()


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Names of the keys of each role."""

    root: tuple[str, ...] = ("root1", "root2", "root3")
    threshold: int = 2
    targets: tuple[str, ...] = ("targets",)
    snapshot: tuple[str, ...] = ("snapshot",)
    timestamp: tuple[str, ...] = ("timestamp",)


FIRST = Keys()


@dataclass(frozen=True, kw_only=True)
class Root:
    """One root file: its keys, and who signs it beside those of the root before."""

    keys: Keys = FIRST
    part: Part = PLAIN


@dataclass(frozen=True, kw_only=True)
class World:
    """All files of one moment.

    Args:
        roots: from version 1 on.
        versions: of timestamp, snapshot and targets.
        timestamp, snapshot, targets: the parts.
        product: changes what is said of ``face-age``.
        signed_under: number of the root whose keys sign the three (default: the newest).
        drop: files that are not there.
        pad: files that are filled up with spaces to so many bytes.
    """

    roots: tuple[Root, ...] = (Root(),)
    versions: tuple[int, int, int] = (5, 4, 3)
    timestamp: Part = PLAIN
    snapshot: Part = PLAIN
    targets: Part = PLAIN
    product: Change = same
    signed_under: int = -1
    drop: tuple[str, ...] = ()
    pad: Mapping[str, int] = field(default_factory=dict)

    def files(self) -> dict[str, bytes]:
        keys = self.roots[self.signed_under].keys
        at, snap, targ = self.versions
        found: dict[str, bytes] = {}
        listed, sent = made(self.targets, targets_body(targ, self.product), keys.targets)
        found[f"{targ}.targets.json"] = sent
        meta = {"targets.json": self.targets.entry(entry(targ, listed))}
        listed, sent = made(self.snapshot, {"_type": "snapshot", "version": snap, "meta": meta}, keys.snapshot)
        found[f"{snap}.snapshot.json"] = sent
        meta = {"snapshot.json": self.snapshot.entry(entry(snap, listed))}
        _, found["timestamp.json"] = made(self.timestamp, {"_type": "timestamp", "version": at, "meta": meta}, keys.timestamp)
        for number, raw in enumerate(self.root_files(), 1):
            found[f"{number}.root.json"] = raw
        return {name: raw for name, raw in found.items() if name not in self.drop}

    def root_files(self) -> list[bytes]:
        found, before = [], ()
        for number, root in enumerate(self.roots, 1):
            by = tuple(dict.fromkeys((*before, *root.keys.root[: root.keys.threshold])))
            found.append(made(root.part, root_body(number, root.keys), by)[1])
            before = root.keys.root[: root.keys.threshold]
        return found


def made(part: Part, body: dict[str, Any], by: tuple[str, ...]) -> tuple[bytes, bytes]:
    """Bytes as they are listed, and as they are sent."""
    body = part.body({"spec_version": "1.0.31", "expires": LATER, **body})
    message = canonical(body) if not _fractions(body) else spelled(body)
    whole = part.whole({"signed": body, "signatures": [sign(name, message) for name in (by if part.by is None else part.by)]})
    raw = part.raw(spelled(whole))
    return raw, part.sent(raw)


def _fractions(value: Any) -> bool:
    """OLPC's form has none; what a signer who does not care would sign is its text."""
    if isinstance(value, dict):
        return any(_fractions(item) for item in value.values())
    return isinstance(value, float) or (isinstance(value, list) and any(map(_fractions, value)))


def entry(version: int, raw: bytes) -> dict[str, Any]:
    return {"version": version, "length": len(raw), "hashes": {"sha256": hashlib.sha256(raw).hexdigest()}}


def root_body(version: int, keys: Keys) -> dict[str, Any]:
    named = {kind: getattr(keys, kind) for kind in KINDS}
    return {
        "_type": "root", "version": version, "consistent_snapshot": True,
        "keys": {id_of(name): key_of(name) for names in named.values() for name in names},
        "roles": {
            kind: {"keyids": [id_of(name) for name in names], "threshold": keys.threshold if kind == "root" else 1}
            for kind, names in named.items()
        },
    }  # fmt: skip


def targets_body(version: int, product: Change) -> dict[str, Any]:
    custom = {
        "release": 9, "minimum_version": 6, "revoked": [8],
        "retiring": [{"below": 7, "until": "2026-11-30T00:00:00Z"}, {"below": 9, "until": "2026-12-24T00:00:00Z"}],
        "releases": {str(number): IDS[number] for number in (6, 7, 8, 9)},
    }  # fmt: skip
    target = product({"length": BYTES, "hashes": {"sha256": IDS[9]}, "custom": custom})
    return {"_type": "targets", "version": version, "targets": {"face-age/manifest.json": target}}


# Changes


def put(*path: Any, to: Any) -> Change:
    """A JSON value with one place in it set anew; `to` may be a function of what stood there."""

    def change(value: Any) -> Any:
        value = deepcopy(value)
        item = value
        for step in path[:-1]:
            item = item[step]
        item[path[-1]] = to(item[path[-1]]) if callable(to) else to
        return value

    return change


def without(*path: Any) -> Change:
    def change(value: Any) -> Any:
        value = deepcopy(value)
        item = value
        for step in path[:-1]:
            item = item[step]
        del item[path[-1]]
        return value

    return change


def swap(old: bytes, new: bytes) -> Change:
    """Bytes with one part replaced that stands in them once."""

    def change(raw: bytes) -> bytes:
        assert raw.count(old) == 1, (old, raw.count(old))
        return raw.replace(old, new)

    return change
