"""What a folder holds for a listing: the files that are read, what cannot be used, and what is not
a picture; nothing is silent.

Links are followed, for people link folders into a data set, and git-annex, DVC and the hub's cache
link every picture.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, ClassVar

from unplug.core import DataError, counted, why_missing

from ..decode import SUFFIXES
from ..picture_cost import JPEG, PNG
from ..source import LeftOut, Listing, Sample, SampleProblem, existing_dir
from .files import FileSource

MAX_ENTRIES = 5_000_000
UNREAD = frozenset(
    [
        ".heic",
        ".heif",
        ".avif",
        ".gif",
        ".tif",
        ".tiff",
        ".jp2",
        ".jxl",
        ".svg",
        ".psd",
        ".dng",
        ".cr2",
        ".nef",
    ]
)
"""Suffixes of pictures in formats that are not read."""
BESIDE = re.compile(
    r"\.(bib|caption|cfg|csv|db|docx?|dvc|h5|html?|ini|ipynb|jsonl?|log|mat|md|np[yz]|parquet|pdf|pickle|pkl|pts?|py|rst|sh"
    r"|sqlite|tex|toml|tsv|txt|url|xlsx?|xml|ya?ml)"
)
"""Suffixes of files that lie next to pictures and are none: tables, notes, programs."""
PROGRAMS = {
    "macOS": ("__macosx", "icon\r"),
    "Windows": (
        "thumbs.db",
        "ehthumbs.db",
        "desktop.ini",
        "$recycle.bin",
        "recycler",
        "system volume information",
    ),
    "a network disk": (
        "@eadir",
        "@tmp",
        "@recycle",
        "@__thumb",
        "@recently-snapshot",
        "#recycle",
        "#snapshot",
    ),
    "Python": ("__pycache__",),
    "a check of the disk": ("lost+found",),
}
LEAVINGS = {name: program for program, names in PROGRAMS.items() for name in names}
"""Names of files and folders, in lower case, that programs leave among pictures, and which program
does.
"""


def leaving(name: str) -> str | None:
    """Why a file or folder of that name is left out, with all that is in it; None where it is not.

    Example:
        >>> leaving(".ipynb_checkpoints"), leaving("@eaDir"), leaving("adult")
        ('hidden: its name begins with a dot', 'left by a network disk', None)
    """
    if name.startswith(".") and name != "..":
        return "hidden: its name begins with a dot"
    program = LEAVINGS.get(name.lower())
    return None if program is None else f"left by {program}"


def leaving_in(path: PurePath) -> str | None:
    """`leaving` of the first part of a path that is one.

    Example:
        >>> leaving_in(PurePath("__MACOSX/adult/0.png"))
        'left by macOS'
    """
    return next((why for part in path.parts if (why := leaving(part)) is not None), None)


@dataclass
class Listed:
    """What was found below a folder.

    Args:
        root: the folder.
        files: those that are read, in a stable order.
        samples: the source's samples, or the rows of its tables.
        problems: unusable files that may have been meant as data.
    """

    root: Path
    files: list[Path] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    problems: list[SampleProblem] = field(default_factory=list)
    _others: dict[str, LeftOut] = field(default_factory=dict)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Files that nobody means as pictures."""
        return tuple(self._others.values())

    def leave(self, name: str, reason: str) -> None:
        """Counts something that is left out."""
        before = self._others.get(reason)
        count, first = (before.count + 1, before.first) if before else (1, name)
        self._others[reason] = LeftOut(reason=reason, count=count, first=first)

    def refuse(self, name: str, reason: str) -> None:
        """Names something that cannot be used."""
        self.problems.append(SampleProblem(id=name, reason=reason))

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """A `ValueError` in it says why this sample cannot be used, and is not raised."""
        try:
            yield
        except ValueError as error:
            self.refuse(name, str(error))

    def name(self, path: Path) -> str:
        """What a file is called in a data set: its path below the folder."""
        return path.relative_to(self.root).as_posix()

    def listing(self, where: str, expected: str, **facts: Any) -> Listing:
        """All of it, with more `facts` of a `Listing`.

        Raises:
            DataError: nothing usable was found; `expected` says what to give.
        """
        if not self.samples:
            raise DataError(where, self._nothing(), expected)
        return Listing(
            samples=tuple(self.samples),
            problems=tuple(self.problems),
            left_out=self.left_out,
            **facts,
        )

    def _nothing(self) -> str:
        if self.problems:
            first, files = self.problems[0], counted(len(self.problems), "file")
            return f"of {files} none can be used (first: {first.id}: {first.reason})"
        if not self.left_out:
            return "it holds no samples"
        first_left = self.left_out[0]
        number = counted(sum(other.count for other in self.left_out), "entry", "entries")
        told = f"{number} left out, the first: {first_left.first}: {first_left.reason}"
        return f"it holds no samples ({told})"


class FolderSource(FileSource):
    """Image files in a folder that a spec names."""

    kind: ClassVar[str]
    expected: ClassVar[str]
    """What to give in the place of a folder that holds no sample."""

    def __init__(self, argument: str) -> None:
        self.root = existing_dir(argument, self.kind)

    def of(self, listed: Listed, **facts: Any) -> Listing:
        """What was found, see `Listed.listing`."""
        return listed.listing(f"{self.kind}:{self.root}", self.expected, **facts)


def image_files(root: Path, also: Container[str] = ()) -> Listed:
    """The pictures below a folder, links followed.

    A folder that a link leads to is read under the link's name, but never within itself.

    Args:
        root: the folder; of its own path nothing is left out.
        also: lower-case suffixes that are read besides those of pictures.

    Raises:
        DataError: it holds more than `MAX_ENTRIES` files and folders.
    """
    listed, count = Listed(root=root), 0
    place = root.resolve()
    waiting = [(root, frozenset(_key(folder.stat()) for folder in (place, *place.parents)))]
    while waiting:
        folder, above = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            listed.refuse(
                listed.name(folder), f"the folder cannot be read ({error.strerror or error})"
            )
            continue
        count += len(inside)
        if count > MAX_ENTRIES:
            raise DataError(
                str(root), f"more than {MAX_ENTRIES} files and folders", "Give a part of it"
            )
        for entry in inside:
            inner = _take(listed, entry, above, also)
            if inner is not None:
                waiting.append((Path(entry.path), above | {inner}))
    listed.files.sort()
    listed.problems.sort(key=lambda problem: problem.id)
    return listed


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _take(
    listed: Listed, entry: os.DirEntry[str], above: Container[tuple[int, int]], also: Container[str]
) -> tuple[int, int] | None:
    """Sorts one entry of a folder in; of a folder to go into its device and inode."""
    path = Path(entry.path)
    name, absent = listed.name(path), _absent(path)
    if absent is not None:
        listed.refuse(listed.name(absent), _gone(absent, FileNotFoundError()))
        return None
    if (why := leaving(entry.name)) is not None:
        listed.leave(name, why)
        return None
    try:
        status = path.stat()
    except OSError as error:
        listed.refuse(name, _gone(path, error))
        return None
    if stat.S_ISDIR(status.st_mode):
        if (inner := _key(status)) not in above:
            return inner
        listed.leave(name, "a link to a folder that holds it")
    elif not stat.S_ISREG(status.st_mode):
        listed.refuse(name, "it is a device, a pipe or a socket")
    else:
        _take_file(listed, path, name, also)
    return None


def _absent(path: Path) -> Path | None:
    """The file whose place DVC or iCloud keeps by this one, where it is not there itself."""
    real = (
        path.with_name(path.name.removesuffix(".dvc"))
        if path.suffix == ".dvc" and path.stem
        else None
    )
    if path.suffix == ".icloud":
        real = path.with_name(path.name.removeprefix(".").removesuffix(".icloud"))
    return (
        real if real is not None and not real.exists() and why_missing(real) is not None else None
    )


def _take_file(listed: Listed, path: Path, name: str, also: Container[str]) -> None:
    suffix = path.suffix.lower()
    if suffix in SUFFIXES or suffix in also:
        listed.files.append(path)
    elif not suffix and _is_picture(path):
        listed.refuse(name, "a picture without a suffix is not read: call it .jpg or .png")
    elif not suffix or BESIDE.fullmatch(suffix):
        listed.leave(name, f"no picture by its name ({suffix or 'no suffix'})")
    else:
        listed.refuse(name, f"{suffix} is not read: save it as JPEG, PNG, WebP or BMP")


def _is_picture(path: Path) -> bool:
    with contextlib.suppress(OSError), path.open("rb") as handle:
        return handle.read(len(PNG)).startswith((JPEG, PNG))
    return False


def _gone(path: Path, error: OSError) -> str:
    told = why_missing(path)
    return told[0] if told is not None else f"it cannot be read ({error.strerror or error})"
