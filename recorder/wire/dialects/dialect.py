"""What the recorder knows of a wire format: how its frames are named, what they mean, and which of them end a stream.

A dialect is data, pure functions, and a teller that follows one response. It never refuses: what it cannot read is
`NULL` in the log, where the bytes are anyway, and an `Unknown` or `Malformed` among the facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from recorder.model.facts import Asked, Fact

Ending = Literal["completed", "incomplete", "failed"]
"""What the last event of a stream says about it."""


class Keys(msgspec.Struct, frozen=True, gc=False):
    """What a frame said of itself, each `None` where it said nothing: columns of the log, never keys, never trusted.

    Every text fits PostgreSQL's text (no NUL, no lone surrogate) and has at most 512 characters; every number fits a
    bigint. `raw[data_start:][:data_length]` is valid JSON in UTF-8.
    """

    type: str | None = None
    sequence_number: int | None = None
    item_id: str | None = None
    output_index: int | None = None
    data_start: int | None = None
    data_length: int | None = None


class Teller(Protocol):
    """Translates the events of one response, told in order. May begin or end anywhere; never raises."""

    def event(self, type: str | None, data: bytes) -> Sequence[Fact]:
        """What an event means; `type` is that of the log, `data` its payload."""

    def document(self, data: bytes) -> Sequence[Fact]:
        """What a response body that is no stream means."""


class Dialect(msgspec.Struct, frozen=True):
    """One wire format."""

    name: str  # in the log and on the command line
    routes: re.Pattern[str]  # searched in "METHOD /path", the path without its query
    keys: Callable[[bytes], Keys]  # of a frame, a complete block or not; never raises
    teller: Callable[[], Teller]  # one for each response
    asked: Callable[[str, bytes], Asked]  # of a request: its path without the query, its decoded body; never raises
    terminal: Mapping[str, Ending]  # by `Keys.type`; of several in one stream, `failed` is the one that counts
    needs_terminal: bool  # a clean end of the body without such an event means that the stream is incomplete
    is_last: Callable[[Sequence[Mapping[str, Any]]], bool] | None = None
    """Where a stream need not have a terminal event: whether the last of these payloads, which follow each other, is
    the last of its stream. Where one was ever seen to go on, it is not."""
    has_choices: bool = False  # `output_index` numbers alternative answers, not the items of one
    reads_bare_json: bool = False  # clients take JSON in no `data:` line for an event; elsewhere they pass over it
