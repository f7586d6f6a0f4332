"""Streams of a given number, rate and size of events, for benchmarks: `POST /v1/responses` with the
model `demo-load`.

`metadata` gives `events` (1000), `rate` (50 a second; 0 is as fast as the connection takes them),
`size` (about so many bytes an event, 250) and `batch` (events in one chunk, 1). The stream is
`response.created`, the events, and `response.completed`; each of the events carries `sent_ns`, the
monotonic time at which it was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from time import monotonic_ns
from typing import Any

from tests.support.provider.dice import Dice
from tests.support.provider.reply import DemoReply, Headers, Step, batched

MODEL = "demo-load"
EVENTS_LIMIT = 10_000_000
SIZE_LIMIT = 2**20

_DEFAULTS = {"events": "1000", "rate": "50", "size": "250", "batch": "1"}
_STATE = (
    b'event: response.%b\ndata: {"type":"response.%b","response":{"id":"%b","object":"response",'
)
_STATE += (
    b'"created_at":%d,"status":"%b","model":"demo-load","output":[],"parallel_tool_calls":true,'
)
_STATE += b'"tool_choice":"auto","tools":[]},"sequence_number":%d}\n\n'
_DELTA = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","content_index":0,'
_DELTA += (
    b'"delta":" demo","item_id":"%b","logprobs":[],"obfuscation":"%b","output_index":0,"sent_ns":'
)
_DIGITS = 16  # of `sent_ns` and `sequence_number` together, usually


def reply(metadata: dict[str, Any], dice: Dice, headers: Headers) -> DemoReply:
    """Return the stream that `metadata` describes. Raises `ValueError` if it makes no sense."""
    wanted = {**_DEFAULTS, **metadata}
    events, size, batch = (int(wanted[name]) for name in ("events", "size", "batch"))
    rate = float(wanted["rate"])
    if not (0 <= events <= EVENTS_LIMIT and 0 <= size <= SIZE_LIMIT and batch >= 1 and rate >= 0):
        raise ValueError("metadata describes no stream: events, rate and size from 0, batch from 1")
    steps = _steps(events, 1 / rate if rate else 0.0, size, dice)
    return DemoReply(200, headers, batched(steps, batch) if batch > 1 else steps, pace=1.0)


def _steps(events: int, every_s: float, size: int, dice: Dice) -> Iterator[Step]:
    response_id, item_id = (dice.hex(prefix).encode() for prefix in ("resp_", "msg_"))
    yield Step(0.0, _state(b"created", b"in_progress", response_id, dice, 0))
    bare = len(_DELTA % (item_id, b"")) + len(b',"sequence_number":}\n\n') + _DIGITS
    head = _DELTA % (item_id, b"x" * (size - bare))
    for number in range(1, events + 1):
        yield Step(number * every_s, partial(_delta, head, number))
    yield Step(events * every_s, _state(b"completed", b"completed", response_id, dice, events + 1))


def _delta(head: bytes, number: int) -> bytes:
    return b'%b%d,"sequence_number":%d}\n\n' % (head, monotonic_ns(), number)


def _state(kind: bytes, status: bytes, response_id: bytes, dice: Dice, number: int) -> bytes:
    return _STATE % (kind, kind, response_id, dice.created, status, number)
