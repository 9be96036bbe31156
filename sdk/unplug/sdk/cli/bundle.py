"""``unplug bundle``: keygen, sign, verify, inspect, diff, patch, pack, push."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from unplug.core import InputError, counted, hold

from . import bundle_generator
from .base import Common, Outcome, command, percent
from .bundle_push import push
from .options import PATH, option, path_argument, path_option
from .options_of import ConfiguredCommand, given

if TYPE_CHECKING:
    from unplug.trust.bundle import Publication, Signing, Trust

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class PublicationOrder:
    """The signer's statement on a release, and the public half of a key held by a command.

    Args:
        public: the public key of `sign`, where that is a command.
        chain: PEM: the key's certificate, then those above it; it is named by them, and --trust
            takes their root.
        product: the product that releases are counted in (default: the bundle's name).
        number: the number of the release, counting up (default: 1, or one more).
        expires: UTC, like 2027-05-01T00:00:00Z; refused from then on.
        supersedes: a bundle that this one takes the place of; may be repeated.
        revokes: SHA-256 of a manifest not to be used any more.
        requests: id of a request that it answers; names nobody.
    """

    public: Path | None = field(default=None, metadata={"flag": "--trust"})
    chain: Path | None = field(default=None, metadata={"metavar": "FILE"})
    product: str | None = field(default=None, metadata={"flag": "--name"})
    number: int | None = field(default=None, metadata={"range": (1, None)})
    expires: str | None = field(default=None, metadata={"metavar": "TIME"})
    supersedes: Sequence[Path] = field(default=(), metadata={"metavar": "BUNDLE"})
    revokes: Sequence[str] = field(default=(), metadata={"metavar": "ID"})
    requests: Sequence[str] = field(default=(), metadata={"flag": "--request", "metavar": "ID"})


def sign_option(*, required: bool) -> Callable[[F], F]:
    """Adds --sign KEY, the private key."""
    return click.option(
        "--sign",
        "key",
        required=required,
        metavar="KEY",
        help="Sign with this key: a file, env:NAME, or command:WORDS that sign standard input.",
    )


trust_option = click.option(
    "--trust",
    "trusted",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="A public key, root certificates in PEM form, or an unplug-trust/1 JSON; may be repeated.",
)


def signing_of(key: str, where: Path, order: PublicationOrder) -> Signing:
    """The key and what it signs; all that can be wrong about them is found here, before any work."""
    from unplug.trust.bundle import Publication, Signing, load_signer, time_of

    signer = load_signer(key, order.public, order.chain)
    if order.expires is not None and time_of(order.expires) is None:
        fix = "Write for example 2027-05-01T00:00:00Z"
        raise InputError(f"--expires {order.expires}", "it is not a UTC time", fix)
    earlier = tuple(order.supersedes)
    before = [_published(path) for path in earlier]
    releases = [old for old, _ in before if old is not None]
    new = Publication(
        name=order.product or next((old.name for old in releases), where.stem),
        release=order.number or 1 + max((old.release for old in releases), default=0),
        expires=order.expires,
        supersedes=tuple(sha256 for _, sha256 in before),
        revokes=tuple(order.revokes),
        requests=tuple(order.requests),
    )
    for old in releases:
        if old.name != new.name or old.release >= new.release:
            why = (
                f"it would take the place of release {old.release} of {old.name!r} as release "
                f"{new.release} of {new.name!r}"
            )
            fix = "Releases count up within one product; give --name or --number"
            raise InputError("--supersedes", why, fix)
    signing = Signing(signer=signer, publication=new, earlier=earlier)
    signing.check()
    return signing


def _published(path: Path) -> tuple[Publication | None, str]:
    from unplug.trust.bundle import bundle_id, holds_generator, read_generator, read_manifest

    read = read_generator if holds_generator(path) else read_manifest
    return read(path).publication, bundle_id(path)


def trust_of(files: tuple[Path, ...]) -> Trust | None:
    """What the files of --trust say, or None where there is none."""
    from unplug.trust.bundle import read_trust, together

    return together([read_trust(path) for path in files]) if files else None


@click.group()
def bundle() -> None:
    """Sign, verify, compare, pack or push bundles."""


bundle.add_command(push)


@bundle.command()
@path_argument("out", metavar="NAME")
@command
def keygen(out: Path, common: Common) -> Outcome:
    """Make a key pair: NAME signs and stays secret, NAME.pub is for those who verify."""
    from unplug.trust.bundle import make_key

    key = make_key(out)
    text = (
        f"{out}: the private key (0600); keep it where no bundle goes\n{out}.pub: the public key "
        f"{key.hint[:16]}"
    )
    return Outcome(value={"private": str(out), "public": f"{out}.pub", "hint": key.hint}, text=text)


@bundle.command(cls=ConfiguredCommand, config="unplug.sdk.cli.bundle:PublicationOrder")
@path_argument("path")
@sign_option(required=True)
@path_option("-o", "--out", help="Folder to write (default: the bundle itself is signed).")
@command
def sign(path: Path, key: str, out: Path | None, common: Common, **options: Any) -> Outcome:
    """Sign a bundle, or a base that `unplug export` wrote, whose files and gates hold, as one
    release of a product.
    """
    from unplug.trust.bundle import holds_generator, sign_bundle, sign_generator

    out = out or path
    signing = signing_of(key, out, PublicationOrder(**given(PublicationOrder, options)))
    id_ = (sign_generator if holds_generator(path) else sign_bundle)(path, signing, out)
    publication = signing.publication
    text = (
        f"{out}: release {publication.release} of {publication.name}, id {id_}, key "
        f"{signing.signer.key.hint[:16]}"
    )
    return Outcome(
        value={
            "bundle": str(out),
            "id": id_,
            "key": signing.signer.key.hint,
            **asdict(publication),
        },
        text=text,
    )


@bundle.command()
@path_argument("path")
@trust_option
@path_option(
    "--newer",
    multiple=True,
    metavar="BUNDLE",
    help=(
        "A newer release, checked with the same keys: older bundles, and those that it revokes "
        "or supersedes, are refused."
    ),
)
@command
def verify(
    path: Path, trusted: tuple[Path, ...], newer: tuple[Path, ...], common: Common
) -> Outcome:
    """Check signature, files, gates and hashes of a bundle, a folder or a zip file (exit 1: it must
    not be used).
    """
    from unplug.trust.bundle import bundle_id, holds_generator, verify_bundle, verify_generator

    trust = trust_of(trusted)
    if newer and trust is None:
        raise InputError(
            "--newer",
            "what a bundle says of others counts only when it is signed",
            "Add --trust KEY.pub",
        )
    for seen in newer:
        check = verify_generator if holds_generator(seen) else verify_bundle
        publication = check(seen, trust).publication
        trust = None if trust is None or publication is None else trust.after(publication)
    if holds_generator(path):
        return bundle_generator.verified(path, trust)
    manifest = verify_bundle(path, trust)
    count, gates, publication = len(manifest.files), manifest.gates, manifest.publication
    overridden = {gate.name: gate.override for gate in gates if gate.override is not None}
    held = len(gates) - len(overridden)
    told = f"all {held} gates hold"
    if overridden:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in overridden.items())
        told = f"{held} of {len(gates)} gates hold, {len(overridden)} were overridden: {reasons}"
    origin = "It is not signed: this shows integrity, not origin."
    if trust is not None and publication is not None:
        until = f" until {publication.expires}" if publication.expires else ""
        origin = f"It is signed: release {publication.release} of {publication.name}{until}."
    text = (
        f"{path}: {count} files match the manifest, {told}, and all of it is about one model. "
        f"{origin}"
    )
    value = {
        "bundle": str(path),
        "files": count,
        "gates": held,
        "overridden": overridden,
        "signed": publication is not None and trust is not None,
        "id": bundle_id(path),
        "publication": None if publication is None else asdict(publication),
    }
    return Outcome(value=value, text=text)


@bundle.command()
@path_argument("path")
@command
def inspect(path: Path, common: Common) -> Outcome:
    """Show what a bundle says of itself; nothing of it is verified."""
    from unplug.trust.bundle import bundle_id, holds_generator, read_manifest

    if holds_generator(path):
        return bundle_generator.inspected(path)
    manifest = read_manifest(path)
    lineage, publication = manifest.lineage, manifest.publication
    lines = [
        f"{path}: {manifest.model_type}, not verified",
        f"id {bundle_id(path)}",
        "never published" if publication is None else bundle_generator.published(publication),
        f"forgot {counted(lineage.forget_samples, 'sample')} by {lineage.method} "
        f"at {percent(lineage.compute_fraction)} of retraining",
        f"checkpoint {lineage.checkpoint_sha256[:16]}  original {lineage.original_sha256[:16]}",
        *(f"{entry.bytes:>12,}  {name}" for name, entry in sorted(manifest.files.items())),
    ]
    return Outcome(value=asdict(manifest), text="\n".join(lines))


@bundle.command()
@path_argument("before")
@path_argument("after")
@command
def diff(before: Path, after: Path, common: Common) -> Outcome:
    """Show what differs between two bundles; nothing of them is verified."""
    from unplug.trust.bundle import diff_bundles, holds_generator, read_manifest

    if holds_generator(before) or holds_generator(after):
        return bundle_generator.compared(before, after)
    differences = diff_bundles(read_manifest(before), read_manifest(after))
    lines = [
        *(f"+ {name} ({size:,} bytes)" for name, size in differences.added.items()),
        *(f"- {name} ({size:,} bytes)" for name, size in differences.removed.items()),
        *(
            f"~ {name} ({old:,} -> {new:,} bytes)"
            for name, (old, new) in differences.changed.items()
        ),
        *(
            f"  {name}: {str(old)[:100]} -> {str(new)[:100]}"
            for name, (old, new) in differences.facts.items()
        ),
    ]
    return Outcome(value=asdict(differences), text="\n".join(lines) or "no difference")


def _folder(store: str, what: str) -> Callable[[F], F]:
    return click.option(f"--{store}", type=PATH, metavar="OUT", help=f"Write {what} here.")


@bundle.command()
@path_argument("path")
@path_option("-o", "--out", help="Zip file to write.")
@_folder("play", "a module for Google Play's AI packs")
@_folder("ios", "the files of an Apple Background Assets pack")
@_folder("hub", "a Hugging Face model repository")
@_folder("triton", "a Triton model repository")
@trust_option
@click.option(
    "--allow-unsigned", is_flag=True, help="Pack a bundle that is not signed; the pack says so."
)
@click.option("--pack-name", help="Name of the pack (default: the product's).")
@option(
    "--when",
    type=click.Choice(["at-install", "after-install", "on-demand"]),
    default="after-install",
    help="Play and iOS: when a device installs it.",
)
@option("--precision", default="fp32", help="Triton: which ONNX file it serves.")
@click.option("--license", "license_", help="Hub: an identifier of its list of licenses.")
@command
def pack(
    path: Path,
    out: Path | None,
    trusted: tuple[Path, ...],
    allow_unsigned: bool,
    pack_name: str | None,
    when: Any,
    precision: str,
    license_: str | None,
    common: Common,
    **places: Path | None,
) -> Outcome:
    """Write a bundle as one zip file, or as a store takes it, the same bytes for the same bundle.

    What goes to a store, a hub or a server is verified first, as `verify --trust` does.
    """
    from unplug.trust.bundle import STORES, Delivery, pack_bundle, pack_for

    asked = {store: place for store in STORES if (place := places[store]) is not None}
    if out is None and not asked:
        raise InputError(
            "bundle pack",
            "nothing to write",
            "Give -o FILE.zip, --play, --ios, --hub or --triton with a folder",
        )
    outcome, trust = Outcome(value={}), trust_of(trusted)
    if out is not None:
        id_ = pack_bundle(path, out)
        outcome.value = {"bundle": str(out), "bytes": out.stat().st_size, "id": id_}
        outcome.add(f"{out}: {out.stat().st_size:,} bytes, id {id_}")
    delivery = Delivery(name=pack_name, when=when, precision=precision, license=license_)
    for store, place in asked.items():
        with hold(place):
            record = pack_for(
                store, path, place, trust=trust, allow_unsigned=allow_unsigned, delivery=delivery
            )
        outcome.value[store] = {"out": str(place), **asdict(record)}
        outcome.add(
            f"{place}: {counted(len(record.files), 'file')} for {store}, bundle {record.bundle}"
        )
        outcome.add(record.warning or f"signed by the key {str(record.signed_by)[:16]}")
    return outcome
