"""The chunks of a UI message → facts, as `processUIMessageStream` of the AI SDK puts the message
together.

A part of a text begins, grows and ends by its id, which the next step may use again. A call is
known by its id until the stream ends: its result may come in a later step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from recorder.model.facts import (
    ErrorReported,
    Field,
    ItemState,
    ResponseFinished,
    ToolProgress,
    ToolResult,
)
from recorder.wire.dialects.decoder import Content, Facts, unknown
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    flag,
    names,
    object_,
    text,
    text_or_json,
    without,
    word,
)
from recorder.wire.dialects.media import without_bytes
from recorder.wire.dialects.screen import Part, ScreenDecoder, counted, reported

_FIELDS: Mapping[str, tuple[Literal["message", "reasoning"], Field]] = {
    "text": ("message", "text"),
    "reasoning": ("reasoning", "reasoning"),
}
_ROLES = {"text": "assistant"}


class UiMessageDecoder(ScreenDecoder):
    """Follows one message."""

    about = names("""
        type id toolCallId toolName messageId sourceId approvalId mediaType title inputEncoding finishReason signature
        providerMetadata toolMetadata messageMetadata approvalDescriptor inputSchemaInput
        """)

    def contents(self, type: str | None, payload: Any) -> Iterable[Content]:
        is_passing = flag(payload, "transient") or flag(payload, "preliminary")
        return () if is_passing else (("", payload),)

    def tell(self, event: Object) -> Facts:
        type = text(event, "type") or ""
        if type.startswith("data-"):
            return self._on_data(type, event)
        handle = EVENTS.get(type)
        return (unknown(type),) if handle is None else handle(self, type, event)

    # -- texts and thoughts

    def _on_start(self, type: str, event: Object) -> Facts:
        said = type.partition("-")[0]
        kind, _ = _FIELDS[said]
        return self.begin(ItemState(kind, said, item_id=text(event, "id"), role=_ROLES.get(said)))

    def _on_delta(self, type: str, event: Object) -> Facts:
        kind, field = _FIELDS[type.partition("-")[0]]
        return self.add((kind, text(event, "id") or ""), field, text(event, "delta"))

    def _on_end(self, type: str, event: Object) -> Facts:
        kind, _ = _FIELDS[type.partition("-")[0]]
        return self.end((kind, text(event, "id") or ""))

    # -- calls and results

    def _on_input_start(self, type: str, event: Object) -> Facts:
        id, name = text(event, "toolCallId"), text(event, "toolName")
        return self.begin(ItemState("tool_call", "tool", item_id=id, name=name, call_id=id))

    def _on_input_delta(self, type: str, event: Object) -> Facts:
        return self.add(
            ("tool_call", text(event, "toolCallId") or ""),
            "arguments",
            text(event, "inputTextDelta"),
        )

    def _on_input(self, type: str, event: Object) -> Facts:
        """Decode a call that is whole: it need not have begun before."""
        part: Part = ("tool_call", text(event, "toolCallId") or "")
        begun = () if self.is_open(part) else self._on_input_start(type, event)
        given = ("arguments", 0, text_or_json(without_bytes(event.get("input"))))
        is_failed = type == "tool-input-error"
        status = "failed" if is_failed else "completed"
        ended = self.end(
            part,
            status=status,
            name=text(event, "toolName"),
            texts=(given,),
            failed=is_failed or None,
        )
        return *begun, *ended, *(self._on_output(type, event) if is_failed else ())

    def _on_output(self, type: str, event: Object) -> Facts:
        output = text_or_json(without_bytes(event.get("output", text(event, "errorText") or "")))
        if flag(event, "preliminary"):
            return (ToolProgress("tool", "preliminary", output),)
        is_failed = type != "tool-output-available"
        return (ToolResult(text(event, "toolCallId"), None, output, is_failed or None),)

    def _on_approval(self, type: str, event: Object) -> Facts:
        asked = without(event, names("type signature"))
        return (ToolProgress("tool", type, as_json(asked)),)

    # -- other parts, and the message

    def _on_part(self, type: str, event: Object) -> Facts:
        given = without_bytes(without(event, names("type providerMetadata")))
        id = text(event, "id") or text(event, "sourceId")
        return self.whole_item(ItemState("other", type, item_id=id, output=as_json(given)))

    def _on_data(self, type: str, event: Object) -> Facts:
        if flag(event, "transient"):
            return (ToolProgress("data", type, as_json(without_bytes(event.get("data")))),)
        return self._on_part(type, event)

    def _on_message(self, type: str, event: Object) -> Facts:
        """Decode what an event says of the message: an app may put the tokens into its metadata."""
        metadata = object_(event, "messageMetadata")
        usage = object_(metadata, "usage") or object_(metadata, "totalUsage") or metadata
        facts = [
            *self._begun(text(event, "messageId"), word(metadata, "model")),
            *reported(counted(usage), usage),
        ]
        if type == "finish":
            facts.append(ResponseFinished(text(event, "finishReason")))
        return facts

    def _on_abort(self, type: str, event: Object) -> Facts:
        return (ResponseFinished(word(event, "reason") or type, "incomplete"),)

    def _on_error(self, type: str, event: Object) -> Facts:
        return (ErrorReported(message=text(event, "errorText")),)

    def _nothing(self, type: str, event: Object) -> Facts:
        return ()


_D = UiMessageDecoder

EVENTS: Mapping[str, Callable[[Any, str, Object], Facts]] = {
    "start": _D._on_message,
    "start-step": _D._nothing,
    "text-start": _D._on_start,
    "text-delta": _D._on_delta,
    "text-end": _D._on_end,
    "reasoning-start": _D._on_start,
    "reasoning-delta": _D._on_delta,
    "reasoning-end": _D._on_end,
    "tool-input-start": _D._on_input_start,
    "tool-input-delta": _D._on_input_delta,
    "tool-input-available": _D._on_input,
    "tool-input-error": _D._on_input,
    "tool-approval-request": _D._on_approval,
    "tool-output-available": _D._on_output,
    "tool-output-error": _D._on_output,
    "tool-output-denied": _D._on_output,
    "source-url": _D._on_part,
    "source-document": _D._on_part,
    "file": _D._on_part,
    "message-metadata": _D._on_message,
    "finish-step": _D._nothing,
    "finish": _D._on_message,
    "abort": _D._on_abort,
    "error": _D._on_error,
}
