"""The key that signs a ledger: in a file that its owner alone can read, or in the environment."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from unplug.core import (
    InputError,
    OutputError,
    is_there,
    lasting_place,
    read_secret,
    require_modules,
)

from .notes import NAME, SECRET, LedgerSigner

VARIABLE = "UNPLUG_LEDGER_KEY"
WHERE = (
    f"{VARIABLE} names another file, or holds the key itself; XDG_CONFIG_HOME names another place "
    "for all keys"
)


def signing_key_file() -> Path:
    """``$UNPLUG_LEDGER_KEY`` where it names a file, else ``ledger-key`` next to the operator's key."""
    explicit = os.environ.get(VARIABLE, "")
    if explicit and not explicit.startswith(SECRET):
        return Path(explicit)
    if operators := os.environ.get("UNPLUG_KEY"):
        return Path(operators).with_name("ledger-key")
    return (
        lasting_place("the key that signs the ledger", VARIABLE, "XDG_CONFIG_HOME", ".config")
        / "ledger-key"
    )


def signing_key() -> LedgerSigner:
    """The key that signs ledgers.

    Raises:
        InputError: there is none, others can read it, or it is not such a key.
    """
    require_modules(["cryptography"], "ledger")
    if os.environ.get(VARIABLE, "").startswith(SECRET):
        return LedgerSigner.parse(os.environ[VARIABLE], VARIABLE)
    path = signing_key_file()
    if not is_there(path):
        raise InputError(
            str(path),
            "no key that signs ledgers is there",
            f"Copy it from where the ledger was made; {WHERE}",
        )
    return LedgerSigner.parse(read_secret(path), str(path))


def make_signing_key(name: str | None = None) -> LedgerSigner:
    """The key that is there, or a new one in `signing_key_file`; of several processes that make
    one, the first one's stays.

    Args:
        name: the public name of a new key: your host name, say, without white space (default: a
            random name).

    Raises:
        InputError: see `signing_key`; or the name cannot be one.
        OutputError: the file cannot be written.
    """
    path = signing_key_file()
    if os.environ.get(VARIABLE, "").startswith(SECRET) or is_there(path):
        return signing_key()
    require_modules(["cryptography"], "ledger")
    name = name or f"unplug-{secrets.token_hex(4)}"
    if NAME.fullmatch(name) is None or not (name.isascii() and name.isprintable()):
        why = "it has white space, a plus sign or other than ASCII in it, or is too long"
        raise InputError(f"`name` {name[:60]!r}", why, "Use for example example.com")
    made = LedgerSigner(name=name, seed=secrets.token_bytes(32))
    try:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii", errors="strict") as file:
            file.write(f"{made.secret_text}\n")
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return signing_key()
    except OSError as error:
        raise OutputError(
            str(path), f"no key can be written there ({error.strerror or error})", WHERE
        ) from error
    return made
