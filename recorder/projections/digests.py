"""The digests of a request, by which later ones find it: of the segments of its prompt, and of the
history that it has.

A fold knows one exchange: it makes the row of a prompt without a comparison.
`recorder.projections.cache_misses` compares rows, and the store writes the result into the columns
of the comparison (`recorder.store.write.links`).

The digests by which the next request of a conversation finds an exchange, and what tells it from
equal ones, are computed only for exchanges whose session was found by their history: others do not
need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import accumulate, chain
from struct import Struct
from typing import Any, NamedTuple

import msgspec

from recorder.model.events import Event
from recorder.model.facts import Fact, Handler, RequestReceived
from recorder.model.text import storable
from recorder.projections.exchange_facts import ExchangeFacts
from recorder.projections.rows import HistoryRow, ItemRow, PromptRow
from recorder.wire.dialects import by_name
from recorder.wire.dialects.prompt import (
    CachePolicy,
    Prompt,
    PromptFormat,
    PromptSegment,
    prompt_of,
    system_segments,
)
from recorder.wire.grouping.history import IDS, Chain, ModelAnswer, broken_off, chain_of, unanswered

SEGMENTS_LIMIT = 4_096
"""Segments of a prompt that are told apart, 55 KB of a row: the longest sessions of agents have
some thousand messages. The rest is one segment."""

NO_COMPARISON: dict[str, Any] = {
    "cache_class": None,
    "previous_exchange_id": None,
    "common_bytes": None,
    "could_tokens": None,
    "missed_tokens": None,
    "is_estimate": False,
    "since_use_ns": None,
    "path": None,
}
"""The columns that a comparison computes, besides the segments of a request that continues another
one.
"""

_DIGEST, _SIZE = Struct("<8sI"), Struct("<8xI")
_PLACE = Struct("<Bhh")
_MARKS = Struct("<H")
_MARK = Struct("<HI")
DIGEST_BYTES = _DIGEST.size


class SegmentPlace(NamedTuple):
    """The place of a segment in its request, and the seconds that a mark at its end keeps it; 0
    without a mark.
    """

    part: int
    element: int
    block: int
    mark_s: int


def format_of(row: PromptRow) -> PromptFormat:
    """Return the format of the request. A row is made only of a dialect that has one."""
    format = by_name(row.api).prompt
    assert format is not None
    return format


def policy_of(row: PromptRow) -> CachePolicy:
    """Return how the provider caches prompts of this format."""
    policy = by_name(row.api).cache
    assert policy is not None
    return policy


def place_of(row: PromptRow, segment: int) -> SegmentPlace:
    """Return the place of a segment in the request."""
    return unpacked(row.places)[segment]


def marks_of(row: PromptRow) -> list[tuple[int, int]]:
    """Return the segments with a mark at their end, and the seconds that it keeps them."""
    return _marks(row.places)


def size_of(digests: bytes) -> int:
    """Return the size of some segments together."""
    return sum(chain.from_iterable(_SIZE.iter_unpack(digests)))


def sizes_until(digests: bytes) -> list[int]:
    """Return the size of so many segments from the first on."""
    return [0, *accumulate(chain.from_iterable(_SIZE.iter_unpack(digests)))]


def head_of(row: PromptRow) -> bytes:
    """Return the digests of what stands before the conversation."""
    return row.digests[: row.head_segments * _DIGEST.size]


def inherited(row: PromptRow, parent: PromptRow | None) -> PromptRow:
    """Return a row with its own head and the messages of another one, or with none."""
    digests, places = head_of(row), unpacked(row.places)[: row.head_segments]
    if parent is not None:
        digests += parent.digests[parent.head_segments * DIGEST_BYTES :]
        places += unpacked(parent.places)[parent.head_segments :]
    return msgspec.structs.replace(row, digests=digests, places=packed(places))


_NEXT, _NEXT_BLOCKS, _NEXT_BLOCK, _OTHER = range(4)
"""The bytes of a place that follows from the one before: the next element without blocks, the first
block of the next element, the next block; and of one that does not, whose numbers come behind it.
"""


def packed(places: Iterable[tuple[int, int, int, int]]) -> bytes:
    """Return places as bytes: the marks, then a byte for each place that follows from the one
    before.
    """
    codes, marks = bytearray(), []
    part, element, block = 0, -1, -1
    for number, place in enumerate(places):
        if place[3]:
            marks.append(_MARK.pack(number, place[3]))
        if place[0] == part and place[1] == element + 1 and place[2] <= 0:
            codes.append(_NEXT if place[2] else _NEXT_BLOCKS)
        elif place[0] == part and place[1] == element and place[2] == block + 1:
            codes.append(_NEXT_BLOCK)
        else:
            codes.append(_OTHER)
            codes += _PLACE.pack(*place[:3])
        part, element, block = place[:3]
    return _MARKS.pack(len(marks)) + b"".join(marks) + codes


def unpacked(packed: bytes) -> list[SegmentPlace]:
    """Return the places in bytes made by `packed`."""
    marks = dict(_marks(packed))
    places: list[SegmentPlace] = []
    part, element, block = 0, -1, -1
    at = _MARKS.size + len(marks) * _MARK.size
    while at < len(packed):
        code = packed[at]
        at += 1
        if code == _OTHER:
            part, element, block = _PLACE.unpack_from(packed, at)
            at += _PLACE.size
        elif code == _NEXT_BLOCK:
            block += 1
        else:
            element, block = element + 1, -1 if code == _NEXT else 0
        places.append(SegmentPlace(part, element, block, marks.get(len(places), 0)))
    return places


def _marks(packed: bytes) -> list[tuple[int, int]]:
    if not packed:
        return []
    end = _MARKS.size + _MARKS.unpack_from(packed)[0] * _MARK.size
    return [(number, seconds) for number, seconds in _MARK.iter_unpack(packed[_MARKS.size : end])]


class Prompts:
    def __init__(self, facts: ExchangeFacts) -> None:
        self._facts = facts
        self._row: partial[PromptRow] | None = None  # as far as the request makes it

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {RequestReceived: self._on_requested}

    def _on_requested(self, fact: RequestReceived, event: Event) -> None:
        exchange = self._facts.exchange
        if self._facts.timing.is_derived:
            return  # the prompt was longer than what is known of it
        format = by_name(exchange.api).prompt
        prompt = None if format is None else prompt_of(format, fact.path, fact.body)
        if prompt is not None and format is not None:
            self._row = _row(format, prompt, continues=self._facts.request.continues)

    def rows(self) -> Iterable[PromptRow]:
        if self._row is None:
            return
        facts, exchange = self._facts, self._facts.exchange
        policy = by_name(exchange.api).cache
        input_tokens, cached_tokens = facts.usage.input_tokens, facts.usage.cache_read_input_tokens
        if (
            cached_tokens is None
            and input_tokens is not None
            and policy is not None
            and policy.omits_zero
        ):
            cached_tokens = 0
        served_ns = None if facts.served_ns is None else exchange.started_ns + facts.served_ns
        if facts.failed is not None and input_tokens is None:
            served_ns = None
        yield self._row(
            *facts.ids,
            provider=exchange.provider,
            api=exchange.api,
            model=storable(facts.request.model),
            thread_id=exchange.thread_id,
            purpose=facts.placed.purpose,
            started_ns=exchange.started_ns,
            served_ns=served_ns,
            input_tokens=input_tokens,
            cached_tokens=cached_tokens,
        )


def _row(format: PromptFormat, prompt: Prompt, *, continues: bool) -> partial[PromptRow]:
    segments = prompt.segments[:SEGMENTS_LIMIT]
    if len(segments) < len(prompt.segments):
        segments[-1] = _rest(prompt.segments[SEGMENTS_LIMIT - 1 :])
    messages = [number for number, part in enumerate(format.parts) if part.kind == "conversation"]
    head = sum([each.part not in messages for each in segments])
    digests = _digests(segments)
    return partial(
        PromptRow,
        continues=continues,
        retention=storable(prompt.retention),
        root=prompt.root,
        suspects=msgspec.json.encode(
            {path: _digest(value).hex() for path, value in prompt.suspects.items()}
        ).decode(),
        head_segments=head,
        system_segments=head if continues else system_segments(format, segments),
        prompt_bytes=size_of(digests),
        digests=digests,
        places=packed((each.part, each.element, each.block, each.mark_s) for each in segments),
        **NO_COMPARISON,
    )


def _digests(segments: Sequence[PromptSegment]) -> bytes:
    digest, pack_digest = sha256, _DIGEST.pack  # in a loop over thousands of segments
    digests = []
    for each in segments:
        compared = each.compared
        size_bytes = each.size_bytes + len(compared) - len(each.role) - len(each.content)
        digests.append(pack_digest(digest(compared).digest()[:8], size_bytes))
    return b"".join(digests)


def _rest(segments: Sequence[PromptSegment]) -> PromptSegment:
    """Return the last segments as one."""
    content = b"".join(_digest(each.compared) for each in segments)
    size_bytes, mark_s = (
        sum(each.size_bytes for each in segments),
        max(each.mark_s for each in segments),
    )
    return segments[0]._replace(content=content, size_bytes=size_bytes, mark_s=mark_s)


def _digest(content: bytes) -> bytes:
    """Return eight bytes: two of the 10^5 segments of a session are the same by chance once in 10^9
    sessions.
    """
    return sha256(content).digest()[:8]


# -- by the history that a request repeats


CLIENTS_CALLS = frozenset({"function", "custom", "tool_use", "function_call", "custom_tool_call"})
"""The types of calls whose results the client sends, under the ids of the calls."""


class History:
    def __init__(self, facts: ExchangeFacts) -> None:
        self._facts, self._api = facts, facts.exchange.api
        self._chain: Chain | None = None

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {RequestReceived: self._on_requested}

    def _on_requested(self, fact: RequestReceived, event: Event) -> None:
        self._chain = chain_of(self._api, fact.conversation)

    def rows(self) -> Iterable[HistoryRow]:
        request = self._chain
        if request is None:
            return
        has_choices = by_name(self._api).has_choices
        items = [item for item in self._facts.items if not (has_choices and item.output_index)]
        yield HistoryRow(
            *self._facts.ids,
            self._digest(request, items),
            request_digest=request.request_digest,
            about=request.about,
            ids=self._ids(request, items),
        )

    def _digest(self, request: Chain, items: Iterable[ItemRow]) -> str:
        answer = ModelAnswer()
        for item in items:
            if item.kind == "message":
                answer.texts += [text for text in (item.text or item.refusal,) if text]
            elif item.kind == "tool_call" and item.type in CLIENTS_CALLS:
                answer.call(item.name, item.arguments or "")
        if not answer.texts and not answer.calls:
            return unanswered(request.request_digest)
        ended = self._facts.ended
        if ended is not None and ended.status in ("completed", "incomplete"):
            return request.answered(answer)
        return broken_off(request.request_digest)

    def _ids(self, request: Chain, items: Iterable[ItemRow]) -> str:
        ids = [self._facts.last_response_id]
        for item in items:
            ids += [item.call_id, item.item_id]
        known = [id for id in ids if id and " " not in id][:IDS]
        return " ".join(dict.fromkeys([*known, *request.ids]))
