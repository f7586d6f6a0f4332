"""Request bodies written as recipes from earlier bodies of their session
(`recorder.model.shared_body`).

Rules of this file:

* Only the bytes of rows are known, byte for byte: their writer reports them
  (`recorder.store.bodies.rows`), and drops everything when it is in doubt. What is not known costs
  room and nothing else.
* It is cheap, since the ingester does it for each request: a body is cut where JSON has its items,
  and these are looked up whole. An unknown item is compared with the one that was in its place
  before: mostly it begins or ends like that.
* The first body of a session is not examined before there is a second.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import accumulate
from typing import NamedTuple
from uuid import UUID

from recorder.model.shared_body import RUNS, SOURCES, VERSION, Recipe, write_recipe
from recorder.wire.framing.sse import FRAME_LIMIT

LEAST_BYTES = 1024  # of a body: what is smaller is stored whole, its row has half that size anyway
SOURCE_BYTES = 4 * 2**20  # of the rows that a recipe needs, as much as a page of the log
MOST_BYTES = FRAME_LIMIT  # what bodies are cut into: what is larger comes from elsewhere
WORTH = 2  # a recipe has at most half the size of the body, or the body is stored whole
RUN_BYTES, ID_BYTES = 8, 20  # what a run and a row take in a recipe

ITEM_BYTES = 32  # of an item, at least
# that two have in common, at least: a run of less takes more in all the recipes to come
COMMON_BYTES = 512
ITEM_RUNS = 8  # of an item: one that is in more places is stored whole
SESSION_BYTES = 4 * 2**20  # twice over: what was not repeated while as much was learnt is forgotten
# of all sessions, the least recently used are forgotten: some thirty agents at once
KNOWN_BYTES = 32 * 2**20
ENTRY_BYTES, SESSION_ENTRY_BYTES = 400, 1000  # that an item and a session take besides these bytes

_ITEM = re.compile(rb"\},\s*\{")  # from one message, part or tool to the next


class Source(NamedTuple):
    """A row that holds bytes as they are, with their number."""

    exchange: bytes
    pos: int
    size_bytes: int


Run = tuple[Source | None, int, int]
"""A source, an offset in it, and a number of bytes. Without a source they are literal bytes of the
body itself.
"""


class BodyItem:
    """A piece of a body, the runs that hold it, and the item that came after it when it was seen
    last.
    """

    __slots__ = ("next", "raw", "runs")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.runs: tuple[Run, ...] = ()
        self.next: BodyItem | None = None


class SessionItems:
    """The items of a session, or of an owner in it, that its rows hold."""

    def __init__(self, waiting: tuple[bytes, Source]) -> None:
        self._young: dict[bytes, BodyItem] = {}
        self._old: dict[bytes, BodyItem] = {}
        self._sizes = [0, 0]  # of both
        self.first: dict[int, BodyItem] = {}  # of the last body in each position
        # the first body, until there is another
        self.waiting: tuple[bytes, Source] | None = waiting

    @property
    def size_bytes(self) -> int:
        return (
            sum(self._sizes) + (len(self.waiting[0]) if self.waiting else 0) + SESSION_ENTRY_BYTES
        )

    def find(self, raw: bytes) -> BodyItem | None:
        found = self._young.get(raw)
        if found is None and (found := self._old.pop(raw, None)) is not None:
            self.learn(found)
        return found

    def learn(self, item: BodyItem) -> None:
        if self._sizes[0] > SESSION_BYTES:
            for each in self._old.values():  # others may still have it next
                each.raw, each.runs, each.next = b"", (), None
            self._old, self._young = self._young, {}
            self._sizes = [0, self._sizes[0]]
        self._old.pop(item.raw, None)
        self._young[item.raw] = item
        self._sizes[0] += len(item.raw) + ENTRY_BYTES


class BodyDeduplicator:
    """The items of all sessions, with one bound; it makes recipes of them."""

    def __init__(self) -> None:
        # the last is the one that was used last
        self._sessions: OrderedDict[str, SessionItems] = OrderedDict()
        self._size_bytes = 0

    def forget(self) -> None:
        """Drop everything, because rows that were reported may not be in the log."""
        self._sessions.clear()
        self._size_bytes = 0

    def row(self, group: str, exchange_id: str, pos: int, body: bytes) -> bytes | None:
        """Return the recipe to store in place of a body, or None to store the body itself; learn it
        either way. `group` has the exchanges of a session whose rows may be used for each other.
        """
        exchange = _uuid(exchange_id)
        if exchange is None or not LEAST_BYTES <= len(body) <= MOST_BYTES:
            return None
        known = self._sessions.pop(group, None)
        if known is None:
            known, recipe = SessionItems((body, Source(exchange, pos, len(body)))), None
        else:
            self._size_bytes -= known.size_bytes
            recipe = _recipe_of(known, exchange, pos, body)
        self._sessions[group] = known
        self._size_bytes += known.size_bytes
        while self._size_bytes > KNOWN_BYTES and len(self._sessions) > 1:
            self._size_bytes -= self._sessions.popitem(last=False)[1].size_bytes
        return None if recipe is None else write_recipe(recipe)


def _recipe_of(known: SessionItems, exchange: bytes, pos: int, body: bytes) -> Recipe | None:
    if known.waiting is not None:
        (first, row), known.waiting = known.waiting, None
        _CutBody(first, known, row.pos).learn(row, is_whole=True)
    cut = _CutBody(body, known, pos)
    recipe = cut.recipe(cut.sources())
    literal = body if recipe is None else recipe.literal
    cut.learn(Source(exchange, pos, len(literal)), is_whole=recipe is None)
    return recipe


class _CutBody:
    """A body as items and as runs."""

    def __init__(self, body: bytes, known: SessionItems, pos: int) -> None:
        self._body, self._known = body, known
        self._items: list[tuple[BodyItem, int]] = []  # and where they begin
        self._runs: list[Run] = []
        self._has_dropped = False
        self._cut(pos)

    def _cut(self, pos: int) -> None:
        """Cut the body item by item: most are those that came next when the one before was seen
        last.
        """
        known, at = self._known, 0
        before, expected = BodyItem(b""), known.first.get(pos)
        head = before
        while at < len(self._body):
            item = self._item(at, expected)
            if item.runs:
                self._take(item.runs)
                expected = item.next
            else:
                expected = self._compare(item.raw, at, expected)
            if before.next is not item:
                before.next = item
            before = item
            self._items.append((item, at))
            at += len(item.raw)
        if head.next is not None:
            known.first[pos] = head.next

    def _item(self, at: int, expected: BodyItem | None) -> BodyItem:
        body = self._body
        if expected is not None and expected.raw and body.startswith(expected.raw, at):
            raw = expected.raw
        else:
            match = _ITEM.search(body, at + ITEM_BYTES)
            raw = body[at : match.end() - 1 if match else len(body)]  # to where the next brace is
        return self._known.find(raw) or BodyItem(raw)

    def _compare(self, raw: bytes, at: int, old: BodyItem | None) -> BodyItem | None:
        """Describe an unknown item by the one that was in its place; return the one that the next
        may be like.
        """
        if old is None or not old.runs:
            self._take([(None, at, len(raw))])
            return old and old.next
        limit = min(len(raw), len(old.raw))
        head = _common(raw, old.raw, limit)
        tail = _common(raw[::-1], old.raw[::-1], limit - head)
        self._take(_part(old.runs, 0, head))
        self._take([(None, at + head, len(raw) - head - tail)])
        self._take(_part(old.runs, len(old.raw) - tail, len(old.raw)))
        return old.next if tail else old

    def _take(self, runs: Iterable[Run]) -> None:
        """Add runs, and join those that follow on each other."""
        taken = self._runs
        for source, start, length in runs:
            if taken:
                last, first, size = taken[-1]
                if last is source and first + size == start:
                    taken[-1] = (source, first, size + length)
                    continue
            if length:
                taken.append((source, start, length))

    def sources(self) -> list[Source]:
        """Return the rows that the runs are taken from.

        Of too many, those that give least are dropped: what they gave becomes literal, half of the
        rows at a time, so that this does not happen with every body.
        """
        given: dict[Source, int] = {}
        for source, _, length in self._runs:
            if source is not None:
                given[source] = given.get(source, 0) + length
        if len(given) <= SOURCES and sum(source.size_bytes for source in given) <= SOURCE_BYTES:
            return list(given)
        chosen, size_bytes = [], 0
        for source in nlargest(SOURCES // 2, given, key=given.__getitem__):
            size_bytes += source.size_bytes
            if size_bytes <= SOURCE_BYTES:
                chosen.append(source)
        self._make_literal(set(chosen))
        return chosen

    def _make_literal(self, chosen: set[Source]) -> None:
        runs, self._runs, self._has_dropped = self._runs, [], True
        for (source, start, length), at in zip(runs, _places(runs), strict=True):
            self._take([(source, start, length) if source in chosen else (None, at, length)])

    def recipe(self, sources: Sequence[Source]) -> Recipe | None:
        """Return the recipe of the body, or None if it saves too little."""
        size_bytes = len(self._runs) * RUN_BYTES + len(sources) * ID_BYTES
        size_bytes += sum(length for source, _, length in self._runs if source is None)
        if len(self._runs) > RUNS or WORTH * size_bytes > len(self._body):
            return None
        numbers: dict[Source | None, int] = {
            source: number for number, source in enumerate(sources, 1)
        }
        numbers[None] = 0
        literal = b"".join(
            [
                self._body[start : start + length]
                for source, start, length in self._runs
                if not source
            ]
        )
        runs = [
            (numbers[source], start, length) for source, start, length in _placed(self._runs, None)
        ]
        return Recipe(VERSION, [(source.exchange, source.pos) for source in sources], runs, literal)

    def learn(self, row: Source, *, is_whole: bool) -> None:
        """Note that a row holds what is new: all of the body, or the literal bytes of its recipe."""
        runs: list[Run] = (
            [(row, 0, len(self._body))] if is_whole else list(_placed(self._runs, row))
        )
        places = _places(runs)
        for item, at in self._items:
            if is_whole or self._has_dropped or not item.runs:
                first = bisect_right(places, at) - 1
                start = at - places[first]
                item.runs = tuple(
                    _part(runs[first : first + ITEM_RUNS + 1], start, start + len(item.raw))
                )
                if len(item.runs) <= ITEM_RUNS:
                    self._known.learn(item)
                else:
                    item.runs = ()


def _common(a: bytes, b: bytes, limit: int) -> int:
    """Return how many bytes both begin with; 0 if they are not worth a run."""
    same, step = 0, COMMON_BYTES
    while step:
        if same + step <= limit and a[same : same + step] == b[same : same + step]:
            same, step = same + step, step * 2
        else:
            step //= 2
    return same if same >= COMMON_BYTES else 0


def _places(runs: Iterable[Run]) -> list[int]:
    """Return the offset in the body at which each run begins."""
    return list(accumulate((length for _, _, length in runs), initial=0))[:-1]


def _placed(runs: Iterable[Run], row: Source | None) -> Iterator[Run]:
    """Yield the runs; those without a source are counted from the beginning of all literal bytes,
    as `row` has them.
    """
    own = 0
    for source, start, length in runs:
        if source is None:
            yield row, own, length
            own += length
        else:
            yield source, start, length


def _part(runs: Iterable[Run], start: int, end: int) -> Iterator[Run]:
    """Yield the runs of a part of the bytes that some runs describe."""
    at = 0
    for source, begin, length in runs:
        skipped = max(0, start - at)
        taken = min(length, end - at) - skipped
        if taken > 0:
            yield source, begin + skipped, taken
        at += length


def _uuid(text: str) -> bytes | None:
    """Return the bytes of an id as the recorder makes them, or None."""
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found.bytes if str(found) == text else None
