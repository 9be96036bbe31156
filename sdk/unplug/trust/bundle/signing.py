"""Signing a bundle folder: the manifest in its one spelling, and the signature over all files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unplug.core import InputError, atomic_path

from .envelope import SHA256, check_signature, envelope, read_envelope, statement
from .keys import Signer
from .manifest import SCHEMA, Publication
from .refused import Refused
from .signed_json import LARGEST, canonical, pae
from .source import MANIFEST, SIGNATURE, digest, open_source
from .trust import Trust
from .verifier import NAME, REQUEST, time_of, verify
from .x509_chain import check_chain

CHAIN = (
    "Give the certificate of the key, which is for code signing, then those above it, all of them "
    "valid now"
)
WRITE = {
    "name": "Use up to 200 letters, digits and _ . + -, a letter or digit first",
    "revokes": "Give the id that `unplug bundle inspect` shows",
    "request": "Give the request's id in the ledger",
}


def write_manifest(folder: Path, value: dict[str, Any]) -> None:
    """Writes ``manifest.json`` in the canonical spelling, atomically."""
    with atomic_path(folder / MANIFEST) as temporary:
        temporary.write_bytes(canonical(value))


@dataclass(frozen=True, kw_only=True)
class Signing:
    """The signer of a bundle, and its release.

    Args:
        signer: the key.
        publication: the publication for the manifest.
        earlier: the folders of the bundles that it supersedes: the new one must come from their
            weights.
    """

    signer: Signer
    publication: Publication
    earlier: tuple[Path, ...] = ()

    @property
    def trust(self) -> Trust:
        """The trust of a reader who takes what this signs: the key, and where certificates name it
        the last of them.
        """
        return Trust(keys=(self.signer.key,), roots=self.signer.chain[-1:])

    def check(self, now: datetime | None = None) -> None:
        """What would keep every reader from believing it, found before any work.

        Args:
            now: the time, UTC; None takes the clock's.

        Raises:
            InputError: a name or id is none; the release has expired already, or its certificates
                do not lead from the first to the last of them.
        """
        publication = self.publication
        for option, form, given in (
            ("name", NAME, (publication.name,)),
            ("revokes", SHA256, publication.revokes),
            ("request", REQUEST, publication.requests),
        ):
            if wrong := [text for text in given if form.fullmatch(text) is None]:
                raise InputError(
                    f"`{option}` {wrong[0][:60]!r}",
                    "readers of bundles take no such text",
                    WRITE[option],
                )
        now = now or datetime.now(UTC)
        if not 1 <= publication.release <= LARGEST:
            raise InputError(
                f"`number` {publication.release}",
                f"releases are counted from 1 to {LARGEST}",
                "Count up by one",
            )
        ends = time_of(self.publication.expires)
        if ends is not None and ends <= now:
            why = "nobody could use what is signed: that time has passed"
            raise InputError(
                f"`expires` {self.publication.expires}",
                why,
                "Give a later time, and check the clock",
            )
        if self.signer.chain:
            try:
                check_chain(self.signer.chain, self.trust.roots, now, "`chain`")
            except Refused as error:
                raise InputError("`chain`", error.why, CHAIN) from error

    def seal(self, folder: Path, schema: str = SCHEMA) -> None:
        """Writes the signature over all files of a folder, and checks it as every reader will.

        Args:
            folder: holds a manifest with this publication, and all files that it lists.
            schema: the schema of the manifest.

        Raises:
            InputError: the key signed something else, as a command with another key would; or its
                certificates do not lead from the first to the last of them.
            Refused: the publication is not of the form that readers take, or has expired already.
        """
        with open_source(folder) as source:
            resources = {name: digest(source, name) for name in source.sizes if name != SIGNATURE}
        payload = statement(self.publication.name, resources)
        chain = self.signer.chain
        made = envelope(payload, self.signer.sign(pae(payload)), self.signer.key, chain)
        try:
            check_signature(
                read_envelope(made, SIGNATURE, chains=bool(chain)),
                self.trust,
                SIGNATURE,
                datetime.now(UTC),
            )
        except Refused as error:
            if error.verdict == "certificate":
                raise InputError("`chain`", error.why, CHAIN) from error
            why = "what it signed does not verify with its public key"
            raise InputError(
                "the signing key", why, "Give the private and the public half of one P-256 key"
            ) from error
        with atomic_path(folder / SIGNATURE) as temporary:
            temporary.write_bytes(made)
        with open_source(folder) as source:
            verify(source, self.trust, schema=schema)
