"""The stream of an agent that its provider hosts: an event log, turn after turn, in one long GET.

What all such formats share: an event that was seen already is not told again (a connection that was
lost and opened again, and the list of earlier events, repeat some), tokens are those of all turns
so far, and a turn is an item, which ends with the tokens that it took.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec

from recorder.model.facts import (
    ErrorReported,
    Fact,
    Field,
    ItemFinished,
    ItemKey,
    ItemStarted,
    ItemState,
    MalformedPayload,
    ToolProgress,
    Usage,
    UsageReported,
)
from recorder.wire.dialects.decoder import DOCUMENT, Content, Facts, JsonDecoder, failed
from recorder.wire.dialects.json_values import Object, as_json, object_, objects, text
from recorder.wire.dialects.keys import ERROR

TURN = "turn"
"""The type of the item that a turn is."""

SEEN_LIMIT = 1_000_000
"""Ids of events that are kept, some 100 MB: a session of a year at two events a minute has as many.
"""


class HostedDecoder(JsonDecoder):
    """Follows the events of one session, from one connection or several."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._repeated: set[str | None] = set()  # ids in this payload that were seen before it
        # by what reported it: a report that comes again takes the place of itself
        self._spent: dict[str, Usage] = {}

    def contents(self, type: str | None, payload: Any) -> Iterable[Content]:
        if not isinstance(payload, dict):
            return (("", payload),)
        repeated, self._repeated = self._repeated, set()
        if type == DOCUMENT:
            listed = objects(payload, "data")
            return [("data", each) for each in listed if self.id_of(each) not in repeated]
        id = self.id_of(payload)
        return () if id is None or id in repeated else self.texts_in(payload)

    def payload(self, type: str | None, payload: Any) -> Facts:
        """Decode an event, unless it was seen."""
        if not isinstance(payload, dict):
            return (MalformedPayload("the payload is not a JSON object"),)
        type = type or text(payload, "type") or ""
        if type == ERROR:
            return (failed(payload),)
        id = self.id_of(payload)
        if id is not None:
            if id in self._seen:
                self._repeated.add(id)
                return ()
            if len(self._seen) < SEEN_LIMIT:
                self._seen.add(id)
        return self.tell(type, payload)

    def whole(self, payload: Any) -> Facts:
        """Decode a document: a list, what one request added, a session; or an error."""
        if not isinstance(payload, dict):
            return (MalformedPayload("the document is not an object"),)
        if payload.get("error") and not payload.get("id"):
            return (failed(payload),)
        facts: list[Fact] = []
        for each in objects(payload, "data"):
            facts += self.listed(each)
        return facts or self.about_session(payload)

    @abstractmethod
    def id_of(self, event: Object) -> str | None:
        """Return the id of an event, if its repetition has the same."""

    @abstractmethod
    def tell(self, type: str, event: Object) -> Facts:
        """Decode an event that is new."""

    def listed(self, each: Object) -> Facts:
        """Decode an element of a list."""
        return self.payload(text(each, "type"), each)

    def about_session(self, session: Object) -> Facts:
        """Decode a session as a document."""
        return ()

    def texts_in(self, event: Object) -> Iterable[Content]:
        """Return the places of an event at which all text is content."""
        return (("", event),)

    def spent(self, id: str, usage: Usage, raw: Object) -> UsageReported:
        """Return the tokens of all reports so far: `raw` is the last of them, and `usage` what it
        counts.
        """
        self._spent[id] = usage
        return UsageReported(summed(self._spent.values()), as_json(raw))


def is_event_of(types: Collection[str]) -> Callable[[Object], bool]:
    """Return what tells whether a payload is an event of one of these types."""
    return lambda payload: text(payload, "type") in types


def is_at_rest(
    states: Collection[str], of_rest: Collection[str]
) -> Callable[[Sequence[Object]], bool]:
    """Return what tells whether a session rests after some events: a client that leaves then misses
    nothing.
    """

    def is_last(events: Sequence[Object]) -> bool:
        types = [text(event, "type") for event in events]
        known = [type for type in types if type in states]
        return bool(known) and known[-1] in of_rest

    return is_last


def summed(reports: Iterable[Usage]) -> Usage:
    """Return the sum of the counts; None of what no report has."""
    counts: dict[str, int] = {}
    for report in reports:
        for name, count in msgspec.structs.asdict(report).items():
            if count is not None:
                counts[name] = counts.get(name, 0) + count
    return Usage(**counts)


def whole_item(key: ItemKey, stated: ItemState) -> list[Fact]:
    """Return the facts of an item that comes as a whole."""
    return [
        ItemStarted(key, None, msgspec.structs.replace(stated, texts=(), output=None)),
        ItemFinished(key, None, stated),
    ]


def progress(type: str, phase: str | None, event: Object, about: Iterable[str]) -> ToolProgress:
    """Return a step in the work, with those members of its event that say something of it."""
    told = {name: event[name] for name in about if event.get(name) is not None}
    return ToolProgress(type, phase or "", as_json(told) if told else None)


def numbered(parts: Iterable[Object]) -> tuple[tuple[Field, int, str], ...]:
    """Return the texts of parts, each with its number."""
    found: list[tuple[Field, int, str]] = []
    for number, part in enumerate(parts):
        said = text(part, "text")
        if said is not None:
            found.append(("text", number, said))
    return tuple(found)


def error_in(holder: Object) -> ErrorReported | None:
    """Return the error that a session or a turn has."""
    error = holder.get("error")
    if isinstance(error, str) and error:
        return ErrorReported(message=error)
    return failed({"error": error}) if object_(error) else None
