"""Edit: a recorded answer with another text, the call of a tool, or an error in its place. Pure.

    2="Paris is in France."                             the text of the answer to turn 2
    2.call={"name":"search","arguments":{"q":"Paris"}}   a call in its place
    2.status=529                                         an error in its place

Rules of this file:

* The recording is not changed: what is played is another one, in the events of its format, which
  the module `edit` in the folder of the format writes. Ids, model and usage are the recorded ones;
  reasoning is left out.
* It is played at the recorded pace: its events are spread over the times of the recorded ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Literal

import msgspec

from recorder.errors import UsageError
from recorder.model.events import Piece, Recording, ResponseHead, header
from recorder.wire.dialects import by_name, error_body, parts
from recorder.wire.dialects.edited import EditedAnswer, EditedCall
from recorder.wire.dialects.json_values import Object, as_json, decoded_or_none, request_object
from recorder.wire.dialects.keys import DONE
from recorder.wire.framing import SSE, Framing, aws_event_stream, framing_of
from recorder.wire.framing.sse import BOM
from recorder.wire.turns import as_sse, is_turn

_FORM = re.compile(r"(?P<turn>[0-9]{1,9})(?:\.(?P<what>call|status))?=(?P<value>.*)", re.DOTALL)

HOW = 'write N=TEXT, N.call=\'{"name": …, "arguments": {…}}\' or N.status=CODE, of 400 to 599'


class Edit(msgspec.Struct, frozen=True):
    """What is put in place of the answer to a turn."""

    turn: int
    what: Literal["text", "call", "status"]
    text: str = ""
    call: EditedCall | None = None
    status: int = 0


def parse_edit(given: str) -> Edit:
    """Parse an edit. Raises `ValueError` with one sentence for a person."""
    form = _FORM.fullmatch(given)
    if form is None or not form["value"] or not int(form["turn"]):
        raise ValueError(f"{given!r} is not an edit: {HOW}.")
    turn, value = int(form["turn"]), form["value"]
    if form["what"] is None:
        return Edit(turn, "text", text=value)
    if form["what"] == "status":
        if not re.fullmatch("[45][0-9]{2}", value):
            raise ValueError(f"{value!r} is not the status of an error: {HOW}.")
        return Edit(turn, "status", status=int(value))
    try:
        return Edit(turn, "call", call=msgspec.json.decode(value, type=EditedCall))
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ValueError(f"{value!r} is not a call ({error}): {HOW}.") from None


def edited(recorded: Recording, edit: Edit) -> Recording:
    """Return what is played in place of a recording.

    Raises `UsageError` if that has no answer of a known format.
    """
    recorded = as_sse(recorded) if is_turn(recorded) else recorded
    if edit.what == "status":
        return _with_status(recorded, edit.status)
    head = recorded.response
    format = parts("edit").get(recorded.exchange.api)
    if format is None or head is None or head.status >= 400 or recorded.is_coded:
        raise _no_answer(recorded)
    try:
        framing = framing_of(header(recorded.headers, "content-type"))
        if framing is not None:
            return _playable(recorded, head, _streamed(recorded, edit, format, framing))
        return _playable(recorded, head, [_document(recorded, edit, format)])
    except LookupError:
        raise _no_answer(recorded) from None


def _no_answer(recorded: Recording) -> UsageError:
    name = recorded.name or "The exchange"
    return UsageError(
        f"{name[:1].upper()}{name[1:]} has no answer that can be edited ({recorded.exchange.api}): edit its status, or "
        "leave it out."
    )


def _with_status(recorded: Recording, status: int) -> Recording:
    phrases = {each.value: each.phrase for each in HTTPStatus}
    asked = recorded.request
    said = f"This answer was edited: it has the status {status}."
    body = error_body(asked.method, asked.target, asked.upstream, status, said)
    head = ResponseHead(status, phrases.get(status, ""), [("content-type", "application/json")])
    return _playable(recorded, head, (Piece(recorded.head_ns, body),))


def _playable(recorded: Recording, head: ResponseHead, pieces: Sequence[Piece]) -> Recording:
    end = recorded.end
    if end is not None:
        end = msgspec.structs.replace(
            end,
            status="completed",
            outcome="eof",
            error=None,
            coding=None,
            undecoded=None,
            gap_chunks=0,
            gap_bytes=0,
        )
    kept = [
        (name, value)
        for name, value in head.headers
        if name.lower() not in ("content-encoding", "content-length")
    ]
    head = msgspec.structs.replace(head, headers=kept)
    return msgspec.structs.replace(
        recorded, response=head, pieces=tuple(pieces), reads=(), end=end, gaps=()
    )


def _document(recorded: Recording, edit: Edit, format: Any) -> Piece:
    body = decoded_or_none(recorded.body)
    written: Any
    if isinstance(body, list):  # Gemini without `alt=sse`: a stream as an array
        written = format.stream(body, _answer(edit, 1))
    else:
        written = format.document(request_object(recorded.body), _answer(edit, 1))
    times = [piece.t_ns for piece in recorded.pieces] or [recorded.head_ns]
    return Piece(times[-1], as_json(written).encode())


def _streamed(recorded: Recording, edit: Edit, format: Any, framing: Framing) -> list[Piece]:
    """Return the blocks of the stream, spread over the recorded times: the first and the last keep
    theirs.
    """
    blocks = list(_blocks(recorded, framing))
    fields = [framing.fields(block) for _, block in blocks]
    payloads = [request_object(each.data) for each in fields if each.data is not None]
    events: list[Object] = format.stream(
        [each for each in payloads if each], _answer(edit, len(payloads))
    )
    is_named = any(each.event is not None for each in fields)
    member = by_name(recorded.exchange.api).type_member
    if framing is not SSE:
        written = [_ENCODERS[framing.name](event) for event in events]
    else:
        written = [_block(event, event[member] if is_named else None) for event in events]
    if any(each.data is not None and each.data.strip() == DONE.encode() for each in fields):
        written.append(f"data: {DONE}\n\n".encode())
    if framing is SSE and any(raw.endswith(b"\r\n") for _, raw in blocks):  # as Google sends them
        written = [raw.replace(b"\n", b"\r\n") for raw in written]
    last, steps = len(blocks) - 1, max(1, len(written) - 1)
    return [Piece(blocks[number * last // steps][0], raw) for number, raw in enumerate(written)]


def _blocks(recorded: Recording, framing: Framing) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks of a stream, each with the time of its last part."""
    waiting = b""
    for piece in recorded.pieces:
        waiting += piece.raw
        if framing.ends(piece.raw):
            yield piece.t_ns, waiting.removeprefix(BOM)
            waiting = b""


def _block(event: Mapping[str, Any], name: str | None) -> bytes:
    line = "" if name is None else f"event: {name}\n"
    return f"{line}data: {as_json(event)}\n\n".encode()


def _line(event: Object) -> bytes:
    return f"{as_json(event)}\n".encode()


def _message(event: Object) -> bytes:
    """Encode a message of AWS, whose type is the one member of the event.

    Raises `LookupError` for another event.
    """
    if len(event) != 1:
        raise LookupError("the type of a message")
    [(type, payload)] = event.items()
    return aws_event_stream.event(type, as_json(payload).encode())


_ENCODERS: Mapping[str, Callable[[Object], bytes]] = {"ndjson": _line, "aws_event_stream": _message}
"""By the name of a framing."""


def _answer(edit: Edit, count: int) -> EditedAnswer:
    """Return the answer in at most so many deltas, which together are the text or the arguments."""
    whole = edit.text if edit.call is None else edit.call.json
    size = max(1, -(-len(whole) // max(1, count)))
    deltas = [whole[start : start + size] for start in range(0, len(whole), size)]
    return EditedAnswer(edit.text, edit.call, deltas)
