"""``unplug updates``: init, publish, revoke, renew, rotate, verify."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from unplug.core import InputError, read_regular

from .base import Common, Outcome, command
from .bundle import trust_of, trust_option
from .options import FloatRange

if TYPE_CHECKING:
    from unplug.sdk.bundle import PublicKey, Signer
    from unplug.sdk.updates import Product, RoleKeys

F = TypeVar("F", bound=Callable[..., Any])
MAX_ROOT_BYTES = 512_000
folder_argument = click.argument("folder", type=click.Path(path_type=Path))


def signing_options(function: F) -> F:
    """The private keys, and how long the answer counts."""
    for option in reversed((
        click.option(
            "--key", "specs", multiple=True, required=True,
            help="A private key, as of `unplug bundle sign`; may be repeated. Each signs for the roles that it has.",
        ),
        click.option(
            "--public", "publics", type=click.Path(path_type=Path), multiple=True,
            help="The public key of a --key that is a command; one each, in their order.",
        ),
        click.option(
            "--days", type=click.IntRange(1, 365), default=7, show_default=True, help="How long readers may go without news."
        ),
    )):  # fmt: skip
        function = option(function)
    return function


def role_options(function: F) -> F:
    """Public keys of the roles."""
    for option in reversed((
        click.option("--root", type=click.Path(path_type=Path), multiple=True, help="A public key of the root; repeat it."),
        click.option(
            "--root-threshold", type=click.IntRange(1, 10), default=2, show_default=True,
            help="How many of the root's keys must sign it, where --root is given.",
        ),
        click.option("--targets", type=click.Path(path_type=Path), multiple=True, help="A public key that lists releases."),
        click.option("--snapshot", type=click.Path(path_type=Path), multiple=True, help="A public key of the snapshot."),
        click.option("--timestamp", type=click.Path(path_type=Path), multiple=True, help="A public key that says it is new."),
    )):  # fmt: skip
        function = option(function)
    return function


def limit_options(function: F) -> F:
    """From when on older releases stop."""
    for option in reversed((
        click.option("--minimum", type=click.IntRange(1), help="Releases below this number stop at once."),
        click.option(
            "--grace", type=FloatRange(0, 3650), metavar="DAYS", help="All older releases stop after so many days."
        ),
    )):  # fmt: skip
        function = option(function)
    return function


def signers_of(specs: Sequence[str], publics: Sequence[Path]) -> list[Signer]:
    """The private keys of --key, those behind commands with the public ones of --public."""
    from unplug.sdk.bundle import load_signer

    waiting = list(publics)
    found = [load_signer(spec, waiting.pop(0) if spec.startswith("command:") and waiting else None) for spec in specs]
    if waiting:
        raise InputError(f"--public {waiting[0]}", "no --key that is a command is left for it", "Give one a command")
    return found


def _roles(root: Sequence[Path], root_threshold: int, **others: Sequence[Path]) -> RoleKeys:
    from unplug.sdk.updates import RoleKeys

    return RoleKeys(
        root=_public(root), root_threshold=root_threshold, **{kind: _public(paths) for kind, paths in others.items()}
    )  # fmt: skip


def _public(paths: Sequence[Path]) -> tuple[PublicKey, ...]:
    from unplug.sdk.bundle import read_trust

    return tuple(key for path in paths for key in read_trust(path).keys)


@click.group()
def updates() -> None:
    """Say which release of a model is current and which must stop, signed and only for a while."""


@updates.command()
@folder_argument
@role_options
@signing_options
@command
def init(
    folder: Path, specs: tuple[str, ...], publics: tuple[Path, ...], days: int, common: Common, **roles: Any
) -> Outcome:  # fmt: skip
    """Begin update metadata in FOLDER: a root that says which keys count, and no products yet."""
    from unplug.sdk.updates import init_updates

    until = init_updates(folder, _roles(**roles), signers_of(specs, publics), days=days)
    root = folder / "metadata" / "1.root.json"
    text = f"{folder}: no products yet, counts until {_written(until)}\n{root}: what apps and pages are to hold"
    return Outcome(value={"folder": str(folder), "root": str(root), "until": _written(until)}, text=text)


@updates.command()
@folder_argument
@click.argument("bundle", type=click.Path(path_type=Path))
@trust_option
@limit_options
@signing_options
@command
def publish(
    folder: Path, bundle: Path, trusted: tuple[Path, ...], minimum: int | None, grace: float | None, specs: tuple[str, ...],
    publics: tuple[Path, ...], days: int, common: Common,
) -> Outcome:  # fmt: skip
    """Make a signed BUNDLE the current release of its product; one that does not verify is refused (exit 1)."""
    from unplug.sdk.updates import publish_bundle

    trust = trust_of(trusted)
    if trust is None:
        raise InputError("--trust", "nothing says whose signature the bundle must have", "Add --trust KEY.pub")
    product, until = publish_bundle(
        folder, bundle, trust, signers_of(specs, publics), minimum=minimum, grace_days=grace, days=days
    )  # fmt: skip
    return Outcome(value=_value(product, until), text=_told(product, until))


@updates.command()
@folder_argument
@click.argument("product")
@click.option("--release", type=click.IntRange(1), help="This release must not be used any more.")
@limit_options
@signing_options
@command
def revoke(
    folder: Path, product: str, release: int | None, minimum: int | None, grace: float | None, specs: tuple[str, ...],
    publics: tuple[Path, ...], days: int, common: Common,
) -> Outcome:  # fmt: skip
    """Take releases of PRODUCT back: one, all below a number, or all but the newest after some days."""
    from unplug.sdk.updates import revoke_release

    found, until = revoke_release(
        folder, product, signers_of(specs, publics), release=release, minimum=minimum, grace_days=grace, days=days
    )  # fmt: skip
    return Outcome(value=_value(found, until), text=_told(found, until))


@updates.command()
@folder_argument
@signing_options
@command
def renew(folder: Path, specs: tuple[str, ...], publics: tuple[Path, ...], days: int, common: Common) -> Outcome:
    """Say again that FOLDER is the newest answer: the timestamp's key is enough. Run it daily."""
    from unplug.sdk.updates import renew_updates

    until = renew_updates(folder, signers_of(specs, publics), days=days)
    return Outcome(value={"until": _written(until)}, text=f"{folder}: counts until {_written(until)}")


@updates.command()
@folder_argument
@role_options
@signing_options
@command
def rotate(
    folder: Path, specs: tuple[str, ...], publics: tuple[Path, ...], days: int, common: Common, **roles: Any
) -> Outcome:  # fmt: skip
    """Give roles other keys, or the root another year: signed by enough root keys of before and after."""
    from unplug.sdk.updates import rotate_keys

    until = rotate_keys(folder, _roles(**roles), signers_of(specs, publics), days=days)
    return Outcome(value={"until": _written(until)}, text=f"{folder}: the next root, counts until {_written(until)}")


@updates.command()
@folder_argument
@click.argument("bundle", required=False, type=click.Path(path_type=Path))
@click.option("--root", required=True, type=click.Path(path_type=Path), help="The root file that the reader trusts.")
@trust_option
@click.option("--seen", "kept", type=click.Path(path_type=Path), help="File that keeps the highest versions seen.")
@command
def verify(
    folder: Path, bundle: Path | None, root: Path, trusted: tuple[Path, ...], kept: Path | None, common: Common
) -> Outcome:  # fmt: skip
    """Check update metadata and, with BUNDLE, whether it may be used now (exit 1: it must not)."""
    from unplug.sdk.updates import check_updates, folder_reader, read_seen, verify_current, write_seen

    trust = trust_of(trusted)
    if bundle is not None and trust is None:
        raise InputError("--trust", "nothing says whose signature the bundle must have", "Add --trust KEY.pub")
    place = folder / "metadata" if (folder / "metadata").is_dir() else folder
    seen = None if kept is None else read_seen(kept)
    found = check_updates(read_regular(root, max_bytes=MAX_ROOT_BYTES), folder_reader(place), seen=seen)
    if kept is not None:
        write_seen(kept, found.seen)
    value: dict[str, Any] = {
        "until": _written(found.until), "products": [_value(item, found.until) for item in found.products.values()]
    }  # fmt: skip
    lines = [f"{folder}: counts until {_written(found.until)}", *(_told(item) for item in found.products.values())]
    if bundle is not None and trust is not None:
        verified, standing = verify_current(bundle, trust, found)
        stops = None if standing.until is None else _written(standing.until)
        value["bundle"] = {
            "bundle": str(bundle), "id": verified.id, "name": verified.publication.name, "release": standing.release,
            "current": standing.release == standing.current, "stops": stops,
        }  # fmt: skip
        newest = "the current one" if standing.release == standing.current else f"release {standing.current} is current"
        end = "" if stops is None else f"; it stops working at {stops}"
        lines.append(f"{bundle}: release {standing.release} of {verified.publication.name} may be used, {newest}{end}")
    return Outcome(value=value, text="\n".join(lines))


def _written(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _value(product: Product, until: datetime) -> dict[str, Any]:
    return {
        "name": product.name, "release": product.release, "id": product.sha256, "minimum_version": product.minimum_version,
        "retiring": [{"below": below, "until": _written(end)} for below, end in product.retiring],
        "releases": {str(number): id_ for number, id_ in product.releases.items()}, "revoked": sorted(product.revoked),
        "until": _written(until),
    }  # fmt: skip


def _told(product: Product, until: datetime | None = None) -> str:
    parts = [f"{product.name}: release {product.release} is current, {product.minimum_version} the oldest that may be used"]
    parts += [f"those below {below} stop at {_written(end)}" for below, end in product.retiring]
    if product.revoked:
        parts.append(f"revoked: {', '.join(map(str, sorted(product.revoked)))}")
    return "; ".join(parts) + ("" if until is None else f". Counts until {_written(until)}")
