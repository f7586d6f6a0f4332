"""The dialects: one folder for each wire format, and the table that chooses among them.

Must not know: the log, and where bytes come from.

A folder decodes the events of its format into facts (`recorder.model.facts`), tool calls among
them, and reads its requests. A further format is a folder with a `DIALECT` and its line in
`_FOLDERS`: everything that depends on a format reads it from there. A module `lint` in it has
rules, a module `probe` the cases of a probe; their layers load them. A module `edit` writes an
answer that a person gives (`recorder.wire.dialects.edited`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from typing import Any

import msgspec

from recorder.model.events import STDIO, Header, header
from recorder.program import load
from recorder.wire.dialects import other
from recorder.wire.dialects.dialect import (
    Dialect,
    Ending,
    LiveRequest,
    LiveSession,
    MessageIds,
    WebSocketFormat,
)
from recorder.wire.dialects.keys import Keys
from recorder.wire.framing import AWS_EVENT_STREAM, JSON_ARRAY, SSE, Framing, aws_event_stream
from recorder.wire.providers import BY_NAME, PROVIDERS

__all__ = [
    "DIALECTS",
    "Dialect",
    "Ending",
    "Keys",
    "LiveRequest",
    "LiveSession",
    "MessageIds",
    "WebSocketFormat",
    "answered_in",
    "by_lines",
    "by_name",
    "by_path",
    "by_request",
    "declare",
    "error_body",
    "error_in_stream",
    "names",
    "parts",
    "tells_targets",
    "told_by_server",
]

_FOLDERS = (
    "recorder.wire.dialects.openai_responses",
    "recorder.wire.dialects.openai_chat",
    "recorder.wire.dialects.anthropic",
    "recorder.wire.dialects.gemini",
    "recorder.wire.dialects.gemini_interactions",
    "recorder.wire.dialects.a2a",
    "recorder.wire.dialects.acp",
    "recorder.wire.dialects.stream_json",
    "recorder.wire.dialects.mcp",
    "recorder.wire.dialects.anthropic_sessions",
    "recorder.wire.dialects.ollama",
    "recorder.wire.dialects.bedrock_converse",
    "recorder.wire.dialects.bedrock_invoke",
    "recorder.wire.dialects.bedrock_models",
    "recorder.wire.dialects.openai_agents",
    "recorder.wire.dialects.openai_realtime",
    "recorder.wire.dialects.gemini_live",
    "recorder.wire.dialects.gemini_interactions_live",
    "recorder.wire.dialects.ui_messages",
    "recorder.wire.dialects.ag_ui",
)

DIALECTS: tuple[Dialect, ...] = (
    *(load(f"{folder}:DIALECT") for folder in _FOLDERS),
    other.DIALECT,  # the last: it takes every route
)

_MakeBody = Callable[[int, str, str | None], dict[str, Any]]

_ASKED = [dialect for dialect in DIALECTS if dialect.is_asked is not None]
_OF_PROGRAMS = [dialect for dialect in DIALECTS if dialect.program is not None]
_TOLD = [dialect for dialect in DIALECTS if dialect.told_targets is not None]
_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}


_DECLARED: dict[str, Dialect] = {}  # by this process, from its settings


def declare(dialects: Mapping[str, Dialect]) -> None:
    """Take dialects that the user has declared, by name, in place of those of before.

    They are taken before `other`: a format of the table keeps its routes.
    """
    for name in _DECLARED:
        _BY_NAME.pop(name, None)
    _DECLARED.clear()
    _DECLARED.update(dialects)
    _BY_NAME.update(dialects)


def names() -> list[str]:
    """Return the names of all dialects, those that the user has declared among them."""
    return [*_BY_NAME]


def by_name(name: str) -> Dialect:
    """Return the dialect of that name; `other` for one of another version, or that is not declared
    any more.
    """
    return _BY_NAME.get(name, other.DIALECT)


def answered_in(dialect: Dialect, framing: str) -> Dialect:
    """Return the dialect of a response that is a stream in this framing."""
    return dialect if dialect.framing in (None, framing) else other.DIALECT


def parts(name: str) -> dict[str, Any]:
    """Return the modules of that name in the folders of formats, by the names of the formats that
    have one.

    A part is of the layer of its name: `lint` of `recorder.lint`, `probe` of `recorder.probe`. It
    is loaded from there.
    """
    places = {
        dialect.name: f"{folder}.{name}"
        for dialect, folder in zip(DIALECTS, _FOLDERS, strict=False)
    }
    return {format: load(place) for format, place in places.items() if find_spec(place) is not None}


def by_path(method: str, target: str) -> Dialect:
    """Return the dialect whose server told a target to its client, else the first whose routes
    match the path.
    """
    told = told_by_server(method, target)
    if told is not None:
        return told
    route = f"{method.upper()} {target.partition('?')[0]}"
    table = (*DIALECTS[:-1], *_DECLARED.values(), other.DIALECT)
    return next(dialect for dialect in table if dialect.routes.search(route))


def by_lines(first: bytes) -> Dialect:
    """Return the dialect of a program whose first read this is, of either side; `other` if it shows
    none.
    """
    spoken = (each for each in _OF_PROGRAMS if each.program and each.program.begins(first))
    return next(spoken, other.DIALECT)


def told_by_server(method: str, target: str) -> Dialect | None:
    """Return the dialect whose server told a target to its client."""
    if "?" not in target:
        return None
    asked = f"{method.upper()} {target}"
    return next(
        (each for each in _TOLD if each.told_targets and each.told_targets.search(asked)), None
    )


def tells_targets(method: str, target: str) -> bool:
    """Return whether a server may tell its client targets on the stream that answers a request."""
    asked = f"{method.upper()} {target.partition('?')[0]}"
    return any(each.telling.search(asked) for each in _TOLD if each.telling)


def by_request(method: str, target: str, headers: Sequence[Header], body: bytes) -> Dialect:
    """Return the dialect of a request by its target, else by what its headers and its body say.

    These say it, too, on a route on which apps answer in another framing. Of a program, its first
    lines have said it.
    """
    if method == STDIO:
        type = header(headers, "content-type")
        of_type = (
            each for each in _OF_PROGRAMS if each.program and each.program.media_type == type
        )
        declared = (each for each in _DECLARED.values() if each.routes.search(f"{method} {target}"))
        return next(chain(of_type, declared, [other.DIALECT]))
    found = by_path(method, target)
    if found is not other.DIALECT and found.framing is None:
        return found
    return next(
        (dialect for dialect in _ASKED if dialect.is_asked and dialect.is_asked(headers, body)),
        found,
    )


def error_body(
    method: str, target: str, upstream: str, status: int, message: str, code: str | None = None
) -> bytes:
    """Encode an error of our own as the provider gives its errors, so that its client reads it as
    such.

    The path of the request determines the format, else the name of the upstream does.
    """
    _, make_body = _of_errors(method, target, upstream)
    return msgspec.json.encode(make_body(status, message, code))


def error_in_stream(
    framing: Framing,
    method: str,
    target: str,
    upstream: str,
    status: int,
    message: str,
    number: int,
) -> bytes:
    """Encode what says an error of our own in a stream of that framing, after `number` of its
    events.
    """
    dialect, make_body = _of_errors(method, target, upstream)
    if framing is SSE:
        return _error_events(dialect, make_body, status, message, number)
    body = msgspec.json.encode(make_body(status, message, None))
    if framing is AWS_EVENT_STREAM:
        return aws_event_stream.exception(dialect.error_type(status), body)
    if framing is JSON_ARRAY:
        return JSON_ARRAY.placed(body, number == 0) + b"]"
    return body + b"\n"


def _error_events(
    dialect: Dialect, make_body: _MakeBody, status: int, message: str, number: int
) -> bytes:
    payloads: Sequence[Mapping[str, Any]] = [make_body(status, message, None)]
    if dialect.error_events is not None:
        payloads = dialect.error_events(status, message, number)
    blocks = bytearray()
    for payload in payloads:
        name = payload[dialect.type_member] if dialect.has_event_lines else dialect.error_event
        if name is not None:
            blocks += b"event: " + str(name).encode() + dialect.line_end
        blocks += b"data: " + msgspec.json.encode(payload) + dialect.line_end * 2
    return bytes(blocks)


def _of_errors(method: str, target: str, upstream: str) -> tuple[Dialect, _MakeBody]:
    """Return the dialect of an error, and what makes its body."""
    dialect = by_path(method, target)
    if dialect.error_body is None:
        dialect = by_name(BY_NAME.get(upstream, PROVIDERS[0]).formats[0])
    assert dialect.error_body is not None, "the first format of each provider has one"
    return dialect, dialect.error_body
