"""The faults of a stream of Interactions: its events, its steps by index, its usage, and its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from recorder.lint.faults import is_json, is_whole_number, misfit, shown
from recorder.lint.rule import Faults
from recorder.lint.sse import is_done_mark
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.gemini_interactions.decoder import COMPLETED, ENDED
from recorder.wire.dialects.gemini_interactions.lint.shapes import SHAPES
from recorder.wire.dialects.gemini_interactions.steps import FUNCTION_CALL, is_call, is_result
from recorder.wire.dialects.json_values import (
    Object,
    decoded_or_none,
    member,
    names,
    object_,
    objects,
    text,
)
from recorder.wire.dialects.keys import ERROR

_EVENTS: Mapping[str, str] = {
    "interaction.created": "on_created",
    COMPLETED: "on_completed",
    "interaction.status_update": "on_status_update",
    "step.start": "on_start",
    "step.delta": "on_delta",
    "step.stop": "on_stop",
    ERROR: "on_error",
}
"""The shape of an event, by its type."""

_ENDS = names(
    "interaction.completed interaction.cancelled interaction.canceled reconnection_required"
)
"""The types after which nothing comes; all but the first are only sent over WebSocket."""

_LIVE_EVENTS: Mapping[str, str] = {
    **{type: shape for type, shape in _EVENTS.items() if not type.startswith("interaction.")},
    **dict.fromkeys(("interaction.connected", "interaction.created", *_ENDS), "on_live"),
}
"""The same over WebSocket, where an event has the members of its interaction beside its type."""

_FITTING: Mapping[str, frozenset[str]] = {
    "model_output": names("text text_annotation_delta image audio video document"),
    "user_input": names("text text_annotation_delta image audio video document"),
    "thought": names("thought_summary thought_signature"),
    FUNCTION_CALL: names("arguments_delta thought_signature"),
}
"""The types of deltas that a step takes, by its type; a tool of the provider has deltas of its own
type.
"""

_SUMMED = (
    "total_input_tokens",
    "total_output_tokens",
    "total_thought_tokens",
    "total_tool_use_tokens",
)


class _Step(msgspec.Struct):
    """A step that has begun."""

    pos: int  # of its last event
    type: str
    arguments: str = ""
    is_over: bool = False


class Steps:
    """Follows the steps of one stream."""

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        self._is_live = stream.is_switched
        self._shapes = _LIVE_EVENTS if self._is_live else _EVENTS
        self._steps: dict[int, _Step] = {}
        self._calls: set[str] = set()
        self._id: str | None = None
        self._has_ended = self._is_marked = False

    def feed(self, block: StreamBlock) -> Faults:
        if is_done_mark(block):
            self._is_marked = True
            return
        if block.data is None or (block.payload is None and not is_json(block)):
            return
        events = (
            block.payload.get("events")
            if self._is_live and isinstance(block.payload, dict)
            else None
        )
        for event in events if isinstance(events, list) else [block.payload]:
            yield from self._told(block.pos, event)

    def _told(self, pos: int, event: object) -> Faults:
        if self._is_marked:
            yield "GI012", pos, ""
            return
        type = text(event, "event_type")
        if not isinstance(event, dict) or type is None:
            yield "GI001", pos, shown(event)
        elif type not in self._shapes:
            yield "GI003", pos, f"event {shown(type)}"
        else:
            yield from self._event(pos, type, event)

    def end(self) -> Faults:
        """Yield what is missing."""
        if not self._stream.is_seen_whole:
            return
        if not self._has_ended:
            yield "GI006", None, ""

    def _event(self, pos: int, type: str, event: Object) -> Faults:
        misfits = list(SHAPES.misfits(event, self._shapes[type]))
        for each in misfits:
            yield "GI002", pos, misfit(each)
        yield from (("GI003", pos, said) for said in _strange(event))
        if type == ERROR:
            self._has_ended = True
        elif not type.startswith("step."):
            yield from self._lifecycle(pos, type, event)
        elif is_whole_number(index := event.get("index")):
            yield from self._step(pos, type, index, event)

    # -- the interaction

    def _lifecycle(self, pos: int, type: str, event: Object) -> Faults:
        id = text(event, "interaction_id") or text(event, "interaction", "id")
        if id is not None and self._id not in (None, id):
            yield "GI010", pos, f"it is {shown(id)}, was {shown(self._id)}"
        self._id = id or self._id
        if type not in _ENDS or self._has_ended:
            return
        self._has_ended, self._is_marked = True, self._is_live
        if type != COMPLETED:
            return
        interaction = event if self._is_live else object_(event, "interaction")
        status = interaction.get("status")
        if (
            isinstance(status, str | None)
            and status not in ENDED
            and interaction
            and not self._is_live
        ):
            yield "GI007", pos, f"status is {shown(status)}"
        if interaction and interaction.get("usage") is None:
            yield "GI008", pos, ""
        yield from _sum(pos, object_(interaction, "usage"))
        for index, step in self._steps.items():
            if not step.is_over:
                yield "GI009", step.pos, f"step {index}"

    # -- its steps

    def _step(self, pos: int, type: str, index: int, event: Object) -> Faults:
        step = self._steps.get(index)
        if type == "step.start":
            yield from self._begin(pos, index, object_(event, "step"))
        elif step is None and self._is_resumed():
            return  # it has begun in the stream that this one resumes
        elif step is None or step.is_over:
            yield (
                "GI004",
                pos,
                f"{type} of step {index}, which {'is over' if step else 'has not begun'}",
            )
        else:
            step.pos = pos
            yield from (
                self._delta(pos, step, object_(event, "delta"))
                if type == "step.delta"
                else _stop(pos, step)
            )

    def _is_resumed(self) -> bool:
        """Return whether a step may have begun before: over WebSocket, before the client came back."""
        return self._stream.exchange.resumes_after is not None or (
            self._is_live and not self._steps
        )

    def _begin(self, pos: int, index: int, given: Object) -> Faults:
        if index in self._steps:
            yield "GI005", pos, f"step {index}"
        type, id = text(given, "type") or "", text(given, "id")
        call_id = text(given, "call_id")
        if is_call(type) and id is not None:
            self._calls.add(id)
        # The calls that a result of a function is of are in an earlier interaction.
        if (
            is_result(type)
            and type != "function_result"
            and call_id is not None
            and call_id not in self._calls
        ):
            yield "GI011", pos, f"call_id {shown(call_id)}"
        self._steps[index] = _Step(pos, type)

    def _delta(self, pos: int, step: _Step, delta: Object) -> Faults:
        type = text(delta, "type")
        if (
            type is None
            or f"delta.{type}" not in SHAPES.by_name
            or f"step.{step.type}" not in SHAPES.by_name
        ):
            return
        if type not in _FITTING.get(step.type, (step.type,)):
            yield "GI013", pos, f"{type} in a step {step.type}"
        if type == "arguments_delta":
            step.arguments += text(delta, "arguments") or ""


def _stop(pos: int, step: _Step) -> Faults:
    step.is_over = True
    if step.arguments and not isinstance(
        decoded_or_none(step.arguments.encode("utf-8", "surrogatepass")), dict
    ):
        yield "GI014", pos, shown(step.arguments)


def _strange(event: Object) -> Iterable[str]:
    """Yield the types in an event that google-genai does not know."""
    places = [("step", object_(event, "step")), ("delta", object_(event, "delta"))]
    places += [("step", step) for step in objects(event.get("interaction"), "steps")]
    for step in (object_(event, "step"), *objects(event.get("interaction"), "steps")):
        places += [
            ("content", part) for part in (*objects(step, "content"), *objects(step, "summary"))
        ]
    content = object_(event, "delta", "content")
    places.append(("content", content))
    for family, value in places:
        type = member(value, "type")
        if isinstance(type, str) and f"{family}.{type}" not in SHAPES.by_name:
            yield f"{family} {shown(type)}"


def _sum(pos: int, usage: Object) -> Faults:
    """Yield where counts contradict each other.

    Some may be left out: what is not there contradicts nothing.
    """
    counts = {name: usage.get(name) for name in (*_SUMMED, "total_tokens", "total_cached_tokens")}
    known = {name: count for name, count in counts.items() if is_whole_number(count)}
    negative = next((name for name, count in known.items() if count < 0), None)
    if negative is not None:
        yield "GI015", pos, f"{negative} is {known[negative]}"
        return
    parts = [known[name] for name in _SUMMED if name in known]
    total = known.get("total_tokens")
    if total is not None and len(parts) == len(_SUMMED) and total != sum(parts):
        yield "GI015", pos, f"{' + '.join(map(str, parts))} is not {total}"
    cached, given = known.get("total_cached_tokens", 0), known.get("total_input_tokens")
    if given is not None and cached > given:
        yield "GI015", pos, f"{cached} tokens are cached, of {given}"
