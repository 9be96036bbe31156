"""What a publisher does with update metadata: begin it, publish a signed bundle, take releases back, renew it, change keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from unplug.core import InputError, atomic_path, hold, require_modules
from unplug.sdk.bundle import PublicKey, Signer, Trust, Verified, open_source, verify, verify_bundle

from .metadata import KINDS
from .product import FILE, MAX_RELEASES, Product, read_products
from .repository import TARGETS, Repository, tuf_key

_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, kw_only=True)
class RoleKeys:
    """Public keys of the four roles; a role without keys stays as it is.

    Args:
        root: say which keys count; kept off the network. Two of three is usual.
        root_threshold: how many of them must sign a root file.
        targets: say which releases there are.
        snapshot: say which files belong together.
        timestamp: say that this is still the newest answer; renewed often, so usually on a server.
    """

    root: tuple[PublicKey, ...] = ()
    root_threshold: int = 2
    targets: tuple[PublicKey, ...] = ()
    snapshot: tuple[PublicKey, ...] = ()
    timestamp: tuple[PublicKey, ...] = ()


def init_updates(
    folder: Path, keys: RoleKeys, signers: Sequence[Signer], *, days: int | None = None, now: datetime | None = None
) -> datetime:  # fmt: skip
    """Begins update metadata: a root that names the keys, and a list of no products yet.

    Args:
        folder: for ``metadata/`` and ``targets/``; a web server serves it as it is.
        keys: of all four roles.
        signers: enough private keys of each.
        days: how long readers may go without news.
        now: the time, UTC; None takes the clock's.

    Returns:
        Until when the answer counts.

    Raises:
        InputError: too few keys.
        OutputError: there is some already.
    """
    for kind in KINDS:
        if not getattr(keys, kind):
            raise InputError(f"--{kind}", "the role has no key", f"Give a public key with --{kind}")
    with _changed(folder):
        draft = Repository.new(folder, signers, now or datetime.now(UTC))
        _set_keys(draft, keys)
        draft.stage_root()
        draft.stage_targets()
        return draft.commit(days)


@contextmanager
def _changed(folder: Path) -> Iterator[None]:
    """One writer at a time, with python-tuf there."""
    require_modules(["tuf"], "updates")
    with hold(folder):
        yield


def _set_keys(draft: Repository, keys: RoleKeys) -> tuple[str, ...]:
    """Gives roles their new keys; the ids of the root keys before, for they sign the change."""
    signed = draft.root.signed
    before = tuple(signed.roles["root"].keyids)
    for kind in KINDS:
        given: tuple[PublicKey, ...] = getattr(keys, kind)
        if not given:
            continue
        for name in tuple(signed.roles[kind].keyids):
            signed.revoke_key(name, kind)
        for key in given:
            signed.add_key(tuf_key(key), kind)
        threshold = keys.root_threshold if kind == "root" else 1
        if threshold > len(signed.roles[kind].keyids):
            raise InputError(f"--{kind}", f"{threshold} of them are to sign, and fewer were given", "Give as many, each once")
        signed.roles[kind].threshold = threshold
    return before


def publish_bundle(
    folder: Path, bundle: Path, trust: Trust, signers: Sequence[Signer], *, minimum: int | None = None,
    grace_days: float | None = None, days: int | None = None, now: datetime | None = None,
) -> tuple[Product, datetime]:  # fmt: skip
    """Makes a signed bundle the current release of its product.

    Args:
        folder: of `init_updates`.
        bundle: a folder or zip file.
        trust: whose signature it must have.
        signers: private keys of targets, snapshot and timestamp.
        minimum: releases below it stop working at once.
        grace_days: all older releases stop working after so many days.
        days: how long readers may go without news.
        now: the time, UTC; None takes the clock's.

    Returns:
        The product as it is listed now, and until when the answer counts.

    Raises:
        Refused, BundleCheckFailed: it is not signed by whom is trusted, or a file or gate of it does not hold.
        InputError: the release is not newer than the current one; it supersedes others, and nothing says from when on.
    """
    now = now or datetime.now(UTC)
    verify_bundle(bundle, trust, now=now)
    with open_source(bundle) as source:
        verified = verify(source, trust, now=now)
    said = verified.publication
    if said.supersedes and minimum is None and grace_days is None:
        why = "it supersedes others, and nothing says from when on they stop working"
        raise InputError(str(bundle), why, "Add --grace DAYS, or --minimum RELEASE for at once")
    with _changed(folder):
        draft = Repository.open(folder, signers, now)
        old = _products(draft).get(said.name)
        if old is not None and said.release <= old.release:
            why = f"it is release {said.release}, and {old.release} is published"
            raise InputError(str(bundle), why, "Releases count up within one product; `unplug bundle sign --number` sets it")
        product = _with_limits(_next(old, verified), minimum, grace_days, draft.now)
        _write_target(folder, product, verified.manifest)
        _list(draft, product)
        draft.stage_targets()
        return product, draft.commit(days)


def _next(old: Product | None, verified: Verified) -> Product:
    """A product with one more release; what its signer takes back is taken back."""
    said = verified.publication
    releases = {**({} if old is None else old.releases), said.release: verified.id}
    taken = {number for number, id_ in releases.items() if id_ in said.revokes}
    return Product(
        name=said.name, release=said.release, sha256=verified.id, bytes=len(verified.manifest), releases=releases,
        minimum_version=1 if old is None else old.minimum_version, retiring=() if old is None else old.retiring,
        revoked=frozenset(taken | (set() if old is None else old.revoked)),
    )  # fmt: skip


def _with_limits(product: Product, minimum: int | None, grace_days: float | None, now: datetime) -> Product:
    """A product whose older releases stop; what is below the minimum is not listed any more."""
    lowest = max(product.minimum_version, minimum or 1)
    if lowest > product.release:
        why = f"the newest release of {product.name} is {product.release}: nothing would work any more"
        raise InputError(f"--minimum {minimum}", why, "Publish a newer release first")
    retiring = product.retiring
    if grace_days is not None and product.release > 1:
        retiring = (*retiring, (product.release, now + timedelta(days=grace_days)))
    releases = {number: id_ for number, id_ in product.releases.items() if number >= lowest}
    if len(releases) > MAX_RELEASES:
        raise InputError(product.name, f"more than {MAX_RELEASES} releases would be listed", "Raise --minimum")
    return replace(
        product, minimum_version=lowest, retiring=tuple(item for item in retiring if item[0] > lowest), releases=releases,
        revoked=frozenset(product.revoked & releases.keys()),
    )  # fmt: skip


def revoke_release(
    folder: Path, name: str, signers: Sequence[Signer], *, release: int | None = None, minimum: int | None = None,
    grace_days: float | None = None, days: int | None = None, now: datetime | None = None,
) -> tuple[Product, datetime]:  # fmt: skip
    """Takes releases of a product back: one, all below a number, or all but the newest after some days.

    Args:
        folder, signers, days, now: see `publish_bundle`.
        name: of the product.
        release: this one must not be used any more.
        minimum, grace_days: see `publish_bundle`.

    Raises:
        InputError: no such product or release, or nothing to take back.
    """
    if (release, minimum, grace_days) == (None, None, None):
        raise InputError(name, "nothing says what to take back", "Give --release, --minimum or --grace")
    with _changed(folder):
        draft = Repository.open(folder, signers, now or datetime.now(UTC))
        found = _products(draft).get(name)
        if found is None:
            raise InputError(name, "no such product is published", "`unplug updates publish` does that")
        if release is not None and release not in found.releases:
            raise InputError(f"--release {release}", f"no such release of {name} is listed", "Look at `unplug updates verify`")
        taken = found.revoked if release is None else found.revoked | {release}
        product = _with_limits(replace(found, revoked=frozenset(taken)), minimum, grace_days, draft.now)
        _list(draft, product)
        draft.stage_targets()
        return product, draft.commit(days)


def renew_updates(
    folder: Path, signers: Sequence[Signer], *, days: int | None = None, now: datetime | None = None
) -> datetime:  # fmt: skip
    """Says again that the answer counts: the timestamp, and of snapshot and targets those whose keys are there.

    Returns:
        Until when it counts; the soonest of all four files.
    """
    with _changed(folder):
        draft = Repository.open(folder, signers, now or datetime.now(UTC))
        if draft.can_sign("targets") and draft.can_sign("snapshot"):
            draft.stage_targets()
        elif draft.can_sign("snapshot"):
            draft.stage_snapshot()
        return draft.commit(days)


def rotate_keys(
    folder: Path, keys: RoleKeys, signers: Sequence[Signer], *, days: int | None = None, now: datetime | None = None
) -> datetime:  # fmt: skip
    """A next root: other keys for some roles, or the same for another year.

    Args:
        folder, days, now: see `init_updates`.
        keys: of the roles that change.
        signers: enough root keys of before and, where those change, of after; of every other role that changes the new ones,
            and then those of targets, snapshot and timestamp, for all three are signed anew.

    Raises:
        InputError: too few keys.
    """
    with _changed(folder):
        draft = Repository.open(folder, signers, now or datetime.now(UTC))
        before = draft.root.signed.roles["root"]
        needed, old = before.threshold, _set_keys(draft, keys)
        there = len(draft.signers.keys() & {*old})
        if there < needed:
            why = f"{needed} of the root keys of before must sign, and {there} of them were given"
            raise InputError("--key", why, "Add private keys of the root before")
        draft.stage_root(also=old)
        if keys.targets or keys.snapshot or keys.timestamp:
            draft.stage_targets()
        return draft.commit(days)


def _products(draft: Repository) -> dict[str, Product]:
    return read_products(draft.targets.signed.to_dict(), "targets.json")


def _write_target(folder: Path, product: Product, manifest: bytes) -> None:
    """The manifest itself, where a TUF client fetches it."""
    assert hashlib.sha256(manifest).hexdigest() == product.sha256
    with atomic_path(folder / TARGETS / product.name / f"{product.sha256}.{FILE}") as temporary:
        temporary.write_bytes(manifest)


def _list(draft: Repository, product: Product) -> None:
    """Puts a product into the targets file."""
    from tuf.api.metadata import TargetFile

    custom: dict[str, Any] = {
        "release": product.release, "minimum_version": product.minimum_version,
        "retiring": [{"below": below, "until": until.strftime(_TIME)} for below, until in product.retiring],
        "releases": {str(number): id_ for number, id_ in sorted(product.releases.items())},
        "revoked": sorted(product.revoked),
    }  # fmt: skip
    path = f"{product.name}/{FILE}"
    draft.targets.signed.targets[path] = TargetFile(
        length=product.bytes, hashes={"sha256": product.sha256}, path=path, unrecognized_fields={"custom": custom}
    )  # fmt: skip
