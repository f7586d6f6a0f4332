"""Claude Code's `stream-json`: a line of JSON for each message of a run, between it and the program
that started it.

A `stream_event` has an event of Anthropic's within, and a row has its type; other rows have the
type of the line and its subtype. Must not know: other wire formats, but for Anthropic Messages.

Written after the lines of Claude Code 2.1.332 and the types of its SDKs, which read them from a
child.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from recorder.wire.dialects.dialect import (
    Dialect,
    ProgramLines,
    RequestNoise,
    RequestPlaces,
    ResponseFields,
    noise_fields,
    paths,
)
from recorder.wire.dialects.json_values import Object, as_json, object_, request_object, text
from recorder.wire.dialects.keys import KeyExtractor, Named, Payload, Text, Whole
from recorder.wire.dialects.stream_json.decoder import StreamJsonDecoder


class _Block(msgspec.Struct):
    id: Text | None = None


class _Event(msgspec.Struct):
    type: Text | None = None
    index: Whole | None = None
    content_block: _Block | None = None


class _Asked(msgspec.Struct):
    subtype: Text | None = None
    request_id: Text | None = None


class _Line(Payload):
    subtype: Text | None = None
    event: _Event | None = None
    message: _Block | None = None
    request_id: Text | None = None
    request: _Asked | None = None
    response: _Asked | None = None


def _name(line: _Line) -> Named:
    event = line.event
    if event is not None and event.type is not None:
        return (
            event.type,
            None,
            event.content_block.id if event.content_block else None,
            event.index,
        )
    about = line.request or line.response or _Asked(line.subtype)
    id = line.message.id if line.message else None
    type = f"{line.type}/{about.subtype}" if line.type and about.subtype else line.type
    return type, None, id or line.request_id or about.request_id, None


# -- line by line

_TYPE = re.compile(rb'"type"\s*:\s*"(?:system|user|control_request)"')
_BESIDE = re.compile(rb'"(?:subtype|message|request)"\s*:')


def _asked_with(line: Object) -> str | None:
    """Return the id of a request of either side."""
    return text(line, "request_id") if line.get("type") == "control_request" else None


def _answered(line: Object) -> str:
    return text(line, "response", "request_id") or ""


def _asked(line: Object) -> list[str]:
    id = _asked_with(line)
    return [] if id is None else [id]


def _answer_to(id: str | None) -> Object | None:
    """Return what counts of an answer to the program."""
    return {"response": {"request_id": id}} if id else None


def _refusal(line: Object, why: str) -> Object | None:
    id = _asked_with(line)
    if id is not None:
        error = {"subtype": "error", "request_id": id, "error": why}
        return {"type": "control_response", "response": error}
    if line.get("type") != "user":
        return None
    counts = {"duration_ms": 0, "duration_api_ms": 0, "num_turns": 0}
    ended = {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "session_id": "",
        **counts,
    }
    return {**ended, "errors": [why]}


def renumbering(recorded: bytes, asked: bytes) -> Callable[[bytes], bytes] | None:
    """Return what gives a line of the program the ids of the line that is answered now; None if
    they are the same.

    They are random: where one of them is, it means nothing else.
    """
    before, now = request_object(recorded), request_object(asked)
    pairs: dict[bytes, bytes] = {}
    for name in ("request_id", "uuid"):
        old, new = text(before, name), text(now, name)
        if old and new and old != new:
            pairs[as_json(old).encode()] = as_json(new).encode()
    return (lambda line: _replaced(line, pairs)) if pairs else None


def _replaced(line: bytes, pairs: Mapping[bytes, bytes]) -> bytes:
    for old, new in pairs.items():
        line = line.replace(old, new)
    return line


_MESSAGE = ("message.", "event.message.")
_BLOCKS = ("message.content.*.", "event.content_block.")
_DELTA = "event.delta."

DIALECT = Dialect(
    name="stream-json",
    routes=re.compile(r"(?!)"),  # no path
    keys=KeyExtractor(_Line, _name),
    decoder=StreamJsonDecoder,
    terminal={},
    needs_terminal=False,
    whole_reasons=frozenset({"end_turn", "stop_sequence"}),
    profiles=("stream-json",),
    # a line that is not JSON is one of a log, unless it begins as an object
    own_rules=frozenset({"ST002"}),
    renumbering=renumbering,
    program=ProgramLines(
        media_type="application/x-ndjson; format=stream-json",
        begins=lambda first: _TYPE.search(first) is not None and _BESIDE.search(first) is not None,
        asked=_asked,
        answered=_answered,
        compared=lambda line: _answer_to(text(object_(line, "response"), "request_id")),
        asks=lambda line: _answer_to(_asked_with(line)),
        refusal=_refusal,
    ),
    fields=ResponseFields(
        texts=paths(
            "delta>text delta>thinking delta>partial_json block>text block>thinking block>name block>input result",
            delta=(_DELTA,),
            block=_BLOCKS,
        ),
        usage=("usage", "modelUsage"),
        noise=noise_fields(
            """
id | uuid session_id request_id response.request_id run_id task_id agent_id | made anew each time
id | message>id message>container.id api_message_id begun_message_ids.* | made anew for each message
id | block>id block>tool_use_id tool_use_id parent_tool_use_id request.tool_use_id | made anew for each call
id | tool_result_meta.*.id user_message_uuid user_message_uuids.* | names a call, or a message of the client
time | timestamp duration_ms duration_api_ms ttft_ms ttft_stream_ms time_to_request_ms | when, and how long
time | first_content_frame_ms thinking_duration_ms elapsed_time_seconds patch.end_time | when, and how long
made | block>signature delta>signature | only the provider can read it
made | messaging_socket_path output_file response.response.pid | of one run
""",
            message=_MESSAGE,
            block=_BLOCKS,
            delta=(_DELTA,),
        ),
    ),
    request_noise=(
        RequestNoise(
            "fields",
            "stream-json-request",
            "request_id",
            "made anew for each request",
            "type request",
        ),
        RequestNoise("fields", "stream-json-session", "session_id", "of one run", "type message"),
        RequestNoise(
            "fields", "stream-json-uuid", "uuid", "made anew for each message", "type message"
        ),
    ),
    places=RequestPlaces(of_model=("message", "event")),
    is_of_app=True,
    operation="invoke_agent",
)
