"""The requests to InvokeModel with a model of Anthropic. The path names the model, and says whether
it streams.
"""

from __future__ import annotations

from recorder.wire.dialects.anthropic.conversation import AnthropicConversation
from recorder.wire.dialects.bedrock_converse.conversation import PathConversation


class InvokeConversation(PathConversation, AnthropicConversation):
    """A request to create a message."""
