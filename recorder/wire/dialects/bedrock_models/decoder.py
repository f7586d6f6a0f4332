"""The chunks of InvokeModelWithResponseStream → facts: a table of paths beside two formats of
others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from recorder.model.facts import Fact, Usage, UsageReported
from recorder.wire.dialects.bedrock_converse.decoder import MEANINGS, ConverseDecoder
from recorder.wire.dialects.bedrock_invoke.decoder import STREAM_EXCEPTIONS, unwrapped
from recorder.wire.dialects.declared.decoder import Declaration, DeclaredDecoder
from recorder.wire.dialects.decoder import Content, Facts, failed
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    member,
    names,
    object_,
    objects,
    places,
    request_object,
)
from recorder.wire.dialects.openai_chat.decoder import ChatDecoder
from recorder.wire.dialects.usage_report import counts_at

METRICS = "amazon-bedrock-invocationMetrics"
"""The member that AWS adds to the last chunk of any model."""

# Of Titan, Llama, Mistral, Cohere and DeepSeek; some have their one answer in a list.
_ANSWERS = ("results", "outputs", "generations")
_MEANT = (
    ("text", ("outputText",)),
    ("text", ("generation",)),
    ("text", ("text",)),
    ("end", ("completionReason",)),
    ("end", ("stop_reason",)),
    ("end", ("finish_reason",)),
)
_COUNTS = places(f"""
input_tokens {METRICS}.inputTokenCount inputTextTokenCount prompt_token_count
output_tokens {METRICS}.outputTokenCount totalOutputTextTokenCount tokenCount generation_token_count
cache_read_input_tokens {METRICS}.cacheReadInputTokenCount
cache_write_input_tokens {METRICS}.cacheWriteInputTokenCount
""")


class ModelsDecoder(DeclaredDecoder):
    """Reads what the chunks of one response have. Its model is the one that was asked for."""

    about = names("id role event_type prompt response results outputs generations chat_history")

    def __init__(self) -> None:
        super().__init__(Declaration((), {}))
        self._converse, self._chat = ConverseDecoder(), ChatDecoder()
        self._counts: dict[str, int] = {}

    def contents(self, type: str | None, payload: Any) -> Iterable[Content]:
        return (("", payload),)

    def general(self, type: str | None, data: bytes) -> Facts:
        event = unwrapped(data)
        if type in STREAM_EXCEPTIONS:
            return super().general(type, event)
        body = request_object(event)
        if type is not None and type in MEANINGS:
            return self._converse.general(type, as_json(object_(body, type)).encode())
        if "choices" in body:
            is_counted = METRICS in body and "usage" not in body
            return (*self._chat.general(None, _completion(body)), *self._counted(body, is_counted))
        return super().general(type, event)

    def document(self, data: bytes) -> Facts:
        body = request_object(data)
        if "choices" in body:
            return self._chat.document(_completion(body))
        return self._converse.document(data) if "output" in body else super().document(data)

    def payload(self, type: str | None, payload: Any) -> Facts:
        body = object_(payload)
        if type in STREAM_EXCEPTIONS:
            return (msgspec.structs.replace(failed(body), type=type),)
        for name in _ANSWERS:
            for answer in objects(body, name)[:1]:
                body = {**body, **answer}
        return [*self._told(body)]

    def whole(self, payload: Any) -> Facts:
        body = object_(payload)
        is_error = isinstance(body.get("message"), str)
        return (failed(body),) if is_error else self.payload(None, payload)

    def _told(self, body: Object) -> Iterator[Fact]:
        is_over = "embedding" in body
        for meaning, path in _MEANT:
            value = member(body, *path)
            if value is not None:
                is_over = is_over or meaning == "end"
                yield from self._meant(meaning, body, value)
        yield from self._counted(body, is_over)

    def _counted(self, body: Object, is_over: bool) -> Iterator[UsageReported]:
        """Yield the counts so far when an answer is over: Llama says those of its input only in the
        first chunk.
        """
        counts = counts_at(body, _COUNTS)
        self._counts |= {name: count for name, count in counts.items() if count is not None}
        if is_over and self._counts:
            yield UsageReported(
                Usage(**self._counts), as_json(object_(body, METRICS) or self._counts)
            )


def _completion(body: Object) -> bytes:
    """Return a completion as others have it: Mistral and DeepSeek have another name for why it
    ended.
    """
    choices = []
    for choice in objects(body, "choices"):
        choices.append({"finish_reason": choice.get("stop_reason"), **choice})
    return as_json({**body, "choices": choices}).encode()
