"""The keys and facts of a reader: keys, the lowest release that still counts, what
was revoked.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from unplug.core import STRICT, InputError, read_dataclass, read_regular

from .p256 import MAX_KEY_BYTES, PublicKey, public_key
from .x509_chain import read_certificates

if TYPE_CHECKING:
    from .manifest import Publication

CERTIFICATE = b"-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, kw_only=True)
class TrustFile:
    """``unplug-trust/1``: what `Trust` says, as a file.

    Args:
        keys: public keys in PEM form.
        name, minimum_release, revoked, superseded: see `Trust`.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    keys: tuple[str, ...]
    name: str | None = None
    minimum_release: int = 1
    revoked: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    schema: Literal["unplug-trust/1"] = "unplug-trust/1"


@dataclass(frozen=True, kw_only=True)
class Trust:
    """What a reader knows before it opens a bundle.

    Args:
        keys: the keys that count.
        name: the product that is expected; None takes any.
        minimum_release: older releases are refused.
        revoked, superseded: bundles by the SHA-256 of their manifest.
        roots: certificates in DER under which signers count that are named by one. Not in
            ``unplug-trust/1``, for the readers in other languages take plain keys only.
    """

    keys: tuple[PublicKey, ...] = field(default=())
    name: str | None = None
    minimum_release: int = 1
    revoked: frozenset[str] = frozenset()
    superseded: frozenset[str] = frozenset()
    roots: tuple[bytes, ...] = ()

    def key(self, hint: str) -> PublicKey | None:
        """The trusted key of that hint."""
        return next((key for key in self.keys if key.hint == hint), None)

    def after(self, publication: Publication) -> Trust:
        """What is known once a release was seen: nothing older than it counts, nor what it takes
        back.
        """
        return replace(
            self,
            name=publication.name,
            minimum_release=max(self.minimum_release, publication.release),
            revoked=self.revoked | {*publication.revokes},
            superseded=self.superseded | {*publication.supersedes},
        )


def read_trust(path: Path) -> Trust:
    """Trust out of a file: one public key in PEM form, root certificates in PEM form, or an
    ``unplug-trust/1`` JSON.

    Raises:
        InputError: it is none of these.
    """
    raw = read_regular(path, max_bytes=MAX_KEY_BYTES)
    if CERTIFICATE in raw and b"PRIVATE KEY" not in raw:
        return Trust(roots=read_certificates(path))
    if raw.lstrip()[:1] != b"{":
        return Trust(keys=(public_key(raw.decode("ascii", "replace"), str(path)),))
    file = read_dataclass(TrustFile, path, InputError, max_bytes=MAX_KEY_BYTES)
    return Trust(
        keys=tuple(public_key(text, str(path)) for text in file.keys),
        name=file.name,
        minimum_release=file.minimum_release,
        revoked=frozenset(file.revoked),
        superseded=frozenset(file.superseded),
    )


def together(trusts: list[Trust]) -> Trust:
    """All that several files say: any of the keys counts, and each of the bounds."""
    names = {trust.name for trust in trusts} - {None}
    if len(names) > 1:
        raise InputError(
            "`trust`", "two files expect bundles of different names", "Give one file a product"
        )
    return Trust(
        keys=tuple(key for trust in trusts for key in trust.keys),
        name=next(iter(names), None),
        minimum_release=max((trust.minimum_release for trust in trusts), default=1),
        revoked=frozenset().union(*(trust.revoked for trust in trusts)),
        superseded=frozenset().union(*(trust.superseded for trust in trusts)),
        roots=tuple(root for trust in trusts for root in trust.roots),
    )
