"""ST: the stream as such, whatever its events mean. Faults that break readers of server-sent
events.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from recorder.lint.rule import Faults, rules
from recorder.lint.stream import StreamBlock, StreamView
from recorder.model.events import WEBSOCKET
from recorder.wire.dialects import by_name
from recorder.wire.dialects.json_values import object_
from recorder.wire.framing.sse import BOM, parse
from recorder.wire.spoken import SpokenDialect

PROXY_SILENCE_NS = 60_000_000_000
"""What common proxies wait for the next byte: nginx `proxy_read_timeout`, AWS ALB idle timeout."""

CODEX_SILENCE_NS = 300_000_000_000
"""What Codex waits for the next event: `DEFAULT_STREAM_IDLE_TIMEOUT_MS`."""

OTHER_API = "ST012"
"""The rule that makes all others pointless: they are those of the API that the path says."""

_SECOND_NS = 1_000_000_000
_SHOWN = 60  # bytes of a line
_LINE = re.compile(rb"[^\r\n]+")
_FIELDS = (b"event", b"data", b"id", b"retry", b"")  # the last: a comment


def is_done_mark(frame: StreamBlock) -> bool:
    """Return whether a frame is `data: [DONE]`."""
    return frame.data is not None and frame.data.strip() == b"[DONE]"


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _foreign_lines(frame: StreamBlock) -> Iterable[bytes]:
    lines = _LINE.findall(frame.raw.removeprefix(BOM))
    return (line for line in lines if line.partition(b":")[0] not in _FIELDS)


class SseWalk:
    """Follows the blocks of a stream, whatever they mean."""

    def __init__(self, stream: StreamView) -> None:
        dialect = by_name(stream.exchange.api)
        self._stream = stream
        self._terminal, self._has_error_lines = dialect.terminal, dialect.has_error_lines
        self._has_fields = stream.is_answer
        self._has_carriage_returns = self._has_ended = False
        self._last: StreamBlock | None = None
        self._blocks, self._events = _Moments(), _Moments()
        self._spoken = SpokenDialect(dialect)

    def feed(self, block: StreamBlock) -> Faults:
        is_first, self._last = self._last is None, block
        self._blocks.add(block)
        # whose bytes are not known: a sign of life too, whatever it was
        if block.is_event or not block.raw:
            self._events.add(block)
        yield from self._marks(block, is_first)
        if block.is_damaged:
            yield "ST011", block.pos, ""
        elif block.kind != "tail" and not is_text(block.raw):
            yield "ST001", block.pos, ""
        if block.is_event:
            self._has_ended = self._has_ended or block.type in self._terminal
            yield from self._other_api(block.pos, block.payload)
            if (
                block.payload is None
                and not is_done_mark(block)
                and block.data != b"null"
                and is_text(block.raw)
            ):
                yield "ST002", block.pos, "" if block.data else "its data is empty"
        elif block.kind == "frame" and not any(_foreign_lines(block)):
            yield from self._no_data(block)
        if (
            self._has_fields
            and block.kind != "message"
            and (block.kind == "frame" or block.raw.startswith(b"{"))
        ):
            yield from self._no_field(block)

    def end(self) -> Faults:
        if not self._stream.is_stream and self._stream.status < 400:
            yield from self._other_api(None, self._stream.document)
        yield from self._unterminated()
        # pings keep a connection alive, and are not part of a turn
        if not self._stream.is_switched:
            yield from self._blocks.silences("ST007", self._stream, PROXY_SILENCE_NS)
        yield from self._events.silences("ST008", self._stream, CODEX_SILENCE_NS)

    def _other_api(self, pos: int | None, payload: Any) -> Faults:
        is_told = not self._stream.is_switched or self._stream.exchange.method == WEBSOCKET
        if is_told and self._spoken.is_open and self._spoken.hear(object_(payload)):
            yield OTHER_API, pos, f"it is {self._spoken.dialect.name}"

    def _marks(self, block: StreamBlock, is_first: bool) -> Faults:
        """Yield a byte order mark, and the first block whose lines end with a carriage return."""
        if block.raw.startswith(BOM) and block.kind != "message":
            yield "ST004" if is_first else "ST010", block.pos, ""
        is_fed = block.kind == "message" or self._has_carriage_returns or b"\n" in block.raw
        if b"\r" in block.raw and not is_fed:
            self._has_carriage_returns = True
            yield "ST005", block.pos, ""

    def _no_data(self, block: StreamBlock) -> Faults:
        fields = parse(block.raw.removeprefix(BOM))
        given = {"event": fields.event, "id": fields.id, "retry": fields.retry}
        names = [f"`{name}:`" for name, value in given.items() if value]
        if names:
            yield "ST003", block.pos, f"all it has is {' and '.join(names)}"

    def _no_field(self, block: StreamBlock) -> Faults:
        """Yield lines that are not a field.

        Those of Gemini, and `error:` in Chat, have rules of their own.
        """
        for line in _foreign_lines(block):
            if not (line.startswith(b"error:") and self._has_error_lines):
                yield "ST009", block.pos, line[:_SHOWN].decode("utf-8", "replace")

    def _unterminated(self) -> Faults:
        """Yield the last block if it is whole but for its blank line, or is half an event after the
        end of the response.

        Half an event before that end is not reported: what is missing then is the end.
        """
        last = self._last
        if last is None or last.kind != "tail" or self._stream.was_cut_by_us:
            return
        if last.payload:
            yield "ST006", last.pos, last.type or ""
        elif last.data and self._has_ended:
            yield "ST006", last.pos, "it is half an event"


class _Moments:
    """The times at which blocks came, a few bytes each."""

    def __init__(self) -> None:
        self._times, self._positions = array("q"), array("q")

    def add(self, block: StreamBlock) -> None:
        self._times.append(block.t_ns)
        self._positions.append(block.pos)

    def silences(self, rule: str, stream: StreamView, limit_ns: int) -> Faults:
        """Yield silences of the provider between head, blocks and end; not while bytes were lost,
        because the silence is unknown then.
        """
        if not stream.is_stream:
            return
        ends = ("response",) if stream.was_cut_by_us else ("response", "end")
        moments = [(each.t_ns, each.pos, False) for each in stream.events if each.kind in ends]
        moments += [
            (t_ns, pos, False) for t_ns, pos in zip(self._times, self._positions, strict=True)
        ]
        for gap in stream.gaps:
            moments += [(gap.from_ns, gap.pos, False), (gap.to_ns, gap.pos, True)]
        for (before, *_), (after, pos, is_in_gap) in pairwise(sorted(moments)):
            if after - before > limit_ns and not is_in_gap:
                yield rule, pos, f"{(after - before) / _SECOND_NS:.0f} s of silence before it"


RULES = rules(
    """
ST001 error
An event is not valid UTF-8.
openai-python and anthropic raise UnicodeDecodeError; Codex stops with “stream disconnected before
 completion: UTF8 error: invalid utf-8 sequence”.
WHATWG HTML, 9.2.6 Interpreting an event stream; openai-python 3.52, _streaming.py; Codex CLI 0.169

ST002 error
The data of an event is not JSON.
openai-python and anthropic raise JSONDecodeError, which ends the stream; Codex drops the event.
openai-python 3.52, _streaming.py; Codex CLI 0.169, codex-api/src/sse/responses.rs

ST003 error openai sdk chat
A block has an event name, an id or a retry time, but no data.
openai-python reads it as an event with empty data and raises JSONDecodeError: a ping needs `data:
 {}`, or must be a comment. Codex ignores it.
WHATWG HTML, 9.2.6 Interpreting an event stream; openai-python 3.52, _streaming.py

ST004 error
The stream begins with a byte order mark.
Codex loses all of it: “stream closed before response.completed”. The SDKs lose the first line, and
 the first event if that is its data; google-genai raises.
openai-python 3.52, _streaming.py; Codex CLI 0.169

ST005 error openai codex
Lines end with a carriage return alone.
Codex waits for the byte after the last carriage return, and loses the last event: “stream closed
 before response.completed”. The SDKs read it.
WHATWG HTML, 9.2.6 Interpreting an event stream, which allows it; Codex CLI 0.169

ST006 error
The last event has no blank line after it, or is only half there.
By the standard it is not an event: the SDKs drop it, and openai-python raises RuntimeError “Didn't
 receive a `response.completed` event.”; Codex reports “stream closed before response.completed”.
WHATWG HTML, 9.2.6 Interpreting an event stream; openai-python 3.52, _streaming.py; anthropic 2.11,
 _streaming.py; Codex CLI 0.169

ST007 warning
Nothing was sent for over 60 s: no event, no keep-alive.
Proxies between client and server close a connection that is silent for so long, and the client gets
 a broken stream; Codex: “stream disconnected before completion”. Send a ping event while the model
 thinks.
nginx proxy_read_timeout 60s; AWS ALB idle timeout 60 s; openai/codex#3267

ST008 error codex
There was no event for over 300 s.
Codex stops: “stream disconnected before completion: idle timeout waiting for SSE”. Comments do not
 count: only an event (`event: ping`, `data: {}`) restarts its timer.
openai/codex, model-provider-info: DEFAULT_STREAM_IDLE_TIMEOUT_MS; Codex CLI 0.169

ST009 error
A line is neither a field of server-sent events (`event`, `data`, `id`, `retry`) nor a comment.
All clients ignore it, without an error: its content is lost. Most often the line lacks `data:` at
 its beginning.
WHATWG HTML, 9.2.6 Interpreting an event stream; openai-python 3.52, _streaming.py

ST010 error
A byte order mark stands before an event within the stream.
It is one only at the beginning of a stream, and anywhere else a part of the first line, which is
 then not a field of server-sent events: clients ignore that line, without an error, and its content
 is lost.
WHATWG HTML, 9.2.6 Interpreting an event stream; openai-python 3.52, _streaming.py

ST011 error
A message of the binary event stream has a wrong checksum, or headers that cannot be read.
botocore raises ChecksumMismatch, which ends the stream; the SDKs for JavaScript and Rust end it too.
Smithy, Amazon Event Stream Specification; botocore, eventstream.py

ST012 error
The answer is of another API than its path says.
The SDK of the path finds nothing in it: openai-python yields chunks without `choices`, anthropic an
 empty message, and no error is raised. It is read as what it is, and not judged any further.
openai-python 3.52, _streaming.py; anthropic 2.11, lib/streaming/_messages.py
""",
    SseWalk,
)
