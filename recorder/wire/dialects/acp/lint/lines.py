"""The faults of the lines of an agent: their form, what they answer, what they tell and what they
ask for.
"""

from __future__ import annotations

from recorder.lint.faults import misfit, shown
from recorder.lint.json_rpc import is_error, is_id, waiting
from recorder.lint.rule import Faults
from recorder.lint.stream import StreamBlock, StreamView
from recorder.model.events import CloseRecord
from recorder.wire.dialects.acp.decoder import STEPS, UPDATE
from recorder.wire.dialects.acp.lint.shapes import SHAPES
from recorder.wire.dialects.json_values import Object, as_json, names, object_, request_object, text

_REQUESTS = names("""
    session/request_permission fs/write_text_file fs/read_text_file
    terminal/create terminal/output terminal/release terminal/wait_for_exit terminal/kill
    """)
_OTHERS = names(
    "elicitation/create elicitation/complete mcp/connect mcp/message mcp/disconnect auth/status_update"
)
"""Methods of a client that are not stable yet."""

_ANY_RESULT = names("session/load session/list session/set_config_option")
"""Methods of which a result that is not an object is an empty one to the SDK for Python."""


class Lines:
    """Follows the lines of one agent."""

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        self._waiting = waiting(
            (request_object(each.raw) for each in stream.recording.sent), as_json
        )

    def feed(self, block: StreamBlock) -> Faults:
        line = (block.data or b"").strip()
        if block.payload is None and line != b"null" and not line.startswith((b"{", b"[")):
            return  # a line of a log, which clients pass over
        wrong = _wrong(block.payload)
        if wrong is not None:
            yield "AC001", block.pos, wrong
            return
        message = object_(block.payload)
        method = text(message, "method")
        if method is None:
            yield from self._response(block.pos, message)
        else:
            yield from _of_agent(block.pos, method, message)

    def end(self) -> Faults:
        """Yield the requests that the program did not answer before it ended, if its client had not
        left it.
        """
        end = self._stream.end
        is_left = end is None or (isinstance(end.close, CloseRecord) and end.close.by == "client")
        if is_left or not self._stream.is_seen_whole:
            return
        for requests in self._waiting.values():
            for request in requests:
                yield "AC007", None, shown(request["method"])

    def _response(self, pos: int, message: Object) -> Faults:
        asked = self._waiting.get(as_json(message["id"]))
        if asked:
            yield from _of_result(pos, text(asked.popleft(), "method") or "", message)
        elif message["id"] is not None:
            yield "AC002", pos, f"id {shown(message['id'])}"


def _wrong(message: object) -> str | None:
    """Return why a line is not a message; None if it is one."""
    if not isinstance(message, dict):
        return shown(message)
    if message.get("jsonrpc") != "2.0":
        return f"jsonrpc is {shown(message.get('jsonrpc'))}"
    if "id" in message and message["id"] is not None and not is_id(message["id"]):
        return f"its id is {shown(message['id'])}"
    if "method" in message:
        return (
            None
            if text(message, "method") is not None
            else f"its method is {shown(message['method'])}"
        )
    if "id" not in message or ("result" in message) == ("error" in message):
        return "it has no id" if "id" not in message else "it has not one of a result and an error"
    return None if "result" in message or is_error(message["error"]) else "its error cannot be read"


def _of_result(pos: int, method: str, message: Object) -> Faults:
    if "error" in message or method not in SHAPES.by_name:
        return
    result = message["result"]
    if method in _ANY_RESULT and not isinstance(result, dict):
        result = {}
    for each in SHAPES.misfits(result, method):
        yield "AC003", pos, misfit(each)


def _of_agent(pos: int, method: str, message: Object) -> Faults:
    params = message.get("params")
    if method == UPDATE:
        for each in SHAPES.misfits(params, method):
            yield "AC004", pos, misfit(each)
        yield from _update(pos, object_(params, "update"))
    elif method in _REQUESTS:
        if "id" not in message:
            yield "AC005", pos, "it has no id"
        for each in SHAPES.misfits(params, method):
            yield "AC005", pos, misfit(each)
    elif method not in _OTHERS and not method.startswith(("_", "$/")):
        yield "AC006", pos, shown(method)


def _update(pos: int, update: Object) -> Faults:
    kind = text(update, "sessionUpdate")
    if kind is None:
        return
    if f"on_{kind}" in SHAPES.by_name:
        for each in SHAPES.misfits(update, f"on_{kind}", path="update"):
            yield "AC004", pos, misfit(each)
        resource = object_(update, "content", "resource")
        if resource and resource.get("text") is None and resource.get("blob") is None:
            yield "AC004", pos, "the resource has neither a text nor a blob"
    elif kind not in STEPS:
        yield "AC006", pos, shown(kind)
