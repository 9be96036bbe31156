"""The one reader of update metadata, step by step as ``docs/updates.md`` has it; ``web/page/src/updates.ts`` is its twin.

It needs no TUF library: JSON, SHA-256 and ECDSA are all.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unplug.core import InputError, read_regular
from unplug.sdk.bundle import Trust, Verified, open_source, verify

from .metadata import LIMITS, Kind, RoleOf, Signed, has_keys, is_count, is_digest, need, read_roles, read_signed
from .product import Product, Standing, read_products
from .refused import FETCH, NEWEST, NotCurrent
from .seen import Seen

METADATA = "metadata"
"""Folder of the four files, where a publisher keeps them."""
MAX_ROOTS = 256
"""Root files that are followed in one go."""
_ROOT = re.compile(r"([1-9][0-9]{0,8})\.root\.json")
Reader = Callable[[str, int], bytes | None]
"""From a file's name and the bytes that it may have to its bytes: None where there is none, one more where it is larger."""


@dataclass(frozen=True, kw_only=True)
class Updates:
    """Update metadata that holds.

    Args:
        products: by name.
        until: when this answer ends, UTC: the first of the four files to expire.
        seen: what the caller is to keep for the next time.
    """

    products: dict[str, Product]
    until: datetime
    seen: Seen

    def judge(self, verified: Verified, *, now: datetime | None = None) -> Standing:
        """Whether a bundle whose signature was checked may be used.

        Raises:
            NotCurrent: see `standing`.
        """
        said = verified.publication
        return self.standing(said.name, said.release, verified.id, len(verified.manifest), now=now)

    def standing(self, name: str, release: int, id_: str, size: int, *, now: datetime | None = None) -> Standing:
        """The same, of a bundle by what its signed manifest says, and that manifest's SHA-256 and bytes.

        Raises:
            NotCurrent: ``stale``, ``unknown-product``, or what `Product.judge` raises.
        """
        now = now or datetime.now(UTC)
        if now >= self.until:
            raise _stale("the update metadata", self.until)
        if name not in self.products:
            raise NotCurrent("unknown-product", f"release {release} of {name}", "its publisher lists no such product", NEWEST)
        return self.products[name].judge(release, id_, size, now, self.until)


def _stale(where: str, until: datetime) -> NotCurrent:
    return NotCurrent("stale", where, f"it counted until {until:%Y-%m-%dT%H:%M:%SZ}: nobody can tell what is current", FETCH)


def folder_reader(folder: Path) -> Reader:
    """Reads metadata out of a folder: what `unplug updates` keeps in ``metadata/``, or a copy of it."""

    def read(name: str, most: int) -> bytes | None:
        path = folder / name
        if not path.exists():
            return None
        try:
            return read_regular(path, max_bytes=most)
        except InputError as error:
            if path.is_file() and path.stat().st_size > most:
                raise NotCurrent("too-large", name, f"it holds more than {most} bytes") from error
            raise

    return read


def check_updates(root: bytes, read: Reader, *, seen: Seen | None = None, now: datetime | None = None) -> Updates:
    """Checks update metadata, cheap steps first.

    Args:
        root: the root file that the reader trusts, as it came with the app; any version of it.
        read: gets the other files; what it gives is hostile.
        seen: what the last check gave.
        now: the time, UTC; None takes the clock's.

    Raises:
        NotCurrent: with the verdict of the first step that fails.
    """
    now = now or datetime.now(UTC)
    newest, roles = _roots(root, read)  # 1
    if seen is not None and newest.version < seen.root:
        raise NotCurrent("rollback", newest.where, f"it is version {newest.version}, and {seen.root} was seen")
    _fresh(newest, now)  # 2
    timestamp = read_signed(_bounded(read, "timestamp.json", LIMITS["timestamp"]), "timestamp", "timestamp.json")  # 3
    timestamp_keys = timestamp.need_signed(roles["timestamp"])
    meta = _meta(timestamp, "snapshot.json")
    if seen is not None and _still(seen.timestamp_keys, roles["timestamp"]):
        _not_below(timestamp.where, timestamp.version, seen.timestamp)
        _not_below("snapshot.json", meta["version"], seen.snapshot)
    _fresh(timestamp, now)
    snapshot = _listed(read, "snapshot", meta)  # 4
    snapshot_keys = snapshot.need_signed(roles["snapshot"])
    entry = _meta(snapshot, "targets.json")
    if seen is not None and _still(seen.snapshot_keys, roles["snapshot"]):
        _not_below("targets.json", entry["version"], seen.targets)
    _as_listed(snapshot, meta, now)
    targets = _listed(read, "targets", entry)  # 5
    targets.need_signed(roles["targets"])
    _as_listed(targets, entry, now)
    return Updates(
        products=read_products(targets.body, targets.where),  # 6
        until=min(part.expires for part in (newest, timestamp, snapshot, targets)),
        seen=Seen(
            root=newest.version, timestamp=timestamp.version, snapshot=snapshot.version, targets=targets.version,
            timestamp_keys=timestamp_keys, snapshot_keys=snapshot_keys,
        ),
    )  # fmt: skip


def _roots(raw: bytes, read: Reader) -> tuple[Signed, dict[Kind, RoleOf]]:
    """Step 1: from the root file that is trusted to the newest, each signed by the keys of the one before and by its own."""
    if len(raw) > LIMITS["root"]:
        raise NotCurrent("too-large", "the trusted root", f"it holds more than {LIMITS['root']} bytes")
    root = read_signed(raw, "root", "the trusted root")
    roles = read_roles(root)
    root.need_signed(roles["root"])
    for number in range(root.version + 1, root.version + 1 + MAX_ROOTS):
        name = f"{number}.root.json"
        found = read(name, LIMITS["root"])
        if found is None:
            return root, roles
        if len(found) > LIMITS["root"]:
            raise NotCurrent("too-large", name, f"it holds more than {LIMITS['root']} bytes")
        root = read_signed(found, "root", name)
        root.need_signed(roles["root"])
        roles = read_roles(root)
        root.need_signed(roles["root"])
        if root.version != number:
            raise NotCurrent("mismatch", name, f"it is version {root.version}")
    raise NotCurrent("too-large", "the roots", f"they are more than {MAX_ROOTS}", "Take a newer root into the app")


def _bounded(read: Reader, name: str, most: int) -> bytes:
    raw = read(name, most)
    if raw is None:
        raise NotCurrent("missing", name, "it is not there")
    if len(raw) > most:
        raise NotCurrent("too-large", name, f"it holds more than {most} bytes")
    return raw


def _listed(read: Reader, kind: Kind, meta: dict[str, Any]) -> Signed:
    """A file as the one before it lists it: its size before its hash, its hash before anything in it."""
    name = f"{meta['version']}.{kind}.json"
    raw = _bounded(read, name, LIMITS[kind])
    if len(raw) != meta["length"]:
        raise NotCurrent("wrong-size", name, f"it holds {len(raw)} bytes, and {meta['length']} were signed")
    if hashlib.sha256(raw).hexdigest() != meta["hashes"]["sha256"]:
        raise NotCurrent("changed", name, "it is another file than the one that was signed")
    return read_signed(raw, kind, name)


def _meta(signed: Signed, name: str) -> dict[str, Any]:
    """What a file says of the one behind it."""
    meta = signed.body.get("meta")
    need(has_keys(meta, name), signed.where, f"it lists other files than {name}")
    assert isinstance(meta, dict)
    entry: dict[str, Any] = meta[name]
    holds = has_keys(entry, "version", "length", "hashes") and has_keys(entry["hashes"], "sha256")
    need(holds and is_digest(entry["hashes"]["sha256"]), signed.where, f"it gives no SHA-256 of {name}")
    need(is_count(entry["version"]) and is_count(entry["length"]), signed.where, f"it gives no version or size of {name}")
    return entry


def _still(keys: tuple[str, ...], role: RoleOf) -> bool:
    """Whether those who signed what was seen could still sign it."""
    return len({*keys} & role.keys.keys()) >= role.threshold


def _not_below(name: str, version: int, seen: int) -> None:
    if version < seen:
        raise NotCurrent("rollback", name, f"it is version {version}, and {seen} was seen")


def _as_listed(signed: Signed, meta: dict[str, Any], now: datetime) -> None:
    if signed.version != meta["version"]:
        raise NotCurrent("mismatch", signed.where, f"it is version {signed.version}, and {meta['version']} was signed")
    _fresh(signed, now)


def _fresh(signed: Signed, now: datetime) -> None:
    if now >= signed.expires:
        raise _stale(signed.where, signed.expires)


def verify_current(
    path: Path, trust: Trust, updates: Updates, *, now: datetime | None = None
) -> tuple[Verified, Standing]:  # fmt: skip
    """Checks a bundle's signature and files, and that its publisher lets it be used now.

    Args:
        path: a folder or zip file.
        trust: whose signatures count.
        updates: of `check_updates`.
        now: the time, UTC; None takes the clock's.

    Raises:
        Refused: by its signature or files; see `unplug.sdk.bundle.verify`.
        NotCurrent: by the update metadata; see `Updates.standing`.
    """
    with open_source(path) as source:
        verified = verify(source, trust, now=now)
        return verified, updates.judge(verified, now=now)


def root_numbers(folder: Path) -> list[int]:
    """Versions of the root files there, in order; `InputError` where one between them is missing."""
    place = folder / METADATA
    names = [path.name for path in place.iterdir()] if place.is_dir() else []
    numbers = sorted(int(match[1]) for name in names if (match := _ROOT.fullmatch(name)))
    if numbers and numbers != [*range(numbers[0], numbers[-1] + 1)]:
        raise InputError(
            str(place), "a root file between the others is missing", "Restore it, for readers follow them one by one"
        )
    return numbers


def open_updates(folder: Path, *, now: datetime | None = None) -> tuple[bytes, Updates]:
    """The newest root of a folder that `unplug updates` keeps, which readers are to trust, and what the folder says.

    Args:
        folder: holds ``metadata/``; it is the publisher's own, so that its first root is trusted.
        now: the time, UTC; None takes the clock's.

    Raises:
        InputError: there is none.
        NotCurrent: it does not hold, or not any more.
    """
    place = folder / METADATA
    numbers = root_numbers(folder)
    if not numbers:
        raise InputError(str(folder), "no update metadata is there", "`unplug updates init` makes it")
    first, most = place / f"{numbers[0]}.root.json", LIMITS["root"]
    found = check_updates(read_regular(first, max_bytes=most), folder_reader(place), now=now)
    return read_regular(place / f"{found.seen.root}.root.json", max_bytes=most), found
