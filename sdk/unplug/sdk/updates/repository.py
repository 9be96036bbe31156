"""The publisher's side of update metadata: a folder of signed files, made and changed with python-tuf."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import InputError, OutputError, atomic_path
from unplug.sdk.bundle import PublicKey, Signer

from .client import METADATA, check_updates, folder_reader, root_numbers
from .metadata import LIMITS, Kind
from .refused import NotCurrent
from .seen import Seen

if TYPE_CHECKING:
    from tuf.api.metadata import Metadata, Root, Snapshot, Targets, Timestamp

TARGETS = "targets"
ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)
"""A time at which nothing had expired: a publisher renews what did."""
DAYS: dict[Kind, int] = {"root": 365, "targets": 180, "snapshot": 180, "timestamp": 7}
"""How long a file counts after it was signed; the timestamp's is how long a reader may go without news."""


def tuf_key(key: PublicKey) -> Any:
    """A key as TUF has it."""
    from securesystemslib.signer import SSlibKey

    return SSlibKey.from_crypto(key.loaded())


@dataclass(kw_only=True)
class Repository:
    """A folder of update metadata while it is changed: the four files, the keys, and what is to be written.

    Args:
        folder: holds ``metadata/`` and ``targets/``.
        signers: private keys by their id; each signs for the roles that the root gives it.
        now: the time, UTC.
        root, timestamp, snapshot, targets: the newest of each; version 0 where there is none yet.
        files: new ones by name, not yet written.
    """

    folder: Path
    signers: dict[str, Signer]
    now: datetime
    root: Metadata[Root]
    timestamp: Metadata[Timestamp]
    snapshot: Metadata[Snapshot]
    targets: Metadata[Targets]
    files: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def new(cls, folder: Path, signers: Sequence[Signer], now: datetime) -> Repository:
        """An empty one; `OutputError` where there is one already."""
        from tuf.api.metadata import Metadata, Root, Snapshot, Targets, Timestamp

        if root_numbers(folder):
            raise OutputError(str(folder), "update metadata is there already", "Change it by `unplug updates rotate`")
        parts: dict[str, Any] = {
            "root": Metadata(Root(consistent_snapshot=True)), "timestamp": Metadata(Timestamp()),
            "snapshot": Metadata(Snapshot()), "targets": Metadata(Targets()),
        }  # fmt: skip
        for part in parts.values():
            part.signed.version = 0
        return cls(folder=folder, signers=_by_id(signers), now=now.replace(microsecond=0), **parts)

    @classmethod
    def open(cls, folder: Path, signers: Sequence[Signer], now: datetime) -> Repository:
        """The one that lies in a folder.

        Raises:
            InputError: there is none.
            NotCurrent: it is not what its own keys signed; it would be signed anew otherwise.
        """
        from tuf.api.metadata import Metadata

        numbers = root_numbers(folder)
        if not numbers:
            raise InputError(str(folder), "no update metadata is there", "`unplug updates init` makes it")
        seen = _check_own(folder, numbers)
        names: dict[Kind, str] = {
            "root": f"{numbers[-1]}.root.json", "timestamp": "timestamp.json",
            "snapshot": f"{seen.snapshot}.snapshot.json", "targets": f"{seen.targets}.targets.json",
        }  # fmt: skip
        parts: dict[str, Any] = {
            kind: Metadata.from_bytes((folder / METADATA / name).read_bytes()) for kind, name in names.items()
        }
        return cls(folder=folder, signers=_by_id(signers), now=now.replace(microsecond=0), **parts)

    def expiry(self, kind: Kind, days: int | None = None) -> datetime:
        """When a file that is signed now ends."""
        return self.now + timedelta(days=days or DAYS[kind])

    def can_sign(self, kind: Kind) -> bool:
        """Whether enough keys of a role are there."""
        role = self.root.signed.roles[kind]
        return len(self.signers.keys() & {*role.keyids}) >= role.threshold

    def sign(self, metadata: Metadata[Any], kind: Kind, *, also: Sequence[str] = ()) -> bytes:
        """Signs a file with all keys of its role that are there.

        Args:
            metadata: what is to be signed.
            kind: its role.
            also: ids of keys that sign it as well: of the root before.

        Raises:
            InputError: too few keys.
        """
        role = self.root.signed.roles[kind]
        if not self.can_sign(kind):
            there = len(self.signers.keys() & {*role.keyids})
            why = f"the role {kind} is signed by {role.threshold} of its keys, and {there} were given"
            raise InputError("--key", why, f"Add the private keys of {kind}")
        metadata.signatures.clear()
        message = metadata.signed_bytes
        for name in sorted(self.signers.keys() & {*role.keyids, *also}):
            metadata.signatures[name] = _signature(name, self.signers[name].sign(message))
        return metadata.to_bytes()

    def stage_root(self, also: Sequence[str] = ()) -> None:
        """A next version of the root, signed by its own keys and by those of the one before."""
        self.root.signed.version += 1
        self.root.signed.expires = self.expiry("root")
        self.files[f"{self.root.signed.version}.root.json"] = self.sign(self.root, "root", also=also)

    def stage_targets(self) -> None:
        """A next version of the targets and of all that lists them."""
        self.targets.signed.version += 1
        self.targets.signed.expires = self.expiry("targets")
        raw = self.sign(self.targets, "targets")
        self.files[f"{self.targets.signed.version}.targets.json"] = raw
        self.snapshot.signed.meta["targets.json"] = listed(self.targets.signed.version, raw)
        self.stage_snapshot()

    def stage_snapshot(self) -> None:
        """A next version of the snapshot, and of the timestamp."""
        self.snapshot.signed.version += 1
        self.snapshot.signed.expires = self.expiry("snapshot")
        raw = self.sign(self.snapshot, "snapshot")
        self.files[f"{self.snapshot.signed.version}.snapshot.json"] = raw
        self.timestamp.signed.snapshot_meta = listed(self.snapshot.signed.version, raw)

    def commit(self, days: int | None = None) -> datetime:
        """Signs the timestamp, checks all as a reader will, and writes it, the timestamp last: readers see all or nothing.

        Args:
            days: how long a reader may go without news.

        Returns:
            Until when the answer counts.

        Raises:
            InputError: too few keys, or a key that signed something else.
        """
        self.timestamp.signed.version += 1
        self.timestamp.signed.expires = self.expiry("timestamp", days)
        self.files["timestamp.json"] = self.sign(self.timestamp, "timestamp")
        return write_checked(self.folder, self.files, self.now)


def _by_id(signers: Sequence[Signer]) -> dict[str, Signer]:
    return {tuf_key(signer.key).keyid: signer for signer in signers}


def _check_own(folder: Path, numbers: list[int]) -> Seen:
    """By the newest root's keys or, after a rotation that was cut off before the timestamp, by those before."""
    place = folder / METADATA
    first, read = (place / f"{numbers[0]}.root.json").read_bytes(), folder_reader(place)
    try:
        return check_updates(first, read, now=ALWAYS).seen
    except NotCurrent as error:
        if error.verdict != "signature" or len(numbers) < 2:
            raise
        newest = f"{numbers[-1]}.root.json"
        return check_updates(first, lambda name, most: None if name == newest else read(name, most), now=ALWAYS).seen


def _signature(name: str, raw: bytes) -> Any:
    from securesystemslib.signer import Signature

    return Signature(name, raw.hex())


def listed(version: int, raw: bytes) -> Any:
    """What a file says of the one behind it."""
    from tuf.api.metadata import MetaFile

    return MetaFile(version=version, length=len(raw), hashes={"sha256": hashlib.sha256(raw).hexdigest()})


def write_checked(folder: Path, files: dict[str, bytes], now: datetime) -> datetime:
    """Writes new files once the folder with them holds by the check that readers make; nothing where it does not.

    Returns:
        Until when the answer counts.
    """
    old = folder_reader(folder / METADATA)
    numbers = root_numbers(folder)
    first = old(f"{numbers[0]}.root.json", LIMITS["root"]) if numbers else files["1.root.json"]
    assert first is not None
    try:
        found = check_updates(first, lambda name, most: files[name] if name in files else old(name, most), now=now)
    except NotCurrent as error:
        why = f"readers would refuse it ({error.what}: {error.why}); nothing was written"
        raise InputError("the new update metadata", why, "Give the private and the public half of one P-256 key") from error
    for name in sorted(files, key=_order):
        with atomic_path(folder / METADATA / name) as temporary:
            temporary.write_bytes(files[name])
    return found.until


def _order(name: str) -> int:
    """What is pointed at first, what points at it last."""
    return next(place for place, kind in enumerate(("targets", "snapshot", "root", "timestamp")) if kind in name)
