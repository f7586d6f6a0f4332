"""The lines of Ollama → facts. They have no ids and no numbers: their order is all the structure.

Consecutive texts are one message, consecutive thoughts one item of reasoning; calls come whole. The
last line has the reason and the counts. Of a prompt that the server has in its cache, old versions
leave the count out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from recorder.model.facts import (
    Fact,
    Field,
    ItemFinished,
    ItemStarted,
    ItemState,
    LogprobsAdded,
    MalformedPayload,
    ResponseFinished,
    TextAdded,
    Usage,
    UsageReported,
)
from recorder.wire.dialects.decoder import Content, Facts, JsonDecoder, failed
from recorder.wire.dialects.json_values import (
    Object,
    array,
    as_json,
    names,
    object_,
    objects,
    text,
    text_or_json,
)
from recorder.wire.dialects.json_values import whole as whole_number
from recorder.wire.dialects.media import digested

LAST = "done"
"""The type of the last line."""

_MESSAGE = ItemState("message", "message", role="assistant")
_THOUGHT = ItemState("reasoning", "thinking")
_FIELDS: dict[str, Field] = {"message": "text", "reasoning": "reasoning"}

_ABOUT = names("""
    model remote_model remote_host created_at role id index type done_reason tool_name error
    context logprobs images image
    """)
"""Members that are not content: pictures, and the prompt as numbers, among them."""


class OllamaDecoder(JsonDecoder):
    """Follows the lines of one response; a document is one line."""

    def __init__(self) -> None:
        self._count = 0  # of items
        self._open: ItemState | None = None  # the last item, to which a text may be added

    about = _ABOUT

    def contents(self, type: str | None, payload: Any) -> Iterable[Content]:
        return (("", payload),)

    def payload(self, type: str | None, payload: Any) -> Facts:
        if not isinstance(payload, dict):
            return (MalformedPayload("the line is not a JSON object"),)
        if payload.get("error"):
            return (failed(payload),)
        message = object_(payload, "message")
        holder = message or payload
        facts: list[Fact] = [*self._begun(None, text(payload, "model"))]
        facts += self._said(_THOUGHT, text(holder, "thinking"))
        facts += self._said(_MESSAGE, text(message, "content") or text(payload, "response"))
        facts += self._annotated(payload)
        for call in objects(message, "tool_calls"):
            facts += self._called(call)
        if isinstance(payload.get("image"), str):  # of a model that draws
            picture = {"images": [digested(payload["image"])]}
            facts += self._item(ItemState("other", "image", output=as_json(picture)))
        if payload.get("done") is True:
            facts += self._finished(payload)
        return facts

    def _said(self, stated: ItemState, added: str | None) -> Facts:
        if not added:
            return ()
        begun = () if self._open is stated else self._begin(stated)
        return *begun, TextAdded(self._count, _FIELDS[stated.kind], 0, added)

    def _annotated(self, line: Object) -> Facts:
        logprobs = array(line, "logprobs")
        return (LogprobsAdded(self._count, as_json(logprobs)),) if logprobs and self._open else ()

    def _called(self, call: Object) -> Facts:
        function = object_(call, "function")
        given = function.get("arguments")
        arguments = "{}" if given is None else text_or_json(given)
        id, name = text(call, "id"), text(function, "name")
        return self._item(
            ItemState(
                "tool_call",
                "function",
                item_id=id,
                name=name,
                call_id=id,
                texts=(("arguments", 0, arguments),),
            )
        )

    def _item(self, stated: ItemState) -> Facts:
        """Return an item that comes whole."""
        return *self._begin(stated), *self._end("completed")

    def _begin(self, stated: ItemState) -> Facts:
        ended = self._end("completed")
        self._count += 1
        self._open = stated
        without_texts = msgspec.structs.replace(stated, texts=())
        return *ended, ItemStarted(self._count, None, without_texts)

    def _end(self, status: str) -> Facts:
        stated, self._open = self._open, None
        if stated is None:
            return ()
        return (ItemFinished(self._count, None, msgspec.structs.replace(stated, status=status)),)

    def _finished(self, line: Object) -> Facts:
        reason = text(line, "done_reason")
        ended = self._end("incomplete" if reason == "length" else "completed")
        return *ended, *_used(line), ResponseFinished(reason)


def _used(line: Object) -> Facts:
    """Return the counts of the last line. A request that only loads a model has none."""
    given, written = whole_number(line, "prompt_eval_count"), whole_number(line, "eval_count")
    if given is None and written is None:
        return ()
    total = None if given is None or written is None else whole_number(given + written)
    reported = {
        name: value for name, value in line.items() if name.endswith(("_count", "_duration"))
    }
    return (
        UsageReported(
            Usage(input_tokens=given, output_tokens=written, total_tokens=total), as_json(reported)
        ),
    )
