"""HT: the response as HTTP has it: status, headers, and the error that is sent instead of an
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from recorder.lint.rule import of_whole, rules
from recorder.lint.stream import StreamView
from recorder.model.events import WHOLE, EndRecord
from recorder.model.facts import (
    ErrorReported,
    Fact,
    MalformedPayload,
    ResponseFinished,
    UnreadableResponse,
)
from recorder.projections.fact_reader import ERROR_STATUS, FactReader, asks_for_answer
from recorder.wire.dialects import by_name
from recorder.wire.dialects.json_values import member, word

# what the body of an event stream begins with
_STREAMS = (b"event:", b"data:", b":", b"id:", b"retry:")


def _word(stream: StreamView, header: str) -> str:
    return (stream.header(header) or "").strip().lower()


def _named_otherwise(stream: StreamView) -> Iterable[str]:
    is_named = stream.content_type == "text/event-stream"
    if not is_named and stream.status == 200 and stream.body.startswith(_STREAMS):
        yield f"content-type: {stream.content_type or 'none'}"


def _no_stream(stream: StreamView) -> Iterable[str]:
    is_document = not stream.is_stream and stream.body and not stream.body.startswith(_STREAMS)
    is_asked = member(stream.request_json, "stream") is True
    if is_asked and stream.status == 200 and is_document:
        yield f"content-type: {stream.content_type or 'none'}"


def _status_of_stream(stream: StreamView) -> Iterable[str]:
    if stream.status not in (0, 200) and stream.has_events and not stream.is_switched:
        yield f"status {stream.status}"


def _length_of_stream(stream: StreamView) -> Iterable[str]:
    length = stream.header("content-length")
    is_whole = stream.header("transfer-encoding") is None
    if stream.is_stream and stream.status == 200 and length is not None and is_whole:
        yield f"content-length: {length}"


def _two_lengths(stream: StreamView) -> Iterable[str]:
    length, coding = stream.header("content-length"), stream.header("transfer-encoding")
    if length is not None and coding is not None:
        yield f"content-length: {length}, transfer-encoding: {coding}"


def _storing(stream: StreamView) -> Iterable[str]:
    """Yield a head without `no-store`, if it is that of a real connection: one that has a date (RFC
    9110, 6.6.1).
    """
    if stream.is_switched:
        return
    held = _word(stream, "x-accel-buffering") == "yes"
    if stream.is_stream and stream.header("date") and (held or not _keeps_moving(stream)):
        yield f"cache-control: {stream.header('cache-control') or 'none'}"


def _keeps_moving(stream: StreamView) -> bool:
    control = _word(stream, "cache-control")
    directives = {part.strip() for part in control.split(",")}
    return bool(directives & {"no-cache", "no-store"}) or _word(stream, "x-accel-buffering") == "no"


def _coding_of_stream(stream: StreamView) -> Iterable[str]:
    coding = stream.header("content-encoding")
    is_plain = stream.end is not None and stream.end.coding is None
    if stream.is_stream and coding and not is_plain:
        yield f"content-encoding: {coding}"


def _unreadable(stream: StreamView) -> Iterable[str]:
    """Yield why nobody can read an answer.

    That one came too early to its end may be our doing: see `_nothing_came`.
    """
    if stream.end is None or stream.was_cut_by_us or not asks_for_answer(stream.exchange):
        return
    said = _why_unreadable(stream, stream.end)
    if said is not None:
        yield said


def _why_unreadable(stream: StreamView, end: EndRecord) -> str | None:
    if stream.response is None:
        return f"there is no response: {end.error or end.outcome}"
    if not (200 <= stream.status < 300 or stream.is_switched):
        return None  # what it is then, the rules about errors judge
    if end.undecoded is not None and end.outcome == "eof":
        return end.undecoded
    if stream.is_stream or _is_named_otherwise(stream):
        return None  # of a stream, the rules of its API miss what is not there
    if end.outcome not in WHOLE:
        return None if stream.body else f"nothing came before the end: {end.error or end.outcome}"
    return _without_answer(stream)


def _is_named_otherwise(stream: StreamView) -> bool:
    """Return whether HT002 reports the response: a document in the place of a stream."""
    return "HT002" not in by_name(stream.exchange.api).own_rules and any(_no_stream(stream))


def _without_answer(stream: StreamView) -> str | None:
    """Return why no view has an answer out of the response. It is a document, or nothing."""
    return next(
        (
            fact.reason
            for fact in _facts(stream)
            if isinstance(fact, UnreadableResponse | MalformedPayload)
        ),
        None,
    )


def _facts(stream: StreamView) -> Iterable[Fact]:
    reading = FactReader(stream.exchange)
    for event in stream.events:
        yield from reading.facts(event)


def _error_as_answer(stream: StreamView) -> Iterable[str]:
    """Yield the error of a document under a status that says all is well, unless the document says
    so in its own status: a response of OpenAI does.
    """
    is_good = 200 <= stream.status < 300
    if (
        stream.is_stream
        or not is_good
        or not asks_for_answer(stream.exchange)
        or _is_named_otherwise(stream)
    ):
        return
    facts = list(_facts(stream))
    if not any(isinstance(fact, ResponseFinished) and fact.verdict == "failed" for fact in facts):
        yield from (fact.message or "" for fact in facts if isinstance(fact, ErrorReported))


def _unread_error(stream: StreamView) -> Iterable[str]:
    """Yield an error that is not one of its API: no client has a message of it.

    Those of OpenAI have HT007.
    """
    if stream.status < ERROR_STATUS or stream.has_events or stream.has_gap or stream.was_cut_by_us:
        return
    if stream.exchange.method == "HEAD":
        return
    facts = by_name(stream.exchange.api).decoder().document(stream.body)
    if not any(isinstance(fact, ErrorReported) and fact.message for fact in facts):
        yield f"status {stream.status}, {'no message in it' if stream.body else 'no body'}"


def _nothing_came(stream: StreamView) -> Iterable[str]:
    if stream.end is None or not stream.was_cut_by_us or not asks_for_answer(stream.exchange):
        return
    if not stream.body:
        yield stream.end.outcome


def _error_document(stream: StreamView) -> Iterable[str]:
    if stream.status < ERROR_STATUS or stream.has_events or stream.has_gap:
        return
    if stream.body:
        wrong = wrong_error(stream.document)
    else:
        wrong = None if stream.was_cut_by_us or stream.exchange.method == "HEAD" else "no body"
    if wrong:
        yield f"status {stream.status}, {wrong}"


def wrong_error(document: Any, *texts: str) -> str | None:
    """Return what is wrong with an error as OpenAI's API puts it, or one with these texts; None if
    nothing is.
    """
    if not isinstance(document, dict):
        return "the body is not a JSON object"
    error = document.get("error")
    if not isinstance(error, dict):
        return "no object `error`"
    lacking = [name for name in texts or ("message",) if not word(error, name)]
    return f"no text `error.{lacking[0]}`" if lacking else None


_CHECKS: Mapping[str, Callable[[StreamView], Iterable[str]]] = {
    "HT001": _named_otherwise,
    "HT002": _no_stream,
    "HT003": _status_of_stream,
    "HT004": _length_of_stream,
    "HT005": _storing,
    "HT006": _coding_of_stream,
    "HT008": _unreadable,
    "HT009": _nothing_came,
    "HT010": _error_as_answer,
    "HT011": _unread_error,
    "HT012": _two_lengths,
    "HT007": _error_document,
}

RULES = rules(
    """
HT001 warning
The response is an event stream, but its content type is not `text/event-stream`.
EventSource and readers that follow the standard refuse it, proxies may buffer or compress it, and a
 recorder does not see its events. Codex and the SDKs read it anyway.
WHATWG HTML, 9.2.5 Authors: text/event-stream

HT002 error
The request asks for a stream, but the response is a document.
openai-python yields no event and raises no error; Codex reports “stream closed before
 response.completed”.
OpenAI API reference, Responses and Chat: stream; openai-python 3.52, _streaming.py; Codex CLI 0.169

HT003 warning
There are events under a status that is not 200.
From 400 on the SDKs read no event: the body becomes the text of an APIStatusError. Errors come as
 JSON.
openai-python 3.52, _base_client.py; WHATWG HTML, 9.2.3 Processing model

HT004 warning
A stream has a content-length.
The stream was complete before its first byte was sent: a proxy or the gateway buffered it, and
 every client waits for the whole answer.
RFC 9112, 6 Message Body Length

HT005 note codex sdk
No header tells proxies not to buffer the stream.
nginx buffers a response unless it has `x-accel-buffering: no`, caches and CDNs unless it has
 `cache-control: no-cache`. A buffered text arrives in bursts, or all at once.
nginx, proxy_buffering; RFC 9111, 5.2.2

HT006 note
The stream is compressed.
A compressor that does not flush after each event holds events back; all clients can decompress it.
RFC 9110, 8.4 Content-Encoding

HT008 error
There is no answer in the response that can be read.
It is missing, empty, broken, in a coding that cannot be undone, or was not recorded. Clients wait
 for it, raise an error, or go on with an empty answer.
RFC 9110, 8.4 Content-Encoding; WHATWG HTML, 9.2.6 Interpreting an event stream

HT009 warning
The client or the recorder ended the exchange before anything of the answer came.
There is nothing to judge: that no other rule finds a fault says nothing about the provider.
docs/log.md, outcome

HT010 error
A document has an error under a status that says all is well.
Clients go by the status: they raise no error and do not try again, and their program gets an answer
 without content, or a part of one.
RFC 9110, 15 Status Codes

HT011 warning anthropic gemini gemini-interactions
An error does not have the format of its API: an object `error` with a `message`.
Clients raise an error without the reason, or with the whole body in its place, and may try again
 where that cannot help.
Claude API reference, Errors; google.rpc.Status

HT012 error
The response has a content-length and a transfer-encoding.
Python, curl and browsers go by the chunks; Node.js refuses the response, and a proxy that goes by
 the length cuts it off, or takes the rest for the next response.
RFC 9112, 6.3 Message Body Length

HT007 warning openai codex sdk chat
An error does not have OpenAI's format: `{"error": {"message": …}}`.
The SDKs raise an APIStatusError whose `code`, `type` and `param` are None; Codex shows the raw
 body, and retries also where that cannot help.
OpenAI API reference, Errors; openai-python 3.52, _exceptions.py
""",
    of_whole(_CHECKS),
)
