"""What a power cut leaves of a directory: all that was synced, and any part of what was not.

    drive = Drive(directory)
    with on_disk(directory, drive):
        …                                         # drive.moment() is a place in what happened
    for image in crashes(drive, moments, dice):
        image.write(somewhere)

The model is the worst that POSIX allows and disks do: writes that were not synced come through in any order, or in
part, torn at 512 bytes; a file may have its new size and zeros for what was in it; a name that was made, moved or
deleted counts when its directory was synced, or else as one of a series of which any beginning may have come through.
Bytes beside those that are written stay as they were (SQLite calls that "powersafe overwrite").
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.support.disk_faults import Disk

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
    """The files after a cut at a moment. `kept_all`: everything came through, as after `kill -9`."""

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
    """A share of what is pending comes through: nothing, everything, or so many of a hundred, each by its own luck."""
    share = dice.choice((0.0, 1.0, dice.random(), dice.random()))
    image = Image(moment, share == 1.0)
    _fill(image, "", root, share, dice)
    return image


def _fill(image: Image, prefix: str, directory: Directory, share: float, dice: random.Random) -> None:
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
