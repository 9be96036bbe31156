"""Files at the edge: atomic writes, hashes, bounded JSON reads; every failure is one typed error."""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .errors import InputError, OutputError
from .regular import MAX_HASHED_BYTES, open_regular, parse_json, read_regular

MAX_JSON_BYTES = 256 * 2**20  # a report with the raw samples of a large audit stays far below


def _output_error(path: Path, error: OSError) -> OutputError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return OutputError(
            str(path), "the disk is full", "Free some space or choose another --out; nothing was left half-written"
        )
    return OutputError(str(path), error.strerror or str(error), "Choose an --out that you can write to")


READABLE = 0o644
"""Of every file that is published: temporary ones, and what safetensors writes, are private to their owner."""


def cache_dir() -> Path:
    """``$UNPLUG_CACHE``, or ``$XDG_CACHE_HOME/unplug``, or ``~/.cache/unplug``."""
    if explicit := os.environ.get("UNPLUG_CACHE"):
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unplug"


def check_writable(folder: Path) -> None:
    """Makes a folder and raises unless a file can be written in it: found out before the work, not after it.

    Raises:
        OutputError: it cannot be made, or nothing can be written in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise _output_error(folder, error) from error


@contextlib.contextmanager
def writable(folder: Path) -> Iterator[None]:
    """A folder that can be written in; where it is new and the work fails before anything is in it, it is removed.

    Raises:
        OutputError: see `check_writable`.
    """
    existed = folder.exists()
    check_writable(folder)
    try:
        yield
    except BaseException:
        if not existed:
            with contextlib.suppress(OSError):  # something is in it
                folder.rmdir()
        raise


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yields a temporary file name beside `path`; on success it takes the place of `path`, else it is removed.

    Raises:
        OutputError: the place is taken by something that is no file, cannot be written, or the disk is full.

    Example:
        >>> with atomic_path(Path("/tmp/unplug-doc.txt")) as temporary:
        ...     _ = temporary.write_text("done")
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise OutputError(str(path), "it is a folder, a device or a pipe", "Choose an --out that is a file")
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:80]}.", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        temporary.chmod(READABLE)
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise _output_error(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_dir(path: Path, *, owner: str | None = None, ours: Sequence[str] = ("*",)) -> Iterator[Path]:
    """Yields a temporary folder beside `path`; on success it takes the place of `path`, else it is removed.

    Args:
        path: the final folder. What is there already is replaced only if `check_replaceable` allows it, so that a
            mistyped ``--out`` never deletes somebody's files.
        owner, ours: see `check_replaceable`.

    Raises:
        OutputError: the place is taken by something else, cannot be written, or the disk is full.
    """
    path = Path(path)
    temporary: Path | None = None
    try:
        check_replaceable(path, owner, ours)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name[:80]}.", dir=path.parent))
        temporary.chmod(0o755)
        yield temporary
        for item in temporary.rglob("*"):
            if item.is_file() and not item.is_symlink():
                item.chmod(READABLE)
        if path.exists():
            _replace_dir(temporary, path)
        else:
            os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise _output_error(path, error) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def check_replaceable(path: Path, owner: str | None, ours: Sequence[str]) -> None:
    """Refuses a place that holds anything but an older result of the same kind.

    Args:
        path: nothing, an empty folder, or a folder with `owner` in it and nothing that `ours` does not name.
        owner: the file that marks folders of this kind, for example ``config.json``.
        ours: shell patterns of all that such a folder may hold.

    Raises:
        OutputError: something else is there; nothing was touched.
    """
    if not path.exists():
        return
    entries = [item.name for item in path.iterdir()] if path.is_dir() else [path.name]
    foreign = [name for name in entries if name != owner and not any(fnmatch.fnmatchcase(name, item) for item in ours)]
    if path.is_dir() and (not entries or (owner is not None and (path / owner).is_file() and not foreign)):
        return
    found = f" (it holds {sorted(foreign)[0]})" if path.is_dir() and foreign else ""
    why = f"it exists and was not written by this command{found}"
    raise OutputError(str(path), why, "Choose another --out or remove it")


def _replace_dir(new: Path, path: Path) -> None:
    old = Path(tempfile.mkdtemp(prefix=f".{path.name[:80]}.old.", dir=path.parent))
    try:
        os.replace(path, old / "replaced")
        try:
            os.replace(new, path)
        except OSError:
            os.replace(old / "replaced", path)  # better the old result than none
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as canonical JSON (sorted keys, no NaN), atomically."""
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n"
    with atomic_path(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path, *, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Reads a JSON file of bounded size.

    Raises:
        InputError: missing, no regular file, unreadable, too large, not JSON, or nested beyond every schema.
    """
    raw = read_regular(Path(path), max_bytes=max_bytes)
    try:
        return parse_json(raw)
    except ValueError as error:
        raise InputError(str(path), f"not valid JSON ({error})", "Write it again or restore it from a copy") from error


def sha256_file(path: Path) -> str:
    """SHA-256 of a file, as 64 hexadecimal digits; `InputError` for what is no regular file or beyond 64 GiB."""
    digest = hashlib.sha256()
    with open_regular(Path(path), max_bytes=MAX_HASHED_BYTES) as handle:
        while block := handle.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def sha256_tree(path: Path) -> tuple[str, int]:
    """SHA-256 over the sorted (relative path, file hash) pairs below `path`, and the bytes of all files.

    A single file has its own hash, so that one call serves ``.tflite`` files and ``.mlpackage`` folders.

    Raises:
        InputError: there is neither a file nor a folder.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(str(path), "no such file or folder", "Check the path")
    if path.is_file():
        return sha256_file(path), path.stat().st_size
    digest, size = hashlib.sha256(), 0
    for file in sorted(item for item in path.rglob("*") if item.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\0{sha256_file(file)}\n".encode())
        size += file.stat().st_size
    return digest.hexdigest(), size
