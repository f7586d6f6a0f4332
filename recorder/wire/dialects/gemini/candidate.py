"""The items of one candidate, from its parts. Parts have no ids and no numbers: their order is all
the structure.

Consecutive texts are one item, and so are consecutive thoughts; every other part is a separate
item, or the result of the call before it. An item ends when another begins. It ends with a
`finishReason` too, but may continue after it: old models send STOP in every chunk, and some tools
need several rounds for one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from recorder.model.facts import (
    AnnotationAdded,
    ErrorReported,
    Fact,
    Field,
    ItemFinished,
    ItemStarted,
    ItemState,
    LogprobsAdded,
    MalformedPayload,
    ResponseFinished,
    TextAdded,
    ToolResult,
)
from recorder.wire.dialects.decoder import unknown
from recorder.wire.dialects.gemini.arguments import Arguments
from recorder.wire.dialects.json_values import (
    Object,
    array,
    as_json,
    member,
    names,
    object_,
    objects,
    text,
    text_or_json,
)
from recorder.wire.dialects.media import medium, without_bytes

SIGNATURE = "thoughtSignature"

_ABOUT = names("""
    thought thoughtSignature partMetadata videoMetadata mediaResolution mediaProcessing
    audioTranscription speechMetadata
    """)
"""Fields of a part that say something of it and are not what it is."""

NO_CONTENT = _ABOUT | names("""
    role id index language mimeType data displayName outcome jsonPath nullValue toolType
    finishReason finishMessage safetyRatings citationMetadata groundingMetadata
    urlContextMetadata groundingAttributions logprobsResult avgLogprobs tokenCount
    """)
"""Members of a candidate and of its parts that are not content."""

_NOTES = ("citationMetadata", "groundingMetadata", "logprobsResult")

_COMPLETE = {"STOP", "FINISH_REASON_UNSPECIFIED"}
_WITHOUT_FAULT = _COMPLETE | {"MAX_TOKENS"}  # what is said of these reasons explains no error

STEPS = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")
"""Parts that are a step of a tool of the provider: the model goes on after it."""

CODE = "code_execution"

_MESSAGE = ItemState("message", "text", role="model")
_THOUGHT = ItemState("reasoning", "thought")


class _Item(msgspec.Struct):
    key: str
    stated: ItemState
    ended: str | None = None  # the status with which its end was told, as it is now


class Candidate:
    """One candidate of a response, chunk by chunk."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._count = 0
        self._facts: list[Fact] = []
        self._open: _Item | None = None
        self._last: _Item | None = None
        self._message: _Item | None = None
        self._call: _Item | None = None  # of a tool of the provider, without a result so far
        self._arguments: Arguments | None = None  # of the function call that is open
        self._annotations: set[str] = set()

    def add_chunk(self, given: Object) -> list[Fact]:
        """Return the facts of a chunk about this candidate."""
        self._facts = []
        for part in objects(given, "content", "parts"):
            self._part(part)
        self._annotate(given)
        reason = text(given, "finishReason")
        if reason:
            self._end("completed" if reason in _COMPLETE else "incomplete")
            self._facts.append(ResponseFinished(reason))
        explanation = text(given, "finishMessage")
        if explanation and reason not in _WITHOUT_FAULT:
            self._facts.append(ErrorReported(reason, None, explanation))
        return self._facts

    def _part(self, part: Object) -> None:
        for name, meaning in self._parts.items():
            if part.get(name) is not None:
                meaning(self, part[name], part)
        self._facts += [
            unknown(name) for name in part if name not in _ABOUT and name not in self._parts
        ]
        if _signed(part):
            self._sign()

    def added(self, text: str, thought: bool) -> TextAdded | None:
        """Return the fact of a chunk that is one text and nothing else, if it goes on with the item
        that is open.
        """
        item = self._open
        if item is None or item.stated.type != (_THOUGHT if thought else _MESSAGE).type:
            return None
        item.ended = None
        return TextAdded(item.key, "summary" if thought else "text", 0, text)

    def _text(self, value: Any, part: Object) -> None:
        if not isinstance(value, str):
            self._facts.append(MalformedPayload("a text that is none"))
        elif value:
            stated = _THOUGHT if part.get("thought") else _MESSAGE
            self._go_on(msgspec.structs.replace(stated, encrypted=_signed(part)), value)

    def _go_on(self, stated: ItemState, added: str) -> None:
        item = self._open
        if item is None or item.stated.type != stated.type:
            item = self._begin(stated)
        item.ended = None
        self._facts.append(
            TextAdded(item.key, "summary" if stated.kind == "reasoning" else "text", 0, added)
        )

    def _function_call(self, value: Any, part: Object) -> None:
        """Add a call: whole, or as a name, arguments piece by piece, and an empty one for the end."""
        call = object_(value)
        if not call and self._arguments is None:
            return
        if self._arguments is None or self._open is None or call.get("name"):
            self._begin(_called("function_call", call, "name", encrypted=_signed(part)))
            self._arguments = Arguments()
        self._add_arguments(call)
        if call.get("willContinue") is not True:
            self._end_arguments(call)
            self._close()

    def _add_arguments(self, call: Object) -> None:
        for partial in objects(call, "partialArgs"):
            written = self._arguments.add(partial) if self._arguments else None
            if written is None:
                self._facts.append(MalformedPayload("partialArgs that cannot be read"))
            elif self._open:
                self._add(self._open, "arguments", written)

    def _end_arguments(self, call: Object) -> None:
        """Finish the arguments: those that came in pieces, else those that came whole."""
        arguments, self._arguments = self._arguments, None
        if arguments is None or self._open is None:
            return
        rest = arguments.end()
        whole = as_json(arguments.value) if arguments.value else _written_args(call)
        self._add(self._open, "arguments", rest if arguments.value else whole)
        self._open.stated = msgspec.structs.replace(
            self._open.stated, texts=(("arguments", 0, whole),)
        )

    def _executable_code(self, value: Any, part: Object) -> None:
        stated = _called(CODE, object_(value), "", encrypted=_signed(part))
        self._call = self._begin(msgspec.structs.replace(stated, name=CODE))
        self._add(self._call, "arguments", text(value, "code") or "")

    def _code_execution_result(self, value: Any, part: Object) -> None:
        result = object_(value)
        outcome = result.get("outcome")
        self._result(
            ToolResult(
                text(result, "id"),
                CODE,
                text(result, "output") or "",
                None if outcome is None else outcome != "OUTCOME_OK",
            )
        )

    def _tool_call(self, value: Any, part: Object) -> None:
        call = object_(value)
        self._call = self._begin(_called("tool_call", call, "toolType", encrypted=_signed(part)))
        self._add(self._call, "arguments", _written_args(call))

    def _tool_response(self, value: Any, part: Object) -> None:
        self._result(function_response(object_(value), "toolType"))

    def _function_response(self, value: Any, part: Object) -> None:
        self._facts.append(function_response(object_(value), "name"))

    def _result(self, result: ToolResult) -> None:
        """Give a result to the call before, unless their ids contradict it."""
        call, self._call = self._call, None
        if call is None or len({result.call_id, call.stated.call_id} - {None}) > 1:
            self._facts.append(result)
            return
        call.stated = msgspec.structs.replace(
            call.stated, output=result.output, failed=result.failed
        )
        self._finish(call, "completed")

    def _inline_data(self, value: Any, part: Object) -> None:
        found = medium(value)
        output = as_json({"images": [found]} if found else without_bytes(value))
        self._add_whole("inline_data", output, part)

    def _file_data(self, value: Any, part: Object) -> None:
        self._add_whole("file_data", as_json(value), part)

    def _add_whole(self, type: str, output: str, part: Object) -> None:
        self._begin(ItemState("other", type, output=output, encrypted=_signed(part)))
        self._close()

    def _sign(self) -> None:
        """Mark an item as signed.

        The signature of a thought may be on any item, or on an empty text after it.
        """
        item = self._last or self._begin(ItemState("reasoning", "thought", encrypted=True))
        if not item.stated.encrypted:
            item.stated = msgspec.structs.replace(item.stated, encrypted=True)
            if item.ended:
                self._finish(item, item.ended)

    def _annotate(self, candidate: Object) -> None:
        """Add citations, each once though it is repeated, to the message before."""
        if self._message is None or candidate.keys().isdisjoint(_NOTES):
            return
        citations, grounding = (
            object_(candidate, "citationMetadata"),
            object_(candidate, "groundingMetadata"),
        )
        found = (*objects(citations, "citationSources"), *objects(citations, "citations"))
        for annotation in map(as_json, (*found, *objects(grounding, "groundingChunks"))):
            if annotation not in self._annotations:
                self._annotations.add(annotation)
                self._facts.append(AnnotationAdded(self._message.key, annotation))
        logprobs = array(candidate, "logprobsResult", "chosenCandidates")
        if logprobs:
            self._facts.append(LogprobsAdded(self._message.key, as_json(logprobs)))

    def _begin(self, stated: ItemState) -> _Item:
        self._close()
        item = self._open = self._last = _Item(f"{self._index}.{self._count}", stated)
        self._count += 1
        if stated.kind == "message":
            self._message = item
        self._facts.append(ItemStarted(item.key, self._index, stated))
        return item

    def _add(self, item: _Item, field: Field, added: str) -> None:
        if added:
            self._facts.append(TextAdded(item.key, field, 0, added))

    def _close(self) -> None:
        if self._open and self._open.ended is None:
            self._end("completed")
        self._open = None

    def _end(self, status: str) -> None:
        """End the open item, for now: a text may continue."""
        self._end_arguments({})
        if self._open and self._open.ended != status:
            self._finish(self._open, status)

    def _finish(self, item: _Item, status: str) -> None:
        item.ended = status
        self._facts.append(
            ItemFinished(item.key, self._index, msgspec.structs.replace(item.stated, status=status))
        )

    _parts: ClassVar[Mapping[str, Callable[[Candidate, Any, Object], None]]] = {
        "text": _text,
        "functionCall": _function_call,
        "executableCode": _executable_code,
        "codeExecutionResult": _code_execution_result,
        "toolCall": _tool_call,
        "toolResponse": _tool_response,
        "functionResponse": _function_response,
        "inlineData": _inline_data,
        "fileData": _file_data,
    }


def _written_args(call: Object) -> str:
    """Return the arguments of a call as JSON; what is a text already as it was sent.

    No member is not an argument.
    """
    given = call.get("args")
    return "{}" if given is None else text_or_json(given)


def _signed(part: Object) -> bool:
    return bool(part.get(SIGNATURE))


def _called(type: str, call: Object, name: str, *, encrypted: bool) -> ItemState:
    return ItemState(
        "tool_call", type, name=text(call, name), call_id=text(call, "id"), encrypted=encrypted
    )


def function_response(returned: Object, name: str) -> ToolResult:
    """Return a result, of the client's function or of the provider's tool, whose name is in the
    field `name`.

    Media are beside the response, in separate parts.
    """
    response = returned.get("response")
    output = (
        {"response": response, "parts": returned["parts"]} if returned.get("parts") else response
    )
    failed = member(response, "error") is not None
    return ToolResult(
        text(returned, "id"), text(returned, name), as_json(without_bytes(output)), failed
    )
