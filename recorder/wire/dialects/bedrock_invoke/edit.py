"""An edited answer as one of InvokeModel: that of Anthropic Messages, each event in a chunk."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from recorder.wire.dialects.anthropic import edit as messages
from recorder.wire.dialects.anthropic.edit import document
from recorder.wire.dialects.bedrock_invoke.decoder import unwrapped
from recorder.wire.dialects.edited import EditedAnswer
from recorder.wire.dialects.json_values import Object, as_json, request_object

__all__ = ["document", "stream"]


def stream(recorded: Sequence[Object], answer: EditedAnswer) -> list[Object]:
    """Return the chunks of a stream; the last one is the recorded one, with the metrics of AWS."""
    events = [request_object(unwrapped(as_json(each).encode())) for each in recorded]
    written = messages.stream(events, answer)
    written[-1:] = [each for each in events if each.get("type") == "message_stop"] or written[-1:]
    return [{"chunk": {"bytes": b64encode(as_json(each).encode()).decode()}} for each in written]
