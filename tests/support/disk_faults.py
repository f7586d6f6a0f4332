"""A hand on every write, sync, truncation and deletion of a disk: of SQLite through a VFS, of all others through `os`.

    with on_disk(directory, disk):      # everything under `directory` passes `disk`, which may raise `OSError`
        …the product, unchanged…

The VFS is put into the very SQLite that the `sqlite3` module uses, so neither the product nor its driver is replaced.
It calls the one it stands before; a `Disk` only looks on, or refuses.
"""

from __future__ import annotations

import _sqlite3
import contextlib
import ctypes
import errno
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any

import pytest

SHORT = -1  # as an error: there is room for half of a write

OK, FULL, IOERR = 0, 13, 10
IOERR_WRITE, IOERR_FSYNC, IOERR_TRUNCATE, IOERR_DELETE = (IOERR | each << 8 for each in (3, 4, 6, 10))
OPEN_JOURNALS = 0x00000800 | 0x00004000 | 0x00080000  # main journal, super-journal, WAL


class Disk:
    """Looks on. Each method is called before the thing is done; an `OSError` from it means that it is not done."""

    def opening(self, path: str, *, is_new: bool) -> None: ...

    def writing(self, path: str, offset: int, data: bytes) -> None: ...

    def truncating(self, path: str, size: int) -> None: ...

    def syncing(self, path: str) -> None: ...

    def deleting(self, path: str) -> None: ...

    def renaming(self, path: str, to: str) -> None: ...

    def making(self, path: str) -> None:
        """A directory."""

    def synced(self, path: str, mark: int) -> None:
        """`mark` is what `mark` gave when the sync began."""

    def mark(self) -> int:
        return 0


class Short(OSError):
    """Only so many bytes of a write get onto the disk. For writes that do not come from SQLite."""

    def __init__(self, size: int) -> None:
        super().__init__(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.size = size


class Faults(Disk):
    """Refuses the k-th write, sync, truncation or new name of the files that `concerns` says, once or until healed."""

    def __init__(self, concerns: Callable[[str], bool], at: int, error: int, *, for_good: bool = False) -> None:
        self._concerns, self._at, self._error, self._for_good = concerns, at, error, for_good
        self.count = self.refused = 0
        self._healed = False

    def heal(self) -> None:
        """There is room again."""
        self._healed = self.refused > 0

    def writing(self, path: str, offset: int, data: bytes) -> None:
        if self._refuses(path):
            raise Short(len(data) // 2) if self._error == SHORT else OSError(self._error, os.strerror(self._error))

    def _other(self, path: str) -> None:
        if self._refuses(path):
            error = errno.ENOSPC if self._error == SHORT else self._error
            raise OSError(error, os.strerror(error))

    def opening(self, path: str, *, is_new: bool) -> None:
        self._other(path)

    def truncating(self, path: str, size: int) -> None:
        self._other(path)

    def syncing(self, path: str) -> None:
        self._other(path)

    def renaming(self, path: str, to: str) -> None:
        self._other(path)

    def _refuses(self, path: str) -> bool:
        if not self._concerns(path) or self._healed:
            return False
        self.count += 1
        refuses = self.count == self._at or (self._for_good and self.count > self._at)
        self.refused += refuses
        return refuses


# -- SQLite


class _Vfs(Structure):
    pass


_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_Delete = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)

_Vfs._fields_ = [
    ("iVersion", c_int),
    ("szOsFile", c_int),
    ("mxPathname", c_int),
    ("pNext", c_void_p),
    ("zName", c_char_p),
    ("pAppData", c_void_p),
    ("xOpen", _Open),
    ("xDelete", _Delete),
    *((f"other{number}", c_void_p) for number in range(14)),
]


class _Methods(Structure):
    """What a file can do, `sqlite3_io_methods`; a file begins with a pointer to it."""

    _fields_ = [
        ("iVersion", c_int),
        ("xClose", c_void_p),
        ("xRead", c_void_p),
        ("xWrite", _Write),
        ("xTruncate", _Truncate),
        ("xSync", _Sync),
        *((f"other{number}", c_void_p) for number in range(13)),
    ]


class _Shim:
    """A VFS before the default one. Once registered it stays, and lets everything pass when there is no disk."""

    def __init__(self, library: Any) -> None:
        library.sqlite3_vfs_find.restype = POINTER(_Vfs)
        self.disk: Disk | None = None
        self.root = ""
        self._paths: dict[int, str] = {}
        self._fresh: set[str] = set()  # journals whose entry in the directory their first sync will bring to the disk
        self._tables: dict[int, _Methods] = {}
        self._below = library.sqlite3_vfs_find(None)
        below = self._below.contents
        self._vfs = _Vfs.from_buffer_copy(below)
        self._vfs.zName = b"iofaults"
        self._vfs.xOpen, self._vfs.xDelete = _Open(self._open), _Delete(self._delete)
        if library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1) != OK:
            raise RuntimeError("SQLite takes no VFS")

    def _open(self, _vfs: int, name: int, file: int, flags: int, out: int) -> int:
        path = ctypes.string_at(name).decode() if name else ""
        if not self._is_watched(path):
            return int(self._below.contents.xOpen(ctypes.addressof(self._below.contents), name, file, flags, out))
        is_new = not os.path.exists(path)
        if is_new and (code := self._refused(IOERR, lambda disk: disk.opening(path, is_new=True))):
            return code
        code = int(self._below.contents.xOpen(ctypes.addressof(self._below.contents), name, file, flags, out))
        if code == OK:
            if is_new and flags & OPEN_JOURNALS:
                self._fresh.add(path)
            self._paths[file] = path
            table = c_void_p.from_address(file)
            assert table.value is not None
            table.value = ctypes.addressof(self._watching(table.value))
        return code

    def _watching(self, table: int) -> _Methods:
        if table not in self._tables:
            below = _Methods.from_address(table)
            methods = self._tables[table] = _Methods.from_buffer_copy(below)
            methods.xWrite = _Write(lambda *call: self._write(below, *call))
            methods.xTruncate = _Truncate(lambda *call: self._truncate(below, *call))
            methods.xSync = _Sync(lambda *call: self._sync(below, *call))
        return self._tables[table]

    def _write(self, below: _Methods, file: int, data: int, size: int, offset: int) -> int:
        content = ctypes.string_at(data, size)
        code = self._refused(IOERR_WRITE, lambda disk: disk.writing(self._paths[file], offset, content))
        return code or int(below.xWrite(file, data, size, offset))

    def _truncate(self, below: _Methods, file: int, size: int) -> int:
        code = self._refused(IOERR_TRUNCATE, lambda disk: disk.truncating(self._paths[file], size))
        return code or int(below.xTruncate(file, size))

    def _sync(self, below: _Methods, file: int, flags: int) -> int:
        path, disk = self._paths[file], self.disk
        mark = disk.mark() if disk else 0
        code = self._refused(IOERR_FSYNC, lambda disk: disk.syncing(path)) or int(below.xSync(file, flags))
        if code == OK and disk:
            disk.synced(path, mark)
            if path in self._fresh:  # then SQLite has synced the directory, too
                self._fresh.discard(path)
                disk.synced(os.path.dirname(path), mark)
        return code

    def _delete(self, _vfs: int, name: bytes, sync_directory: int) -> int:
        path = name.decode()
        exists = self._is_watched(path) and os.path.exists(path)
        if exists and (code := self._refused(IOERR_DELETE, lambda disk: disk.deleting(path))):
            return code
        code = int(self._below.contents.xDelete(ctypes.addressof(self._below.contents), name, sync_directory))
        if exists and code == OK and sync_directory and self.disk:
            self.disk.synced(os.path.dirname(path), self.disk.mark())
        return code

    def _is_watched(self, path: str) -> bool:
        return self.disk is not None and path.startswith(self.root) and not path.endswith("-shm")

    def _refused(self, code: int, ask: Callable[[Disk], None]) -> int:
        try:
            if self.disk is not None:
                ask(self.disk)
        except OSError as error:
            return FULL if error.errno == errno.ENOSPC else code
        return OK


_shims: list[_Shim] = []  # one, for ever: connections keep pointers to it


def shim() -> _Shim:
    """The VFS, registered with the SQLite of the `sqlite3` module. Skips the test where that cannot be reached."""
    if not _shims:
        try:
            library = ctypes.CDLL(_sqlite3.__file__)
            library.sqlite3_libversion.restype = c_char_p
            assert library.sqlite3_libversion().decode() == sqlite3.sqlite_version
        except (AttributeError, OSError, AssertionError):
            pytest.skip("the SQLite of this Python is not a library that a VFS can be registered with")
        _shims.append(_Shim(library))
    return _shims[0]


# -- everything else


class _Calls:
    """What stands in the place of the functions of `os`."""

    def __init__(self, root: str, disk: Disk) -> None:
        self._root, self._disk = root, disk
        self._below: dict[str, Any] = {}

    def install(self) -> None:
        for name in ("open", "write", "writev", "pwrite", "fsync", "ftruncate", "rename", "unlink", "mkdir", "rmdir"):
            self._below[name] = getattr(os, name)
            setattr(os, name, getattr(self, name))

    def remove(self) -> None:
        for name, function in self._below.items():
            setattr(os, name, function)

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        where = self._where(path, dir_fd)
        if where and flags & os.O_CREAT and not os.path.exists(where):
            self._disk.opening(where, is_new=True)
        elif where and flags & os.O_TRUNC:
            self._disk.truncating(where, 0)
        return int(self._below["open"](path, flags, mode, dir_fd=dir_fd))

    def write(self, fd: int, data: bytes) -> int:
        return self.writev(fd, [data])

    def writev(self, fd: int, buffers: Sequence[bytes]) -> int:
        if where := self._of(fd):
            data = b"".join(buffers)
            try:
                self._disk.writing(where, os.fstat(fd).st_size, data)
            except Short as short:
                return int(self._below["write"](fd, data[: short.size]))
        return int(self._below["writev"](fd, buffers))

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        if where := self._of(fd):
            try:
                self._disk.writing(where, offset, data)
            except Short as short:
                return int(self._below["pwrite"](fd, data[: short.size], offset))
        return int(self._below["pwrite"](fd, data, offset))

    def fsync(self, fd: int) -> None:
        where = self._of(fd)
        if where:
            self._disk.syncing(where)
        mark = self._disk.mark()
        self._below["fsync"](fd)
        if where:
            self._disk.synced(where, mark)

    def ftruncate(self, fd: int, size: int) -> None:
        if where := self._of(fd):
            self._disk.truncating(where, size)
        self._below["ftruncate"](fd, size)

    def rename(self, path: Any, to: Any) -> None:
        if where := self._where(path, None):
            self._disk.renaming(where, os.path.abspath(to))
        self._below["rename"](path, to)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        where = self._where(path, dir_fd)
        if where and os.path.exists(where):
            self._disk.deleting(where)
        self._below["unlink"](path, dir_fd=dir_fd)

    def mkdir(self, path: Any, mode: int = 0o777) -> None:
        where = self._where(path, None)
        if where and not os.path.exists(where):
            self._disk.making(where)
        self._below["mkdir"](path, mode)

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        if where := self._where(path, dir_fd):
            self._disk.deleting(where)
        self._below["rmdir"](path, dir_fd=dir_fd)

    def _where(self, path: Any, dir_fd: int | None) -> str:
        base = os.getcwd() if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
        where = os.path.join(base, os.fspath(path))
        return where if f"{where}/".startswith(self._root) else ""

    def _of(self, fd: int) -> str:
        status = os.fstat(fd)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            return ""
        return self._where(os.readlink(f"/proc/self/fd/{fd}"), None)


@contextlib.contextmanager
def on_disk(root: Path, disk: Disk) -> Iterator[None]:
    """Let `disk` see, and refuse, what happens to the files under `root`. One at a time."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("files are told from their descriptors through /proc")
    vfs, calls = shim(), _Calls(f"{root}/", disk)
    vfs.root, vfs.disk = f"{root}/", disk
    calls.install()
    try:
        yield
    finally:
        calls.remove()
        vfs.disk = None
