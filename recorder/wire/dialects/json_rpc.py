"""What the formats share that send messages of JSON-RPC: its errors, and the ids by which messages belong together.

Ids and progress tokens are the client's own, and made anew in each run: a recorded answer gets those of the client that
asks now. Of a message only they are changed; every other member stays byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from recorder.wire.dialects.json_values import Object, as_json, object_, request_object

JSON_RPC = "application/json-rpc"
"""The type of the lines of a program that speaks JSON-RPC."""

SERVER_ERROR = -32000
"""The code of JSON-RPC that a server may use for an error of its own."""

MEMBERS = "jsonrpc method"
"""Of a request."""


def error_body(status: int, message: str, code: str | None) -> dict[str, Any]:
    """Return an error of JSON-RPC. It has no id: clients over HTTP take that of their request."""
    data = {"status": status, "code": code} if code else {"status": status}
    return {"jsonrpc": "2.0", "id": None, "error": {"code": SERVER_ERROR, "message": message, "data": data}}


Members = dict[str, msgspec.Raw]
_members = msgspec.json.Decoder(Members).decode
_encode = msgspec.json.encode

TOKEN = "progressToken"
_PLACES: Mapping[tuple[str, ...], str] = {("id",): "id", ("params", TOKEN): TOKEN}
"""Where a message of an answer has an id, and which one of the request it is."""


def ids_of(message: Object) -> Mapping[str, object]:
    """Return the id of a request, and the token for reports of its progress."""
    ids = {"id": message.get("id"), TOKEN: object_(message, "params", "_meta").get(TOKEN)}
    return {name: id for name, id in ids.items() if id is not None}


def renumbering(recorded: bytes, asked: bytes) -> Callable[[bytes], bytes] | None:
    """Return what gives a message of the answer to a recorded request the ids of the request that is answered now.

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
