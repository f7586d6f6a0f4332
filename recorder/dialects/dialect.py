"""What the recorder knows of a wire format: how its frames are named, and which of them end a stream.

A dialect is data and one pure function. It reads one frame at a time, remembers nothing, and never refuses: what it
cannot read is `NULL` in the log, where the bytes are anyway.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

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


class Dialect(msgspec.Struct, frozen=True):
    """One wire format."""

    name: str  # in the log and on the command line
    routes: re.Pattern[str]  # searched in "METHOD /path", the path without its query
    keys: Callable[[bytes], Keys]  # of a frame, a complete block or not; never raises
    text: Callable[[bytes], str]  # what the model says to a person in a payload; never raises
    terminal: Mapping[str, Ending]  # by `Keys.type`; of several in one stream, `failed` is the one that counts
    needs_terminal: bool  # a clean end of the body without such an event means that the stream is incomplete
