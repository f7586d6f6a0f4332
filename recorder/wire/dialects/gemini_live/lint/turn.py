"""The faults of a turn of Gemini Live: its messages, its calls and its end."""

from __future__ import annotations

from recorder.lint.faults import is_json, misfit, shown
from recorder.lint.rule import Faults
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.gemini_live.lint.shapes import SHAPES
from recorder.wire.dialects.json_values import Object, objects

_KNOWN = SHAPES.by_name["message"].keys()
_NO_STATUS = (None, "INTERACTION_STATUS_UNSPECIFIED")


class Turn:
    """Follows the messages of one turn."""

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        self._last: StreamBlock | None = None  # of a turn that has begun, and not ended
        self._has_usage = False

    def feed(self, block: StreamBlock) -> Faults:
        message = block.payload
        if not block.is_event or not is_json(block):
            return
        if not message:
            return  # which is an empty message to google-genai
        if not isinstance(message, dict):
            yield "GL001", block.pos, shown(message)
            return
        if message.get("error"):
            self._last = None
            return
        if not any(message.get(name) is not None for name in _KNOWN):
            yield "GL002", block.pos, shown(message)
            return
        for each in SHAPES.misfits(message, "message"):
            yield "GL003", block.pos, misfit(each)
        yield from self._message(block, message)

    def _message(self, block: StreamBlock, message: Object) -> Faults:
        for call in objects(message.get("toolCall"), "functionCalls"):
            if call.get("id") is None:
                yield "GL005", block.pos, shown(call)
        self._has_usage = self._has_usage or bool(message.get("usageMetadata"))
        self._last = block
        if _ends(message.get("serverContent")):
            self._last = None
            if not self._has_usage:
                yield "GL006", block.pos, ""

    def end(self) -> Faults:
        """Yield that the turn has no end."""
        if self._last is not None and self._stream.is_seen_whole:
            yield "GL004", self._last.pos, ""


def _ends(content: object) -> bool:
    """Return whether a content is the last of its turn, as google-genai sees it."""
    if not isinstance(content, dict):
        return False
    status = content.get("interactionStatus")
    return status == "IDLE" if status not in _NO_STATUS else content.get("turnComplete") is True
