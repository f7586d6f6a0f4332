"""Messages of MCP → facts: a request is an item, and its response is what that item gave.

The request of an HTTP exchange is itself a message, so that the call of a tool begins with the
exchange.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from recorder.model.facts import (
    ItemFinished,
    ItemStarted,
    ItemState,
    ReturnedElsewhere,
    ToolProgress,
    ToolResult,
)
from recorder.wire.dialects.decoder import Facts
from recorder.wire.dialects.json_rpc import RpcDecoder
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

_TAKEN = (b"", b"Accepted")
"""The bodies of a 202, in the SDKs for Python and TypeScript."""


class McpDecoder(RpcDecoder):
    """Follows the requests of both sides, and reports of their progress."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: Sequence[ItemStarted] = ()  # by the request of the exchange

    def request(self, data: bytes) -> Facts:
        facts = self.message(request_object(data), "client", is_whole=True)
        self._asked = [
            msgspec.structs.replace(fact, with_exchange=True)
            for fact in facts
            if isinstance(fact, ItemStarted)
        ]
        return self._asked

    def general(self, type: str | None, data: bytes) -> Facts:
        """Decode an event. One without data has an id to resume from, and says nothing."""
        return super().general(type, data) if data.strip() else ()

    def document(self, data: bytes) -> Facts:
        """Decode a body.

        That a message was taken, which is answered elsewhere, servers say in a word or not at all:
        the call was made, and its result comes as that of a client's tool does.
        """
        return (
            [_made(each) for each in self._asked]
            if data.strip() in _TAKEN
            else super().document(data)
        )

    def noticed(self, method: str, params: Object) -> Facts:
        return (_progress(params),) if method == PROGRESS else ()

    def unasked(self, message: Object) -> Facts:
        """Decode a response on another stream than that of its request: the one of 2024, or one
        that goes on.
        """
        id, result = message.get("id"), object_(message, "result")
        is_of_tool = bool(message.get("error")) or "content" in result
        if id is None or not is_of_tool:
            return super().unasked(message)
        given = self.outcome(ItemState("tool_call", CALL), message)
        return (
            ReturnedElsewhere(ToolResult(text_or_json(id), None, given.output or "", given.failed)),
        )

    def stated(self, method: str, id: str, params: Object) -> ItemState:
        """Return a request as an item: the call of a tool with its name, any other with all that it
        says.
        """
        stated = super().stated(method, id, params)
        name = text(params, "name") or text(params, "uri")
        if method != CALL:
            return msgspec.structs.replace(stated, name=name)
        given = params.get("arguments")
        arguments = as_json({} if given is None else given)
        return msgspec.structs.replace(
            stated, kind="tool_call", name=name, texts=(("arguments", 0, arguments),)
        )

    def outcome(self, stated: ItemState, message: Object) -> ItemState:
        """Return an item with its response.

        A tool that fails says so in its result, a method in an error.
        """
        answered = super().outcome(stated, message)
        if message.get("error"):
            return answered
        result = object_(message, "result")
        status = text(result, "resultType") or "completed"
        is_failed = flag(result, "isError") or False
        return msgspec.structs.replace(
            answered, output=_output(result), failed=is_failed, status=_STATUSES.get(status, status)
        )


def _made(asked: ItemStarted) -> ItemFinished:
    stated = msgspec.structs.replace(asked.stated, texts=(), status="completed")
    return ItemFinished(asked.item, asked.output_index, stated, with_exchange=True)


_STATUSES: Mapping[str, str] = {"complete": "completed"}


def _output(result: Object) -> str:
    """Return what a tool gave: its text if that is all, else its content as JSON, and of other
    methods the result.
    """
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
