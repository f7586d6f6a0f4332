"""The decoder that those of all dialects extend: payloads → facts.

A payload is read twice at most. The few types that make up a stream have a struct of just the fields they need, and a
dialect that has some overrides `event` to try them first (`UNUSUAL` is what that may raise). Everything else, and every
delta that is not as expected, is read as plain JSON, in which any field may be missing or of any type. Nothing in here
raises, on any bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from recorder.model.facts import Fact, Failed, Malformed, RequestFacts, Unknown
from recorder.wire.dialects.json_values import Object, decoded, object_, text
from recorder.wire.dialects.keys import ERROR


class JsonDecoder(ABC):
    """A `FactDecoder` for which a dialect decodes payloads that are JSON already."""

    _data = b""  # the payload that is being decoded

    def event(self, type: str | None, data: bytes) -> Sequence[Fact]:
        """Decode an event of a stream."""
        if data.strip() == b"[DONE]":
            return ()
        return self._read(data, lambda payload: self.payload(type, payload))

    def document(self, data: bytes) -> Sequence[Fact]:
        """Decode a response body that is no stream."""
        return self._read(data, self.whole) if data.strip() else ()

    @abstractmethod
    def payload(self, type: str | None, payload: Any) -> Sequence[Fact]:
        """Decode the payload of an event, any JSON."""

    @abstractmethod
    def whole(self, payload: Any) -> Sequence[Fact]:
        """Decode a document, any JSON."""

    def _read(self, data: bytes, meaning: Callable[[Any], Sequence[Fact]]) -> Sequence[Fact]:
        self._data = data
        try:
            return meaning(decoded(data))
        except ValueError as error:
            return (Malformed(str(error)[:200]),)
        finally:
            self._data = b""


def failed(payload: Object) -> Failed:
    """Return an error in any of the shapes that providers have for it: nested, flat, a text, a list of one."""
    error = payload.get("error")
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, str):
        return Failed(text(payload.get("type")), None, error)
    details = object_(error) or payload
    kind = text(details.get("type")) or text(details.get("status"))
    code = details.get("code")
    return Failed(
        kind if kind != ERROR else None,
        None if code is None else str(code),
        text(details.get("message")),
        text(details.get("param")),
    )


def unknown(type: Any) -> Unknown:
    """Return the fact for an unknown type, as far as it has a name."""
    return Unknown(str(type)[:200] if type else "(no type)")


def no_request(path: str, body: bytes) -> RequestFacts:
    """Return no facts: `Dialect.request_facts` where requests are not understood."""
    return RequestFacts()
