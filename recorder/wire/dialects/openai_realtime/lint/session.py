"""The faults of a turn of Realtime: its events, its response, and texts that come in pieces."""

from __future__ import annotations

from recorder.lint.faults import shown
from recorder.lint.hosted import SessionWalk
from recorder.lint.rule import Faults
from recorder.lint.stream import StreamView
from recorder.wire.dialects.json_values import Object, object_, text, whole
from recorder.wire.dialects.openai_realtime.decoder import DONE
from recorder.wire.dialects.openai_realtime.lint.shapes import SHAPES

_WHOLES = {
    "response.output_audio_transcript": "transcript",
    "response.output_text": "text",
    "response.function_call_arguments": "arguments",
    "response.mcp_call_arguments": "arguments",
}
"""By what comes in pieces, the member that has all of it."""


class Turn(SessionWalk):
    """Follows the events of one turn."""

    NO_EVENT, UNKNOWN, MISFIT, NO_REST = "OR001", "OR002", "OR003", "OR004"
    shapes, at_rest, running = SHAPES, frozenset({DONE}), frozenset({"response.created"})

    def __init__(self, stream: StreamView) -> None:
        super().__init__(stream)
        # by what they are of, the item and the number of its part
        self._texts: dict[tuple[str, str, int], str] = {}

    def event(self, pos: int, type: str, event: Object) -> Faults:
        of, _, step = type.rpartition(".")
        if of in _WHOLES:
            place = (of, text(event, "item_id") or "", whole(event, "content_index") or 0)
            if step == "delta":
                self._texts[place] = self._texts.get(place, "") + (text(event, "delta") or "")
            else:
                yield from self._whole(pos, self._texts.pop(place, ""), text(event, _WHOLES[of]))
        response = object_(event, "response")
        if type == DONE and text(response, "status") == "completed" and not response.get("usage"):
            yield "OR006", pos, ""

    def _whole(self, pos: int, pieces: str, stated: str | None) -> Faults:
        """Compare a whole text with its pieces; a server may send it without any."""
        if stated is not None and pieces and stated != pieces:
            yield "OR005", pos, f"{shown(stated)} is not {shown(pieces)}"
