"""Folders of nobody knows what, walked in bounded time; what cannot be gone into is said."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from unplug.core import InputError
from unplug.trust.certificates import TracedPlace

from .person import unknown

MAX_FILES = 1_000_000
MAX_DEPTH = 200


def walk(
    folders: Sequence[Path], called: Callable[[str], bool] = lambda name: False
) -> Iterator[Path | TracedPlace]:
    """Every file below some folders, each once and sorted within its folder, and what cannot be
    gone into.

    Links are not followed: what one leads to within these folders is found there, and one that
    leads out of them is said.

    Args:
        folders: the folders to begin in.
        called: whether a name is that of whom one looks for; folders and links of such names are
            places, too.

    Raises:
        InputError: a folder is not there, or they hold more than `MAX_FILES` files and folders.
    """
    roots = []
    for folder in folders:
        if not folder.is_dir():
            raise InputError(str(folder), "there is no such folder", "Check the path")
        roots.append(os.path.realpath(folder))
    waiting, seen, count = [(root, 0) for root in reversed(roots)], set[str](), 0
    while waiting:
        folder_path, depth = waiting.pop()
        if folder_path in seen:
            continue
        seen.add(folder_path)
        try:
            with os.scandir(folder_path) as entries:
                items = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            yield unknown(folder_path, "folder", error.strerror or str(error))
            continue
        count += len(items)
        if count > MAX_FILES:
            raise InputError(
                folder_path, f"there are more than {MAX_FILES} files", "Name the folders one by one"
            )
        for entry in items:
            is_link = entry.is_symlink()
            if not is_link and not entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)
                continue
            yield from _told(entry, roots, depth, named=called(entry.name))
            if not is_link and depth < MAX_DEPTH:
                waiting.append((entry.path, depth + 1))


def _told(
    entry: os.DirEntry[str], roots: Sequence[str], depth: int, *, named: bool
) -> Iterator[TracedPlace]:
    """What is to be told of a folder or a link itself."""
    kind = "link" if entry.is_symlink() else "folder"
    if named:
        why = "its name is hers"
        yield TracedPlace(path=entry.path, kind=kind, standing="names", goes_by=why)
    if kind == "link" and not any(_inside(entry.path, root) for root in roots):
        yield unknown(entry.path, kind, "it leads out of what is searched, and is not followed")
    if kind == "folder" and depth >= MAX_DEPTH:
        yield unknown(entry.path, kind, f"it lies more than {MAX_DEPTH} folders deep")


def _inside(link: str, root: str) -> bool:
    try:
        target = os.path.realpath(link)
    except (OSError, ValueError):  # a circle
        return False
    return target == root or target.startswith(root.rstrip(os.sep) + os.sep)
