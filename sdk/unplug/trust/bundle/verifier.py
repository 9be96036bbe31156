"""The one verifier of signed bundles, step by step as ``docs/formats.md`` has it;
``web/page/src/signed.ts`` is its twin.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .envelope import MAX_SIGNATURE_BYTES, SHA256, check_signature, read_envelope, read_statement
from .manifest import MAX_MANIFEST_BYTES, SCHEMA, Publication
from .p256 import PublicKey
from .refused import Refused
from .signed_json import LARGEST, canonical, strict_json
from .source import (
    MANIFEST,
    SIGNATURE,
    BundleSource,
    check_bytes,
    check_listed,
    check_plain,
    read_whole,
)
from .trust import Trust

MAX_NAMED = 1000
"""Bundles that a manifest supersedes or revokes, or requests that it answers."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,199}")
REQUEST = re.compile(r"[ -~]{1,200}")
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A bundle that is what its signer made, and may be used.

    Args:
        id: SHA-256 of its manifest.
        key: the key that signed it.
        publication: the signer's statement on its place among other bundles.
        manifest: the bytes of ``manifest.json``.
        files: SHA-256 by path of every file but the signature.
        source: the source of the bytes.
    """

    id: str
    key: PublicKey
    publication: Publication
    manifest: bytes
    files: dict[str, str]
    source: BundleSource

    def read(self, name: str, *, max_bytes: int = LARGEST) -> bytes:
        """A file's bytes as they were signed: hashed again as they are read, whatever happened on
        the disk since.

        Raises:
            Refused: ``changed``, ``wrong-size``, ``archive`` or ``too-large``.
        """
        raw = read_whole(self.source, name, max_bytes)
        if hashlib.sha256(raw).hexdigest() != self.files[name]:
            raise Refused("changed", self.source.label, f"{name} was changed since it was verified")
        return raw


def verify(
    source: BundleSource, trust: Trust, *, now: datetime | None = None, schema: str = SCHEMA
) -> Verified:
    """Checks a bundle, cheap steps first; nothing of it is believed before its signature, and no
    file hashed before its size.

    Args:
        source: a source from `open_source`.
        trust: the keys and facts that the reader knows.
        now: the time, UTC; None takes the clock's.
        schema: the schema of the manifest.

    Raises:
        Refused: with the verdict of the first step that fails.
    """
    label, now = source.label, now or datetime.now(UTC)
    _present(source)  # steps 1 and 2
    # 3
    signature = read_envelope(
        read_whole(source, SIGNATURE, MAX_SIGNATURE_BYTES), label, chains=bool(trust.roots)
    )
    key = check_signature(signature, trust, label, now)  # 4 and 5
    files = read_statement(signature.payload, label)  # 6
    raw = read_whole(source, MANIFEST, MAX_MANIFEST_BYTES)
    if files.get(MANIFEST) != hashlib.sha256(raw).hexdigest():  # 7
        raise Refused("changed", label, f"{MANIFEST} is not the one that was signed")
    publication, sizes = _manifest(raw, files, label, schema)
    verified = Verified(
        id=files[MANIFEST],
        key=key,
        publication=publication,
        manifest=raw,
        files=files,
        source=source,
    )
    _allowed(verified, trust, now)  # 8
    check_listed(source, files.keys())  # 9
    check_bytes(source, sizes, files)
    return verified


def _present(source: BundleSource) -> None:
    """Steps 1 and 2: plain files of safe names, a manifest and a signature among them."""
    check_plain(source)
    if MANIFEST not in source.sizes:
        raise Refused("no-bundle", source.label, f"no {MANIFEST} in it")
    if SIGNATURE not in source.sizes:
        fix = "Get a signed one, or leave out `trust` where integrity is enough"
        raise Refused("unsigned", source.label, "it is not signed", fix)


def _manifest(
    raw: bytes, files: dict[str, str], where: str, schema: str
) -> tuple[Publication, dict[str, int]]:
    """Step 7: the canonical manifest, which says of the same files what the signed statement says."""
    try:
        value = strict_json(raw)
        if canonical(value) != raw:
            raise ValueError("another spelling than RFC 8785's")
    except ValueError as error:
        raise Refused("manifest", where, f"{MANIFEST} is not canonical JSON ({error})") from error
    if not isinstance(value, dict) or value.get("schema") != schema:
        raise Refused("wrong-version", where, f"{MANIFEST} is not of the schema {schema}")
    listed: Any = value.get("files")
    published: Any = value.get("publication")
    if not (
        isinstance(listed, dict)
        and all(_entry(entry) for entry in listed.values())
        and _published(published)
    ):
        raise Refused(
            "manifest", where, f"{MANIFEST} does not say what was published, or lists no files"
        )
    if {name: entry["sha256"] for name, entry in listed.items()} | {
        MANIFEST: files[MANIFEST]
    } != files or MANIFEST in listed:
        raise Refused("manifest", where, f"{MANIFEST} and the signature list different files")
    lists = {name: tuple(published[name]) for name in ("supersedes", "revokes", "requests")}
    return Publication(**{**published, **lists}), {
        name: entry["bytes"] for name, entry in listed.items()
    }


def _entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.keys() == {"sha256", "bytes"}
        and isinstance(entry["sha256"], str)
        and SHA256.fullmatch(entry["sha256"]) is not None
        and type(entry["bytes"]) is int
        and entry["bytes"] >= 0
    )


def _published(said: Any) -> bool:
    """The form of `Publication`, as every reader checks it."""
    if not isinstance(said, dict) or said.keys() != {
        "name",
        "release",
        "expires",
        "supersedes",
        "revokes",
        "requests",
    }:
        return False
    lists = (("supersedes", SHA256), ("revokes", SHA256), ("requests", REQUEST))
    return (
        isinstance(said["name"], str)
        and NAME.fullmatch(said["name"]) is not None
        and type(said["release"]) is int
        and said["release"] >= 1
        and (said["expires"] is None or time_of(said["expires"]) is not None)
        and all(
            isinstance(said[key], list)
            and len(said[key]) <= MAX_NAMED
            and all(isinstance(item, str) and form.fullmatch(item) for item in said[key])
            for key, form in lists
        )
    )


def time_of(text: Any) -> datetime | None:
    """A UTC time in the one spelling that manifests use, or None.

    Example:
        >>> time_of("2027-05-01T00:00:00Z").year, time_of("2027-02-30T00:00:00Z"), time_of("2027-5-1T0:0:0Z")
        (2027, None, None)
    """
    try:
        when = datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    except (TypeError, ValueError):
        return None
    # strptime takes 2027-5-1T0:0:0Z as well, which readers in other languages do not
    return when if when.strftime(_TIME) == text else None


def _allowed(verified: Verified, trust: Trust, now: datetime) -> None:
    """Step 8: the product that is expected, not expired, not taken back, not older than what was
    seen.
    """
    publication, label = verified.publication, verified.source.label
    newer = "Get the newest release"
    if trust.name not in (None, publication.name):
        raise Refused(
            "another-product", label, f"it is {publication.name!r}, and {trust.name!r} is expected"
        )
    expires = time_of(publication.expires)
    if expires is not None and now >= expires:
        raise Refused("expired", label, f"it expired at {publication.expires}", newer)
    if verified.id in trust.revoked:
        raise Refused("revoked", label, "it was revoked", newer)
    if verified.id in trust.superseded:
        raise Refused("superseded", label, "a newer release took its place", newer)
    if publication.release < trust.minimum_release:
        raise Refused(
            "downgraded",
            label,
            f"it is release {publication.release}, older than {trust.minimum_release}",
            newer,
        )
