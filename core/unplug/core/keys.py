"""The operator's key: records name who was forgotten by digests under it, so that nobody without it
can tell or try out who.

A plain hash would not do: who knows the names of a data set hashes them all and compares.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .durable import make_folder, sync_file, sync_folder
from .errors import InputError, OutputError
from .homes import is_there, lasting_place, ledger_is_there
from .regular import open_regular
from .temporaries import sweep, temporary_folder, try_lock

HEAD = "unplug-key/1 "
FORM = re.compile(rf"{HEAD}([0-9a-f]{{64}})\n?")
MAX_KEY_BYTES = 4096
WHERE = "UNPLUG_KEY=FILE, or XDG_CONFIG_HOME, names another place"


@dataclass(frozen=True, kw_only=True)
class OperatorKey:
    """32 secret bytes.

    Args:
        secret: the bytes; never shown.

    Example:
        >>> key = OperatorKey(secret=bytes(32))
        >>> key.digest("anna.png", "of one data set") == key.digest("anna.png", "of another")
        False
    """

    secret: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """16 hexadecimal digits that tell keys apart and say nothing about them."""
        return self.digest("", "id of this key")[:16]

    def digest(self, name: str, context: str) -> str:
        """HMAC-SHA-256 of a name, 64 hexadecimal digits; the same name in another context has
        another.
        """
        # Of fixed length in front, so that no other context and name make the same message.
        message = hashlib.sha256(context.encode()).digest() + name.encode(
            "utf-8", "surrogateescape"
        )
        return hmac.new(self.secret, message, hashlib.sha256).hexdigest()


def key_file() -> Path:
    """``$UNPLUG_KEY``, or ``$XDG_CONFIG_HOME/unplug/key``, or ``~/.config/unplug/key``.

    Raises:
        OutputError: there is no home.
    """
    if explicit := os.environ.get("UNPLUG_KEY"):
        return Path(explicit)
    return lasting_place("the operator's key", "UNPLUG_KEY", "XDG_CONFIG_HOME", ".config") / "key"


def read_secret(path: Path) -> str:
    """The text of a file that holds a key, which its owner alone can read.

    Raises:
        InputError: it cannot be read, is larger than any key, or others can read it.
    """
    with open_regular(path, max_bytes=MAX_KEY_BYTES) as handle:
        mode = os.fstat(handle.fileno()).st_mode & 0o777
        if os.name != "nt" and mode & 0o077:
            fix = (
                f"Run `chmod 600 {path}`; if somebody may have copied it, begin anew under a new "
                "key"
            )
            raise InputError(str(path), f"others can read this key (mode {mode:04o})", fix)
        return handle.read(MAX_KEY_BYTES).decode("ascii", "replace")


def operator_key(expect: str | None = None, *, make: bool = False) -> OperatorKey:
    """The key of the user; made at its first use, in a file that its owner alone can read
    (0600).

    Args:
        expect: `OperatorKey.id` of the key that a record was written under; None takes any.
        make: whether to make a key where none is, although a ledger is there whose requests may
            need another key.

    Raises:
        InputError: the file is not a key, or not the expected one, or others can read it; or there
            is none, and a certain one is expected or a ledger is there.
        OutputError: there is none, and none can be written.
    """
    path = key_file()
    if not is_there(path):
        if expect is not None:
            why = f"no key is there, and a record names people by digests under the key {expect}"
            raise InputError(
                str(path), why, f"Copy that key from where the record was written; {WHERE}"
            )
        if not make and ledger_is_there():
            fix = (
                f"Copy the key that the ledger was made with; {WHERE}; or `unplug ledger correct "
                "--rekey` begins a new one"
            )
            raise InputError(str(path), "there is a ledger, but no key", fix)
        _make(path)
    sweep(path.parent)  # of what a killed process left that made one
    match = FORM.fullmatch(read_secret(path))
    if match is None:
        raise InputError(str(path), "it is not a key of unplug", f"Restore it from a copy; {WHERE}")
    key = OperatorKey(secret=bytes.fromhex(match[1]))
    if expect not in (None, key.id):
        why = f"it is the key {key.id}, and a record names people by digests under the key {expect}"
        raise InputError(str(path), why, f"Use the key that the record was written with; {WHERE}")
    return key


@contextlib.contextmanager
def _folder_alone(folder: Path) -> Iterator[None]:
    """While others who make a key in the same folder wait; Windows cannot open folders, and there
    none does.
    """
    if os.name == "nt":
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try_lock(handle, wait=True)
        yield
    finally:
        os.close(handle)


def _make(path: Path) -> None:
    """Writes a new key; of several processes that do so at once, the first one's is there."""
    try:
        make_folder(path.parent, 0o700)
        with _folder_alone(path.parent), temporary_folder(".key.", path.parent) as folder:
            if path.exists():
                return
            new = folder / "key"
            new.touch(0o600)
            new.write_text(f"{HEAD}{secrets.token_hex(32)}\n", encoding="ascii")
            sync_file(new)
            os.replace(new, path)
            sync_folder(path.parent)
    except OSError as error:
        raise OutputError(
            str(path), f"no key can be written there ({error.strerror or error})", WHERE
        ) from error
