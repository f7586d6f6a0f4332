"""The requests to InvokeModel with a model of Anthropic. The path names the model, and says whether it streams."""

from __future__ import annotations

from functools import cached_property

from recorder.wire.dialects.anthropic.conversation import AnthropicConversation
from recorder.wire.dialects.bedrock_converse.conversation import model_of


class InvokeConversation(AnthropicConversation):
    """A request to create a message."""

    @cached_property
    def model(self) -> str | None:
        return model_of(self.path)

    @property
    def stream(self) -> bool | None:
        return self.path.endswith("-stream")
