"""The events of Gemini's Interactions → facts. What the types of steps mean is in `.steps`.

A step is known by its `index`: only calls have an id. A step may begin with some of its text, which
deltas go on with; a call begins with empty arguments, which are streamed as JSON text, or come
whole in one delta where a tool is the provider's. The last event has the counts of tokens and no
steps; a document has both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from recorder.model.facts import (
    AnnotationAdded,
    Fact,
    ItemFinished,
    ItemStarted,
    ItemState,
    MalformedPayload,
    ResponseFinished,
    ResponseItems,
    TextAdded,
)
from recorder.wire.dialects.decoder import (
    DOCUMENT,
    Common,
    Content,
    Facts,
    FastPath,
    JsonDecoder,
    failed,
    unknown,
)
from recorder.wire.dialects.gemini_interactions.steps import (
    FUNCTION_CALL,
    MEDIA,
    answered,
    arguments,
    error_of,
    is_call,
    is_known,
    is_result,
    media_in,
    returned,
    shown,
    stated,
    type_of,
)
from recorder.wire.dialects.gemini_interactions.usage import reports
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    names,
    object_,
    objects,
    text,
    whole,
    without_nulls,
)
from recorder.wire.dialects.keys import ERROR, Whole

DELTA, COMPLETED, SOUND = "step.delta", "interaction.completed", "audio"

ENDED = names(
    "completed requires_action requires_continuation incomplete budget_exceeded failed cancelled"
)
"""The states in which nothing more comes of an interaction."""

NO_ARGUMENTS = "{}"

_VERDICTS: Mapping[str, Literal["incomplete", "failed"]] = {
    "requires_continuation": "incomplete",
    "incomplete": "incomplete",
    "budget_exceeded": "incomplete",
    "cancelled": "incomplete",
    "failed": "failed",
}

_ABOUT = names("""
    type id call_id index role status model agent object event_type signature mime_type uri rate sample_rate
    channels resolution data annotations language is_error error server_name search_type retrieval_type metadata
    """)
"""Members of events and of steps that are not content."""


class _TextDelta(Common, tag="text"):
    text: str


class _ArgumentsDelta(Common, tag="arguments_delta"):
    arguments: str


class _StepDelta(Common):
    index: Whole
    delta: _TextDelta | _ArgumentsDelta
    event_type: Literal["step.delta"] = "step.delta"
    event_id: str | None = None


_decode_delta = msgspec.json.Decoder(_StepDelta).decode


class _Step(msgspec.Struct):
    """A step so far.

    `given` is what it began with, and what whole deltas have put into it since.
    """

    given: Object
    stated: ItemState
    is_streamed: bool = False  # its arguments, or what it printed, came in pieces
    media: int = 0  # pictures, films and documents so far
    sound: list[Object] = []  # pieces of one sound


class InteractionsDecoder(JsonDecoder):
    """Follows the steps of one interaction."""

    def __init__(self) -> None:
        self._steps: dict[int, _Step] = {}

    about = _ABOUT

    def fast_paths(self) -> Mapping[str | None, FastPath]:
        return {DELTA: self._fast_path}

    def contents(self, type: str | None, payload: Any) -> Iterable[Content]:
        if not isinstance(payload, dict):
            return (("", payload),)
        if type == DOCUMENT:
            return [("steps", step) for step in answered(payload)]
        type = type or text(payload, "event_type") or ""
        name = _CONTENTS.get(type, "")
        if isinstance(payload.get(name), dict):
            return ((name, payload[name]),)
        return () if type in _EVENTS or type in _SILENT else (("", payload),)

    def _fast_path(self, payloads: Iterable[bytes]) -> Iterator[TextAdded]:
        for event in map(_decode_delta, payloads):
            delta, step = event.delta, self._steps.get(event.index)
            if step is None:
                return
            if isinstance(delta, _TextDelta):
                if step.stated.kind != "message" or not delta.text:
                    return
                yield TextAdded(event.index, "text", 0, delta.text)
            else:
                if step.stated.type != FUNCTION_CALL or not delta.arguments:
                    return
                step.is_streamed = True
                yield TextAdded(event.index, "arguments", 0, delta.arguments)

    def payload(self, type: str | None, payload: Any) -> Facts:
        """Decode the payload of an event."""
        if not isinstance(payload, dict):
            return (MalformedPayload("the payload is not a JSON object"),)
        type = type or text(payload, "event_type") or ""
        if type == ERROR or payload.get("error"):
            return (failed(payload),)
        handle = _EVENTS.get(type)
        if handle is not None:
            return handle(self, payload)
        return () if type in _SILENT else (unknown(type),)

    def whole(self, payload: Any) -> Facts:
        """Decode a document: an interaction, or an error."""
        if not isinstance(payload, dict):
            return (MalformedPayload("the document is not an object"),)
        if payload.get("error"):
            return (failed(payload),)
        if "status" not in payload and "steps" not in payload:
            return ()  # that one was deleted
        return self._interaction(payload)

    # -- the interaction

    def _on_lifecycle(self, event: Object) -> Facts:
        interaction = object_(event, "interaction")
        if not interaction:
            return (MalformedPayload(f"{text(event, 'event_type')} without its interaction"),)
        return self._interaction(interaction)

    def _on_status(self, event: Object) -> Facts:
        """Read a change of the state.

        That it is over is said by the last event, unless it failed before that.
        """
        status = text(event, "status") or ""
        failure = [ResponseFinished(status, _VERDICTS[status])] if status in _VERDICTS else []
        return (*self._begun(text(event, "interaction_id"), None), *reports(event), *failure)

    def _interaction(self, interaction: Object) -> Facts:
        facts: list[Fact] = [*self._begun(text(interaction, "id"), _asked(interaction))]
        facts += self._served_at(text(interaction, "service_tier"))
        facts += self._restated(answered(interaction))
        for report in reports(interaction):
            facts += (report, *self._fallen(report.usage))
        facts += [failed({"error": error}) for error in objects(interaction, "errors")]
        status = text(interaction, "status")
        if status in ENDED:
            facts.append(ResponseFinished(status, _VERDICTS.get(status)))
        return facts

    def _restated(self, steps: list[Object]) -> Iterable[Fact]:
        """Yield the steps that an interaction states as a whole.

        Most streams leave them out of their last event.
        """
        if not steps:
            return
        items: list[ItemState] = []
        for index, step in enumerate(steps):
            if not is_result(type_of(step)):
                items.append(msgspec.structs.replace(stated(step, "completed"), output_index=index))
        yield ResponseItems(tuple(items))
        for index, step in enumerate(steps):
            yield from self._rest(index, step)

    def _rest(self, index: int, step: Object) -> Iterable[Fact]:
        """Yield what a whole step says that is not in an item: a result, pictures, an error, that
        it is unknown.
        """
        yield from _stranger(step)
        if is_result(type_of(step)):
            yield returned(step)
        if index not in self._steps:
            yield from self._media(index, media_in(step))
        yield from error_of(step)

    # -- its steps

    def _on_start(self, event: Object) -> Facts:
        index, given = whole(event, "index"), event.get("step")
        if index is None or not isinstance(given, dict):
            return (MalformedPayload("step.start without an index or a step"),)
        opening = stated(given)
        self._steps[index] = _Step(given, opening)
        facts: list[Fact] = [*_stranger(given)]
        if not is_result(opening.type):
            facts += _opened(index, opening)
        elif given.get("result"):  # most begin with an empty one
            facts.append(returned(given))
        facts += self._media(index, media_in(given))
        facts += error_of(given)
        return facts

    def _on_delta(self, event: Object) -> Facts:
        index, delta = whole(event, "index"), object_(event, "delta")
        type = text(delta, "type") or ""
        used = reports(object_(event, "metadata"), "total_usage")
        if index is None:
            return (MalformedPayload(f"{type} without an index"), *used)
        return (*self._delta(index, type, delta), *used)

    def _delta(self, index: int, type: str, delta: Object) -> Facts:
        meaning = _DELTAS.get(type)
        if meaning is not None:
            return meaning(self, index, delta)
        if type in MEDIA:
            return [*self._media(index, [delta])]
        if is_call(type):
            return self._call(index, delta)
        return self._result(index, delta) if is_result(type) else (unknown(type or DELTA),)

    def _text(self, index: int, delta: Object) -> Facts:
        added = text(delta, "text")
        if added is None:
            return (MalformedPayload("text without a text"),)
        return (TextAdded(index, "text", 0, added),) if added else ()

    def _summary(self, index: int, delta: Object) -> Facts:
        """Add to the summary of a thought. A picture in it has no text."""
        content = object_(delta, "content")
        if text(content, "type") in MEDIA:
            return [*self._media(index, [content])]
        added = text(content, "text")
        return (TextAdded(index, "summary", 0, added),) if added else ()

    def _signature(self, index: int, delta: Object) -> Facts:
        """Mark the thought as encrypted; the fact comes when it ends, which is next."""
        step = self._steps.get(index)
        if step is not None and delta.get("signature"):
            step.stated = msgspec.structs.replace(
                step.stated, encrypted=step.stated.kind == "reasoning"
            )
        return ()

    def _arguments(self, index: int, delta: Object) -> Facts:
        added = text(delta, "arguments")
        if added is None:
            return () if delta.get("arguments") is None else self._call(index, delta)
        step = self._steps.get(index)
        if step is not None:
            step.is_streamed = True
        return (TextAdded(index, "arguments", 0, added),) if added else ()

    def _annotated(self, index: int, delta: Object) -> Facts:
        return [AnnotationAdded(index, as_json(each)) for each in objects(delta, "annotations")]

    def _call(self, index: int, delta: Object) -> Facts:
        """Take the arguments of a tool of the provider, which come whole; a second delta of it is
        told at its end.
        """
        step = self._steps.get(index)
        if step is None:
            return (TextAdded(index, "arguments", 0, as_json(arguments(delta))),)
        before = arguments(step.given)
        step.given = _merged(step.given, delta)
        step.stated = msgspec.structs.replace(stated(step.given), texts=())
        added = arguments(step.given)
        return (TextAdded(index, "arguments", 0, as_json(added)),) if added and not before else ()

    def _result(self, index: int, delta: Object) -> Facts:
        """Take a result, or a further piece of it: text and lists are continued."""
        step = self._steps.setdefault(index, _Step({}, stated(delta)))
        step.given = _merged(step.given, delta)
        if isinstance(delta.get("result"), str):
            return self._printed(step, delta["result"])
        return (returned(step.given),)

    def _printed(self, step: _Step, added: str) -> Facts:
        """Add what a tool printed to its call; how it ended is told with the end of the step."""
        id = text(step.given, "call_id")
        called = [key for key, each in self._steps.items() if each.stated.kind == "tool_call"]
        own = [key for key in called if self._steps[key].stated.call_id == id]
        if id is None or not own:
            return (returned(step.given),)
        step.is_streamed = True
        return (TextAdded(own[-1], "output", 0, added),) if added else ()

    def _media(self, index: int, parts: Iterable[Object]) -> Iterable[Fact]:
        """Yield pictures, films and documents as items of their own, which stand between the texts
        of a message.

        A sound comes in pieces, which are one item.
        """
        step = self._steps.get(index) or _Step({}, ItemState("other", ""))
        for part in parts:
            type = type_of(part)
            if type == SOUND and index in self._steps:
                step.sound.append(part)
                if len(step.sound) == 1:
                    yield ItemStarted(f"{index}.{SOUND}", index, ItemState("other", type))
                continue
            key = f"{index}.{type}.{step.media}"
            step.media += 1
            item = ItemState("other", type, status="completed", output=shown([part]))
            yield ItemStarted(key, index, item)
            yield ItemFinished(key, index, item)

    def _on_stop(self, event: Object) -> Facts:
        index = whole(event, "index")
        step = None if index is None else self._steps.get(index)
        facts: list[Fact] = []
        if index is not None and step is not None:
            facts += self._finished(index, step)
        return (*facts, *reports(event))

    def _finished(self, index: int, step: _Step) -> Iterable[Fact]:
        if step.sound:
            item = ItemState("other", SOUND, status="completed", output=shown(step.sound))
            yield ItemFinished(f"{index}.{SOUND}", index, item)
        if is_result(step.stated.type):
            if step.is_streamed or step.given.get("result") is None:
                yield returned(step.given)
            return
        final = msgspec.structs.replace(step.stated, status="completed", texts=(), annotations=())
        if final.kind == "tool_call" and not step.is_streamed:
            final = msgspec.structs.replace(
                final, texts=(("arguments", 0, as_json(arguments(step.given))),)
            )
        yield ItemFinished(index, index, final)


def _asked(interaction: Object) -> str | None:
    """Return the model that answers, or the agent, of whose models the API says nothing."""
    return text(interaction, "model") or text(interaction, "agent")


def _stranger(step: Object) -> Iterable[Fact]:
    if not is_known(type_of(step)):
        yield unknown(type_of(step))
    for part in objects(step, "content"):
        if text(part, "type") != "text" and text(part, "type") not in MEDIA:
            yield unknown(part.get("type"))


def _opened(index: int, opening: ItemState) -> Iterable[Fact]:
    """Begin a step, perhaps with some of its text.

    Arguments that are empty come later, or with its end.
    """
    yield ItemStarted(index, index, msgspec.structs.replace(opening, texts=(), annotations=()))
    for field, _, words in opening.texts:
        if words and words != NO_ARGUMENTS:
            yield TextAdded(index, field, 0, words)
    for annotation in opening.annotations:
        yield AnnotationAdded(index, annotation)


def _merged(step: Object, delta: Object) -> Object:
    """Return a step with what a delta adds to it."""
    merged = {**step, **without_nulls(delta)}
    before, now = step.get("result"), delta.get("result")
    if isinstance(before, str) and isinstance(now, str):
        merged["result"] = before + now
    elif isinstance(before, list) and isinstance(now, list):
        merged["result"] = [*before, *now]
    return merged


_CONTENTS = {"step.start": "step", DELTA: "delta"}
"""By type of event, the member that has the content."""

_SILENT = names("interaction.connected interaction.cancelled")

_EVENTS: Mapping[str, Callable[[InteractionsDecoder, Object], Facts]] = {
    "interaction.created": InteractionsDecoder._on_lifecycle,
    COMPLETED: InteractionsDecoder._on_lifecycle,
    "interaction.status_update": InteractionsDecoder._on_status,
    "step.start": InteractionsDecoder._on_start,
    DELTA: InteractionsDecoder._on_delta,
    "step.stop": InteractionsDecoder._on_stop,
}

_DELTAS: Mapping[str, Callable[[InteractionsDecoder, int, Object], Facts]] = {
    "text": InteractionsDecoder._text,
    "thought_summary": InteractionsDecoder._summary,
    "thought_signature": InteractionsDecoder._signature,
    "arguments_delta": InteractionsDecoder._arguments,
    "text_annotation_delta": InteractionsDecoder._annotated,
}
