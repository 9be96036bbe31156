"""What a power cut leaves of a folder at worst: only what was synced is sure, and of the rest
anything may be missing.

A file's bytes are sure from its `fsync` on, a name from that of its folder on. Three worst cases of
every moment: all names are there and the bytes are not (as ext4 does it that allocates late), the
names are not there either, and files are cut in half. A file that is written in place, as a
database's is, keeps what was sure of it; at worst every second sector is the new one.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Loss = Literal["", "bytes", "names", "half of the bytes"]
LOSSES: tuple[Loss, ...] = ("bytes", "names", "half of the bytes")
"""Of power cuts; "" is a kill, which loses nothing that was written."""
Tree = dict[str, bytes | None]
"""Relative path to content; None is a folder."""
SECTOR = 512
"""Bytes that a disk writes at once."""
RANDOM = re.compile(r"[a-z0-9_]{8}(?=\.unplug-tmp)")


@dataclass
class _Node:
    """A file or folder: what is there now, and what is sure. A file's content, or a folder's names."""

    now: bytes | dict[str, int]
    sure: bytes | dict[str, int]
    mode: int
    in_place: bool = False


@dataclass
class Disk:
    """A folder as programs see it and as the disk has it.

    Call `look` before every change and `synced` after every sync. Everything that is there at first
    is sure.
    """

    root: Path
    _nodes: dict[int, _Node] = field(default_factory=dict)
    # inode to node, of what exists: the numbers are used again
    _known: dict[int, int] = field(default_factory=dict)
    _root: int = 0

    def __post_init__(self) -> None:
        self.look()
        for node in self._nodes.values():
            node.sure = node.now

    def look(self) -> None:
        """Takes in what is there now."""
        seen: dict[int, int] = {}
        self._root = self._seen(self.root, seen)
        self._known = seen

    def _seen(self, path: Path, seen: dict[int, int]) -> int:
        status = path.lstat()
        folder = stat.S_ISDIR(status.st_mode)
        number = self._known.get(status.st_ino)
        if number is None or isinstance(self._nodes[number].now, dict) != folder:
            number = len(self._nodes)
            self._nodes[number] = _Node(
                {} if folder else b"", {} if folder else b"", status.st_mode
            )
        seen[status.st_ino] = number
        node = self._nodes[number]
        now = (
            {item.name: self._seen(item, seen) for item in sorted(path.iterdir())}
            if folder
            else path.read_bytes()
        )
        # one object a content: there are hundreds of trees
        node.now = now if now != node.now else node.now
        return number

    def written_in_place(self, path: Path) -> None:
        """A file is about to be written at some place in the middle of it."""
        number = self._known.get(path.stat().st_ino) if path.exists() else None
        if number is not None:
            self._nodes[number].in_place = True

    def synced(self, path: Path) -> None:
        """A file's bytes, or a folder's names, are on the disk now."""
        self.look()
        number = self._known.get(path.stat().st_ino)
        if number is not None:
            self._nodes[number].sure = self._nodes[number].now

    def after(self, loss: Loss) -> Tree:
        """What is there after a kill, or after a power cut that loses as much as it may."""
        tree: Tree = {}
        self._after(self._root, "", loss, tree)
        return tree

    def _after(self, number: int, place: str, loss: Loss, tree: Tree) -> None:
        node = self._nodes[number]
        if isinstance(node.now, dict) and isinstance(node.sure, dict):
            if place:
                tree[place] = None
            for name, child in (node.sure if loss == "names" else node.now).items():
                self._after(child, f"{place}/{name}".lstrip("/"), loss, tree)
        elif isinstance(node.now, bytes) and isinstance(node.sure, bytes):
            tree[place] = _left(node.now, node.sure, loss, in_place=node.in_place)


def _left(now: bytes, sure: bytes, loss: Loss, *, in_place: bool) -> bytes:
    """What is left of a file's bytes."""
    if loss == "" or now == sure:
        return now
    if loss == "names" or (loss == "bytes" and in_place):
        return sure
    if in_place:
        return torn(now, sure)
    return now[: len(now) // 2] if loss == "half of the bytes" else b""


def torn(now: bytes, sure: bytes) -> bytes:
    """Every second sector is the new one, the others are as they were; where nothing was they are
    zero.

    Example:
        >>> torn(b"n" * 1536, b"s" * 512) == b"n" * 512 + b"\\0" * 512 + b"n" * 512
        True
    """
    old = sure[: len(now)].ljust(len(now), b"\0")
    sectors = range(0, len(now), SECTOR)
    return b"".join(
        (old if (start // SECTOR) % 2 else now)[start : start + SECTOR] for start in sectors
    )


def build(tree: Tree, root: Path) -> None:
    """Makes a folder hold what a tree says; it must not exist yet."""
    root.mkdir()
    for name, content in tree.items():
        if content is None:
            (root / name).mkdir()
        else:
            (root / name).write_bytes(content)


def digest(tree: Tree) -> str:
    """SHA-256 over names and contents; the random parts of temporary names count for nothing."""
    total = hashlib.sha256()
    for name, content in sorted(
        (RANDOM.sub("", os.fspath(name)), content) for name, content in tree.items()
    ):
        total.update(
            f"{name}\0{'folder' if content is None else hashlib.sha256(content).hexdigest()}\n".encode()
        )
    return total.hexdigest()
