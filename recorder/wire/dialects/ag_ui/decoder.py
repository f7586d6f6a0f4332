"""The events of a run → facts, as `defaultApplyEvents` of @ag-ui/client puts the messages together.

Texts, thoughts and calls begin, grow and end by an id. A chunk does all of that at once: it begins
what is not open, and what stands beside it ends it. State and activity of the app are steps of the
work, and no items.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from recorder.model.facts import (
    ErrorReported,
    Fact,
    Field,
    ItemKind,
    ItemState,
    ResponseFinished,
    ToolProgress,
    ToolResult,
)
from recorder.wire.dialects.decoder import Content, Facts, unknown
from recorder.wire.dialects.hosted_session import summed
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    names,
    object_,
    objects,
    request_object,
    text,
    text_or_json,
    without,
    without_nulls,
    word,
)
from recorder.wire.dialects.media import without_bytes
from recorder.wire.dialects.screen import ScreenDecoder, counted, reported


class _Family(NamedTuple):
    """Events that are about one kind of part."""

    kind: ItemKind
    type: str
    field: Field
    id: str  # the member that has it


_FAMILIES: Mapping[str, _Family] = {
    "TEXT_MESSAGE": _Family("message", "text", "text", "messageId"),
    "REASONING_MESSAGE": _Family("reasoning", "reasoning", "reasoning", "messageId"),
    "THINKING_TEXT_MESSAGE": _Family("reasoning", "thinking", "reasoning", "messageId"),
    "TOOL_CALL": _Family("tool_call", "function", "arguments", "toolCallId"),
}
_STEPS = names("""
    STATE_SNAPSHOT STATE_DELTA ACTIVITY_SNAPSHOT ACTIVITY_DELTA STEP_STARTED STEP_FINISHED RAW CUSTOM
    SUBAGENT_STARTED SUBAGENT_FINISHED SUBAGENT_ERROR
    """)
_AROUND = names(
    "REASONING_START REASONING_END REASONING_ENCRYPTED_VALUE THINKING_START THINKING_END"
)
_BESIDE_CHUNKS = names("RAW ACTIVITY_SNAPSHOT ACTIVITY_DELTA REASONING_ENCRYPTED_VALUE")
_REPEATING = names("RUN_STARTED MESSAGES_SNAPSHOT")
"""Events that repeat what was said before."""
_ABOUT = names("type timestamp rawEvent metadata subagentRunId")


class AgUiDecoder(ScreenDecoder):
    """Follows one run."""

    about = _ABOUT | names("""
        messageId toolCallId toolCallName parentMessageId role name entityId encryptedValue subtype title
        threadId runId parentRunId protocolVersion code provider model
        """)

    def __init__(self) -> None:
        super().__init__()
        # the family and the part of the last chunk
        self._chunked: tuple[str, tuple[ItemKind, str]] | None = None
        self._messages: set[str | None] = set()  # that were in the request, or in the stream

    def request(self, data: bytes) -> Facts:
        """Take note of the messages that a snapshot repeats."""
        self._messages |= {text(each, "id") for each in objects(request_object(data), "messages")}
        return ()

    def contents(self, type: str | None, payload: Any) -> Iterable[Content]:
        return () if type in _REPEATING or type in _STEPS or type in _AROUND else (("", payload),)

    def tell(self, event: Object) -> Facts:
        type = text(event, "type") or ""
        name, _, verb = type.rpartition("_")
        family = _FAMILIES.get(name)
        if family is not None and verb == "CHUNK":
            return self._on_chunk(name, family, event)
        ended = () if type in _BESIDE_CHUNKS else self._end_chunked()
        if family is not None:
            return *ended, *self._on_part(family, verb, event)
        return *ended, *self._on_run(type, event)

    # -- texts, thoughts, calls

    def _on_part(self, family: _Family, verb: str, event: Object) -> Facts:
        part = (family.kind, text(event, family.id) or "")
        match verb:
            case "START":
                self._messages.add(part[1])
                return self.begin(_stated(family, event))
            case "CONTENT" | "ARGS":
                return self.add(part, family.field, text(event, "delta"))
            case "END":
                return self.end(part)
            case "RESULT":
                self._messages.add(text(event, "messageId"))
                output = text_or_json(without_bytes(event.get("content")))
                return (ToolResult(part[1], None, output),)
        return (unknown(event.get("type")),)

    def _on_chunk(self, name: str, family: _Family, event: Object) -> Facts:
        """Decode a chunk. One without an id goes on with the chunk before."""
        before = self._chunked
        id = text(event, family.id)
        if id is None and before is not None and before[0] == name:
            id = before[1][1]
        part = (family.kind, id or "")
        ended = self._end_chunked() if before is not None and before != (name, part) else ()
        begun = () if self.is_open(part) else self._on_part(family, "START", event)
        self._chunked = (name, part)
        return *ended, *begun, *self.add(part, family.field, text(event, "delta"))

    def _end_chunked(self) -> Facts:
        chunked, self._chunked = self._chunked, None
        return () if chunked is None else self.end(chunked[1])

    # -- the run

    def _on_run(self, type: str, event: Object) -> Facts:
        match type:
            case "RUN_STARTED":
                return self._begun(text(event, "runId"), None)
            case "RUN_FINISHED":
                return *self._used(event), *self._returned(event), *_finished(event)
            case "RUN_ERROR":
                return *self._used(event), ErrorReported(
                    code=text(event, "code"), message=text(event, "message")
                )
            case "MESSAGES_SNAPSHOT":
                return self._snapshot(event)
        if type in _STEPS:
            return (
                ToolProgress(
                    type.lower(), _about(event), as_json(without_bytes(without(event, _ABOUT)))
                ),
            )
        return () if type in _AROUND else (unknown(type),)

    def _used(self, event: Object) -> Facts:
        """Return the tokens of all models of a run, and the model if it is one."""
        reports = objects(event, "usage")
        models = {word(report, "model") for report in reports}
        begun = self._begun(None, models.pop()) if len(models) == 1 else ()
        return *begun, *reported(summed(map(counted, reports)), event.get("usage"))

    def _returned(self, event: Object) -> Facts:
        interrupts = object_(event, "outcome").get("interrupts")
        told = without_nulls({"result": event.get("result"), "interrupts": interrupts})
        return (
            self.whole_item(ItemState("other", "result", output=as_json(without_bytes(told))))
            if told
            else ()
        )

    def _snapshot(self, event: Object) -> Facts:
        """Return the messages of a snapshot that were not in the request and not in the stream."""
        facts: list[Fact] = []
        for message in objects(event, "messages"):
            id, role = text(message, "id"), text(message, "role")
            calls = [
                each
                for each in objects(message, "toolCalls")
                if text(each, "id") not in self._messages
            ]
            if id not in self._messages and role in ("assistant", "reasoning"):
                facts += self._said(
                    message,
                    _FAMILIES["TEXT_MESSAGE" if role == "assistant" else "REASONING_MESSAGE"],
                )
            for call in calls:
                facts += self._called(call)
            if id not in self._messages and role == "tool":
                facts.append(
                    ToolResult(text(message, "toolCallId"), None, text(message, "content") or "")
                )
            self._messages.add(id)
        return facts

    def _said(self, message: Object, family: _Family) -> Facts:
        content = text(message, "content")
        if not content:
            return ()
        return self.whole_item(
            ItemState(
                family.kind,
                family.type,
                item_id=text(message, "id"),
                role=text(message, "role"),
                texts=((family.field, 0, content),),
            )
        )

    def _called(self, call: Object) -> Facts:
        id, function = text(call, "id"), object_(call, "function")
        self._messages.add(id)
        stated = ItemState(
            "tool_call",
            "function",
            item_id=id,
            name=text(function, "name"),
            call_id=id,
            texts=(("arguments", 0, text(function, "arguments") or "{}"),),
        )
        return self.whole_item(stated)


def _stated(family: _Family, event: Object) -> ItemState:
    id = text(event, family.id)
    is_call = family.kind == "tool_call"
    return ItemState(
        family.kind,
        family.type,
        item_id=id,
        role=None if is_call else word(event, "role") or "assistant",
        name=text(event, "toolCallName"),
        call_id=id if is_call else None,
        thread_id=text(event, "subagentRunId"),
    )


def _about(event: Object) -> str:
    """Return what a step is about, in a word of its event."""
    return word(event, "stepName") or word(event, "activityType") or word(event, "name") or ""


def _finished(event: Object) -> Facts:
    reason = text(event, "outcome", "type")
    return (ResponseFinished(reason, "incomplete" if reason == "cancelled" else None),)
