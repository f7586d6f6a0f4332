"""The decoder that those of all dialects extend: payloads → facts.

A payload is read twice at most. The few types that make up a stream have a struct of just the fields they need, and a
fast path each. Everything else, and every delta that is not as expected, is read as plain JSON, in which any field
may be missing or of any type. Nothing in here raises, on any bytes, but a fast path.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, ClassVar

import msgspec

from recorder.model.facts import (
    ErrorReported,
    Fact,
    MalformedPayload,
    ResponseStarted,
    TextAdded,
    TierReported,
    UnknownType,
    Usage,
)
from recorder.wire.dialects.errors import envelope_error, vendors_errors
from recorder.wire.dialects.errors import failed as failed
from recorder.wire.dialects.json_values import UNUSUAL, decoded, too_deep
from recorder.wire.dialects.unread import Content, unread

FastPath = Callable[[Iterable[bytes]], Iterable[TextAdded]]
"""The reader of the common deltas of one type of event, of payloads that do not nest too deep: a fact for each of them.
At any other payload it ends, or raises what is `UNUSUAL`: at one with a member that it does not know too, which may be
text. It changes nothing that a general reading of the same ones does not change (`test_fast_paths`).
Benchmark `fold`: 0.8 to 1.2 µs an event, and 6 to 17 µs without."""


class Common(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A part of a payload on a fast path: one that has anything else, which may be text, is not read there."""


DOCUMENT = "(document)"
"""The type of a body that is not a stream, to `JsonDecoder.contents`."""


class JsonDecoder(ABC):
    """A decoder of one response, fed with its events in order, for which a dialect decodes their JSON.

    The events may begin or end anywhere. `type` is that of the log, `data` the payload.
    """

    about: ClassVar[AbstractSet[str]] = frozenset()
    """Names of members whose texts say something of the content, and are none: ids, types, signatures."""

    _data = b""  # the payload that is being decoded
    _reported = Usage()
    _tier: str | None = None  # the last that was reported
    _started: ResponseStarted | None = None  # the same

    def fast_paths(self) -> Mapping[str | None, FastPath]:
        """Return the fast paths, by type of event."""
        return {}

    def event(self, type: str | None, data: bytes) -> Sequence[Fact]:
        """Decode an event of a stream."""
        delta = common_delta(self.fast_paths().get(type), data)
        return self.general(type, data) if delta is None else (delta, *self.latest_usage())

    def latest_usage(self) -> Sequence[Fact]:
        """Return the usage that fast paths have not read, if they have come across any."""
        return ()

    def general(self, type: str | None, data: bytes) -> Sequence[Fact]:
        """Decode an event without the fast paths."""
        if data.strip() == b"[DONE]":
            return ()
        return self._read(data, lambda payload: self._all_of(type, payload, self.payload(type, payload)))

    def document(self, data: bytes) -> Sequence[Fact]:
        """Decode a response body that is not a stream."""
        if not data.strip():
            return ()
        return self._read(data, lambda payload: self._all_of(DOCUMENT, payload, self.whole(payload)))

    @abstractmethod
    def payload(self, type: str | None, payload: Any) -> Sequence[Fact]:
        """Decode the payload of an event, any JSON."""

    def whole(self, payload: Any) -> Sequence[Fact]:
        """Decode a document, any JSON."""
        return self.payload(None, payload)

    def contents(self, type: str | None, payload: Any) -> Iterable[Content]:
        """Return the places of a payload at which all text is content, which a fact should have."""
        return ()

    def _all_of(self, type: str | None, payload: Any, facts: Sequence[Fact]) -> Sequence[Fact]:
        """Return the facts of a payload with errors that are in no field of its API, and what none of them has."""
        facts = with_errors(payload, facts)
        rest = unread(self.contents(type, payload), self.about, facts)
        return (*facts, *rest) if rest else facts

    def _fallen(self, now: Usage) -> Sequence[Fact]:
        """Return the fault of a report without input after one that had some. It counts all the same, as for SDKs.

        Other counts may become 0: of what a refusal takes back, for example, nothing is charged.
        """
        before, self._reported = self._reported, now
        is_lost = before.input_tokens and now.input_tokens == 0
        return (MalformedPayload(f"tokens: input became 0, from {before.input_tokens}"),) if is_lost else ()

    def _begun(self, response_id: str | None, model: str | None) -> Sequence[ResponseStarted]:
        """Return the beginning of a response where it is not as before: what is left out is as before."""
        before = self._started or ResponseStarted()
        now = ResponseStarted(response_id or before.response_id, model or before.model)
        is_new = now != self._started
        self._started = now
        return (now,) if is_new else ()

    def _served_at(self, tier: str | None) -> Sequence[TierReported]:
        """Return the service tier of a response, where it is not that of the report before."""
        before, self._tier = self._tier, tier or self._tier
        return (TierReported(tier),) if tier and tier != before else ()

    def _read(self, data: bytes, meaning: Callable[[Any], Sequence[Fact]]) -> Sequence[Fact]:
        self._data = data
        try:
            return meaning(decoded(data))
        except ValueError as error:
            return (MalformedPayload(str(error)[:200], len(data)),)
        finally:
            self._data = b""


_NO_ANSWER = (MalformedPayload, UnknownType)


def with_errors(payload: Any, facts: Sequence[Fact]) -> Sequence[Fact]:
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
