"""The faults of the messages of a server: their form, what they answer, and the results of three
methods.
"""

from __future__ import annotations

from recorder.lint.faults import misfit, shown
from recorder.lint.json_rpc import is_error, is_id, waiting
from recorder.lint.rule import Faults
from recorder.lint.shape import Shapes
from recorder.lint.stream import StreamBlock, StreamView
from recorder.model.events import STDIO
from recorder.wire.dialects.json_values import Object, object_, request_object, text, text_or_json
from recorder.wire.framing.sse import parse

SHAPES = Shapes("""\
initialize: protocolVersion!:text capabilities!:object serverInfo!:implementation
implementation: name!:text version!:text
tools/list: tools!:[tool] nextCursor:text
tool: name!:text description:text inputSchema!:schema outputSchema:object
schema: type!:text
tools/call: content!:[content]
content.text: text!:text
content.image: data!:text mimeType!:text
content.audio: data!:text mimeType!:text
content.resource_link: name!:text uri!:text
content.resource: resource!:object
""")

_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The versions that `initialize` may agree on: later ones have no such request. One that was asked
for is known too.
"""

_COMPLETE = (None, "complete")  # what a result says of itself: one of another kind asks for more


class Messages:
    """Follows the messages of a server, over HTTP or line by line."""

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        self._is_stdio = stream.exchange.method == STDIO
        self._is_answered = self._is_resumable = False
        lines = (request_object(each.raw) for each in stream.recording.sent)
        self._waiting = waiting(
            lines if self._is_stdio else [object_(stream.request_json)], text_or_json
        )

    def feed(self, block: StreamBlock) -> Faults:
        if not block.is_event or block.data is None:
            return
        if block.name not in (None, "message"):
            yield "MC005", block.pos, shown(block.name)
            return
        if not self._is_stdio:
            self._is_resumable = self._is_resumable or parse(block.raw).id is not None
        elif block.payload is None:  # clients pass over a line of a log
            return
        if block.data.strip():
            yield from self._message(block.pos, block.payload)

    def end(self) -> Faults:
        stream = self._stream
        if self._is_stdio or stream.status != 200 or not stream.is_seen_whole:
            return
        if not stream.is_stream and stream.body.strip() and "json" in stream.content_type:
            yield from self._message(None, stream.document)
        if self._waiting and not self._is_answered and not self._is_resumable:
            yield "MC004", None, ""

    def _message(self, pos: int | None, message: object) -> Faults:
        wrong = _wrong(message)
        if wrong is not None:
            # the client reads on no further
            self._is_answered = self._is_answered or not self._is_stdio
            yield "MC001", pos, wrong
        elif isinstance(message, dict) and "method" not in message:
            yield from self._response(pos, message)

    def _response(self, pos: int | None, message: Object) -> Faults:
        request = self._request_of(message)
        self._is_answered = True
        if request is None:
            yield "MC003", pos, f"id {shown(message['id'])}"
            return
        if message.get("error") is None:
            yield from _of_result(pos, request, message["result"])
        elif message.get("result") is not None:
            yield "MC002", pos, ""

    def _request_of(self, message: Object) -> Object | None:
        """Return the request that a client takes a response for: over HTTP that of its POST,
        whatever the id.
        """
        if not self._is_stdio:
            first = next(iter(self._waiting.values()), None)
            return first[0] if first and not self._is_answered else None
        asked = self._waiting.get(text_or_json(message["id"]))
        return asked.popleft() if asked else None


def _wrong(message: object) -> str | None:
    """Return why a message is not one of JSON-RPC; None if it is one."""
    if not isinstance(message, dict):
        return shown(message)
    if message.get("jsonrpc") != "2.0":
        return f"jsonrpc is {shown(message.get('jsonrpc'))}"
    if "method" in message:
        is_known = text(message, "method") is not None and isinstance(
            message.get("params", {}), dict | None
        )
        return None if is_known else "it has a method or parameters that cannot be read"
    if isinstance(message.get("result"), dict):
        return None if is_id(message.get("id")) else f"its id is {shown(message.get('id'))}"
    if not is_error(message.get("error")):
        return "it has neither a result nor an error that can be read"
    return (
        None
        if "id" in message and (message["id"] is None or is_id(message["id"]))
        else "an error has no id"
    )


def _of_result(pos: int | None, request: Object, result: Object) -> Faults:
    method = text(request, "method") or ""
    if method not in SHAPES.by_name or result.get("resultType") not in _COMPLETE:
        return
    misfits = list(SHAPES.misfits(result, method))
    for each in misfits:
        yield "MC006", pos, misfit(each)
    if method == "initialize" and not misfits:
        yield from _version(
            pos, text(request, "params", "protocolVersion"), result["protocolVersion"]
        )


def _version(pos: int | None, asked: str | None, answered: str) -> Faults:
    is_earlier = asked is None or answered < asked
    if answered != asked and not (answered in _VERSIONS and is_earlier):
        yield "MC007", pos, f"{shown(answered)} to {shown(asked)}"
