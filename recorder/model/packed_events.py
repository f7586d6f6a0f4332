"""The events of a recording, held in compressed pages, and other sequences that are packed or
computed from them.

An event as an object takes a kilobyte, in a page a few dozen bytes: what makes most of it repeats
from one event to the next. A page is unpacked when it is read, so a reader holds one. Nothing
changes after it was added.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import eq, itemgetter
from typing import Any, Generic, TypeVar, overload

import msgspec

from recorder.model.events import Event

PAGE_EVENTS = 256
"""Events of a page: enough to be compressed well, and little to unpack for one of them."""

PAGE_BYTES = 2**20
"""Bytes of a page, passed by one event at most: a body in large pieces is not unpacked all at once.
"""

_LEVEL = 1  # of zlib: higher ones take three times the time, and save a fifth

Element = TypeVar("Element")


class ComputedSequence(Sequence[Element], Generic[Element]):
    """A sequence whose elements are made each time it is read.

    It equals any other that has the same.
    """

    @abstractmethod
    def __iter__(self) -> Iterator[Element]: ...

    @overload
    def __getitem__(self, at: int) -> Element: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Element]: ...

    def __getitem__(self, at: int | slice) -> Element | Sequence[Element]:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            return tuple(self._between(start, stop))[::step] if step > 0 else tuple(self)[at]
        number = at + len(self) if at < 0 else at
        for element in self._between(number, number + 1) if number >= 0 else ():
            return element
        raise IndexError(at)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    def _between(self, start: int, stop: int) -> Iterator[Element]:
        return islice(self, start, max(start, stop))


class Derived(ComputedSequence[Element]):
    """A sequence of known length that a function makes."""

    def __init__(self, make: Callable[[], Iterator[Element]], length: int) -> None:
        self._make, self._length = make, length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Element]:
        return islice(self._make(), self._length)


class Packed(ComputedSequence[Element]):
    """A sequence in compressed pages, to which elements are added at the end."""

    def __init__(self) -> None:
        self._pages: list[tuple[int, bytes]] = []  # each with the number of its first element
        self._open: list[Element] = []  # the last page, which is not packed yet
        self._length = self._open_bytes = 0

    @abstractmethod
    def _encode(self, elements: Sequence[Element]) -> bytes: ...

    @abstractmethod
    def _decode(self, page: bytes) -> list[Element]: ...

    def pack(self) -> None:
        """Pack the last page, although more would fit in."""
        if self._open:
            self._pages.append(
                (self._length - len(self._open), zlib.compress(self._encode(self._open), _LEVEL))
            )
            self._open, self._open_bytes = [], 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Element]:
        return self._between(0, self._length)

    def _add(self, element: Element, size_bytes: int) -> None:
        self._open.append(element)
        self._length += 1
        self._open_bytes += size_bytes
        if len(self._open) >= PAGE_EVENTS or self._open_bytes >= PAGE_BYTES:
            self.pack()

    def _between(self, start: int, stop: int) -> Iterator[Element]:
        for first, page in self._pages[max(0, self._page_of(start)) :]:
            if first >= stop:
                return
            yield from self._unpacked(page)[max(0, start - first) : stop - first]
        first = self._length - len(self._open)
        yield from self._open[max(0, start - first) : max(0, stop - first)]

    def _page_of(self, number: int) -> int:
        return bisect_right(self._pages, number, key=itemgetter(0)) - 1

    def _unpacked(self, page: bytes) -> list[Element]:
        return self._decode(zlib.decompress(page))


class PackedEvents(Packed[Event]):
    """Events of one exchange."""

    def add(self, event: Event) -> None:
        """Add the next event."""
        self._add(event, len(event.raw))

    def _encode(self, elements: Sequence[Event]) -> bytes:
        return msgspec.msgpack.encode([msgspec.structs.astuple(event) for event in elements])

    def _decode(self, page: bytes) -> list[Event]:
        return [Event(*row) for row in _decode(page)]


_decode = msgspec.msgpack.Decoder(list[list[Any]]).decode
