"""Every change that SQLite makes to files, seen from Python: SQLite writes by itself, and audit
hooks are told nothing of it.

SQLite does all that it does to files through a *VFS*, a table of functions. This one is the
system's own with four of them told about first: opening a new file, deleting one, and of every open
file writing, truncating and syncing.

Reference: SQLite, "The SQLite OS Interface or VFS" (sqlite.org/vfs.html).
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p, cast
from pathlib import Path

CREATES = 0x00000004  # SQLITE_OPEN_CREATE
Told = Callable[[str, str], None]
"""Called with an event and a path before it happens; ``sqlite.synced`` comes after."""

_Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)
# the name as it lies there: SQLite keeps the pointer
_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_Delete = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)


class _Methods(Structure):
    """``sqlite3_io_methods``, version 3."""

    _fields_ = [
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", _Write),
        ("truncate", _Truncate),
        ("sync", _Sync),
        *((f"rest{number}", c_void_p) for number in range(13)),
    ]


class _File(Structure):
    """The beginning of every ``sqlite3_file``."""

    _fields_ = [("methods", POINTER(_Methods))]


class _Vfs(Structure):
    """``sqlite3_vfs``, version 3."""

    _fields_ = [
        ("version", c_int),
        ("file_bytes", c_int),
        ("longest", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", _Open),
        ("delete", _Delete),
        *((f"rest{number}", c_void_p) for number in range(14)),
    ]


class SqliteWatch:
    """Tells of every change of SQLite in this process from now on, in connections that are opened
    from now on.

    Args:
        told: see `Told`.

    Raises:
        OSError: SQLite is not a library that can be reached from here.
    """

    def __init__(self, told: Told) -> None:
        self._told = told
        library = ctypes.CDLL(_sqlite3.__file__)
        try:
            find, register = library.sqlite3_vfs_find, library.sqlite3_vfs_register
        except AttributeError as error:
            raise OSError("SQLite's functions are hidden in Python's module") from error
        find.restype = POINTER(_Vfs)
        self._system = find(None).contents
        self._methods: dict[int, _Methods] = {}
        self._paths: dict[int, str] = {}
        self._new: set[int] = set()
        self._own = _Vfs.from_buffer_copy(self._system)
        self._own.name = b"unplug-watched"
        self._own.open, self._own.delete = _Open(self._open), _Delete(self._delete)
        register(ctypes.byref(self._own), 1)

    def _open(self, _vfs: int, name: int | None, file: int, flags: int, out: int) -> int:
        path = os.fsdecode(ctypes.string_at(name)) if name else ""
        new = bool(path) and bool(flags & CREATES) and not Path(path).exists()
        if new:
            self._told("sqlite.create", path)
        code: int = self._system.open(ctypes.byref(self._system), name, file, flags, out)
        if code == 0 and path:
            self._paths[file] = path
            (self._new.add if new else self._new.discard)(file)
            opened = cast(file, POINTER(_File)).contents
            opened.methods = ctypes.pointer(self._watched(opened.methods.contents))
        return code

    def _watched(self, system: _Methods) -> _Methods:
        """The functions of a file with those told about that change it; one table for each of the
        system's.
        """
        where = ctypes.addressof(system)
        if where in self._methods or where in map(ctypes.addressof, self._methods.values()):
            return self._methods.get(where, system)
        made = _Methods.from_buffer_copy(system)
        write, truncate, sync = system.write, system.truncate, system.sync

        def on_write(file: int, data: int, size: int, offset: int) -> int:
            self._told("sqlite.write", self._paths[file])
            return int(write(file, data, size, offset))

        def on_truncate(file: int, size: int) -> int:
            self._told("sqlite.truncate", self._paths[file])
            return int(truncate(file, size))

        def on_sync(file: int, flags: int) -> int:
            self._told("sqlite.sync", self._paths[file])
            code = int(sync(file, flags))
            self._told("sqlite.synced", self._paths[file])
            if file in self._new:  # the first sync of a new file syncs its folder as well
                self._new.discard(file)
                self._told("sqlite.synced", str(Path(self._paths[file]).parent))
            return code

        made.write, made.truncate, made.sync = (
            _Write(on_write),
            _Truncate(on_truncate),
            _Sync(on_sync),
        )
        self._methods[where] = made
        return made

    def _delete(self, _vfs: int, name: bytes, sync_folder: int) -> int:
        path = os.fsdecode(name)
        if Path(path).exists():
            self._told("sqlite.delete", path)
        code: int = self._system.delete(ctypes.byref(self._system), name, sync_folder)
        if code == 0 and sync_folder:
            self._told("sqlite.synced", str(Path(path).parent))
        return code
