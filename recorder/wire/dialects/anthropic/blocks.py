"""The content blocks of Anthropic Messages: their items, and the results of tools.

Blocks of one shape are decoded in the same way in a stream and in a document. A type that is not in
the table is an item of the kind `other`, with all its fields as its output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from recorder.model.facts import Field, ItemKey, ItemKind, ItemState, ToolResult
from recorder.wire.dialects.decoder import Facts, unknown
from recorder.wire.dialects.json_values import Object, as_json, object_, objects, text, text_or_json
from recorder.wire.dialects.media import without_bytes

RESULT = "tool_result"
"""What the type of a block of a tool's result ends with."""

KINDS: Mapping[str, ItemKind] = {
    "text": "message",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "tool_use": "tool_call",
    "server_tool_use": "tool_call",
    "mcp_tool_use": "tool_call",
    "compaction": "other",
    "fallback": "other",
    "container_upload": "other",
    "mcp_tool_listing": "other",
}

_TEXTS: Mapping[str, tuple[str, Field]] = {
    "text": ("text", "text"),
    "thinking": ("thinking", "reasoning"),
    "compaction": ("content", "text"),
}


class ContentBlock(msgspec.Struct):
    """A block of a stream so far. `stated` is `None` for a tool's result: that is not an item."""

    key: ItemKey
    stated: ItemState | None
    input: str  # as JSON, as the block began
    streamed: bool = False  # whether a text of it has come

    def finished(self, item: ItemState) -> ItemState:
        """Return the item at its end: without streamed input, its input is that of its beginning,
        mostly `{}`.
        """
        texts: tuple[tuple[Field, int, str], ...] = ()
        if item.kind == "tool_call" and not self.streamed:
            texts = (("arguments", 0, self.input),)
        return msgspec.structs.replace(item, status="completed", texts=texts, annotations=())


def stated(
    block: Object, *, status: str | None = None, output_index: int | None = None
) -> ItemState | None:
    """Return the item that a block is, with the texts in it; `None` if it is a tool's result."""
    type = text(block, "type") or "(no type)"
    if type.endswith(RESULT):
        return None
    kind = KINDS.get(type, "other")
    return ItemState(
        kind=kind,
        type=type,
        item_id=text(block, "id"),
        role="assistant" if kind == "message" else None,
        status=status,
        name=text(block, "name"),
        call_id=text(block, "id") if kind == "tool_call" else None,
        texts=_texts(block, kind, type),
        annotations=tuple(as_json(citation) for citation in objects(block, "citations")),
        encrypted=type == "redacted_thinking"
        or bool(block.get("signature") or block.get("encrypted_content")),
        output=as_json(without_bytes(block)) if kind == "other" and type not in _TEXTS else None,
        output_index=output_index,
    )


def _texts(block: Object, kind: ItemKind, type: str) -> tuple[tuple[Field, int, str], ...]:
    if kind == "tool_call":
        return (("arguments", 0, written_input(block)),)
    name, field = _TEXTS.get(type, ("", "text"))
    content = text(block, name)
    return ((field, 0, content),) if content else ()


def written_input(block: Object) -> str:
    """Return the input that a call begins with, as JSON; what is a text already as it was sent."""
    given = block.get("input")
    return "{}" if given is None else text_or_json(given)


def returned(block: Object) -> Facts:
    """Return the facts of a block that is not an item: a tool's result, or an unknown type."""
    type = text(block, "type")
    if type and type.endswith(RESULT):
        return (result(block),)
    return () if type in KINDS else (unknown(type),)


def result(block: Object) -> ToolResult:
    """Return a tool's result, of the provider's tool or of the client's."""
    content = block.get("content")
    return ToolResult(
        text(block, "tool_use_id"), None, output_of(content), _failed(block, object_(content))
    )


def output_of(content: Any) -> str:
    """Return the text of a result, if it is nothing else; its JSON, if it is.

    None at all is an empty text.
    """
    if isinstance(content, list) and all(map(_is_text, content)):
        return "\n".join(block["text"] for block in content)
    return "" if content is None else text_or_json(without_bytes(content))


def _is_text(block: Any) -> bool:
    return (
        isinstance(block, dict)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    )


def _failed(block: Object, content: Object) -> bool:
    """Return whether a call failed: as marked, by an error in place of a result, or by an exit code
    other than 0.
    """
    is_error = (text(content, "type") or "").endswith("_error")
    return block.get("is_error") is True or is_error or bool(content.get("return_code"))
