"""Files that stand where another should be: a pointer, a web page, an empty file, a link to
nothing; named for what they are.

Copying such a file again copies the pointer. Every reader of files asks here, so that each says the
same of it.
"""

from __future__ import annotations

import contextlib
import errno
import stat
from collections.abc import Iterable
from pathlib import Path

from .errors import InputError
from .text import plain

HEAD_BYTES = 512
MAX_POINTER_BYTES = 32 * 2**10  # git-annex's own bound; Git LFS has 1,024
TEXT_SHOWN = 60
TEXTS = (".json", ".jsonl", ".txt", ".md")
Told = tuple[str, str]
"""Why a file cannot be used, and what to do about it."""

_THERE = "Do so in the repository that it belongs to"
_LFS = ("it is a Git LFS pointer, the real file was not fetched: run `git lfs pull`", _THERE)
_ANNEX = ("it is a git-annex pointer, the real file was not fetched: run `git annex get`", _THERE)
_DVC = ("only DVC's note of it is here, the real file was not fetched: run `dvc pull`", _THERE)
_XET = (
    "it is a Git Xet pointer, the real file was not fetched: install git-xet and run `git lfs "
    "pull`",
    _THERE,
)
_LOCKED = ("it is locked by git-crypt: run `git-crypt unlock`", _THERE)
_CLOUD = (
    "it is kept in iCloud, and was not downloaded",
    "Download it in the Finder, or copy it from where it is whole",
)
_CIRCLE = ("it is a link in a circle", "Replace the link by the file")
_PAGE = (
    "it is a web page (a login or an error, say), not the file",
    "Download the file itself, signed in where that is needed",
)
_ANSWER = (
    "it is a server's answer in XML (an error, say), not the file",
    "Download it again, signed in where that is needed",
)
_EMPTY = ("it is empty", "Copy or download it again: what made it did not finish")
_ZEROS = (
    "it begins with zeros, as a download that did not finish leaves it",
    "Copy or download it again",
)
POINTERS: tuple[tuple[bytes, Told], ...] = (
    (b"version https://git-lfs.github.com/spec/", _LFS),
    (b"version https://hawser.github.com/spec/", _LFS),
    (b"/annex/objects/", _ANNEX),
    (b"# xet version", _XET),
    (b"outs:\n- md5:", _DVC),
    (b"outs:\r\n- md5:", _DVC),
    (b"\0GITCRYPT\0", _LOCKED),
)
"""How a file begins that no program but the one that fetches the real one means to read."""
_ANNEX_LINK = b".git/annex/objects/"


def pointer_in(head: bytes) -> Told | None:
    """What is to be said of a file that begins as a pointer to another one does, else None.

    Example:
        >>> pointer_in(b"version https://git-lfs.github.com/spec/v1\\noid sha256:00")[0]
        'it is a Git LFS pointer, the real file was not fetched: run `git lfs pull`'
        >>> pointer_in(b"path,age") is None
        True
    """
    bare = head.removeprefix(b"\xef\xbb\xbf")
    if bare.startswith((b"../", b".git/")) and _ANNEX_LINK in bare and len(bare.split()) == 1:
        return _ANNEX  # a system without links checks out the text of one
    return next((told for start, told in POINTERS if bare.startswith(start)), None)


def stand_in(head: bytes) -> Told | None:
    """As `pointer_in`, also of what cannot be a file of numbers or pixels: a page, an answer in
    XML, a text, nothing, zeros.

    Args:
        head: its first `HEAD_BYTES`, or more.

    Example:
        >>> stand_in(b"<!DOCTYPE html><title>Sign in</title>")[0], stand_in(b"Entry not found")[0]
        ('it is a web page (a login or an error, say), not the file', "it is a text ('Entry not found'), not the file")
    """
    head = head[:HEAD_BYTES]
    if (told := pointer_in(head)) is not None:
        return told
    if not head:
        return _EMPTY
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return _PAGE
    if start.startswith(b"<?xml"):
        return _PAGE if b"<html" in start else _ANSWER
    if len(head) == HEAD_BYTES and not any(head):
        return _ZEROS
    text = _text(head)
    return (
        None
        if text is None
        else (f"it is a text ({text!r}), not the file", "Copy or download the file itself")
    )


def _text(head: bytes) -> str | None:
    """The beginning of a text, on one line; None for bytes that are none."""
    try:
        words = " ".join(head.decode("utf-8").split())
    except UnicodeDecodeError:
        return None
    return plain(words, TEXT_SHOWN) if words.isprintable() else None


def why_missing(path: Path) -> Told | None:
    """What is to be said of a file that is not there while something is that stands for it, else
    None: then it is just missing.

    That is a link to nothing (git-annex, the hub's cache), what DVC notes next to it, or what
    iCloud leaves.
    """
    with contextlib.suppress(OSError, ValueError):
        if path.exists():
            return None
        if _is_circle(path):
            return _CIRCLE
        if path.is_symlink():
            target = path.readlink()
            if _ANNEX_LINK.decode() in target.as_posix():
                return _ANNEX
            return (
                f"it is a link that leads nowhere (to {target})",
                "Fetch what it leads to, or replace the link by the file",
            )
        if path.with_name(f"{path.name}.dvc").is_file():
            return _DVC
        if path.with_name(f".{path.name}.icloud").is_file():
            return _CLOUD
    return None


def _is_circle(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def check_there(path: Path, error: type[InputError] = InputError) -> None:
    """Refuses a file that is not there while something stands for it; see `why_missing`. Of any
    other it says nothing.

    Raises:
        InputError: something stands for the file; raised as `error`.
    """
    if (told := why_missing(path)) is not None:
        raise error(str(path), *told)


def check_content(path: Path, error: type[InputError] = InputError, *, text: bool = False) -> None:
    """Refuses a file that stands for another one, before a library opens it.

    Args:
        path: the file's path; any other fault of the file is left to its reader.
        error: the type to raise.
        text: it may be a text, a page or empty: it is refused for a pointer alone.

    Raises:
        InputError: the file stands for another, or is missing with a stand-in; raised as
            `error`.
    """
    check_there(path, error)
    told = None
    with contextlib.suppress(OSError, ValueError):
        if stat.S_ISREG(path.stat().st_mode):  # a pipe would wait
            with path.open("rb") as handle:
                told = (pointer_in if text else stand_in)(handle.read(HEAD_BYTES))
    if told is not None:
        raise error(str(path), *told)


def check_contents(files: Iterable[Path], error: type[InputError] = InputError) -> None:
    """`check_content` of several files, told apart by their suffixes: weights, and JSON and texts.

    Raises:
        InputError: one of them stands for another; raised as `error`, for the first.
    """
    for path in files:
        check_content(path, error, text=path.suffix in TEXTS)
