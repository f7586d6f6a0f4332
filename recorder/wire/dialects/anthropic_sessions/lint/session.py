"""The faults of a stream of Managed Agents: its events, and the messages that come in pieces before
they are whole.
"""

from __future__ import annotations

from recorder.lint.faults import is_whole_number, shown
from recorder.lint.hosted import SessionWalk
from recorder.lint.rule import Faults
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.anthropic_sessions.decoder import AT_REST, DELETED, MESSAGE, RUNNING
from recorder.wire.dialects.anthropic_sessions.lint.shapes import SHAPES
from recorder.wire.dialects.json_values import Object, member, objects, text


class Session(SessionWalk):
    """Follows the events of one session, or of one thread of it."""

    NO_EVENT, UNKNOWN, MISFIT, NO_REST = "AS002", "AS003", "AS004", "AS008"
    shapes, at_rest, running = SHAPES, AT_REST | {DELETED}, RUNNING

    def __init__(self, stream: StreamView) -> None:
        super().__init__(stream)
        self._preview: str | None = None  # the message of which pieces come
        self._shown: list[str] = []  # its texts so far

    def named(self, block: StreamBlock, type: str) -> Faults:
        if block.kind == "frame" and block.name != type:
            yield "AS001", block.pos, f"event: {(block.name or '')[:60]}, type {shown(type)}"

    def event(self, pos: int, type: str, event: Object) -> Faults:
        if type == "event_start" and text(event, "event", "type") == MESSAGE:
            self._preview, self._shown = text(event, "event", "id"), []
        elif type == "event_delta":
            yield from self._delta(pos, event)
        elif type == MESSAGE and text(event, "id") == self._preview:
            self._preview = None
            yield from self._whole(pos, event)

    def _delta(self, pos: int, event: Object) -> Faults:
        """Add a piece to the message that began last: the SDK has only one."""
        id, index = text(event, "event_id"), member(event, "delta", "index")
        index = 0 if index is None else index
        if id is None or not is_whole_number(index):
            return  # which its shape says
        if id != self._preview:
            yield "AS005", pos, f"event_id {shown(id)}"
        elif not 0 <= index <= len(self._shown):
            yield "AS006", pos, f"index {index} of {len(self._shown)}"
        else:
            self._shown += [""] if index == len(self._shown) else []
            self._shown[index] += text(event, "delta", "content", "text") or ""

    def _whole(self, pos: int, event: Object) -> Faults:
        parts = objects(event, "content")
        for number, pieces in enumerate(self._shown):
            said = text(parts[number], "text") if number < len(parts) else ""
            if said is not None and not said.startswith(pieces):
                yield "AS007", pos, f"content {number} does not begin with {shown(pieces)}"
