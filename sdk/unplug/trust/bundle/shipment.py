"""A verified bundle on its way into a pack, and what a store is told of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unplug.core import InputError

from .manifest import Manifest

When = Literal["at-install", "after-install", "on-demand"]


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What a store is told.

    Args:
        name: the name of the pack; None takes the product's.
        when: it comes to a device: with the app, in the background after it, or when the app asks.
        precision: the precision of the exported file that a server gets.
        license: an identifier of the hub's list; None says none.
    """

    name: str | None = None
    when: When = "after-install"
    precision: str = "fp32"
    license: str | None = None


@dataclass(frozen=True, kw_only=True)
class Shipment:
    """A bundle that was verified.

    Args:
        manifest: its manifest.
        name: the name of the pack.
        key: fingerprint of the key that signed it; None where nobody did.
        copy: writes all of it into a folder that is not there yet, each file hashed as it is read.
        raw: the bytes of the manifest.
        delivery: settings for the store.
    """

    manifest: Manifest
    name: str
    key: str | None
    copy: Callable[[Path], None]
    raw: bytes
    delivery: Delivery

    @property
    def id(self) -> str:
        """SHA-256 of the manifest, which names the bundle."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def release(self) -> int:
        """Its number as it was signed; 1 where nobody signed it."""
        publication = self.manifest.publication
        return 1 if publication is None or self.key is None else publication.release

    def identifier(self) -> str:
        """The name with all that no identifier has as underscores: what Gradle and Triton take.

        Raises:
            InputError: it does not begin with a letter.
        """
        name = re.sub(r"[^A-Za-z0-9_]", "_", self.name)
        if not name[0].isalpha():
            raise InputError(
                f"the name {self.name[:80]!r}", "it must begin with a letter", "Give `pack_name`"
            )
        return name
