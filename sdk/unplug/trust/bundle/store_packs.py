"""A bundle in the form that a store, a hub or a server takes; each is a folder, the same bytes for
the same bundle.

Stores get the bundle whole, for what runs on the device verifies it again: its host is not
trusted. Next to it lies ``unplug-pack.json``, which says which bundle it is, who signed it, and
what lies there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Literal

from unplug.core import STRICT, InputError, atomic_dir, check_replaceable

from .bundle import inventory, manifest_of, unpack, verify_bundle
from .envelope import MAX_SIGNATURE_BYTES, read_envelope
from .generator import holds_generator
from .manifest import MAX_MANIFEST_BYTES, FileEntry, Manifest
from .p256 import PublicKey
from .pack_hub import write_hub
from .pack_ios import write_ios
from .pack_play import write_play
from .pack_triton import write_triton
from .refused import Refused
from .shipment import Delivery, Shipment
from .signed_json import canonical
from .source import MANIFEST, SIGNATURE, BundleSource, open_source, read_whole
from .trust import Trust

RECORD = "unplug-pack.json"
UNSIGNED = "NOT SIGNED: this shows that its files belong together, not who made them"
Store = Literal["play", "ios", "hub", "triton"]
STORES: dict[Store, Callable[[Shipment, Path], None]] = {
    "play": write_play,
    "ios": write_ios,
    "hub": write_hub,
    "triton": write_triton,
}
"""The writer of each form into an empty folder."""


@dataclass(frozen=True, kw_only=True)
class PackRecord:
    """``unplug-pack/1``: the record next to a packed bundle.

    Args:
        schema: always ``unplug-pack/1``.
        store: the store that it has the form of.
        name: the name of the pack.
        bundle: SHA-256 of the manifest of the bundle that was packed.
        signed_by: fingerprint of the key whose signature was verified, or null.
        warning: `UNSIGNED`, or null.
        files: all that lies in the pack, but this.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-pack/1"] = "unplug-pack/1"
    store: Store
    name: str
    bundle: str
    signed_by: str | None
    warning: str | None
    files: dict[str, FileEntry]


def pack_for(
    store: Store,
    bundle: Path,
    out: Path,
    *,
    trust: Trust | None,
    allow_unsigned: bool = False,
    delivery: Delivery | None = None,
) -> PackRecord:
    """Verifies a bundle and writes it as a store takes it.

    Args:
        store: the store.
        bundle: a folder or zip file.
        out: folder to write.
        trust: the keys that may have signed it.
        allow_unsigned: take a bundle that nobody signed; the pack then says so.
        delivery: settings for the store; None takes the defaults.

    Raises:
        Refused, BundleCheckFailed: see `unplug.trust.bundle.verify_bundle`; nothing is written.
        InputError: a name that the store does not take, no exported file of its kind, or nobody to
            trust.
        OutputError: the place is taken, or cannot be written.
    """
    if trust is None and not allow_unsigned:
        why = "only what somebody trusted signed is delivered, and nobody is trusted"
        raise InputError(
            str(bundle), why, "Give `trust=KEY.pub`, or `allow_unsigned`, and the pack says so"
        )
    if holds_generator(bundle):
        why = "stores take bundles of one model, and this is a base of exported files"
        raise InputError(str(bundle), why, "Pack it into one zip file, or serve the folder")
    check_replaceable(out, RECORD, ("*",))
    manifest = verify_bundle(bundle, None if allow_unsigned and trust is None else trust)
    with open_source(bundle) as source, atomic_dir(out, owner=RECORD) as folder:
        shipped = _shipment(source, manifest, trust, delivery or Delivery())
        STORES[store](shipped, folder)
        record = PackRecord(
            store=store,
            name=shipped.name,
            bundle=shipped.id,
            signed_by=shipped.key,
            warning=None if shipped.key else UNSIGNED,
            files={name: FileEntry(**entry) for name, entry in inventory(folder).items()},
        )
        (folder / RECORD).write_bytes(canonical(asdict(record)) + b"\n")
    return record


def _shipment(
    source: BundleSource, manifest: Manifest, trust: Trust | None, delivery: Delivery
) -> Shipment:
    """What was verified, read again: another manifest than that is refused, and each file is hashed
    as it is copied.
    """
    raw = read_whole(source, MANIFEST, MAX_MANIFEST_BYTES)
    if manifest_of(raw, source.label) != manifest:
        raise Refused("changed", source.label, f"{MANIFEST} was changed since it was verified")
    signature: bytes | None = None
    key: PublicKey | None = None
    if SIGNATURE in source.sizes:
        signature = read_whole(source, SIGNATURE, MAX_SIGNATURE_BYTES)
        if trust is not None:
            key = trust.key(read_envelope(signature, source.label).hint)
    product = manifest.publication.name if manifest.publication else manifest.model_type
    name = delivery.name or product
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}", name):
        why = "it is not the name of a folder"
        raise InputError(f"`pack_name` {name[:80]!r}", why, "Use letters, digits, _ . and -")

    def copy(folder: Path) -> None:
        folder.mkdir(parents=True)
        unpack(source, manifest, folder)
        (folder / MANIFEST).write_bytes(raw)
        if signature is not None:
            (folder / SIGNATURE).write_bytes(signature)

    return Shipment(
        manifest=manifest,
        name=name,
        key=None if key is None else key.hint,
        copy=copy,
        raw=raw,
        delivery=delivery,
    )
