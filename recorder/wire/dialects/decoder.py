"""The decoder that those of all dialects extend: payloads → facts.

A payload is read twice at most. The few types that make up a stream have a struct of just the
fields they need, and a fast path each. Everything else, and every delta that is not as expected, is
read as plain JSON, in which any field may be missing or of any type. Nothing in here raises, on any
bytes, but a fast path.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, ClassVar

import msgspec

from recorder.model.facts import (
    AnnotationAdded,
    ErrorReported,
    Fact,
    ItemFinished,
    ItemStarted,
    ItemState,
    MalformedPayload,
    ResponseFinished,
    ResponseItems,
    ResponseStarted,
    TextAdded,
    TextFinished,
    TierReported,
    ToolResult,
    UnknownType,
    UnreadText,
    Usage,
)
from recorder.wire.dialects.errors import envelope_error, vendors_errors
from recorder.wire.dialects.errors import failed as failed
from recorder.wire.dialects.json_values import UNUSUAL, as_json, decoded, too_deep

Facts = Sequence[Fact]
"""What a payload says."""

FastPath = Callable[[Iterable[bytes]], Iterable[TextAdded]]
"""The reader of the common deltas of one type of event, of payloads that do not nest too deep: a
fact for each of them. At any other payload it ends, or raises what is `UNUSUAL`: at one with a
member that it does not know too, which may be text. It changes nothing that a general reading of
the same ones does not change (`test_fast_paths`). Benchmark `fold`: 0.8 to 1.2 µs an event, and 6
to 17 µs without."""


class Common(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A part of a payload on a fast path: one that has anything else, which may be text, is not
    read there.
    """


Content = tuple[str, Any]
"""A place in a payload that has content, and the value there."""

DOCUMENT = "(document)"
"""The type of a body that is not a stream, to `JsonDecoder.contents`."""


class JsonDecoder(ABC):
    """A decoder of one response, fed with its events in order, for which a dialect decodes their
    JSON.

    The events may begin or end anywhere. `type` is that of the log, `data` the payload.
    """

    about: ClassVar[AbstractSet[str]] = frozenset()
    """Names of members whose texts say something of the content, and are none: ids, types,
    signatures.
    """

    _data = b""  # the payload that is being decoded
    _reported = Usage()
    _tier: str | None = None  # the last that was reported
    _started: ResponseStarted | None = None  # the same

    def fast_paths(self) -> Mapping[str | None, FastPath]:
        """Return the fast paths, by type of event."""
        return {}

    def event(self, type: str | None, data: bytes) -> Facts:
        """Decode an event of a stream."""
        delta = common_delta(self.fast_paths().get(type), data)
        return self.general(type, data) if delta is None else (delta, *self.latest_usage())

    def latest_usage(self) -> Facts:
        """Return the usage that fast paths have not read, if they have come across any."""
        return ()

    def general(self, type: str | None, data: bytes) -> Facts:
        """Decode an event without the fast paths."""
        if data.strip() == b"[DONE]":
            return ()
        return self._read(
            data, lambda payload: self._all_of(type, payload, self.payload(type, payload))
        )

    def document(self, data: bytes) -> Facts:
        """Decode a response body that is not a stream."""
        if not data.strip():
            return ()
        return self._read(
            data, lambda payload: self._all_of(DOCUMENT, payload, self.whole(payload))
        )

    @abstractmethod
    def payload(self, type: str | None, payload: Any) -> Facts:
        """Decode the payload of an event, any JSON."""

    def whole(self, payload: Any) -> Facts:
        """Decode a document, any JSON."""
        return self.payload(None, payload)

    def request(self, data: bytes) -> Facts:
        """Decode what a request says of the items of its response, where it is one of them itself."""
        return ()

    def sent(self, type: str | None, data: bytes) -> Facts:
        """Decode a message of the client, behind the request."""
        return ()

    def contents(self, type: str | None, payload: Any) -> Iterable[Content]:
        """Return the places of a payload at which all text is content, which a fact should have."""
        return ()

    def _all_of(self, type: str | None, payload: Any, facts: Facts) -> Facts:
        """Return the facts of a payload with errors that are in no field of its API, and what none
        of them has.
        """
        facts = with_errors(payload, facts)
        rest = unread(self.contents(type, payload), self.about, facts)
        return (*facts, *rest) if rest else facts

    def _fallen(self, now: Usage) -> Facts:
        """Return the fault of a report without input after one that had some.

        It counts all the same, as for SDKs.

        Other counts may become 0: of what a refusal takes back, for example, nothing is charged.
        """
        before, self._reported = self._reported, now
        is_lost = before.input_tokens and now.input_tokens == 0
        return (
            (MalformedPayload(f"tokens: input became 0, from {before.input_tokens}"),)
            if is_lost
            else ()
        )

    def _begun(self, response_id: str | None, model: str | None) -> Sequence[ResponseStarted]:
        """Return the beginning of a response where it is not as before: what is left out is as
        before.
        """
        before = self._started or ResponseStarted()
        now = ResponseStarted(response_id or before.response_id, model or before.model)
        is_new = now != self._started
        self._started = now
        return (now,) if is_new else ()

    def _served_at(self, tier: str | None) -> Sequence[TierReported]:
        """Return the service tier of a response, where it is not that of the report before."""
        before, self._tier = self._tier, tier or self._tier
        return (TierReported(tier),) if tier and tier != before else ()

    def _read(self, data: bytes, meaning: Callable[[Any], Facts]) -> Facts:
        self._data = data
        try:
            return meaning(decoded(data))
        except ValueError as error:
            return (MalformedPayload(str(error)[:200], len(data)),)
        finally:
            self._data = b""


_NO_ANSWER = (MalformedPayload, UnknownType)


def with_errors(payload: Any, facts: Facts) -> Facts:
    """Return the facts of a payload, with the errors that are in none of its API's own fields."""
    if any(isinstance(fact, ErrorReported) for fact in facts):
        return facts
    errors = [*vendors_errors(payload)]
    if not all(isinstance(fact, _NO_ANSWER) for fact in facts):
        return [*facts, *errors] if errors else facts
    error = envelope_error(payload) if facts and not errors else None
    # That nobody knows the payload is what its error says already.
    return errors or (facts if error is None else [error])


def common_deltas(read: FastPath, payloads: Iterable[bytes]) -> list[TextAdded]:
    """Return the deltas that payloads are, up to the first that is none, or is not a common one."""
    found: list[TextAdded] = []
    with suppress(*UNUSUAL):
        found.extend(read(payloads))  # what was read before an exception stays there
    return found


def common_delta(read: FastPath | None, data: bytes) -> TextAdded | None:
    """Return the delta that a payload is, if it is a common one."""
    if read is None or too_deep(data):
        return None
    return next(iter(common_deltas(read, (data,))), None)


def unknown(type: Any) -> UnknownType:
    """Return the fact for an unknown type, as far as it has a name."""
    return UnknownType(str(type)[:200] if type else "(no type)")


# -- what of a payload no fact has: the text that a decoder passed over, by its place

# One look at all that a decoder returned, in place of a report at each branch that does not
# understand: whatever a vendor invents, and whatever has a type that it should not have, is either
# in a fact or named here.

SEARCH_LIMIT = 64 * 2**20
"""Characters that are searched for the texts of one payload, some tens of milliseconds. A text that
is not looked for any more counts as unread: an anomaly too many is better than one too few."""


def unread(contents: Iterable[Content], about: AbstractSet[str], facts: Facts) -> list[UnreadText]:
    """Return the text in `contents` that none of the facts has.

    Members named in `about` are not content.
    """
    texts: list[tuple[str, str]] = []
    for place, content in contents:
        _gather(place, content, about, texts)
    if not texts:
        return []
    sizes: dict[str, int] = {}
    told = _Told(facts)
    for place, text in texts:
        if not told.has(text):
            sizes[place] = sizes.get(place, 0) + len(text)
    return [UnreadText(place, characters) for place, characters in sizes.items()]


def _gather(place: str, value: Any, about: AbstractSet[str], texts: list[tuple[str, str]]) -> None:
    """Add the texts in a value, however deep, with their places.

    What a `data:` URL holds is not a text.
    """
    if isinstance(value, str):
        if value and not value.startswith("data:"):
            texts.append((place, value))
    elif isinstance(value, list):
        for each in value:
            _gather(place, each, about, texts)
    elif isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, _WITH_TEXT) and name not in about and not _is_reference(name, each):
                _gather(f"{place}.{name}" if place else name, each, about, texts)


_WITH_TEXT = (str, dict, list)


def _is_reference(name: str, value: Any) -> bool:
    """Return whether a member is an id, a time, or the name of a tool, which is repeated or that of
    an item.
    """
    return name.endswith(("_id", "_at")) or (name == "name" and isinstance(value, str))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)


_EXACT: Mapping[type[Fact], Sequence[str]] = {
    TextAdded: ("text",),
    TextFinished: ("text", "name"),
    ToolResult: ("name",),
    ErrorReported: ("type", "code", "message", "param"),
    ResponseFinished: ("reason",),
}
"""The members of facts that have a text as it was sent."""


class _Told:
    """The texts of the facts of a payload: `exact` ones, and what has several of them, or has them
    in JSON.
    """

    def __init__(self, facts: Facts) -> None:
        self._exact: set[str | None] = set()
        self._joined: list[str] = []
        self._searched = ""
        self._budget = SEARCH_LIMIT
        for fact in facts:
            self._add(fact)

    def has(self, text: str) -> bool:
        """Return whether a fact has a text, as it is or in JSON."""
        if text in self._exact:
            return True
        if self._joined:
            self._split()
        return text in self._exact or self._is_found(text)

    def _split(self) -> None:
        """Take the texts out of all that is JSON.

        The rest is searched: several texts as one, and pieces of JSON.
        """
        for each in self._joined:
            if each.startswith(("{", "[")):
                with suppress(ValueError):
                    self._exact.update(_leaves(decoded(each.encode())))
        self._searched = "\n".join(self._joined)
        self._joined.clear()

    def _is_found(self, text: str) -> bool:
        self._budget -= len(self._searched)
        if self._budget < 0:
            return False
        return text in self._searched or as_json(text)[1:-1] in self._searched

    def _add(self, fact: Fact) -> None:
        self._exact.update(getattr(fact, name) for name in _EXACT.get(fact.__class__, ()))
        match fact:
            case TextAdded(field="arguments"):
                self._joined.append(fact.text)
            case AnnotationAdded():
                self._joined.append(fact.annotation)
            case ToolResult():
                self._joined.append(fact.output)
            case ItemStarted() | ItemFinished():
                self._add_stated(fact.stated)
            case ResponseItems():
                for stated in fact.items:
                    self._add_stated(stated)

    def _add_stated(self, stated: ItemState) -> None:
        self._exact |= {stated.name, stated.status, stated.phase}
        self._joined += [
            *(text for _, _, text in stated.texts),
            *stated.annotations,
            stated.output or "",
        ]
