"""ST: the stream as such, whatever its events mean. Faults that break readers of server-sent events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import pairwise

from recorder.lint.rule import Check, Hit, Hits, at_end, rules
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects import by_name
from recorder.wire.sse import BOM, parse

PROXY_SILENCE_NS = 60_000_000_000
"""What common proxies wait for the next byte: nginx `proxy_read_timeout`, AWS ALB idle timeout."""

CODEX_SILENCE_NS = 300_000_000_000
"""What Codex waits for the next event: `DEFAULT_STREAM_IDLE_TIMEOUT_MS`."""

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


def _no_text(stream: StreamView) -> Hits:
    return (Hit(each.pos) for each in stream.blocks if each.kind != "tail" and not is_text(each.raw))


def _no_json(stream: StreamView) -> Hits:
    for each in stream.frames:
        if each.payload is None and not is_done_mark(each) and each.data != b"null" and is_text(each.raw):
            yield Hit(each.pos, "its data is empty" if not each.data else "")


def _no_data(stream: StreamView) -> Hits:
    for each in stream.blocks:
        if each.kind != "frame" or each.data is not None or any(_foreign_lines(each)):
            continue
        fields = parse(each.raw.removeprefix(BOM))
        names = [name for name, value in (("event", fields.event), ("id", fields.id), ("retry", fields.retry)) if value]
        if names:
            yield Hit(each.pos, f"all it has is {' and '.join(f'`{name}:`' for name in names)}")


def _no_field(stream: StreamView) -> Hits:
    """Yield lines that are not a field. Those of Gemini, and `error:` in Chat, have rules of their own."""
    if not stream.is_stream or stream.is_switched or stream.status >= 400:
        return
    for each in stream.blocks:
        for line in _foreign_lines(each) if each.kind == "frame" or each.raw.startswith(b"{") else ():
            if not (line.startswith(b"error:") and by_name(stream.exchange.api).has_error_lines):
                yield Hit(each.pos, line[:_SHOWN].decode("utf-8", "replace"))


def _foreign_lines(frame: StreamBlock) -> Iterable[bytes]:
    lines = _LINE.findall(frame.raw.removeprefix(BOM))
    return (line for line in lines if line.partition(b":")[0] not in _FIELDS)


def _byte_order_mark(stream: StreamView) -> Hits:
    first = stream.kept("first block", lambda: stream.blocks[0] if stream.blocks else None)
    if stream.is_last and first is not None and first.raw.startswith(BOM) and first.kind != "message":
        yield Hit(first.pos)


def _mark_within(stream: StreamView) -> Hits:
    first = stream.kept("first block", lambda: stream.blocks[0] if stream.blocks else None)
    for each in stream.blocks:
        if each != first and each.raw.startswith(BOM) and each.kind != "message":
            yield Hit(each.pos)


def _carriage_returns(stream: StreamView) -> Hits:
    """Yield the first block alone."""
    found: list[int] = stream.kept("carriage returns", list)
    for each in () if stream.is_switched or found else stream.blocks:
        if b"\r" in each.raw and b"\n" not in each.raw:
            found.append(each.pos)
            yield Hit(each.pos)
            return


def _unterminated(stream: StreamView) -> Hits:
    """Yield the last block if it is whole but for its blank line, or is half an event after the end of the response.

    Half an event before that end is not reported: what is missing then is the end.
    """
    has_ended = stream.kept("has ended", list)
    terminal = by_name(stream.exchange.api).terminal
    has_ended += [each.pos for each in stream.frames if each.type in terminal]
    if stream.was_cut_by_us or not stream.is_last:
        return
    for each in stream.blocks[-1:]:
        if each.kind == "tail" and each.payload:
            yield Hit(each.pos, each.type or "")
        elif each.kind == "tail" and each.data and has_ended:
            yield Hit(each.pos, "it is half an event")


def _silences(stream: StreamView, *, limit_ns: int, of_events: bool) -> Hits:
    """Yield silences of the provider between head, blocks and end; not while bytes were lost, because the silence is
    unknown then. Over WebSocket pings keep a connection alive, and are not part of a turn: only events count there.
    """
    if stream.is_switched and not of_events:
        return
    ends = ("response",) if stream.was_cut_by_us else ("response", "end")
    moments = [(each.t_ns, each.pos, False) for each in stream.events if each.kind in ends]
    moments += [(t_ns, pos, False) for t_ns, pos in stream.moments.each(of_events=of_events)]
    for gap in stream.gaps:
        moments += [(gap.from_ns, gap.pos, False), (gap.to_ns, gap.pos, True)]
    if stream.is_stream:
        for (before, *_), (after, pos, is_in_gap) in pairwise(sorted(moments)):
            if after - before > limit_ns and not is_in_gap:
                yield Hit(pos, f"{(after - before) / _SECOND_NS:.0f} s of silence before it")


_CHECKS: Mapping[str, Check] = {
    "ST001": _no_text,
    "ST002": _no_json,
    "ST003": _no_data,
    "ST004": _byte_order_mark,
    "ST005": _carriage_returns,
    "ST006": _unterminated,
    "ST007": at_end(partial(_silences, limit_ns=PROXY_SILENCE_NS, of_events=False)),
    "ST008": at_end(partial(_silences, limit_ns=CODEX_SILENCE_NS, of_events=True)),
    "ST009": _no_field,
    "ST010": _mark_within,
}

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
""",
    _CHECKS.__getitem__,
)
