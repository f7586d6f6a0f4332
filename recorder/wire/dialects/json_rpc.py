"""What the formats share that send messages of JSON-RPC: its errors, the ids by which messages
belong together, and the items that requests are.

Ids and progress tokens are the client's own, and made anew in each run: a recorded answer gets
those of the client that asks now. Of a message only they are changed; every other member stays byte
for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from recorder.model.facts import ErrorReported, Fact, ItemFinished, ItemState, MalformedPayload
from recorder.wire.dialects.decoder import Facts, JsonDecoder, failed
from recorder.wire.dialects.dialect import ProgramLines
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    object_,
    objects,
    request_object,
    text,
    text_or_json,
    without,
    without_nulls,
)
from recorder.wire.dialects.media import without_bytes
from recorder.wire.dialects.requests import By, Request, Requests

SERVER_ERROR = -32000
"""The code of JSON-RPC that a server may use for an error of its own."""

MEMBERS = "jsonrpc method"
"""Of a request."""


def error_body(status: int, message: str, code: str | None) -> dict[str, Any]:
    """Return an error of JSON-RPC. It has no id: clients over HTTP take that of their request."""
    data = {"status": status, "code": code} if code else {"status": status}
    return {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": SERVER_ERROR, "message": message, "data": data},
    }


Members = dict[str, msgspec.Raw]
_members = msgspec.json.Decoder(Members).decode
_encode = msgspec.json.encode

TOKEN = "progressToken"
_PLACES: Mapping[tuple[str, ...], str] = {("id",): "id", ("params", TOKEN): TOKEN}
"""Where a message of an answer has an id, and which one of the request it is."""


def ids_of(message: Object) -> Mapping[str, object]:
    """Return the id of a request, and the token for reports of its progress."""
    token = object_(message, "params", "_meta").get(TOKEN)
    return without_nulls({"id": message.get("id"), TOKEN: token})


def renumbering(recorded: bytes, asked: bytes) -> Callable[[bytes], bytes] | None:
    """Return what gives a message of the answer to a recorded request the ids of the request that
    is answered now.

    None if they are the same.
    """
    before, now = ids_of(request_object(recorded)), ids_of(request_object(asked))
    pairs: dict[str, tuple[bytes, bytes]] = {}
    for name in before:
        if name in now and before[name] != now[name]:
            pairs[name] = as_json(before[name]).encode(), as_json(now[name]).encode()
    return (lambda message: renumbered(message, pairs)) if pairs else None


def renumbered(message: bytes, pairs: Mapping[str, tuple[bytes, bytes]]) -> bytes:
    """Return a message with the second id of each pair where it has the first.

    A request of the server keeps its own.
    """
    try:
        members = _members(message)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return message
    is_response = "method" not in members
    for path, name in _PLACES.items():
        if name in pairs and (is_response or name == TOKEN):
            _replace(members, path, *pairs[name])
    return _encode(members)


def _replace(members: Members, path: tuple[str, ...], old: bytes, new: bytes) -> None:
    name, *rest = path
    if name not in members:
        return
    if not rest:
        if bytes(members[name]) == old:
            members[name] = msgspec.Raw(new)
        return
    try:
        inner = _members(members[name])
    except msgspec.DecodeError:
        return
    _replace(inner, tuple(rest), old, new)
    members[name] = msgspec.Raw(_encode(inner))


# -- line by line, over the standard streams of a program


def _is_request(message: Object) -> bool:
    """Return whether a message waits for a response."""
    return "method" in message and message.get("id") is not None


def _asked(message: Object) -> list[str]:
    return (
        [f"{name} {as_json(id)}" for name, id in ids_of(message).items()]
        if _is_request(message)
        else []
    )


def _answered(message: Object) -> str:
    if text(message, "method") is None:
        return f"id {as_json(message['id'])}" if "id" in message else ""
    token = object_(message, "params").get(TOKEN)
    return "" if token is None else f"{TOKEN} {as_json(token)}"


def _compared(message: Object) -> Object | None:
    """Return of a response to the program only the id."""
    is_response = (
        "method" not in message and "id" in message and ("result" in message or "error" in message)
    )
    return {"id": message["id"]} if is_response else None


def _refusal(message: Object, why: str) -> Object | None:
    if not _is_request(message):
        return None
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": SERVER_ERROR, "message": why}}


LINES = ProgramLines(
    media_type="application/json-rpc",
    begins=lambda first: b'"jsonrpc"' in first,
    asked=_asked,
    answered=_answered,
    compared=_compared,
    asks=lambda message: {"id": message["id"]} if _is_request(message) else None,
    refusal=_refusal,
)


# -- messages → facts


class RpcDecoder(JsonDecoder):
    """Follows the requests of both sides: a request is an item, and its response is what that item
    gave.
    """

    def __init__(self) -> None:
        self._requests = Requests()

    def sent(self, type: str | None, data: bytes) -> Facts:
        return self._read(data, lambda payload: self._of_side(payload, "client"))

    def payload(self, type: str | None, payload: Any) -> Facts:
        """Decode a message of the server."""
        return self._of_side(payload, "server")

    def _of_side(self, payload: Any, by: By) -> Facts:
        """Decode a message, or several in one, which MCP of 2025-03 allows."""
        if isinstance(payload, list):
            found: list[Fact] = []
            for message in objects(payload):
                found += self.message(message, by)
            return found
        if not isinstance(payload, dict):
            return (MalformedPayload("a message is not a JSON object"),)
        return self.message(payload, by)

    def message(self, message: Object, by: By, *, is_whole: bool = False) -> Facts:
        method, id = text(message, "method"), message.get("id")
        params = object_(message, "params")
        if method is None:
            return self._response(message, by)
        if id is None:
            return self.noticed(method, params)
        stated = self.stated(method, text_or_json(id), params)
        return self._requests.ask(by, text_or_json(id), method, stated, is_whole=is_whole)

    def _response(self, message: Object, by: By) -> Facts:
        id, error = message.get("id"), message.get("error")
        request = self._requests.answered(by, text_or_json(id))
        if request is None:
            return self.unasked(message) if by == "server" else ()
        failure = [failed(message)] if error and request.is_whole else list[ErrorReported]()
        return [*self.answered(request, message), *failure]

    def noticed(self, method: str, params: Object) -> Facts:
        """Decode a message that wants no response."""
        return ()

    def unasked(self, message: Object) -> Facts:
        """Decode a response of the server to no request that is known here."""
        return (failed(message),) if message.get("error") and message.get("id") is None else ()

    def stated(self, method: str, id: str, params: Object) -> ItemState:
        """Return a request as an item."""
        given = as_json(without_bytes(without(params, ("_meta",))))
        return ItemState("other", method, item_id=id, call_id=id, texts=(("arguments", 0, given),))

    def answered(self, request: Request, message: Object) -> Facts:
        """Decode the response to a request."""
        return (ItemFinished(request.key, None, self.outcome(request.stated, message)),)

    def outcome(self, stated: ItemState, message: Object) -> ItemState:
        """Return the item of a request with its response."""
        error, result = message.get("error"), message.get("result")
        return msgspec.structs.replace(
            stated,
            texts=(),
            output=as_json(error if error else without_bytes(result)),
            failed=bool(error),
            status="failed" if error else "completed",
        )
