"""A hand on every write, sync, truncation and deletion of a disk: of SQLite through a VFS, of all
others through `os`.

    with on_disk(directory, disk):      # everything under `directory` passes `disk`, which may raise `OSError`
        …the product, unchanged…

The VFS is put into the very SQLite that the `sqlite3` module uses, so neither the product nor its
driver is replaced. It calls the one it stands before; a `Disk` only looks on, or refuses.
"""

from __future__ import annotations

import _sqlite3
import contextlib
import ctypes
import errno
import os
import random
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SHORT = -1  # as an error: there is room for half of a write

OK, FULL, IOERR = 0, 13, 10
IOERR_WRITE, IOERR_FSYNC, IOERR_TRUNCATE, IOERR_DELETE = (
    IOERR | each << 8 for each in (3, 4, 6, 10)
)
OPEN_JOURNALS = 0x00000800 | 0x00004000 | 0x00080000  # main journal, super-journal, WAL


class Disk:
    """Looks on.

    Each method is called before the thing is done; an `OSError` from it means that it is not done.
    """

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
    """Refuses the k-th write, sync, truncation or new name of the files that `concerns` says, once
    or until healed.
    """

    def __init__(
        self, concerns: Callable[[str], bool], at: int, error: int, *, for_good: bool = False
    ) -> None:
        self._concerns, self._at, self._error, self._for_good = concerns, at, error, for_good
        self.count = self.refused = 0
        self._healed = False

    def heal(self) -> None:
        """There is room again."""
        self._healed = self.refused > 0

    def writing(self, path: str, offset: int, data: bytes) -> None:
        if self._refuses(path):
            raise (
                Short(len(data) // 2)
                if self._error == SHORT
                else OSError(self._error, os.strerror(self._error))
            )

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
    """A VFS before the default one.

    Once registered it stays, and lets everything pass when there is no disk.
    """

    def __init__(self, library: Any) -> None:
        library.sqlite3_vfs_find.restype = POINTER(_Vfs)
        self.disk: Disk | None = None
        self.root = ""
        self._paths: dict[int, str] = {}
        # journals whose entry in the directory their first sync will bring to the disk
        self._fresh: set[str] = set()
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
            return int(
                self._below.contents.xOpen(
                    ctypes.addressof(self._below.contents), name, file, flags, out
                )
            )
        is_new = not os.path.exists(path)
        if is_new and (code := self._refused(IOERR, lambda disk: disk.opening(path, is_new=True))):
            return code
        code = int(
            self._below.contents.xOpen(
                ctypes.addressof(self._below.contents), name, file, flags, out
            )
        )
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
        code = self._refused(
            IOERR_WRITE, lambda disk: disk.writing(self._paths[file], offset, content)
        )
        return code or int(below.xWrite(file, data, size, offset))

    def _truncate(self, below: _Methods, file: int, size: int) -> int:
        code = self._refused(IOERR_TRUNCATE, lambda disk: disk.truncating(self._paths[file], size))
        return code or int(below.xTruncate(file, size))

    def _sync(self, below: _Methods, file: int, flags: int) -> int:
        path, disk = self._paths[file], self.disk
        mark = disk.mark() if disk else 0
        code = self._refused(IOERR_FSYNC, lambda disk: disk.syncing(path)) or int(
            below.xSync(file, flags)
        )
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
        code = int(
            self._below.contents.xDelete(
                ctypes.addressof(self._below.contents), name, sync_directory
            )
        )
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
    """The VFS, registered with the SQLite of the `sqlite3` module.

    Skips the test where that cannot be reached.
    """
    if not _shims:
        try:
            library = ctypes.CDLL(_sqlite3.__file__)
            library.sqlite3_libversion.restype = c_char_p
            assert library.sqlite3_libversion().decode() == sqlite3.sqlite_version
        except (AttributeError, OSError, AssertionError):
            pytest.skip(
                "the SQLite of this Python is not a library that a VFS can be registered with"
            )
        _shims.append(_Shim(library))
    return _shims[0]


# -- everything else


class _Calls:
    """What stands in the place of the functions of `os`."""

    def __init__(self, root: str, disk: Disk) -> None:
        self._root, self._disk = root, disk
        self._below: dict[str, Any] = {}

    def install(self) -> None:
        for name in (
            "open",
            "write",
            "writev",
            "pwrite",
            "fsync",
            "ftruncate",
            "rename",
            "unlink",
            "mkdir",
            "rmdir",
        ):
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


# -- What a power cut leaves of a directory: all that was synced, and any part of what was not


SECTOR = 512


class File:
    """Of a file: what is on the disk for sure, and what is on its way there."""

    def __init__(self) -> None:
        self.durable = bytearray()
        self.pending: list[Write | Truncate] = []


class Directory:
    """The same of a directory: names, and changes to them in their order."""

    def __init__(self) -> None:
        self.durable: dict[str, Node] = {}
        self.pending: list[Names] = []


Node = File | Directory


class Write(NamedTuple):
    at: int
    file: File
    offset: int
    data: bytes


class Truncate(NamedTuple):
    at: int
    file: File
    size: int


class Names(NamedTuple):
    at: int
    directory: Directory
    changes: dict[str, Node | None]


class Synced(NamedTuple):
    at: int
    node: Node
    mark: int  # what came before that moment is on the disk


Step = Write | Truncate | Names | Synced


class Drive(Disk):
    """Keeps what happens to the files under a directory."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self.steps: list[Step] = []
        self.root = Directory()
        self._now: dict[str, Node] = {self._root: self.root}
        self._sizes: dict[str, int] = {}

    def moment(self) -> int:
        """How much has happened so far."""
        return len(self.steps)

    mark = moment

    def opening(self, path: str, *, is_new: bool) -> None:
        self._now[path] = File()
        self._sizes[path] = 0
        self._name({path: self._now[path]})

    def making(self, path: str) -> None:
        self._now[path] = Directory()
        self._name({path: self._now[path]})

    def deleting(self, path: str) -> None:
        self._now.pop(path)
        self._name({path: None})

    def renaming(self, path: str, to: str) -> None:
        self._catch_up(path)
        self._now[to], self._sizes[to] = self._now.pop(path), self._sizes.pop(path)
        self._name({path: None, to: self._now[to]})

    def writing(self, path: str, offset: int, data: bytes) -> None:
        self._sizes[path] = max(self._sizes[path], offset + len(data))
        self.steps.append(Write(self.moment(), self._file(path), offset, data))

    def truncating(self, path: str, size: int) -> None:
        self._sizes[path] = size
        self.steps.append(Truncate(self.moment(), self._file(path), size))

    def syncing(self, path: str) -> None:
        self._catch_up(path)

    def synced(self, path: str, mark: int) -> None:
        if path in self._now:
            self.steps.append(Synced(self.moment(), self._now[path], mark))

    def _catch_up(self, path: str) -> None:
        """Python's file objects write by themselves: what they appended is seen here."""
        if isinstance(self._now.get(path), File) and os.path.getsize(path) > self._sizes[path]:
            with open(path, "rb") as file:
                file.seek(self._sizes[path])
                self.writing(path, self._sizes[path], file.read())

    def _file(self, path: str) -> File:
        node = self._now[path]
        assert isinstance(node, File)
        return node

    def _name(self, changes: dict[str, Node | None]) -> None:
        parent = self._now[os.path.dirname(next(iter(changes)))]
        assert isinstance(parent, Directory)
        named = {os.path.basename(path): node for path, node in changes.items()}
        self.steps.append(Names(self.moment(), parent, named))


@dataclass
class Image:
    """The files after a cut at a moment.

    `kept_all`: everything came through, as after `kill -9`.
    """

    moment: int
    kept_all: bool
    files: dict[str, bytes] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)

    def write(self, root: Path) -> None:
        for name in ("", *self.directories):
            (root / name).mkdir(exist_ok=True)
        for name, data in self.files.items():
            (root / name).write_bytes(data)


def crashes(drive: Drive, moments: Iterable[int], dice: random.Random) -> Iterator[Image]:
    """An image for each of those moments, in their order."""
    done = 0
    for moment in sorted(moments):
        for step in drive.steps[done:moment]:
            _happen(step)
        done = moment
        yield _image(drive.root, moment, dice)


def _happen(step: Step) -> None:
    match step:
        case Write(file=file) | Truncate(file=file):
            file.pending.append(step)
        case Names(directory=directory):
            directory.pending.append(step)
        case Synced(node=File() as file, mark=mark):
            for pending in (each for each in file.pending if each.at < mark):
                _apply(pending, file.durable)
            file.pending = [each for each in file.pending if each.at >= mark]
        case Synced(node=Directory() as directory, mark=mark):
            for names in (each for each in directory.pending if each.at < mark):
                _rename(names, directory.durable)
            directory.pending = [each for each in directory.pending if each.at >= mark]


def _apply(step: Write | Truncate, content: bytearray) -> None:
    size = step.size if isinstance(step, Truncate) else step.offset
    if isinstance(step, Truncate):
        del content[size:]
    content.extend(bytes(max(0, size - len(content))))
    if isinstance(step, Write):
        content[size : size + len(step.data)] = step.data


def _rename(step: Names, names: dict[str, Node]) -> None:
    for name, node in step.changes.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _image(root: Directory, moment: int, dice: random.Random) -> Image:
    """A share of what is pending comes through: nothing, everything, or so many of a hundred, each
    by its own luck.
    """
    share = dice.choice((0.0, 1.0, dice.random(), dice.random()))
    image = Image(moment, share == 1.0)
    _fill(image, "", root, share, dice)
    return image


def _fill(
    image: Image, prefix: str, directory: Directory, share: float, dice: random.Random
) -> None:
    names = dict(directory.durable)
    for step in directory.pending[: round(share * len(directory.pending))]:
        _rename(step, names)
    for name, node in names.items():
        if isinstance(node, File):
            image.files[prefix + name] = _content(node, share, dice)
        else:
            image.directories.append(prefix + name)
            _fill(image, f"{prefix}{name}/", node, share, dice)


def _content(file: File, share: float, dice: random.Random) -> bytes:
    content, size = bytearray(file.durable), len(file.durable)
    own = share if share in (0.0, 1.0) else dice.choice((0.0, share, 1.0))
    for step in file.pending:
        for piece in _pieces(step):
            if dice.random() < own:
                _apply(piece, content)
        size = step.size if isinstance(step, Truncate) else max(size, step.offset + len(step.data))
    if len(content) < size and own not in (0.0, 1.0) and dice.random() < 0.5:
        content.extend(bytes(size - len(content)))
    return bytes(content)


def _pieces(step: Write | Truncate) -> Iterator[Write | Truncate]:
    """The sectors of a write."""
    if isinstance(step, Truncate):
        yield step
        return
    start, end = step.offset, step.offset + len(step.data)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        yield Write(step.at, step.file, start, step.data[start - step.offset : stop - step.offset])
        start = stop
