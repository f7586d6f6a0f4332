"""The faults of a stream of A2A, over JSON-RPC or REST: its responses, the fields of their results,
and its end.
"""

from __future__ import annotations

from collections.abc import Iterable

from recorder.lint.faults import is_json, misfit, shown
from recorder.lint.rule import Faults
from recorder.lint.shape import Misfit, Shapes
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.a2a.decoder import ENDINGS, MEMBERS_OF, REST, state_of, told
from recorder.wire.dialects.json_values import Object, as_json, object_, text

_OLD = Shapes("""\
task: id!:text contextId!:text status!:status artifacts:[artifact] history:[message]
status-update: taskId!:text contextId!:text status!:status final!:truth
artifact-update: taskId!:text contextId!:text artifact!:artifact append:truth lastChunk:truth
message: messageId!:text role!:text parts!:[part]
status: state!:text message:message timestamp:text
artifact: artifactId!:text name:text parts!:[part]
part: kind!:text text:text data:object file:object
""")
"""Version 0.3."""

_NEW = Shapes("""\
task: id:text contextId:text status:status artifacts:[artifact] history:[message]
status-update: taskId:text contextId:text status:status final:truth
artifact-update: taskId:text contextId:text artifact:artifact append:truth lastChunk:truth
message: messageId:text role:text parts:[part] content:[part]
status: state:text message:message timestamp:text
artifact: artifactId:text name:text parts:[part]
part: text:text raw:text url:text filename:text mediaType:text
""")
"""Version 1.0, and 0.3 over REST, where what is missing has no value."""

_STATES = {*ENDINGS, "submitted", "working", "unknown"}


class Responses:
    """Follows the responses of one stream."""

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        target = stream.exchange.target.partition("?")[0]
        self._is_rest = REST.search(f"{stream.exchange.method} {target}") is not None
        self._has_ended = False

    def feed(self, block: StreamBlock) -> Faults:
        if block.is_event and block.data and is_json(block):
            yield from self._response(block)

    def end(self) -> Faults:
        if self._stream.is_seen_whole and not self._has_ended:
            yield "A2004", None, ""

    def _response(self, block: StreamBlock) -> Faults:
        response = object_(block.payload)
        error = response.get("error")
        if error:
            self._has_ended = True
        if self._is_rest:
            is_read = block.name == "error" if error else isinstance(block.payload, dict)
        else:
            is_read = isinstance(error or response.get("result"), dict)
        if not is_read:
            yield "A2001", block.pos, shown(block.payload)
        elif not error and self._is_rest:
            yield from self._result(block.pos, response)
        elif not error:
            yield from self._id(block.pos, response)
            yield from self._result(block.pos, object_(response, "result"))

    def _id(self, pos: int, response: Object) -> Faults:
        asked = self._stream.request_json
        if isinstance(asked, dict) and as_json(asked.get("id")) != as_json(response.get("id")):
            yield "A2005", pos, f"{shown(response.get('id'))} for {shown(asked.get('id'))}"

    def _result(self, pos: int, result: Object) -> Faults:
        kind, of = told(result)
        members = [name for name in MEMBERS_OF if isinstance(result.get(name), dict)]
        if kind is None or kind not in MEMBERS_OF.values() or len(members) > 1:
            self._has_ended = self._has_ended or len(members) > 1  # the client reads on no further
            yield "A2002", pos, shown(result)
            return
        for each in _misfits(kind, of, is_old=not members):
            yield "A2003", pos, misfit(each)
        state = state_of(text(of, "status", "state"))
        self._has_ended = self._has_ended or kind == "message" or state in ENDINGS


def _misfits(kind: str, of: Object, *, is_old: bool) -> Iterable[Misfit]:
    yield from (_OLD if is_old else _NEW).misfits(of, kind)
    if is_old and "kind" not in of:
        yield Misfit("kind", "a text", None)
    given = text(of, "status", "state")
    is_of_version = given is not None and given.startswith("TASK_STATE_") != is_old
    if given is not None and not (is_of_version and state_of(given) in _STATES):
        yield Misfit("status.state", "a state of A2A", given)
