"""Previews of events in a few words for a person: the text of a delta, or the beginning of a
payload.

The type of an event has its own column, so it is not repeated.
"""

from __future__ import annotations

import re

import msgspec

from recorder.model.events import BODY_KINDS, Event, payload_of
from recorder.model.facts import TextAdded
from recorder.wire.dialects import by_name
from recorder.wire.dialects.decoder import JsonDecoder

PREVIEW = 120  # characters of an event, for a person

_TYPE = re.compile(r'\{"type":"[^"]*",?')


class Previews:
    """The previews of events, which must be given in order within each exchange."""

    def __init__(self, limit: int | None = PREVIEW) -> None:
        """Take the characters that a preview may have; None is for all of an event, on one line."""
        self._limit = limit
        self._decoders: dict[str, JsonDecoder] = {}  # of the exchanges that go on

    def of(self, api: str, event: Event) -> str:
        """Return the preview of an event; `api` is that of its exchange."""
        if event.kind == "end":
            self._decoders.pop(event.exchange_id, None)
        if event.kind not in BODY_KINDS:
            return self._step(event)
        payload = payload_of(event)
        if payload is None:
            return self._begun(event.raw)
        if event.exchange_id not in self._decoders:
            self._decoders[event.exchange_id] = by_name(api).decoder()
        facts = self._decoders[event.exchange_id].event(event.type, payload)
        if added := "".join(fact.text for fact in facts if isinstance(fact, TextAdded)):
            return msgspec.json.encode(added.encode("utf-8", "replace").decode()).decode()[
                : self._limit
            ]
        return _TYPE.sub("{", self._begun(by_name(api).unwrapped(payload)), count=1)

    def _step(self, event: Event) -> str:
        if event.kind == "request" and event.type == "body":
            return self._begun(event.raw)
        if event.kind == "sent":
            return _TYPE.sub("{", self._begun(event.raw), count=1)
        try:
            step = msgspec.json.decode(event.raw, type=_PhaseStep)
        except msgspec.MsgspecError:
            return self._begun(event.raw)
        text = " ".join(
            str(each) for each in msgspec.structs.astuple(step) if each not in ("", None)
        )
        return text or self._begun(event.raw)

    def _begun(self, raw: bytes) -> str:
        """Return the beginning of bytes on one line; a type of unknown length may precede the rest."""
        if self._limit is not None:
            raw = raw[: self._limit * 4]
        return " ".join(raw.decode("utf-8", "replace").split())[: self._limit]


class _PhaseStep(msgspec.Struct, frozen=True):
    """The shown fields of an event that is not part of a body."""

    by: str = ""
    method: str = ""
    target: str = ""
    status: str | int = ""
    code: int | None = None
    reason: str = ""
