"""Recorded conversations in which requests continue responses, for tests of logical requests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from recorder.model.events import WEBSOCKET, Exchange
from recorder.model.payloads import RequestRecord, ResponseHead
from recorder.model.recording import Piece, Recording

Json = dict[str, Any]

CALL = {
    "type": "function_call",
    "id": "fc_1",
    "status": "completed",
    "call_id": "call_1",
    "name": "roll",
    "arguments": '{"dice":2}',
}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "7"}


def said(text: str, id: str = "msg_1") -> Json:
    """A message of the model, as the provider states it."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "id": id, "status": "completed", "role": "assistant", "content": [part]}


def user(text: str) -> Json:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def asks(input: Any, previous: str | None = None, **fields: Any) -> Json:
    """The body of a request."""
    link = {} if previous is None else {"previous_response_id": previous}
    return {"model": "m", "stream": True, **link, "input": input, **fields}


def answer(id: str, *items: Json, restates: bool = True) -> list[Json]:
    """The events of a response; without `restates` its last one has no items, as Codex accepts it."""
    done = [
        {"type": "response.output_item.done", "output_index": index, "item": item} for index, item in enumerate(items)
    ]
    output = [*items] if restates else []
    return [
        {"type": "response.created", "response": {"id": id, "status": "in_progress", "output": []}},
        *done,
        {"type": "response.completed", "response": {"id": id, "status": "completed", "output": output}},
    ]


def made(
    number: int, body: Json | None, events: Iterable[Json] = (), *, turn: bool = False, document: Json | None = None
) -> Recording:
    """An exchange of a session: a request, and the events or the document that answered it; `turn`: over WebSocket."""
    target = "/v1/responses" if body is not None else "/v1/responses/resp"
    method = WEBSOCKET if turn else "GET" if body is None else "POST"
    ids = ("s", f"e{number}", number, "r", "openai", "openai-responses")
    sent = b"" if body is None else json.dumps(body).encode()
    request = RequestRecord(method, target, "openai", [], len(sent), "", len(sent), complete=True)
    raws = [json.dumps(event).encode() for event in events]
    if not turn:
        raws = [b"data: %s\n\n" % raw for raw in raws]
    kind = "text/event-stream"
    if document is not None:
        raws, kind = [json.dumps(document).encode()], "application/json"
    head = ResponseHead(101, "", []) if turn else ResponseHead(200, "OK", [("content-type", kind)])
    pieces = tuple(Piece(n, raw) for n, raw in enumerate(raws))
    return Recording(
        *(Exchange(*ids, method, target), request, sent, head, 0, pieces, (), None, len(raws)),
        number=number,
        name=f"exchange {number}",
    )


def by_delta(*, turn: bool = False, text: str = "Roll two dice.") -> list[Recording]:
    """Three requests of an agent, of which each has only what is new."""
    return [
        made(1, asks(user(text)["content"][0]["text"]), answer("resp_1", THOUGHT, CALL), turn=turn),
        made(2, asks([RESULT], "resp_1"), answer("resp_2", said("You rolled 7."), restates=False), turn=turn),
        made(3, asks([user("Again?")], "resp_2"), answer("resp_3", said("No.", "msg_2")), turn=turn),
    ]


def whole_history(text: str = "Roll two dice.") -> list[Recording]:
    """The same conversation from a client that sends all of it, as its SDK writes it."""
    call = {name: CALL[name] for name in ("type", "call_id", "name", "arguments")}
    first = [user(text), call, RESULT]
    spoken = {"role": "assistant", "content": "You rolled 7."}
    return [
        made(1, asks([user(text)]), answer("resp_a", THOUGHT, CALL)),
        made(2, asks(first), answer("resp_b", said("You rolled 7."))),
        made(3, asks([*first, spoken, {"role": "user", "content": "Again?"}]), answer("resp_c", said("No."))),
    ]


def items_of(parts: Sequence[Any]) -> list[Json]:
    """The items of the parts of a logical request, decoded."""
    return [json.loads(bytes(item)) for part in parts for item in part.items]
