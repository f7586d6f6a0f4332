"""Sessions in a log, made of bodies by the capture that makes all of them."""

from __future__ import annotations

from pathlib import Path

from recorder.ingest.capture import Capture
from recorder.model.events import Exchange, Outcome, Session
from recorder.model.ids import uuid7
from recorder.model.payloads import ExchangeEnd, GapRecord, RequestHead, ResponseHead
from recorder.store.writer import Store
from recorder.wire.dialects import by_name
from tests.support.empty_log import empty

HOSTILE = "\x1b]52;c;aGk=\x07\x9b31m\u202ereversed\u2066"
FRAMES = [
    b'event: response.created\ndata: {"type":"response.created","sequence_number":0}\n\n',
    b'data: {"type":"response.output_text.delta","sequence_number":1,"delta":"Hello","output_index":0}\n\n',
    b': keep-alive "quoted"\n\n',
    b'data: {"type":"response.output_text.delta","sequence_number":2,"delta":", \xc3\xa9t\xc3\xa9"}\n\n',
    b'data: {"type":"response.completed","sequence_number":3}\n\n',
]


class Recorded:
    """A log with sessions of the Responses API, each a second later than the one before."""

    def __init__(self, path: Path) -> None:
        self.path = path if path.exists() else empty(path)
        self._clock = 1_700_000_000_000_000_000

    def session(
        self, name: str, *bodies: list[bytes], gap: bool = False, ended: bool = True, outcome: Outcome = "eof"
    ) -> str:
        session_id = self._id()
        with Store(self.path) as store, store.transaction():
            store.add_session(Session(session_id, self._clock, name, "path", "{}", "live"))
            for body in bodies:
                self._exchange(store, session_id, body, gap, outcome if ended else None)
        return session_id

    def _exchange(self, store: Store, session_id: str, body: list[bytes], gap: bool, end: Outcome | None) -> None:
        exchange_id = self._id()
        head = RequestHead(exchange_id, session_id, self._clock, "POST", "/v1/responses", "openai", [])
        api = "openai-responses"
        store.add_exchange(
            Exchange(session_id, exchange_id, self._clock, "r", "openai", api, "POST", "/v1/responses", "curl")
        )
        capture = Capture(session_id, exchange_id, by_name(api), 0)
        events = capture.request(head, b'{"stream":true}', wire=b'{"stream":true}')
        events += capture.response(1_000_000, ResponseHead(200, "OK", [("content-type", "text/event-stream")]))
        for number, chunk in enumerate(body):
            events += capture.chunk((10 + number * 20) * 1_000_000, chunk)
        if gap:
            events += capture.gap(GapRecord("response", 1, 5, "", 0, 0, "the journal is at its bound"))
        if end is not None:
            events += capture.end(500_000_000, ExchangeEnd(end))
        store.append(events)
        if end is not None:
            store.projector.project(session_id, exchange_id)

    def _id(self) -> str:
        self._clock += 1_000_000_000
        return uuid7(self._clock, self._clock.to_bytes(10, "little"))
