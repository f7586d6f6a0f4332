"""The rules of the Responses API (`RS…`), as OpenAI speaks it, as Codex reads it, as the SDKs read
it.

Must not know: other APIs, and where recordings come from.
"""

from __future__ import annotations

from operator import attrgetter

from recorder.lint.rule import Faults, Rule, rules
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.openai_responses.lint import fields, items, lifecycle
from recorder.wire.dialects.openai_responses.lint.events import Course, stream_event
from recorder.wire.dialects.openai_responses.lint.lifecycle import Lifecycle
from recorder.wire.dialects.openai_responses.lint.walk import ItemWalk


class ResponseWalk:
    """Follows the events of one response."""

    def __init__(self, stream: StreamView) -> None:
        self._course = Course(stream)
        self._lifecycle, self._items = Lifecycle(self._course), ItemWalk()

    def feed(self, block: StreamBlock) -> Faults:
        event = stream_event(block)
        self._course.add(block, event)
        yield from self._lifecycle.block(block)
        if event is not None:
            yield from self._lifecycle.event(event)
            yield from fields.faults(event, self._course)
            self._items.add(event)

    def end(self) -> Faults:
        yield from self._lifecycle.end()
        yield from items.faults(self._items, self._course)


_TEXTS = lifecycle.TEXTS + fields.TEXTS + items.TEXTS

RULES: tuple[Rule, ...] = tuple(sorted(rules(_TEXTS, ResponseWalk), key=attrgetter("id")))
