"""Steps in little memory: those of one exchange in compressed pages, and what a long run has of each event as one.

An event that has values of its own, as probabilities, is a step of its own: as an object it takes three kilobytes.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

from recorder.model.packed_events import ComputedSequence, Packed


class CutText(ComputedSequence[str]):
    """A text, and where it is cut in pieces. Others are added at its end."""

    def __init__(self, pieces: Iterable[str] = ()) -> None:
        self._utf8 = bytearray()
        self._ends = array("I", [0])
        self.extend(pieces)

    def extend(self, pieces: Iterable[str]) -> None:
        """Add pieces."""
        for piece in pieces:
            self._utf8 += piece.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._utf8))

    @property
    def size_bytes(self) -> int:
        return len(self._utf8)

    def __str__(self) -> str:
        return self._utf8.decode("utf-8", "surrogatepass")

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[str]:
        return self._between(0, len(self))

    def _between(self, start: int, stop: int) -> Iterator[str]:
        for begin, end in pairwise(self._ends[start : stop + 1]):
            yield self._utf8[begin:end].decode("utf-8", "surrogatepass")


class _Sized(Protocol):
    @property
    def size_bytes(self) -> int: ...


Element = TypeVar("Element", bound=_Sized)


class PackedSteps(Packed[Element]):
    """The steps of one exchange. They are read in order, mostly: the page that was read last is held.

    They are packed as objects of this process (`pickle`), since their values are what was sent: half an emoji, a number
    of a hundred digits.
    """

    def __init__(self, steps: Iterable[Element], keys: Sequence[Callable[[Element], Hashable]] = ()) -> None:
        """Pack steps. `numbers` has the hashes of all, for each of the `keys` by which they are aligned."""
        super().__init__()
        self.numbers = [array("q") for _ in keys]
        self._replaced: dict[int, Element] = {}
        self._last: tuple[int, list[Element]] = (-1, [])
        for step in steps:
            for numbers, key in zip(self.numbers, keys, strict=True):
                numbers.append(hash(key(step)) & 2**63 - 1)  # rapidfuzz takes no negative ones
            self._add(step, step.size_bytes)
        self.pack()

    def replace(self, number: int, step: Element) -> None:
        """Put another step in the place of one."""
        self._replaced[number] = step

    def at(self, number: int) -> Element:
        """Return the step of that number."""
        if number in self._replaced:
            return self._replaced[number]
        page = self._page_of(number)
        if page != self._last[0]:
            self._last = page, self._unpacked(self._pages[page][1])
        return self._last[1][number - self._pages[page][0]]

    def _encode(self, elements: Sequence[Element]) -> bytes:
        return pickle.dumps(elements, pickle.HIGHEST_PROTOCOL)

    def _decode(self, page: bytes) -> list[Element]:
        found: list[Element] = pickle.loads(page)
        return found
