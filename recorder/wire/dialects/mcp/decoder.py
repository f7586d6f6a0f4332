"""Messages of MCP → facts: a request is an item, and its response is what that item gave.

The request of an HTTP exchange is itself a message, so that the call of a tool begins with the exchange. Each side
numbers its own requests: an id means another request on each side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from recorder.model.facts import (
    ErrorReported,
    Fact,
    ItemFinished,
    ItemStarted,
    ItemState,
    MalformedPayload,
    ToolProgress,
)
from recorder.wire.dialects.decoder import Facts, JsonDecoder, failed
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    flag,
    object_,
    objects,
    request_object,
    text,
    text_or_json,
)
from recorder.wire.dialects.media import without_bytes

RESULT = "result"
CALL = "tools/call"
PROGRESS = "notifications/progress"

WAITING = 10_000
"""Requests without a response that are remembered: no client has a hundredth of it open."""

_TAKEN = (b"", b"Accepted")
"""The bodies of a 202, in the SDKs for Python and TypeScript."""

Side = Literal["client", "server"]


class _Request(msgspec.Struct, frozen=True):
    """A request that has no response yet."""

    key: int
    stated: ItemState
    is_whole: bool  # it is the request of the exchange: its error is one of the exchange


class McpDecoder(JsonDecoder):
    """Follows the requests of both sides."""

    def __init__(self) -> None:
        self._requests: dict[tuple[Side, str], _Request] = {}
        self._count = 0  # of requests: a client may use an id again

    def request(self, data: bytes) -> Facts:
        message = request_object(data)
        facts = self._message(message, "client", is_whole=True)
        return [msgspec.structs.replace(fact, with_exchange=True) for fact in facts if isinstance(fact, ItemStarted)]

    def sent(self, type: str | None, data: bytes) -> Facts:
        return self._read(data, lambda message: self._of_side(message, "client"))

    def general(self, type: str | None, data: bytes) -> Facts:
        """Decode an event. One without data has an id to resume from, and says nothing."""
        return super().general(type, data) if data.strip() else ()

    def document(self, data: bytes) -> Facts:
        """Decode a body. That a message was taken, which is answered elsewhere, servers say in a word or not at all."""
        return () if data.strip() in _TAKEN else super().document(data)

    def payload(self, type: str | None, payload: Any) -> Facts:
        """Decode a message of the server."""
        return self._of_side(payload, "server")

    def whole(self, payload: Any) -> Facts:
        return self._of_side(payload, "server")

    def _of_side(self, payload: Any, by: Side) -> Facts:
        """Decode a message, or several in one, which the protocol of 2025-03 allows."""
        if isinstance(payload, list):
            found: list[Fact] = []
            for message in objects(payload):
                found += self._message(message, by)
            return found
        if not isinstance(payload, dict):
            return (MalformedPayload("a message is not a JSON object"),)
        return self._message(payload, by)

    def _message(self, message: Object, by: Side, *, is_whole: bool = False) -> Facts:
        method, id = text(message, "method"), message.get("id")
        if method is None:
            return self._response(message, by)
        if method == PROGRESS:
            return (_progress(object_(message, "params")),)
        if id is None or len(self._requests) >= WAITING:
            return ()
        return self._asked(method, text_or_json(id), object_(message, "params"), by, is_whole=is_whole)

    def _asked(self, method: str, id: str, params: Object, by: Side, *, is_whole: bool) -> Facts:
        self._count += 1
        stated = _stated(method, id, params)
        self._requests[by, id] = _Request(self._count, stated, is_whole)
        return (ItemStarted(self._count, None, stated),)

    def _response(self, message: Object, by: Side) -> Facts:
        id = message.get("id")
        error = message.get("error")
        request = self._requests.pop(("server" if by == "client" else "client", text_or_json(id)), None)
        if request is None:
            return (failed(message),) if error and by == "server" and id is None else ()
        failure = [failed(message)] if error and request.is_whole else list[ErrorReported]()
        return [ItemFinished(request.key, None, _answered(request.stated, message)), *failure]


def _stated(method: str, id: str, params: Object) -> ItemState:
    """Return a request as an item: the call of a tool with its name, any other with all that it says."""
    is_call = method == CALL
    given = params.get("arguments") if is_call else {name: params[name] for name in params if name != "_meta"}
    return ItemState(
        kind="tool_call" if is_call else "other",
        type=method,
        item_id=id,
        name=text(params, "name") or text(params, "uri"),
        call_id=id,
        texts=(("arguments", 0, as_json({} if given is None else given)),),
    )


def _answered(request: ItemState, message: Object) -> ItemState:
    """Return an item with its response. A tool that fails says so in its result, a method in an error."""
    error, result = message.get("error"), object_(message, "result")
    is_failed = bool(error) or flag(result, "isError") or False
    output = as_json(error) if error else _output(result)
    status = text(result, "resultType") or "completed"
    return msgspec.structs.replace(
        request, texts=(), output=output, failed=is_failed, status="failed" if error else _STATUSES.get(status, status)
    )


_STATUSES: Mapping[str, str] = {"complete": "completed"}


def _output(result: Object) -> str:
    """Return what a tool gave: its text if that is all, else its content as JSON, and of other methods the result."""
    parts = objects(result, "content")
    texts = [text(part, "text") for part in parts if text(part, "type") == "text"]
    if parts and len(texts) == len(parts):
        return "\n".join(filter(None, texts))
    if not parts and "structuredContent" in result:
        return as_json(result["structuredContent"])
    return as_json(without_bytes(result.get("content") if parts else result))


def _progress(params: Object) -> ToolProgress:
    progress = {name: params[name] for name in ("progress", "total") if name in params}
    return ToolProgress(CALL, text(params, "message") or "progress", as_json(progress))
