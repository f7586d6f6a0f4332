"""The requests to InvokeModel with models of all companies but Anthropic: as Converse has them, or
completions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recorder.wire.dialects.bedrock_converse.conversation import (
    ConverseConversation,
    PathConversation,
)
from recorder.wire.dialects.conversation import Conversation
from recorder.wire.dialects.json_values import Object, objects, text
from recorder.wire.dialects.openai_chat.conversation import CompletionConversation

_PROMPTS = ("prompt", "inputText", "message")  # of Llama, Mistral and DeepSeek; of Titan; of Cohere


class ModelsConversation(PathConversation, CompletionConversation):
    """A request with messages of Chat Completions, or with one prompt."""

    @property
    def prompts(self) -> Sequence[Any]:
        found = [text(self.request, name) for name in _PROMPTS]
        return [prompt for prompt in found if prompt]


def conversation(path: str, request: Object) -> Conversation:
    """Return what a request says. Only the parts of Converse have no type."""
    for message in objects(request, "messages"):
        if any("type" not in part for part in objects(message, "content")):
            return ConverseConversation(path, request)
    return ModelsConversation(path, request)
