"""What passes in a benchmark: a request, and the events of its response."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from recorder.model.events import Event, ExchangeEnd, RequestHead, ResponseHead
from recorder.model.ids import uuid7

STARTED_NS = 1_790_000_000_000_000_000
TICK_NS = 20_000_000  # between two events of a stream: 50 a second

BODY = b'{"model":"benchmark","input":"Count to a thousand, one number a line.","stream":true}'
CONTENT_TYPE = ("Content-Type", "text/event-stream; charset=utf-8")

_HEAD = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":%d,'
_ITEM = b'"item_id":"msg_68af4030baa48193b0b43b4c2a176a1a0f3ae1f7d9","output_index":0,"content_index":0,'
_REST = b'"delta":" lorem","logprobs":[],"obfuscation":"kJ8vQ","timestamp":"%b"}\n\n'
FRAME = _HEAD + _ITEM + _REST  # of a sequence number and a time of 19 digits: 270 bytes
COMPLETED = (
    b'event: response.completed\ndata: {"type":"response.completed","sequence_number":%d,'
    b'"response":{"id":"resp_1","object":"response","status":"completed"}}\n\n'
)


def frame(number: int) -> bytes:
    """The event of that number in a stream."""
    return FRAME % (number, b"%019d" % (number * TICK_NS))


def when(number: int) -> int:
    """When the event of that number comes, in nanoseconds since the exchange began."""
    return (2 + number) * TICK_NS


def make_id(number: int) -> str:
    return uuid7(STARTED_NS + number * 1_000_000, number.to_bytes(10, "big"))


def request_head(number: int) -> RequestHead:
    headers = [
        ("Host", "127.0.0.1:8787"),
        ("Content-Type", "application/json"),
        ("Accept", "text/event-stream"),
    ]
    return RequestHead(
        exchange_id=make_id(number),
        session_id=make_id(10_000 + number),
        started_ns=STARTED_NS + number,
        method="POST",
        target="/v1/responses",
        upstream="openai",
        headers=headers,
        session="benchmark",
        session_source="header",
    )


RESPONSE_HEAD = ResponseHead(200, "OK", [CONTENT_TYPE])
END = ExchangeEnd("eof")


def interleaved(streams: Sequence[Sequence[Event]]) -> Iterator[Event]:
    """One event of each in turn."""
    for turn in range(max(map(len, streams))):
        for stream in streams:
            yield from islice(stream, turn, turn + 1)
