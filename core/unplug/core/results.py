"""Results at their place: written next to it, on the disk, then there at once; a result is never
half there, and never gone.

What is unfinished lies in a hidden folder next to the result (`temporaries`). A result that
replaces an older one changes places with it in one step. Where a system cannot exchange names the
old one is moved to ``.NAME.replaced`` first; a process that is killed in between leaves it there,
and the next `hold` or write of the same place moves it back.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path

from .cache import PRIVATE_FILE, cache_error, in_cache
from .durable import PRIVATE_FOLDER, exchange, make_folder, sync_file, sync_folder, sync_tree
from .errors import OutputError
from .temporaries import hidden_name, sweep, temporary_folder

_private: ContextVar[bool] = ContextVar("private", default=False)


@contextlib.contextmanager
def private_results() -> Iterator[None]:
    """While it lasts all results are their owner's alone, unless they say themselves that they are
    not; also a decorator.
    """
    token = _private.set(True)
    try:
        yield
    finally:
        _private.reset(token)


def _is_private(path: Path, private: bool | None) -> bool:
    return in_cache(path) or (_private.get() if private is None else private)


def _make_parent(folder: Path, *, private: bool) -> None:
    make_folder(folder, PRIVATE_FOLDER if private else 0o777)


def _modes(folder: Path, *, private: bool) -> tuple[int, int]:
    """The modes of files and folders: the owner's alone, or what the umask leaves to others, found
    out by making a file.

    What writes weights makes them their owner's, whatever the umask; and asking for the umask would
    change it for a moment.
    """
    if private:
        return PRIVATE_FILE, PRIVATE_FOLDER
    probe = folder / ".umask"
    probe.touch()
    mode = PRIVATE_FILE | stat.S_IMODE(probe.stat().st_mode)
    probe.unlink()
    # A folder is entered by all who may read it: r of group and others becomes x as well.
    return mode, PRIVATE_FOLDER | mode | (mode & 0o044) >> 2


def output_error(path: Path, error: OSError) -> OutputError:
    """What a failure to write means to the user, in one line."""
    if in_cache(path):
        return cache_error(path, error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return OutputError(
            str(path),
            "the disk is full",
            "Free some space or choose another `out`; nothing was left half-written",
        )
    return OutputError(
        str(path), error.strerror or str(error), "Choose an `out` that you can write to"
    )


def check_writable(folder: Path) -> None:
    """Makes a folder and raises unless a file can be written in it: found out before the work, not
    after it.

    Raises:
        OutputError: it cannot be made, or nothing can be written in it.
    """
    try:
        _make_parent(folder, private=_is_private(folder, None))
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise output_error(folder, error) from error


@contextlib.contextmanager
def writable(folder: Path) -> Iterator[None]:
    """A folder that can be written in; where it is new and the work fails before anything is in it,
    it is removed.

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
def atomic_path(path: Path, *, private: bool | None = None) -> Iterator[Path]:
    """Yields a temporary file name; on success the file is on the disk and takes the place of
    `path`, else it is removed.

    Args:
        path: the file; folders above it that are missing are made.
        private: it names people or was made of their faces: it can be read by its owner alone
            (0600, and 0700 of folders that are made for it), as all in the cache. Else who else can
            is for the umask to say. None is what `private_results` says.

    Raises:
        OutputError: the place is taken by something that is not a file, cannot be written, or the
            disk is full.

    Example:
        >>> with atomic_path(Path("/tmp/unplug-doc.txt")) as temporary:
        ...     _ = temporary.write_text("done")
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            raise OutputError(
                str(path), "it is a folder, a device or a pipe", "Choose an `out` that is a file"
            )
        private = _is_private(path, private)
        _make_parent(path.parent, private=private)
        with temporary_folder(hidden_name(path.name, "."), path.parent) as folder:
            mode, _ = _modes(folder, private=private)
            temporary = folder / path.name
            temporary.touch()
            yield temporary
            temporary.chmod(mode)
            sync_file(temporary)
            os.replace(temporary, path)
            sync_folder(path.parent)
    except OSError as error:
        raise output_error(path, error) from error


@contextlib.contextmanager
def atomic_dir(
    path: Path,
    *,
    owner: str | None = None,
    ours: Sequence[str] = ("*",),
    private: bool | None = None,
) -> Iterator[Path]:
    """Yields a temporary folder; on success it is on the disk and takes the place of `path`, else
    it is removed.

    Args:
        path: the final folder; where it is a link, the folder that it leads to. What is there
            already is replaced only if `check_replaceable` allows it, so that a mistyped ``--out``
            never deletes somebody's files.
        owner, ours: see `check_replaceable`.
        private: see `atomic_path`; it holds for all that is in the folder.

    Raises:
        OutputError: the place is taken by something else, cannot be written, or the disk is full.
    """
    path = Path(path).resolve()
    try:
        recover(path)
        check_replaceable(path, owner, ours)
        private = _is_private(path, private)
        _make_parent(path.parent, private=in_cache(path))
        with temporary_folder(hidden_name(path.name, "."), path.parent) as temporary:
            modes = _modes(temporary, private=private)
            yield temporary
            _set_modes(temporary, modes)
            temporary.chmod(modes[1])
            sync_tree(temporary)
            check_replaceable(path, owner, ours)  # hours may have passed
            _put(temporary, path)
            sync_folder(path.parent)
    except OSError as error:
        raise output_error(path, error) from error


@contextlib.contextmanager
def atomic_entries(folder: Path, name: str) -> Iterator[Path]:
    """Yields a temporary folder; on success all that it holds is on the disk and takes its places
    in `folder`, one by one.

    For what is more than one file and not alone in its folder. Nothing is half there; between the
    first and the last of them, which is a moment, some are new and some are not.

    Args:
        folder: exists; folders in it that are replaced were checked, see `check_replaceable`.
        name: a name for the temporary folder to contain.

    Raises:
        OutputError: a place is taken, cannot be written, or the disk is full.
    """
    try:
        with temporary_folder(hidden_name(name, "."), folder) as temporary:
            modes = _modes(temporary, private=_is_private(folder, None))
            yield temporary
            _set_modes(temporary, modes)
            sync_tree(temporary)
            for entry in sorted(temporary.iterdir()):
                recover(folder / entry.name)
                _put(entry, folder / entry.name)
            sync_folder(folder)
    except OSError as error:
        raise output_error(folder / name, error) from error


def _set_modes(folder: Path, modes: tuple[int, int]) -> None:
    """Sets the modes of all that lies in a folder."""
    for entry in folder.rglob("*"):
        if not entry.is_symlink() and (entry.is_dir() or entry.is_file()):
            entry.chmod(modes[entry.is_dir()])


def check_replaceable(path: Path, owner: str | None, ours: Sequence[str]) -> None:
    """Refuses a place that holds anything but an older result of the same kind.

    Args:
        path: nothing, an empty folder, or a folder with `owner` in it and nothing that `ours` does
            not name.
        owner: the file that marks folders of this kind, for example ``config.json``.
        ours: shell patterns of all that such a folder may hold.

    Raises:
        OutputError: something else is there; nothing was touched.
    """
    if not path.exists():
        return
    if path.is_dir():
        sweep(path)
    entries = [item.name for item in path.iterdir()] if path.is_dir() else [path.name]
    foreign = [
        name
        for name in entries
        if name != owner and not any(fnmatch.fnmatchcase(name, item) for item in ours)
    ]
    if path.is_dir() and (
        not entries or (owner is not None and (path / owner).is_file() and not foreign)
    ):
        return
    held = f" (it holds {sorted(foreign)[0]})" if path.is_dir() and foreign else ""
    why = f"it exists and was not written by this command{held}"
    raise OutputError(str(path), why, "Choose another `out` or remove it")


def _put(new: Path, path: Path) -> None:
    """`new` takes the place of `path`; what was there is where `new` was, or gone."""
    if not path.is_dir():
        os.replace(new, path)
    elif not exchange(new, path):
        _replace_in_two_steps(new, path)


def _aside(path: Path) -> Path:
    return path.with_name(hidden_name(path.name, ".replaced"))


def _replace_in_two_steps(new: Path, path: Path) -> None:
    aside = _aside(path)
    os.replace(path, aside)
    try:
        os.replace(new, path)
    except OSError:
        os.replace(aside, path)  # better the old result than none
        raise
    sync_folder(path.parent)
    shutil.rmtree(aside, ignore_errors=True)


def recover(path: Path) -> None:
    """Puts a result back that a process killed between the two steps of replacing it had moved
    aside.

    Raises:
        OSError: it cannot be moved.
    """
    aside = _aside(path)
    if not aside.is_dir():
        return
    if path.exists():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        os.replace(aside, path)
        sync_folder(path.parent)
