"""The events of the Responses format → facts. The content of the 31 types of items is defined in
`.items`.

An item is known by its `output_index`: ids rotate (GitHub Copilot), and some events have none.
Where there is no index it is known by its id, and where there is neither it is the one that is
open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from recorder.model.facts import (
    Fact,
    ItemFinished,
    ItemKey,
    ItemStarted,
    MalformedPayload,
    ResponseFinished,
    ResponseItems,
    TextAdded,
    ToolProgress,
    ToolResult,
    Usage,
    UsageReported,
)
from recorder.wire.dialects.decoder import (
    DOCUMENT,
    Content,
    Facts,
    FastPath,
    JsonDecoder,
    failed,
    unknown,
)
from recorder.wire.dialects.json_values import Object, as_json, object_, objects, places, text
from recorder.wire.dialects.json_values import whole as number
from recorder.wire.dialects.keys import ERROR
from recorder.wire.dialects.media import digested
from recorder.wire.dialects.openai_responses.items import (
    ITEM_TYPES,
    begun,
    patch,
    stated,
    strange_parts,
    tool_result,
    type_of,
    written,
)
from recorder.wire.dialects.openai_responses.texts import ABOUT, FAST_PATHS, TEXT_EVENTS
from recorder.wire.dialects.usage_report import COUNTS, counts_at, details_at, reported_cost


def _types(steps: Mapping[str, str]) -> list[str]:
    """Return the types of events, by what each is of and the words of its steps."""
    types = []
    for of, words in steps.items():
        types += [f"response.{of}.{word}" for word in words.split()]
    return types


_PHASES: Mapping[str, str] = {
    "web_search_call": "in_progress searching completed",
    "x_search_call": "in_progress searching completed",
    "file_search_call": "in_progress searching completed",
    "code_interpreter_call": "in_progress interpreting completed",
    "code_execution_call": "in_progress executing completed",
    "image_generation_call": "in_progress generating partial_image completed",
    "mcp_call": "in_progress completed failed",
    "mcp_list_tools": "in_progress completed failed",
    "compaction": "compacting",
}
"""What the provider's own work on an item goes through."""

_STEPS: Mapping[str, str] = {
    "shell_call_command": "added done",
    "apply_patch_call_operation_diff": "done",
    "audio": "delta done",
    "audio.transcript": "done",
    "steer": "accepted pending failed",  # of a WebSocket, as are the next
    "inject": "created failed",
}
"""Events that say nothing that the items do not say as well, or nothing that is a fact."""

_SILENT = {"keepalive", *_types(_STEPS)}

_TEXTUAL = {"message", "reasoning", "function_call", "custom_tool_call"}
"""Items of which each text is content. The others have settings of the provider's tools among their
members.
"""

_ENDED = {"completed", "incomplete", "failed", "cancelled"}
_VERDICTS: Mapping[str, Literal["incomplete", "failed"]] = {
    "incomplete": "incomplete",
    "failed": "failed",
    "cancelled": "incomplete",
}


_RESPONSES = {"response", "response.compaction"}
_OTHER_DOCUMENTS = {"list", "response.deleted", "response.input_tokens"}


class Draft:
    """The arguments of one call so far: JSON in the finished item, but streamed as a diff, or
    command after command.

    The JSON is written as they come, so that what is half written and what the item states in the
    end are the same text, the one the beginning of the other.
    """

    def __init__(self, opening: str) -> None:
        self._opening = opening
        self._pieces: list[str] = []
        self._part = 0

    def add(self, part: int, text: str) -> str:
        """Add a delta of a part; returns the JSON that it adds.

        A new part is a new element of an array.
        """
        between = '","' if part > self._part else ""
        lead = between if self._pieces else self._opening
        self._part = max(part, self._part)
        self._pieces.append(lead + as_json(text)[1:-1])
        return self._pieces[-1]

    def close(self, arguments: str) -> str:
        """Return what the item states beyond the JSON so far; nothing if it begins otherwise."""
        written = "".join(self._pieces)
        return arguments[len(written) :] if written and arguments.startswith(written) else ""


_OPENINGS: Mapping[str, Callable[[Object], str]] = {
    "apply_patch_call": lambda item: patch(object_(item, "operation"), "").removesuffix('"}'),
    "shell_call": lambda item: '{"commands":["',
}
"""How the JSON of a call begins whose type is streamed so."""


_COUNTS = places(f"""
input_tokens input_tokens
cache_read_input_tokens input_tokens_details.cached_tokens
cache_write_input_tokens input_tokens_details.cache_write_tokens
output_tokens output_tokens
reasoning_output_tokens output_tokens_details.reasoning_tokens
{COUNTS}
""")
# of xAI, Perplexity, OpenRouter
_DETAILS = places("""
web_searches server_side_tool_usage_details.web_search_calls
web_searches tool_calls_details.search_web.invocation server_tool_use_details.web_search_requests
""")


class ResponsesDecoder(JsonDecoder):
    """Follows one response."""

    counts, details = _COUNTS, _DETAILS

    def __init__(self) -> None:
        self._places: dict[str, int] = {}  # of items, by id
        self._unnamed = 0
        self._drafts: dict[ItemKey, Draft] = {}
        self._returned: set[ToolResult] = set()
        self._strange: set[str] = set()

    about = ABOUT

    def contents(self, type: str | None, payload: Any) -> Iterable[Content]:
        if type == DOCUMENT:
            output = objects(payload, "output")
            return [("output", item) for item in output if text(item, "type") in _TEXTUAL]
        type = type or text(payload, "type") or ""
        if type.endswith(".delta") and type not in _SILENT and "delta" in object_(payload):
            return (("delta", payload["delta"]),)
        item = object_(payload, "item")
        if type in _EVENTS and text(item, "type") in _TEXTUAL:
            return (("item", item),)
        is_text = type in TEXT_EVENTS or type.endswith(".delta")
        is_silent = type in _SILENT or (type in _EVENTS and not is_text)
        return () if is_silent else (("", payload),)

    def fast_paths(self) -> Mapping[str | None, FastPath]:
        return FAST_PATHS

    def payload(self, type: str | None, payload: Any) -> Facts:
        """Decode the payload of an event."""
        if not isinstance(payload, dict):
            return (MalformedPayload("the payload is not an object"),)
        type = type or text(payload, "type") or ""
        of_text = TEXT_EVENTS.get(type)
        if of_text is not None:
            return of_text(type, self._key(payload), payload)
        handle = _EVENTS.get(type)
        if handle is not None:
            return handle(self, type, payload)
        if type in _SILENT:
            return ()
        return (unknown(type), *((failed(payload),) if payload.get("error") else ()))

    def whole(self, payload: Any) -> Facts:
        """Decode a document: a response, a list of its items, that it was deleted, or an error."""
        if not isinstance(payload, dict):
            return (MalformedPayload("the document is not an object"),)
        kind = text(payload, "object")
        if kind in _RESPONSES or (kind is None and "output" in payload):
            status = text(payload, "status")
            return self._response(payload, "", status if status in _ENDED else None, has_all=True)
        if payload.get("error"):
            return (failed(payload),)
        return () if kind in _OTHER_DOCUMENTS else (unknown(kind),)

    # -- the response

    def _on_lifecycle(self, type: str, payload: Object) -> Facts:
        response = payload.get("response")
        if not isinstance(response, dict):
            return (MalformedPayload(f"{type} without its response"),)
        step = type.removeprefix("response.")
        if step not in _ENDED:
            return self._response(response, "response.", None, has_all=False)
        return self._response(response, "response.", text(response, "status") or step, has_all=True)

    def _response(self, response: Object, place: str, end: str | None, *, has_all: bool) -> Facts:
        """Decode a response object, at whose members the paths in the payload begin with `place`.

        `end` is its status if that is final; `has_all`: its items are complete.
        """
        facts: list[Fact] = [*self._begun(text(response, "id"), text(response, "model"))]
        facts += self._served_at(text(response, "service_tier"))
        usage = object_(response, "usage")
        if usage:
            cost = reported_cost(usage, self._data, f"{place}usage")
            counts = Usage(**counts_at(usage, self.counts))
            facts += (
                UsageReported(counts, as_json(usage), details_at(usage, self.details, cost)),
                *self._fallen(counts),
            )
        if has_all:
            facts += self._restated(written(response))
        if response.get("error"):
            facts.append(failed(response))
        if end is not None:
            reason = text(response, "incomplete_details", "reason")
            facts.append(ResponseFinished(reason or end, _VERDICTS.get(end)))
        return facts

    def _restated(self, items: list[Object]) -> Iterable[Fact]:
        if not items:
            return
        for item in items:
            yield from self._stranger(item)
        yield ResponseItems(tuple(map(stated, items)))
        for item in items:
            yield from self._result(item)

    # -- its items

    def _key(self, payload: Object) -> ItemKey:
        index = number(payload, "output_index")
        if index is not None:
            return index
        id = text(payload, "item_id") or text(payload, "item", "id")
        return self._places.get(id, id) if id else f"#{self._unnamed}"

    def _on_item_added(self, type: str, payload: Object) -> Facts:
        item = payload.get("item")
        if not isinstance(item, dict):
            return (MalformedPayload(f"{type} without its item"),)
        key, index, opening = self._key(payload), number(payload, "output_index"), begun(item)
        if index is not None and opening.item_id is not None:
            self._places[opening.item_id] = index
        draft = _OPENINGS.get(type_of(item))
        if draft is not None:
            self._drafts[key] = Draft(draft(item))
        return (*self._stranger(item), ItemStarted(key, index, opening))

    def _on_item_done(self, type: str, payload: Object) -> Facts:
        item = payload.get("item")
        if not isinstance(item, dict):
            return (MalformedPayload(f"{type} without its item"),)
        key, final = self._key(payload), stated(item)
        draft = self._drafts.pop(key, None)
        rest = draft.close(final.texts[0][2]) if draft is not None and final.texts else ""
        self._unnamed += isinstance(key, str) and key.startswith("#")
        return (
            *self._stranger(item),
            *((TextAdded(key, "arguments", 0, rest),) if rest else ()),
            ItemFinished(key, number(payload, "output_index"), final),
            *self._result(item),
        )

    def _stranger(self, item: Object) -> Iterable[Fact]:
        """Yield the unknown types of an item and of its content parts, each once."""
        own = () if type_of(item) in ITEM_TYPES else (type_of(item),)
        for type in (*own, *strange_parts(item)):
            if type not in self._strange:
                self._strange.add(type)
                yield unknown(type)

    def _result(self, item: Object) -> Iterable[Fact]:
        """Yield the result that an item gives back to a call, once: the end of the response repeats
        it.
        """
        result = tool_result(item)
        if result is not None and result not in self._returned:
            self._returned.add(result)
            yield result

    def _on_phase(self, type: str, payload: Object) -> Facts:
        of, _, phase = type.removeprefix("response.").rpartition(".")
        image = text(payload, "partial_image_b64")
        number = {"partial_image_index": payload.get("partial_image_index")}
        return (
            ToolProgress(
                of, phase, None if image is None else as_json({**number, **digested(image)})
            ),
        )

    def _on_draft(self, type: str, payload: Object) -> Facts:
        delta = text(payload, "delta")
        if delta is None:
            return (MalformedPayload(f"{type} without a text"),)
        key = self._key(payload)
        draft = self._drafts.get(key)
        if draft is None:
            return ()  # how it began was not seen; the item states it as a whole
        return (
            TextAdded(key, "arguments", 0, draft.add(number(payload, "command_index") or 0, delta)),
        )


_EVENTS: Mapping[str, Callable[[ResponsesDecoder, str, Object], Facts]] = {
    **{
        f"response.{step}": ResponsesDecoder._on_lifecycle
        for step in ("created", "queued", "in_progress", "completed", "incomplete", "failed")
    },
    "response.output_item.added": ResponsesDecoder._on_item_added,
    "response.output_item.done": ResponsesDecoder._on_item_done,
    "response.shell_call_command.delta": ResponsesDecoder._on_draft,
    "response.apply_patch_call_operation_diff.delta": ResponsesDecoder._on_draft,
    ERROR: lambda decoder, type, payload: (failed(payload),),
    **dict.fromkeys(_types(_PHASES), ResponsesDecoder._on_phase),
}
