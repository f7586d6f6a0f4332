"""Exchanges of one chain: the stream of a model (behind) and that of the app or gateway that passed it on (front).

Which event of the one became which of the other, word by word; which words were lost or added, and how long each took.

Rules of this file:

* It knows no format: it reads the texts that facts have, with the events that they came in.
* A front began first, and ran when the exchange behind it began; the two are of different places. They are joined by
  the trace that both requests name, else by words that both have. Times are those of the wall clock of each recorder.
* Words count, not blanks: events cut a text anywhere, and a gateway may cut it again.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Literal, NamedTuple

import msgspec

from recorder.diff.alignment import SHOWN, Stretch, numbered, stretches_of_long
from recorder.model.events import Event, Exchange, RequestRecord, header
from recorder.model.facts import Fact, ItemFinished, ItemKey, ItemStarted, ResponseItems, TextAdded, TextFinished
from recorder.projections.fact_reader import FactReader

WORDS_LIMIT = 1_000_000  # of a text: five megabytes, aligned in seconds; what comes after is not compared
SHARED = 3  # words in a row that both have: fewer are common to any two texts of a language
LEAST_SHARED = 3  # of those, five words in all: a shorter answer may be said twice at one time
MOST = 0.9  # of the longest delay: it arose where so much of it was there

TextField = Literal["text", "reasoning", "arguments"]
JoinedBy = Literal["traceparent", "text"]
Change = Literal["same", "lost", "added", "changed"]

_FIELDS: Mapping[str, TextField] = {
    "text": "text",
    "refusal": "text",
    "reasoning": "reasoning",
    "summary": "reasoning",
    "arguments": "arguments",
}
_TRACE = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-")  # W3C Trace Context, section 3.2.2
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+|[^\w\s]")
_request_of = msgspec.json.Decoder(RequestRecord).decode


class Piece(NamedTuple):
    """A piece of text, and the event that it came in."""

    exchange_id: str
    pos: int
    t_ns: int  # wall time
    text: str


class ChainStream(msgspec.Struct, frozen=True):
    """An exchange as a link of a chain: where it went, when, and what was said in it."""

    exchange: Exchange
    base_url: str | None
    trace_id: str | None
    ended_ns: int  # wall time of its last event so far
    texts: Mapping[TextField, Sequence[Piece]]

    @property
    def place(self) -> tuple[str | None, ...]:
        return self.exchange.provider, self.base_url, self.exchange.target.partition("?")[0]

    def ran_at(self, t_ns: int) -> bool:
        return self.exchange.started_ns <= t_ns <= self.ended_ns


class Behind(NamedTuple):
    """An exchange behind a front, and by what they are joined."""

    stream: ChainStream
    by: JoinedBy


class Link(NamedTuple):
    """A front, and what it asked, in the order in which that began."""

    front: ChainStream
    behind: list[Behind]


class Span(msgspec.Struct, frozen=True, gc=False):
    """Events of one exchange."""

    exchange_id: str
    "Id of the exchange, a UUIDv7."
    first: int
    "Position of the first event."
    last: int
    "Position of the last event."


class Passage(msgspec.Struct, frozen=True, gc=False):
    """Words, and the events that they came in."""

    change: Change
    "`same`; or `lost`, `added`, `changed` on the way to the front."
    behind: Span | None
    "The events behind; null for what was added."
    front: Span | None
    "The events of the front; null for what was lost."
    behind_text: str | None
    "The words behind, up to 400 characters."
    front_text: str | None
    "The words of the front, up to 400 characters."
    delay_ns: int | None
    "How much later in the front: of the word that waited longest."


class ChainText(msgspec.Struct, frozen=True):
    """A text on its way from behind to the front."""

    field: TextField
    "`text`, `reasoning`, or `arguments` of tools."
    behind_words: int
    "Words and signs behind."
    front_words: int
    "Words and signs of the front."
    same_words: int
    "Those that both have, in order."
    first_delay_ns: int | None
    "From the first word behind to the first of the front."
    longest_at: int | None
    "Place of the passage with the longest delay."
    arose_at: int | None
    "Place of the first passage with nine tenths of it: there it arose."
    is_whole: bool
    "False if a text has more than a million words: the rest is not compared."
    passages: list[Passage]
    "All passages, in order."


# -- what is said in an exchange


class ChainReader:
    """The texts of one exchange, from its events in order."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._reading = FactReader(exchange)
        self._record: RequestRecord | None = None
        self._texts: dict[tuple[TextField, ItemKey, int], list[Piece]] = {}
        self._of_user: set[ItemKey] = set()
        self._last: Event | None = None
        self.pieces = 0

    def add(self, event: Event) -> None:
        if event.kind == "request" and event.pos == 0:
            try:
                self._record = _request_of(event.raw)
            except msgspec.DecodeError:
                self._record = None  # another version wrote it otherwise
        self._last = event
        self._tell(self._reading.facts(event), event)

    def stream(self) -> ChainStream:
        """Return what was said so far. No event may follow."""
        if self._last is not None and self._last.kind not in ("end", "note"):
            self._tell(self._reading.close(), self._last)
        texts: dict[TextField, list[Piece]] = {}
        for (field, _item, _part), pieces in self._texts.items():
            texts.setdefault(field, []).extend(pieces)
        record = self._record
        trace = None if record is None else _TRACE.match(header(record.headers, "traceparent"))
        has_base = record is not None and isinstance(record.base_url, str)
        return ChainStream(
            exchange=self._exchange,
            base_url=str(record.base_url) if record is not None and has_base else None,
            trace_id=None if trace is None else trace[1],
            ended_ns=self._exchange.started_ns + (0 if self._last is None else self._last.t_ns),
            texts=texts,
        )

    def _tell(self, facts: Iterable[Fact], event: Event) -> None:
        for fact in facts:
            if isinstance(fact, TextAdded):
                self._add(fact.field, fact.item, fact.part, fact.text, event)
            elif isinstance(fact, TextFinished):
                self._state(fact.field, fact.item, fact.part, fact.text, event)
            elif isinstance(fact, ItemStarted | ItemFinished):
                if fact.stated.role == "user":  # a session of a hosted agent has both sides
                    self._of_user.add(fact.item)
                for field, part, text in fact.stated.texts:
                    self._state(field, fact.item, part, text, event)
            elif isinstance(fact, ResponseItems) and not self._texts:
                for number, item in enumerate(fact.items):
                    for field, part, text in item.texts:
                        self._state(field, number, part, text, event)

    def _state(self, field: str, item: ItemKey, part: int, text: str, event: Event) -> None:
        """Take a whole text, of which no delta came before."""
        known = _FIELDS.get(field)
        if known is not None and (known, item, part) not in self._texts:
            self._add(field, item, part, text, event)

    def _add(self, field: str, item: ItemKey, part: int, text: str, event: Event) -> None:
        known = _FIELDS.get(field)
        if known is None or not text or item in self._of_user:
            return
        pieces = self._texts.setdefault((known, item, part), [])
        apart = "" if pieces else "\n"  # a word does not go on in another text
        t_ns = self._exchange.started_ns + event.t_ns
        pieces.append(Piece(event.exchange_id, event.pos, t_ns, apart + text))
        self.pieces += 1


# -- which exchanges are of one chain


def links(streams: Sequence[ChainStream]) -> list[Link]:
    """Return the chains: each exchange is behind the one front that fits best, the innermost of several."""
    ordered = sorted(streams, key=lambda each: each.exchange.started_ns)
    shared = {each.exchange.exchange_id: _words_in_a_row(each) for each in ordered}
    found: dict[str, Link] = {}
    for number, stream in enumerate(ordered):
        best: tuple[tuple[bool, bool, int], ChainStream] | None = None
        for front in ordered[:number]:
            if not front.ran_at(stream.exchange.started_ns) or front.place == stream.place:
                continue
            has_trace = stream.trace_id is not None and stream.trace_id == front.trace_id
            has_words = _has_words_of(shared[front.exchange.exchange_id], shared[stream.exchange.exchange_id])
            # Of those without a common word the outermost: an app asks several models at once, and they not each other.
            began_ns = front.exchange.started_ns
            rank = (has_trace, has_words, began_ns if has_words else -began_ns)
            if (has_trace or has_words) and (best is None or rank > best[0]):
                best = rank, front
        if best is not None:
            (has_trace, _, _), front = best
            link = found.setdefault(front.exchange.exchange_id, Link(front, []))
            link.behind.append(Behind(stream, "traceparent" if has_trace else "text"))
    return list(found.values())


def _words_in_a_row(stream: ChainStream) -> dict[int, int]:
    """Return when each row of words came, by its hash. Signs are left out, which filters of Markdown drop."""
    found: dict[int, int] = {}
    for field in ("text", "reasoning"):
        said = _Words(stream.texts.get(field, ()))
        places = [number for number, word in enumerate(said.words) if word.isalnum()]
        words = [said.words[number].lower() for number in places]
        rows = zip(*(words[n:] for n in range(SHARED)), strict=False)
        for last, row in zip(places[SHARED - 1 :], rows, strict=True):
            found.setdefault(hash(row), said.t_ns(last))
    return found


def _has_words_of(front: dict[int, int], behind: dict[int, int]) -> bool:
    """Return whether half of the shorter text is in the front, and came there no earlier than behind."""
    common = sum(front[row] >= behind[row] for row in front.keys() & behind.keys())
    return common >= LEAST_SHARED and 2 * common >= min(len(front), len(behind))


# -- from behind to the front


def followed(link: Link) -> list[ChainText]:
    """Return each text of a link on its way."""
    found = []
    for field in ("text", "reasoning", "arguments"):
        pieces: list[Piece] = []
        for behind in link.behind:
            pieces += behind.stream.texts.get(field, ())
        if pieces:
            found.append(_text(field, _Words(pieces), _Words(link.front.texts.get(field, ()))))
    return found


class _Words:
    """The words of a text, and for each the pieces that it begins and ends in."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self._text = "".join(piece.text for piece in pieces)
        self.words: list[str] = []
        self._starts, self._ends = array("q"), array("q")
        self.first, self.last = array("q"), array("q")
        at, until = -1, 0  # the piece, and where it ends
        matches = _WORD.finditer(self._text)
        for match in islice(matches, WORDS_LIMIT):
            start, end = match.span()
            while until <= start:
                at += 1
                until += len(pieces[at].text)
            self.first.append(at)
            while until < end:
                at += 1
                until += len(pieces[at].text)
            self.last.append(at)
            self.words.append(match[0])
            self._starts.append(start)
            self._ends.append(end)
        self.is_whole = next(matches, None) is None

    def t_ns(self, word: int) -> int:
        """Return when the last character of a word came."""
        return self.pieces[self.last[word]].t_ns

    def text(self, words: range) -> str | None:
        """Return words with the blanks between them, cut to what is shown; None if there is none."""
        if not words:
            return None
        whole = self._text[self._starts[words[0]] : self._ends[words[-1]]]
        return whole if len(whole) <= SHOWN else f"{whole[:SHOWN]}…"

    def span(self, words: range) -> Span | None:
        """Return the events of words; of several exchanges those of the first."""
        if not words:
            return None
        begin, last = self.pieces[self.first[words[0]]], self.last[words[-1]]
        while self.pieces[last].exchange_id != begin.exchange_id:
            last -= 1
        return Span(begin.exchange_id, begin.pos, self.pieces[last].pos)

    def shares_event(self, word: int, before: int) -> bool:
        return self.first[word] <= self.last[before]

    def exchange_id(self, word: int) -> str:
        return self.pieces[self.first[word]].exchange_id


class _Run(msgspec.Struct):
    """A stretch, which grows while it is one of the same words in the same events."""

    is_same: bool
    behind: range
    front: range
    delay_ns: int | None = None


def _text(field: TextField, behind: _Words, front: _Words) -> ChainText:
    runs: list[_Run] = []
    same_words = 0
    for stretch in stretches_of_long(*numbered(behind.words, front.words)):
        if stretch.is_same:
            same_words += len(stretch.a)
            _add_same(runs, stretch, behind, front)
        else:
            runs.append(_Run(False, stretch.a, stretch.b))
    passages = [_passage(run, behind, front) for run in runs]
    delays = [(each.delay_ns, n) for n, each in enumerate(passages) if each.delay_ns is not None]
    longest_ns = max((delay_ns for delay_ns, _ in delays), default=0)
    late = [n for delay_ns, n in delays if delay_ns >= min(longest_ns, longest_ns * MOST)]
    return ChainText(
        field=field,
        behind_words=len(behind.words),
        front_words=len(front.words),
        same_words=same_words,
        first_delay_ns=front.t_ns(0) - behind.t_ns(0) if front.words and behind.words else None,
        longest_at=next((n for delay_ns, n in delays if delay_ns == longest_ns), None),
        arose_at=late[0] if late else None,
        is_whole=behind.is_whole and front.is_whole,
        passages=passages,
    )


def _add_same(runs: list[_Run], stretch: Stretch, behind: _Words, front: _Words) -> None:
    """Add words that both have. Those with an event in common are one run, whatever was lost between them."""
    run = next((each for each in reversed(runs) if each.is_same), None)
    for b, f in zip(stretch.a, stretch.b, strict=True):
        delay_ns = front.t_ns(f) - behind.t_ns(b)
        if run is not None and _goes_on(run, b, f, behind, front):
            run.behind, run.front = range(run.behind.start, b + 1), range(run.front.start, f + 1)
            run.delay_ns = max(delay_ns, delay_ns if run.delay_ns is None else run.delay_ns)
        else:
            run = _Run(True, range(b, b + 1), range(f, f + 1), delay_ns)
            runs.append(run)


def _goes_on(run: _Run, b: int, f: int, behind: _Words, front: _Words) -> bool:
    is_shared = behind.shares_event(b, run.behind[-1]) or front.shares_event(f, run.front[-1])
    return is_shared and behind.exchange_id(b) == behind.exchange_id(run.behind[0])


def _passage(run: _Run, behind: _Words, front: _Words) -> Passage:
    change: Change = "same"
    if not run.is_same:
        change = "added" if not run.behind else "changed" if run.front else "lost"
    spans = behind.span(run.behind), front.span(run.front)
    return Passage(change, *spans, behind.text(run.behind), front.text(run.front), run.delay_ns)
