"""What the streams of an app to its screen share: parts that begin, grow and end by an id, and the
names of counts.

Must not know: the formats that use it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import msgspec

from recorder.model.facts import (
    Fact,
    Field,
    ItemFinished,
    ItemKind,
    ItemStarted,
    ItemState,
    MalformedPayload,
    TextAdded,
    Usage,
    UsageReported,
)
from recorder.wire.dialects.decoder import Facts, JsonDecoder
from recorder.wire.dialects.json_values import Object, as_json, places
from recorder.wire.dialects.usage_report import counts_at

OPEN_LIMIT = 10_000
"""Parts that are open at once: no screen shows a hundredth of it."""

_COUNTS = places("""
input_tokens inputTokens
cache_read_input_tokens cachedInputTokens
cache_read_input_tokens inputTokenDetails.cacheReadTokens
cache_write_input_tokens cacheWriteInputTokens
cache_write_input_tokens inputTokenDetails.cacheWriteTokens
output_tokens outputTokens
reasoning_output_tokens reasoningTokens
reasoning_output_tokens outputTokenDetails.reasoningTokens
total_tokens totalTokens
""")

Part = tuple[ItemKind, str]
"""The kind of a part, and its id, which another part may have again later."""


def counted(usage: Object) -> Usage:
    """Return the counts of a report in the names of Vercel's AI SDK, which AG-UI took over."""
    return Usage(**counts_at(usage, _COUNTS))


def reported(usage: Usage, raw: Any) -> Facts:
    """Return the report, if it counts anything."""
    return () if usage == Usage() else (UsageReported(usage, as_json(raw)),)


class ScreenDecoder(JsonDecoder):
    """Follows the parts that are open."""

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[Part, tuple[int, ItemState]] = {}

    def payload(self, type: str | None, payload: Any) -> Facts:
        if not isinstance(payload, dict):
            return (MalformedPayload("the event is not a JSON object"),)
        return self.tell(payload)

    @abstractmethod
    def tell(self, event: Object) -> Facts:
        """Decode an event."""

    def begin(self, stated: ItemState) -> Facts:
        """Begin a part, in place of an open one of its id."""
        if len(self._open) >= OPEN_LIMIT:
            return (MalformedPayload("too many parts are open"),)
        self._count += 1
        self._open[stated.kind, stated.item_id or ""] = (self._count, stated)
        return (ItemStarted(self._count, None, stated),)

    def is_open(self, part: Part) -> bool:
        return part in self._open

    def add(self, part: Part, field: Field, added: str | None) -> Facts:
        """Add to the text of an open part."""
        if not added:
            return ()
        if part not in self._open:
            return (MalformedPayload("a part grows that did not begin", len(added)),)
        return (TextAdded(self._open[part][0], field, 0, added),)

    def end(self, part: Part, **now: Any) -> Facts:
        """End an open part with what is known of it `now`; one that did not begin is whole."""
        if part not in self._open:
            return ()
        key, stated = self._open.pop(part)
        return (
            ItemFinished(
                key, None, msgspec.structs.replace(stated, **{"status": "completed", **now})
            ),
        )

    def whole_item(self, stated: ItemState) -> list[Fact]:
        """Return the facts of a part that comes as a whole."""
        begun = self.begin(msgspec.structs.replace(stated, texts=(), output=None))
        known = {"texts": stated.texts, "output": stated.output, "failed": stated.failed}
        return [*begun, *self.end((stated.kind, stated.item_id or ""), **known)]
