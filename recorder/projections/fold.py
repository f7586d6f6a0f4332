"""One exchange through all projections at once: events in order in, rows at any point out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, Self

import msgspec

from recorder.model.events import BODY_KINDS, Event, Exchange
from recorder.model.facts import Fact, Handler
from recorder.projections.digests import History, Prompts
from recorder.projections.exchange_facts import ExchangeFacts
from recorder.projections.exchanges import (
    exchange_rows,
    iteration_rows,
    parameter_rows,
    request_rows,
    result_rows,
    usage_rows,
    user_text_rows,
)
from recorder.projections.fact_reader import FactReader
from recorder.projections.items import Items, Phases
from recorder.projections.rows import PROJECTIONS
from recorder.wire.dialects.decoder import FastPath, common_deltas
from recorder.wire.dialects.json_values import SHALLOW

RUN = 256  # deltas that are held at once: more are not told any faster

Rows = Mapping[str, list[Any]]
"""By the name of the projection."""

RECALLED = ("items", "phases", "anomalies")
"""The projections that get the events of an earlier exchange: what a response is, not when this one
came.
"""
RECALLED_OF_HOSTED = ("facts", *RECALLED)
"""The same of a hosted session, whose turns before have tokens and ends of their own."""


_ROWS: Mapping[str, Callable[[ExchangeFacts], Iterable[msgspec.Struct]]] = {
    "exchanges": exchange_rows,
    "usage": usage_rows,
    "results": result_rows,
    "requests": request_rows,
    "user_texts": user_text_rows,
    "parameters": parameter_rows,
    "iterations": iteration_rows,
    "timing": lambda facts: facts.timing.rows(),
}
"""By name, the projections that need no more than the facts that are gathered for all. `Folding`
makes the others.
"""


class Folding:
    """The state of all projections of one exchange.

    If the exchange resumes a response of an earlier one, `recall` gets the events before its own,
    so that its items are those of the whole response.
    """

    def __init__(
        self,
        exchange: Exchange,
        reading: FactReader | None = None,
        *,
        with_history: bool = False,
        observer: Mapping[type[Fact], Handler] | None = None,
    ) -> None:
        """`with_history`: the session was found by the history that requests repeat, so that is
        projected too.

        `observer` gets the facts after all projections.
        """
        self._reading = reading or FactReader(exchange)
        self.facts = facts = ExchangeFacts(exchange)
        self.items, self.anomalies, self.timing = Items(facts), facts.anomalies, facts.timing
        # in the order in which they are told of a fact, and note anomalies
        self._folds: dict[str, Any] = {
            "items": self.items,
            "phases": Phases(facts),
            "facts": facts,
            "anomalies": self.anomalies,
            "prompts": Prompts(facts),
        }
        if with_history:
            self._folds["history"] = History(facts)
        # Nothing here leads back to this object: what is done with an exchange is gone at once,
        # without a collection.
        self._readers = {} if observer else self._reading.fast_paths()
        self._handlers = Handlers(self._folds.values(), observer or {})
        self._recall_handlers: Handlers | None = None  # few exchanges go on with another
        self._last: Event | None = None

    def recall(self, event: Event) -> None:
        """Apply an event of the same response, from an earlier exchange."""
        if self._recall_handlers is None:
            names = RECALLED_OF_HOSTED if self.facts.is_hosted else RECALLED
            self._recall_handlers = Handlers(self._folds[name] for name in names)
        event = msgspec.structs.replace(event, t_ns=0, pos=0)
        facts = (
            self._reading.document(event.raw)
            if event.kind == "body"
            else self._reading.facts(event)
        )
        self._apply(self._recall_handlers, facts, event)

    def apply(self, event: Event) -> None:
        """Apply the next event of the exchange."""
        if event.kind in BODY_KINDS:
            self.timing.event(event)
            self.anomalies.event(event)
        self._apply(self._handlers, self._reading.facts(event), event)
        self._last = event

    def apply_all(self, events: Iterable[Event]) -> None:
        """Apply the next events of the exchange, in order: deltas of one type that follow one
        another together.
        """
        for type, same in groupby(events, _type_of):
            read = self._readers.get(type)
            if read is None:
                for event in same:
                    self.apply(event)
                continue
            while run := list(islice(same, RUN)):
                payloads = _payloads(run)
                if len(payloads) == len(run) and self.anomalies.are_next(run):
                    self._tell_run(read, run, payloads)
                else:
                    for event in run:
                        self.apply(event)

    def _tell_run(self, read: FastPath, run: Sequence[Event], payloads: Sequence[bytes]) -> None:
        """Apply frames of one type: their common deltas together, each other one by itself."""
        self.timing.frames(run)
        while run:
            self._last = run[-1]
            deltas = common_deltas(read, payloads)
            self.items.add_texts(deltas, run)
            self._apply(self._handlers, self._reading.latest_usage(), self._last)
            count = len(deltas)
            for other in run[count : count + 1]:
                self._apply(self._handlers, self._reading.others(other), other)
            run, payloads = run[count + 1 :], payloads[count + 1 :]

    @property
    def holds_back(self) -> bool:
        """Return True if `rows` may have more than the projections have now: it ends what is not
        complete.
        """
        return self._reading.holds_back

    def rows_of(self, name: str) -> list[Any]:
        """Return the rows of one projection after the events so far."""
        make = _ROWS.get(name)
        return list(self._folds[name].rows() if make is None else make(self.facts))

    def copy(self) -> Self:
        """Return a copy, for a look at its rows while events follow here. It has no observer."""
        made = copy(self)
        own = {**self.__dict__, "_handlers": {}, "_recall_handlers": None}
        made.__dict__.update(deepcopy(own, {id(self): made}))
        made._handlers = Handlers(made._folds.values())
        return made

    def rows(self) -> Rows:
        """Return the rows of all projections after the events so far. No event may follow."""
        if self._last is not None:
            self._apply(self._handlers, self._reading.close(), self._last)
        self.facts.items = self.rows_of("items")
        rows: dict[str, list[Any]] = {}
        for projection in PROJECTIONS:
            name = projection.name
            if name == "items":
                rows[name] = self.facts.items
            elif name in _ROWS or name in self._folds:
                rows[name] = self.rows_of(name)
        return rows

    @staticmethod
    def _apply(handlers: Handlers, facts: Iterable[Fact], event: Event) -> None:
        for fact in facts:
            handlers[fact.__class__](fact, event)


def _payloads(events: Sequence[Event]) -> Sequence[bytes]:
    """Return the payloads of frames, of those that cannot nest too deep."""
    return [
        event.raw[start : start + length]
        for event in events
        if (start := event.data_start) is not None
        and (length := event.data_length) is not None
        and length <= SHALLOW
        and event.kind == "frame"
    ]


_type_of = attrgetter("type")


class Handlers(dict[type[Fact], Handler]):
    """The handlers of all folds joined, by the class of a fact: each when the first such fact
    comes, as few do.
    """

    def __init__(self, folds: Iterable[Any], observer: Mapping[type[Fact], Handler] = {}) -> None:
        self._wanted = [*(fold.handlers() for fold in folds), observer]

    def __missing__(self, kind: type[Fact]) -> Handler:
        """Return the handler of a fact: a subclass that no fold handles is handled as its base."""
        for each in kind.__mro__:
            found = [handlers[each] for handlers in self._wanted if each in handlers]
            if found:
                break
        return self.setdefault(kind, _together(found))


def _together(handlers: list[Handler]) -> Handler:
    """Return several handlers as one; a single one as it is, without a call more for each delta."""

    def handle(fact: Fact, event: Event) -> None:
        for each in handlers:
            each(fact, event)

    return handlers[0] if len(handlers) == 1 else handle
