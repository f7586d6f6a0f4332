"""The faults of a stream of OpenAI's hosted agents: its events, the state of turns, and texts that
come in pieces.
"""

from __future__ import annotations

from recorder.lint.faults import shown
from recorder.lint.hosted import SessionWalk
from recorder.lint.rule import Faults
from recorder.lint.stream import StreamView
from recorder.wire.dialects.json_values import Object, names, object_, text, whole
from recorder.wire.dialects.openai_agents.decoder import AT_REST, FIELDS, RUNNING
from recorder.wire.dialects.openai_agents.lint.shapes import SHAPES

_TURN = "agent.session.turn."
_ENDED = names("completed failed cancelled")


class Session(SessionWalk):
    """Follows the events of one session."""

    NO_EVENT, UNKNOWN, MISFIT, NO_REST = "OA001", "OA002", "OA003", "OA004"
    shapes, at_rest, running = SHAPES, AT_REST, RUNNING

    def __init__(self, stream: StreamView) -> None:
        super().__init__(stream)
        # of items that have begun here, by field and number
        self._texts: dict[str, dict[tuple[str, int], str]] = {}

    def event(self, pos: int, type: str, event: Object) -> Faults:
        _, _, what = type.rpartition(_TURN)
        of, _, step = what.rpartition(".")
        if "turn" in event:
            yield from self._turn(pos, what, event)
        elif of == "item":
            self._item(step, text(event, "item", "id") or "")
        elif of in FIELDS:
            field, place = FIELDS[of]
            yield from self._text(pos, (field, whole(event, place) or 0), event)

    def _turn(self, pos: int, state: str, event: Object) -> Faults:
        turn = object_(event, "turn")
        id, status = text(turn, "id"), text(turn, "status")
        if id is not None and id != text(event, "turn_id"):
            yield (
                "OA005",
                pos,
                f"turn_id is {shown(event.get('turn_id'))}, that of the turn {shown(id)}",
            )
        if state in _ENDED and status is not None and status != state:
            yield "OA005", pos, f"a turn that is {state} has the status {shown(status)}"
        if state == "completed" and not (event.get("usage") or turn.get("usage")):
            yield "OA007", pos, ""

    def _item(self, step: str, id: str) -> None:
        if step == "added":
            self._texts[id] = {}
        else:
            self._texts.pop(id, None)

    def _text(self, pos: int, place: tuple[str, int], event: Object) -> Faults:
        """Add a piece, or compare all of them with the whole."""
        pieces = self._texts.get(text(event, "item_id") or "")
        if pieces is None:
            return  # it began before the stream
        stated = text(event, "text")
        if stated is None:
            pieces[place] = pieces.get(place, "") + (text(event, "delta") or "")
        elif pieces.get(place, stated) != stated:
            yield "OA006", pos, f"{shown(stated)} is not {shown(pieces[place])}"
