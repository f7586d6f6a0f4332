"""The redaction of recordings before they are written: without what a project calls private, or not written at all.

Rules of this file:

* A private value is taken out of a request. A response that repeats it as a text of its JSON has `REDACTED` there, too.
* Then no value that was taken out of any of the exchanges is left in what is to be written, in no spelling, nor in the
  texts that its deltas make together. If that cannot be made sure of, nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from hashlib import sha256

import msgspec

from recorder.cassettes.sse_jsonl.header import header_line
from recorder.cassettes.sse_jsonl.taken import without_spans
from recorder.cassettes.sse_jsonl.writer import exchange_lines, form_of, usual_keys
from recorder.errors import RecorderError
from recorder.model.events import BODY_KINDS, Event, Exchange, Session
from recorder.model.payloads import EndRecord, RequestRecord, ResponseHead
from recorder.model.recording import Recording
from recorder.recordings.session import projected
from recorder.replay.matching import MatchRequest
from recorder.testing.bodies import UnreadableError
from recorder.testing.private import PrivateValues
from recorder.testing.redactions import Redactions
from recorder.wire.sse import FRAME_LIMIT

Rows = tuple[Exchange, Sequence[Event]]  # of one exchange, as the log has them

SEND = "Send JSON or a form, as it is or in one coding, or leave that out of the test"
RECEIVE = "Ask for a response in no coding, or leave that out of the test"

_COLUMNS = (
    "client",
    "client_version",
    "thread_id",
    "turn_id",
    "resumes_response_id",
)  # of an exchange: from its request


def redacted_rows(session: Session, recordings: Sequence[Recording], redactions: Redactions) -> list[Rows]:
    """Return the rows of recordings as they may be written. Raises `RecorderError` if they cannot be redacted."""
    rows: list[Rows] = [(each.exchange, each.events) for each in recordings]
    if redactions.are_none:
        return rows
    private = PrivateValues()
    with_request = [_redact_request(number, *each, redactions, private) for number, each in enumerate(rows, 1)]
    if line := private.line_of(header_line(session)):
        raise RecorderError(
            f"What recorder_redact takes out by {line} is in the name of the test: give it another one."
        )
    redacted = [_redact_response(*each, private) for each in with_request]
    for number, each in enumerate(redacted, 1):
        _check(number, *each, private)
    return redacted


def _redact_request(
    number: int, exchange: Exchange, events: Sequence[Event], redactions: Redactions, private: PrivateValues
) -> Rows:
    """Redact the heads and the request of an exchange; collect the private values."""
    of_request = [event for event in events if event.kind == "request"]
    record = msgspec.json.decode(of_request[0].raw, type=RequestRecord)
    body = b"".join(event.raw for event in of_request[1:])
    if record.undecoded and redactions.are_of_bodies:
        raise _refused(number, exchange, f"its request body cannot be decoded ({record.undecoded})", SEND)
    try:
        cleared, found = redactions.cleared(
            MatchRequest(record.method, record.target, record.upstream, record.headers, body)
        )
    except UnreadableError as error:
        raise _refused(number, exchange, f"its request body {error}", SEND) from None
    rest = [_response_head(each, redactions, private) for each in events if each.kind != "request"]
    for line, value in found:
        private.add(line, value)
    if found:
        of_request = _request_events(of_request, record, cleared, as_sent=cleared.body == body)
    return msgspec.structs.replace(exchange, target=cleared.target), [*of_request, *rest]


def _request_events(
    events: Sequence[Event], record: RequestRecord, cleared: MatchRequest, *, as_sent: bool
) -> list[Event]:
    """Return the events of a redacted request. A body that was changed is not coded."""
    record = msgspec.structs.replace(record, target=cleared.target, headers=cleared.headers)
    if as_sent:
        return [_with(events[0], record), *events[1:]]
    size, digest = len(cleared.body), sha256(cleared.body).hexdigest()
    headers = [each for each in cleared.headers if each[0].lower() != "content-encoding"]
    sums = {"wire_bytes": size, "body_bytes": size, "wire_sha256": digest}
    parts = [cleared.body[at : at + FRAME_LIMIT] for at in range(0, size, FRAME_LIMIT)]
    body = [msgspec.structs.replace(events[1], raw=part) for part in parts]
    return [_with(events[0], msgspec.structs.replace(record, headers=headers, **sums)), *body]


def _response_head(event: Event, redactions: Redactions, private: PrivateValues) -> Event:
    if event.kind != "response":
        return event
    head = msgspec.json.decode(event.raw, type=ResponseHead)
    headers, found = redactions.values(head.headers)
    for line, value in found:
        private.add(line, value)
    return _with(event, msgspec.structs.replace(head, headers=headers)) if found else event


def _redact_response(exchange: Exchange, events: Sequence[Event], private: PrivateValues) -> Rows:
    """Replace the private values that a response repeats, and leave out the columns that have one."""
    columns = {name: text for name, text in msgspec.structs.asdict(exchange).items() if name in _COLUMNS}
    exchange = msgspec.structs.replace(
        exchange, **{name: None for name, text in columns.items() if text and private.is_part(text)}
    )
    pieces = [event.raw for event in events if event.kind in BODY_KINDS]
    if spans := private.echoes(b"".join(pieces)):
        events = without_spans(events, spans, partial(usual_keys, exchange, form_of(events)))
    return exchange, [msgspec.structs.replace(event, pos=pos) for pos, event in enumerate(events)]


def _check(number: int, exchange: Exchange, events: Sequence[Event], private: PrivateValues) -> None:
    """Raise `RecorderError` if a private value is left, or could be where it cannot be looked for."""
    if private.is_empty:
        return
    request = [event.raw for event in events if event.kind == "request"]
    response = [event.raw for event in events if event.kind in BODY_KINDS]
    ends = [msgspec.json.decode(event.raw, type=EndRecord) for event in events if event.kind == "end"]
    for undecoded in (each.undecoded for each in ends if each.undecoded):
        raise _refused(number, exchange, f"its response cannot be decoded ({undecoded})", RECEIVE)
    record = msgspec.json.decode(events[0].raw, type=RequestRecord)
    if record.undecoded:
        raise _refused(number, exchange, f"its request body cannot be decoded ({record.undecoded})", SEND)
    items = projected(exchange, events)["items"]
    texts_of_items = msgspec.json.encode([[item.text, item.arguments, item.name] for item in items])
    places = {
        "its request": (b"".join(request),),
        "its response": (b"".join(response), texts_of_items),
        "what is said about it": tuple(exchange_lines(number, exchange, events)),
    }
    for place, texts in places.items():
        if line := private.line_of(*texts):
            why = f"{place} still has what {line} takes out elsewhere"
            raise _refused(
                number, exchange, why, "Name that place in recorder_redact too, or have something else there"
            )


def _refused(number: int, exchange: Exchange, why: str, what_to_do: str) -> RecorderError:
    name = f"Exchange {number} ({exchange.method} to {exchange.provider})"
    return RecorderError(f"{name} cannot be redacted, so nothing was written: {why}. {what_to_do}.")


def _with(event: Event, record: msgspec.Struct) -> Event:
    return msgspec.structs.replace(event, raw=msgspec.json.encode(record))
