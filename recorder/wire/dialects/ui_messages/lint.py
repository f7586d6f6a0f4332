"""The rules of the UI message stream, which are those of `ai` 6.0 for JavaScript.

Must not know: other APIs, and where recordings come from.
"""

from __future__ import annotations

from collections.abc import Iterable

from recorder.lint.faults import is_json, of_answer, shown
from recorder.lint.rule import Faults, rules
from recorder.lint.screen import misfits
from recorder.lint.shape import Shapes
from recorder.lint.sse import is_done_mark
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.json_values import Object, names, objects, objects_in, text

_TOOL = "providerExecuted:truth providerMetadata:{object} dynamic:truth toolMetadata:object"
SHAPES = Shapes(f"""\
event.text-start, text-end, reasoning-start, reasoning-end: id!:text providerMetadata:{{object}}
event.text-delta, reasoning-delta: id!:text delta!:text providerMetadata:{{object}}
event.error: errorText!:text
event.tool-input-start: toolCallId!:text toolName!:text inputEncoding:text title:text {_TOOL}
event.tool-input-delta: toolCallId!:text inputTextDelta!:text
event.tool-input-available: toolCallId!:text toolName!:text title:text {_TOOL}
event.tool-input-error: toolCallId!:text toolName!:text errorText!:text title:text {_TOOL}
event.tool-approval-request: toolCallId!:text approvalId!:text signature:text
event.tool-output-available: toolCallId!:text preliminary:truth {_TOOL}
event.tool-output-error: toolCallId!:text errorText!:text {_TOOL}
event.tool-output-denied: toolCallId!:text
event.source-url: sourceId!:text url!:text title:text providerMetadata:{{object}}
event.source-document: sourceId!:text mediaType!:text title!:text filename:text providerMetadata:{{object}}
event.file: url!:text mediaType!:text providerMetadata:{{object}}
event.start: messageId:text
event.finish: finishReason:text
event.abort: reason:text
event.start-step, finish-step, message-metadata:
""")

_WORDS = {
    "finish": {"finishReason": names("stop length content-filter tool-calls error other")},
    "tool-input-start": {"inputEncoding": names("json text")},
}
_HELD = {
    "tool-input-available": "input",
    "tool-input-error": "input",
    "tool-output-available": "output",
    "message-metadata": "messageMetadata",
}
"""The member of a chunk that may be anything, null too, but must be there."""
_ENDS = names("finish abort error")
_ANSWERS = names("tool-output-available tool-output-error tool-output-denied tool-approval-request")
_TEXTS = names("text reasoning")


class Chunks:
    """Follows the chunks of one message."""

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        self._open: set[tuple[str, str | None]] = set()
        self._calls: set[str | None] = set(_known_calls(stream))
        self._streaming: set[str | None] = set()  # calls whose input has begun
        self._has_ended = False
        self._is_broken = False  # the SDK reads nothing after the first chunk that it refuses

    def feed(self, block: StreamBlock) -> Faults:
        if self._is_broken or not block.is_event:
            return
        for fault in self._read(block):
            self._is_broken = fault[0] != "UM005"
            yield fault

    def _read(self, block: StreamBlock) -> Faults:
        if is_done_mark(block):
            self._has_ended = True
        elif not isinstance(block.payload, dict):
            if is_json(block):
                yield "UM001", block.pos, shown(block.payload)
        else:
            yield from self._chunk(block.pos, block.payload)

    def end(self) -> Faults:
        """Yield what is missing."""
        if not self._is_broken and self._stream.is_seen_whole and not self._has_ended:
            yield "UM006", None, ""

    def _chunk(self, pos: int, chunk: Object) -> Faults:
        type = text(chunk, "type") or ""
        said = [*_judged(type, chunk)]
        for each in said:
            yield "UM001", pos, each
        if said:
            return
        kind, _, verb = type.partition("-")
        if kind in _TEXTS:
            yield from self._part(pos, (kind, text(chunk, "id")), verb)
        elif kind == "tool":
            yield from self._call(pos, type, text(chunk, "toolCallId"))
        elif type == "finish-step":
            self._open.clear()
        elif type in _ENDS:
            yield from self._ended(pos, type)

    def _part(self, pos: int, part: tuple[str, str | None], verb: str) -> Faults:
        if verb == "start":
            self._open.add(part)
        elif part not in self._open:
            yield "UM002", pos, f"its id is {shown(part[1])}"
        elif verb == "end":
            self._open.discard(part)

    def _call(self, pos: int, type: str, id: str | None) -> Faults:
        if type == "tool-input-delta":
            if id not in self._streaming:
                yield "UM003", pos, f"its id is {shown(id)}"
        elif type in _ANSWERS:
            if id not in self._calls:
                yield "UM004", pos, f"its id is {shown(id)}"
        else:
            self._calls.add(id)
            part = ("input", id)
            if type == "tool-input-start":
                self._streaming.add(id)
                self._open.add(part)
            else:
                self._open.discard(part)

    def _ended(self, pos: int, type: str) -> Faults:
        self._has_ended = True
        if type == "finish":
            for kind, id in sorted(self._open, key=str):
                yield "UM005", pos, f"it is {kind} {shown(id)}"


def _judged(type: str, chunk: Object) -> Iterable[str]:
    """Yield what is wrong with a chunk by itself."""
    held = "data" if type.startswith("data-") else _HELD.get(type)
    if held is not None and held not in chunk:
        yield f"{held} is missing"
    if type in SHAPES.families["event"]:
        yield from misfits(SHAPES, _WORDS, chunk)
    elif not type.startswith("data-"):
        yield f"its type is {shown(chunk.get('type'))}"


def _known_calls(stream: StreamView) -> list[str | None]:
    """Return the ids of the calls in the request: a message goes on after an approval."""
    request = stream.request_json
    parts = objects_in(objects(request, "messages"), "parts")
    return [text(part, "toolCallId") for part in parts]


RULES = rules(
    """
UM001 error
A chunk has no type that the SDK knows, or a member is missing, is null, or has another type than declared.
useChat raises AI_TypeValidationError, shows an error and drops the rest of the answer.
vercel/ai, packages/ai/src/ui-message-stream/ui-message-chunks.ts: uiMessageChunkSchema

UM002 error
A text or a thought grows or ends that did not begin, or is not open any more: a step ends all that are.
useChat raises AI_UIMessageStreamError, shows an error and drops the rest of the answer.
vercel/ai, packages/ai/src/ui/process-ui-message-stream.ts: text-delta, text-end, reasoning-delta, reasoning-end

UM003 error
The input of a call grows, and the call did not begin.
useChat raises AI_UIMessageStreamError, shows an error and drops the rest of the answer.
vercel/ai, packages/ai/src/ui/process-ui-message-stream.ts: tool-input-delta

UM004 error
A result, a refusal or a request for approval is of a call that is not in the message, and not in the request.
useChat raises AI_UIMessageStreamError, shows an error and drops the rest of the answer.
vercel/ai, packages/ai/src/ui/process-ui-message-stream.ts: getToolInvocation

UM005 warning
A text, a thought or the input of a call is still open when the message is finished.
useChat shows it as one that still streams, for as long as the chat is open.
vercel/ai, packages/ai/src/ui/process-ui-message-stream.ts: state

UM006 warning
The stream ends without `finish`, `abort`, `error` or `[DONE]`.
useChat takes a cut answer for a complete one: it says so to nobody.
vercel/ai, packages/ai/src/ui/chat.ts: makeRequest
""",
    of_answer(Chunks),
    "ui-messages",
)
