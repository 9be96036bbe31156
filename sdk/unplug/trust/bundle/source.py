"""A bundle as it came, a folder or a zip archive: names and sizes first, bytes on request, nothing
unpacked.

Names have one spelling, mean the same file on every system, and never lead out of the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from unplug.core import InputError, ReportError, check_there, open_regular

from .refused import Refused

MANIFEST, SIGNATURE = "manifest.json", "model.sig"
"""What a bundle says of itself, and the signature over all of it, which covers every file but
itself.
"""
MAX_FILES = 4096
MAX_PATH = 400
_PART = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.+-]{0,198}[A-Za-z0-9_+-])?")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
MAX_ARCHIVE_BYTES = 512 * 2**20
"""The limit for an archive, and of all that it unpacks to; a folder has no such bound, for nothing
in it grows.
"""
MAX_DIRECTORY_BYTES = 4 * 2**20
BLOCK = 2**20
DAMAGE = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    ValueError,
    EOFError,
    zlib.error,
    OSError,
)
"""What `zipfile` raises on archives that somebody harmed."""


def is_safe(name: str) -> bool:
    """Whether a path means one file of the folder on every system.

    Parts of ASCII letters, digits and ``_.+-``, that begin with a letter or digit and do not end
    with a dot: so nothing is absolute, leads upwards, is hidden, has a drive, a stream or a
    backslash, or is spelled in two ways by Unicode. No part is a device of Windows.

    Example:
        >>> [is_safe(name) for name in ("artifacts/age.tflite", "../a", "/a", "a//b", "nul.txt", "a.", ".git/config", "C:a")]
        [True, False, False, False, False, False, False, False]
    """
    parts = name.split("/")
    return len(name) <= MAX_PATH and all(
        _PART.fullmatch(part) and not _DEVICE.fullmatch(part) for part in parts
    )


def check_names(names: Sequence[str], where: str) -> None:
    """Refuses names of which one is unsafe, or two are one file where case does not count.

    Args:
        names: paths with forward slashes, in the order in which they are judged.
        where: the origin of the names, for messages.

    Raises:
        Refused: ``too-many``, ``unsafe-name`` or ``collision``.
    """
    if len(names) > MAX_FILES + 2:
        raise Refused("too-many", where, f"it names more than {MAX_FILES} files")
    known: dict[str, str] = {}
    for name in names:
        if not is_safe(name):
            raise Refused("unsafe-name", where, f"it names an unsafe file {name[:80]!r}")
        for prefix in _prefixes(name):
            if known.setdefault(prefix.lower(), prefix) != prefix:
                why = (
                    f"{prefix[:80]!r} and {known[prefix.lower()][:80]!r} are one file where case "
                    "does not count"
                )
                raise Refused("collision", where, why)


def _prefixes(name: str) -> list[str]:
    """The folders on the way to a file, and itself."""
    parts = name.split("/")
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


@dataclass(frozen=True, kw_only=True)
class BundleSource:
    """Where a bundle's bytes come from.

    Args:
        label: the bundle as the user knows it.
        sizes: bytes of every plain file, by its path with forward slashes, sorted.
        open: a function from a path to the file; the functions here never read more bytes from it
            than `sizes` says.
        odd: entries that are no plain files: links, pipes, devices. An archive has none: a link in
            it is a file that holds its text, for nothing here makes links.
        packed: whether it is an archive.
    """

    label: str
    sizes: dict[str, int]
    open: Callable[[str], IO[bytes]]
    odd: tuple[str, ...] = ()
    packed: bool = False


@contextlib.contextmanager
def open_source(path: Path) -> Iterator[BundleSource]:
    """The bundle at a path.

    Raises:
        ReportError: nothing is there.
        Refused: ``archive``: a file that is not a plain zip archive, or unpacks to too much;
            ``too-many``.
    """
    if path.is_dir():
        yield _folder(path)
        return
    check_there(path, ReportError)
    if not path.exists():
        raise ReportError(
            str(path), "no such bundle", "Give a bundle folder, or the zip file of one"
        )
    with open_regular(path, max_bytes=MAX_ARCHIVE_BYTES, error=ReportError) as handle:
        try:
            archive = _archive(path, handle)
        except DAMAGE as error:
            raise Refused(
                "archive", str(path), f"it is not a zip archive of a bundle ({error})"
            ) from error
        yield archive


def _folder(path: Path) -> BundleSource:
    sizes: dict[str, int] = {}
    odd: list[str] = []
    waiting = [""]
    seen = 0
    while waiting:
        folder = waiting.pop()
        with os.scandir(path / folder) as items:
            for entry in items:
                seen += 1
                if seen > 2 * MAX_FILES:
                    raise Refused(
                        "too-many", str(path), f"more than {2 * MAX_FILES} files are in it"
                    )
                name = f"{folder}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{name}/")
                elif (status := entry.stat(follow_symlinks=False)) and stat.S_ISREG(status.st_mode):
                    sizes[name] = status.st_size
                else:
                    odd.append(name)

    def opened(name: str) -> BinaryIO:
        return open_regular(path / name, max_bytes=sizes[name], error=ReportError)

    return BundleSource(
        label=str(path), sizes=dict(sorted(sizes.items())), open=opened, odd=tuple(sorted(odd))
    )


def open_zip(handle: BinaryIO) -> zipfile.ZipFile:
    """A zip archive by the directory at its end, which is bounded before it is read.

    Raises:
        ValueError: it does not end with a directory (a comment follows it, say), is a zip64, or
            its directory is too large.
        BadZipFile: and what else `zipfile` raises on damage.
    """
    size = handle.seek(0, os.SEEK_END)
    # The end record has 22 bytes where no comment follows, and the locator of a zip64, 20 bytes,
    # stands right before it.
    handle.seek(max(0, size - 42))
    end = handle.read(42) or b""  # None: a file of the kernel that has nothing to say now
    if len(end) < 22 or end[-22:-18] != b"PK\5\6" or end[:4] == b"PK\6\7":
        raise ValueError("it does not end with a directory, or is a zip64")
    if int.from_bytes(end[-10:-6], "little") > MAX_DIRECTORY_BYTES:
        raise ValueError(f"its directory is larger than {MAX_DIRECTORY_BYTES} bytes")
    return zipfile.ZipFile(handle)


def _archive(path: Path, handle: BinaryIO) -> BundleSource:
    """Names and sizes of a bundle's archive."""
    opened = open_zip(handle)
    files = [info for info in opened.infolist() if not info.filename.endswith("/")]
    names = [info.orig_filename for info in files]
    if (
        len(opened.infolist()) > MAX_FILES
        or sum(info.file_size for info in files) > MAX_ARCHIVE_BYTES
    ):
        raise ValueError(f"more than {MAX_FILES} files, or {MAX_ARCHIVE_BYTES} bytes")
    for info in files:
        if not is_safe(info.orig_filename):
            raise ValueError(f"it names an unsafe file {info.orig_filename[:80]!r}")
        # bit 0: encrypted
        if info.flag_bits & 1 or info.compress_type not in (
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
        ):
            raise ValueError(f"{info.filename} is encrypted, or packed in a way that is not known")
    if len(set(names)) < len(names):
        raise ValueError("it holds a file twice")
    sizes = {info.filename: info.file_size for info in files}
    return BundleSource(
        label=str(path), sizes=dict(sorted(sizes.items())), open=opened.open, packed=True
    )


def read_whole(source: BundleSource, name: str, max_bytes: int) -> bytes:
    """A small file of a bundle, whole.

    Raises:
        Refused: ``too-large``; ``wrong-size`` where it holds another number of bytes than its
            directory says.
    """
    if source.sizes[name] > max_bytes:
        raise Refused("too-large", f"{source.label}/{name}", f"larger than {max_bytes} bytes")
    return b"".join(blocks(source, name))


def blocks(source: BundleSource, name: str) -> Iterator[bytes]:
    """A file's bytes in pieces: as many as its size says, or an error.

    Raises:
        Refused: ``wrong-size``, or ``archive`` where it cannot be unpacked.
    """
    left = source.sizes[name]
    try:
        with source.open(name) as handle:
            while block := handle.read(min(BLOCK, left + 1)):
                left -= len(block)
                if left < 0:
                    break
                yield block
    except InputError as error:
        raise Refused("wrong-size", f"{source.label}/{name}", error.why) from error
    except DAMAGE as error:
        raise Refused(
            "archive", f"{source.label}/{name}", f"it cannot be unpacked ({error})"
        ) from error
    if left:
        why = "it holds another number of bytes than was said"
        raise Refused("archive" if source.packed else "wrong-size", f"{source.label}/{name}", why)


def digest(source: BundleSource, name: str) -> str:
    """SHA-256 of a file of a bundle, as 64 hexadecimal digits."""
    hashed = hashlib.sha256()
    for block in blocks(source, name):
        hashed.update(block)
    return hashed.hexdigest()


def check_plain(source: BundleSource) -> None:
    """Refuses what holds more than plain files of safe names.

    Raises:
        Refused: ``too-many``, ``link``, or see `check_names`.
    """
    if len(source.sizes) + len(source.odd) > MAX_FILES + 2:
        raise Refused("too-many", source.label, f"more than {MAX_FILES} files are in it")
    if source.odd:
        raise Refused(
            "link", source.label, f"{source.odd[0][:200]!r} is a link, or not a plain file"
        )
    check_names(sorted(source.sizes), source.label)


def check_listed(source: BundleSource, listed: Set[str]) -> None:
    """Refuses a bundle that lacks a file that is listed, or holds one that is not.

    Raises:
        Refused: ``missing`` or ``unlisted``.
    """
    for name in sorted(listed - source.sizes.keys()):
        raise Refused("missing", source.label, f"{name} is missing")
    for name in sorted({*source.sizes, *source.odd} - listed - {SIGNATURE}):
        raise Refused("unlisted", source.label, f"{name[:200]!r} is not in the manifest")


def check_bytes(source: BundleSource, sizes: Mapping[str, int], files: Mapping[str, str]) -> None:
    """Refuses a bundle of which a file is another than is listed; all sizes before any hash.

    Args:
        source: the source that holds all of them.
        sizes: bytes of each.
        files: SHA-256 of each.

    Raises:
        Refused: ``wrong-size`` or ``changed``.
    """
    for name in sorted(sizes):
        if source.sizes[name] != sizes[name]:
            if not source.packed:
                source.open(name).close()  # which names a pointer for what it is
            raise Refused("wrong-size", source.label, f"{name} was changed")
    for name in sorted(sizes):
        if digest(source, name) != files[name]:
            raise Refused("changed", source.label, f"{name} was changed")


def holds_manifest(source: BundleSource) -> None:
    """Raises `ReportError` if it is not a bundle at all."""
    if MANIFEST not in source.sizes:
        raise ReportError(
            source.label, f"no {MANIFEST} in it", "Give a bundle that `unplug release` wrote"
        )
