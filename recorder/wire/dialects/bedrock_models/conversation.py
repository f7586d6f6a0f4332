"""The requests to InvokeModel with models of all companies but Anthropic: as Converse has them, or completions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from recorder.wire.dialects.bedrock_converse.conversation import ConverseConversation, model_of
from recorder.wire.dialects.conversation import Conversation
from recorder.wire.dialects.json_values import Object, array, objects, text
from recorder.wire.dialects.openai_chat.conversation import CompletionConversation

_PROMPTS = ("prompt", "inputText", "message")  # of Llama, Mistral and DeepSeek; of Titan; of Cohere


class ModelsConversation(CompletionConversation):
    """A request with messages of Chat Completions, or with one prompt."""

    @cached_property
    def model(self) -> str | None:
        return model_of(self.path)

    @property
    def stream(self) -> bool | None:
        return self.path.endswith("-stream")

    @property
    def prompts(self) -> Sequence[Any]:
        found = [text(self.request, name) for name in _PROMPTS]
        return [prompt for prompt in found if prompt]


def conversation(path: str, request: Object) -> Conversation:
    """Return what a request says. Only the parts of Converse have no type."""
    parts = [part for message in objects(request, "messages") for part in array(message, "content")]
    is_converse = any(isinstance(part, dict) and "type" not in part for part in parts)
    return ConverseConversation(path, request) if is_converse else ModelsConversation(path, request)
