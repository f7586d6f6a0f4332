"""Exchanges of one chain: the stream of a model (behind) and that of the app or gateway that passed
it on (front).

Rules of this file:

* It knows no format: it reads the texts that facts have, with the events that they came in.
* A front ran when the exchange behind it began; the two are of different places. They are joined by
  the trace that both requests name, else by words that both have, each in front no earlier than
  behind.
* By words, a front is never a provider: of two models that are asked the same, one is slower. What
  an app sends to its users is in front of models, whatever the clocks say. Anything else is only in
  front of what began later.
* Times are those of the wall clock of each recorder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from recorder.diff.chain_words import Piece, Words
from recorder.model.events import Event, Exchange, RequestRecord, header
from recorder.model.facts import (
    Fact,
    ItemFinished,
    ItemKey,
    ItemStarted,
    ResponseItems,
    TextAdded,
    TextFinished,
)
from recorder.projections.fact_reader import FactReader
from recorder.wire.dialects import by_name
from recorder.wire.providers import BY_NAME

SHARED = 3  # words in a row that both have: fewer are common to any two texts of a language
LEAST_SHARED = 3  # of those, five words in all: a shorter answer may be said twice at one time
# that clocks may differ to be corrected: those that a network sets differ by a thousandth
CLOCKS_APART_NS = 10 * 10**9

TextField = Literal["text", "reasoning", "arguments"]
JoinedBy = Literal["traceparent", "text"]

_FIELDS: Mapping[str, TextField] = {
    "text": "text",
    "refusal": "text",
    "reasoning": "reasoning",
    "summary": "reasoning",
    "arguments": "arguments",
}
_TRACE = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-")  # W3C Trace Context, section 3.2.2
_request_of = msgspec.json.Decoder(RequestRecord).decode


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

    @property
    def duration_ns(self) -> int:
        return self.ended_ns - self.exchange.started_ns

    @property
    def is_of_app(self) -> bool:
        """Return whether an app or an agent sends it to its users, and no model."""
        return by_name(self.exchange.api).is_of_app

    @property
    def is_of_model(self) -> bool:
        """Return whether a provider sends it, by the name of the upstream."""
        return self.exchange.provider in BY_NAME and not self.is_of_app


class Behind(NamedTuple):
    """An exchange behind a front, and by what they are joined."""

    stream: ChainStream
    by: JoinedBy


class Link(NamedTuple):
    """A front, and what it asked, in the order in which that began."""

    front: ChainStream
    behind: list[Behind]

    @property
    def asked_ns(self) -> int:
        """Return how much later what is behind began, by the clocks."""
        return (
            min(each.stream.exchange.started_ns for each in self.behind)
            - self.front.exchange.started_ns
        )

    @property
    def ended_ns(self) -> int:
        """Return how much later the front ended, by the clocks."""
        return self.front.ended_ns - max(each.stream.ended_ns for each in self.behind)


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


class _Candidate(NamedTuple):
    """A stream, and when each row of its words came, by its hash."""

    stream: ChainStream
    rows: Mapping[int, int]


class _Fit(NamedTuple):
    """How well a front fits, better than what is less: by its trace, by its words, and as the
    innermost of several.
    """

    has_trace: bool
    has_words: bool
    nearness_ns: int
    front: ChainStream


def links(streams: Sequence[ChainStream]) -> list[Link]:
    """Return the chains: each exchange is behind the one front that fits best, the innermost of
    several.

    Clocks are only taken to differ for a front that fits nothing without it: else what was asked
    again a little later would be behind it, too.
    """
    ordered = sorted(streams, key=lambda each: each.exchange.started_ns)
    candidates = [_Candidate(each, _words_in_a_row(each)) for each in ordered]
    found: dict[str, Link] = {}
    alone = _joined(candidates, candidates, found, apart_ns=0)
    fronts = [
        each
        for each in candidates
        if each.stream.is_of_app and each.stream.exchange.exchange_id not in found
    ]
    models = [each for each in alone if not each.stream.is_of_app]
    _joined(models, fronts, found, apart_ns=CLOCKS_APART_NS)
    return sorted(found.values(), key=lambda link: link.front.exchange.started_ns)


def _joined(
    streams: Sequence[_Candidate],
    fronts: Sequence[_Candidate],
    found: dict[str, Link],
    apart_ns: int,
) -> list[_Candidate]:
    """Add those that are behind one of the fronts to what was found; return the others."""
    alone = []
    for behind in streams:
        fits = [
            fit for fit in (_fit(front, behind, apart_ns) for front in fronts) if fit is not None
        ]
        if not fits:
            alone.append(behind)
            continue
        best = max(fits, key=lambda fit: (fit.has_trace, fit.has_words, fit.nearness_ns))
        link = found.setdefault(best.front.exchange.exchange_id, Link(best.front, []))
        link.behind.append(Behind(behind.stream, "traceparent" if best.has_trace else "text"))
    return alone


def _fit(front: _Candidate, behind: _Candidate, apart_ns: int) -> _Fit | None:
    """Return how a front fits; None if it does not. `apart_ns`: how much the clocks may differ."""
    one, other = front.stream, behind.stream
    if one.place == other.place:
        return None
    asked_ns = other.exchange.started_ns - one.exchange.started_ns
    clock_ns = min(asked_ns, apart_ns)  # that may be added to the times of the front
    if asked_ns <= -apart_ns or asked_ns - clock_ns > one.duration_ns:
        return None
    has_trace = other.trace_id is not None and other.trace_id == one.trace_id
    has_words = not one.is_of_model and _has_words_of(front.rows, behind.rows, clock_ns)
    if not (has_trace or has_words):
        return None
    # Of those without a common word the outermost: an app asks several models at once, and they not
    # each other.
    return _Fit(has_trace, has_words, -abs(asked_ns) if has_words else abs(asked_ns), one)


def _words_in_a_row(stream: ChainStream) -> dict[int, int]:
    """Return when each row of words came, by its hash.

    Signs are left out, which filters of Markdown drop.
    """
    found: dict[int, int] = {}
    for field in ("text", "reasoning"):
        said = Words(stream.texts.get(field, ()))
        places = [number for number, word in enumerate(said.words) if word.isalnum()]
        words = [said.words[number].lower() for number in places]
        rows = zip(*(words[n:] for n in range(SHARED)), strict=False)
        for last, row in zip(places[SHARED - 1 :], rows, strict=True):
            found.setdefault(hash(row), said.t_ns(last))
    return found


def _has_words_of(front: Mapping[int, int], behind: Mapping[int, int], clock_ns: int) -> bool:
    """Return whether half of the shorter text is in the front, and came there no earlier than
    behind.
    """
    common = sum(front[row] + clock_ns >= behind[row] for row in front.keys() & behind.keys())
    return common >= LEAST_SHARED and 2 * common >= min(len(front), len(behind))
