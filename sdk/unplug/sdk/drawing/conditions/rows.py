"""A large ``.npy`` file written row by row, in order: killed, it goes on where it stopped;
finished, it appears at once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError, OutputError, in_cache, read_json, write_json

FAMILY = "unplug-conditions/"
SCHEMA = f"{FAMILY}1"
ROWS, NOTES = "rows.npy", "notes.json"
"""In the hidden folder of an unfinished file; the notes come last of all."""
AGAIN = "Free some space or choose another place; the same call then goes on where this one stopped"


class ConditionRows:
    """What is written so far: uint8 rows, and one byte a row that says whether anything was found.

    Args:
        folder: hidden folder next to the result.
        shape: the shape of the whole array.
    """

    def __init__(self, folder: Path, shape: Sequence[int]) -> None:
        self._folder, self._shape = folder, tuple(shape)
        self._bytes = int(np.prod(self._shape[1:]))
        self._data: BinaryIO = (folder / ROWS).open("a+b")
        self._found: BinaryIO = (folder / "found").open("a+b")
        if self._data.seek(0, os.SEEK_END) == 0:
            # The whole shape stands in front before the rows do: appending is plain writing.
            header = {"descr": "|u1", "fortran_order": False, "shape": self._shape}
            np.lib.format.write_array_header_1_0(self._data, header)
            self._data.flush()
        self._start = self._header()
        self.done = min(
            (self._data.seek(0, os.SEEK_END) - self._start) // self._bytes,
            self._found.seek(0, os.SEEK_END),
        )
        # A row counts once its byte in `found` is there, which is written after it.
        self._data.truncate(self._start + self.done * self._bytes)
        self._found.truncate(self.done)

    def _header(self) -> int:
        self._data.seek(0)
        np.lib.format.read_magic(self._data)
        np.lib.format.read_array_header_1_0(self._data)
        return self._data.tell()

    def append(self, rows_NHWC: NDArray[np.uint8], found_N: NDArray[np.bool_]) -> None:
        """Adds rows. Plain writes: a full disk is an error here, where a memory map would be killed
        by SIGBUS.
        """
        self._data.write(np.ascontiguousarray(rows_NHWC).tobytes())
        self._data.flush()
        self._found.write(found_N.astype(np.uint8).tobytes())
        self._found.flush()
        self.done += len(found_N)

    def finish(self, out: Path, notes: dict[str, Any]) -> None:
        """Puts the finished array at `out`, and next to it a JSON file with `notes` and the rows
        where nothing was found.
        """
        self._found.seek(0)
        found_N = np.frombuffer(self._found.read(), np.uint8).astype(bool)
        self.close()
        write_json(
            self._folder / NOTES,
            {"schema": SCHEMA, **notes, "missing": np.flatnonzero(~found_N).tolist()},
        )
        _publish(self._folder, out)

    def close(self) -> None:
        """Closes the files; what was appended stays for the next call."""
        self._data.close()
        self._found.close()


@contextlib.contextmanager
def open_rows(out: Path, key: str, shape: Sequence[int]) -> Iterator[ConditionRows]:
    """Opens the unfinished file that belongs to `out`, or a new one where there is none with this
    key.

    Args:
        out: final ``.npy`` file.
        key: says what the rows are made of; an unfinished file of another key is dropped.
        shape: the shape of the whole array.

    Raises:
        OutputError: the place is taken by another file, cannot be written, is full, or another
            process writes it.
    """
    folder = _folder_of(out)
    _recover(out)
    if out.exists() and read_notes(out) is None:
        raise OutputError(
            str(out),
            "it exists and was not written by this function",
            "Choose another place or remove it",
        )
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        with _lock(folder, out):
            if (
                not (folder / "key").is_file()
                or (folder / "key").read_text(encoding="ascii", errors="replace") != key
            ):
                for name in ("key", ROWS, "found"):
                    (folder / name).unlink(missing_ok=True)
                (folder / "key").write_text(key, encoding="ascii")
            rows = ConditionRows(folder, shape)
            try:
                yield rows
            finally:
                rows.close()
    except OSError as error:
        raise OutputError(str(out), error.strerror or str(error), AGAIN) from error


def _folder_of(out: Path) -> Path:
    return out.with_name(f".{out.name}.partial")


def _publish(folder: Path, out: Path) -> None:
    """Moves finished rows and their notes into place; stopped anywhere in between, it is done again
    by the next call.
    """
    notes = out.with_suffix(".json")
    if (folder / ROWS).exists():
        notes.unlink(missing_ok=True)  # the old notes must not vouch for the new rows
        os.replace(folder / ROWS, out)
    os.replace(folder / NOTES, notes)
    if in_cache(out):
        for path in (out, notes):
            path.chmod(0o600)
    shutil.rmtree(folder)


def _recover(out: Path) -> None:
    folder = _folder_of(out)
    if (folder / NOTES).is_file():
        try:
            with _lock(folder, out):
                _publish(folder, out)
        except OSError as error:
            raise OutputError(str(out), error.strerror or str(error), AGAIN) from error


@contextlib.contextmanager
def _lock(folder: Path, out: Path) -> Iterator[None]:
    if (
        os.name != "posix"
    ):  # elsewhere the second process cannot replace a file that the first has open
        yield
        return
    import fcntl

    with (folder / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OutputError(
                str(out), "another process is writing it", "Wait for it, or choose another place"
            ) from error
        yield


def read_notes(out: Path) -> dict[str, Any] | None:
    """The notes of a finished array, also of another version of this package; None where there are
    none of ours.
    """
    try:
        notes = read_json(out.with_suffix(".json"))
    except InputError:
        return None
    return (
        notes if isinstance(notes, dict) and str(notes.get("schema")).startswith(FAMILY) else None
    )


def load_finished(
    out: Path, key: str, shape: Sequence[int]
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]] | None:
    """The rows (a read-only memory map) and which were found, where `out` is whole and has this
    key; else None.
    """
    _recover(out)
    notes = read_notes(out)
    if notes is None or notes.get("schema") != SCHEMA or notes.get("key") != key:
        return None
    try:
        rows_NHWC = np.load(out, mmap_mode="r", allow_pickle=False)
        missing = np.array(notes["missing"], dtype=np.int64)
        found_N = np.ones(shape[0], bool)
        found_N[missing] = False
    except (OSError, ValueError, EOFError, KeyError, TypeError, IndexError, OverflowError):
        return None
    return (
        (rows_NHWC, found_N)
        if rows_NHWC.shape == tuple(shape) and rows_NHWC.dtype == np.uint8
        else None
    )
