"""A request, and a reply as timed pieces: they pass between the server and the wire formats.

This file opens no socket and reads no clock: times are seconds since the request was complete, and
the server decides how fast they pass.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from tests.support.provider.coding import Encoder, decode

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """One request as it came: header names lower-cased, `body` the bytes on the wire (without
    chunked framing).
    """

    method: str
    target: str
    headers: Headers
    body: bytes = b""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.target.partition("?")[2]))

    def header(self, name: str, default: str = "") -> str:
        """Return the first header of that lower-case name."""
        return next((value for key, value in self.headers if key == name), default)

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object, decoded from gzip or zstd.

        Raises `ValueError` if it is not one.
        """
        value = json.loads(decode(self.header("content-encoding"), self.body))
        if not isinstance(value, dict):
            raise ValueError("the body is not a JSON object")
        return value


Payload = bytes | Callable[[], bytes]


class Step(NamedTuple):
    """Bytes and the time at which they are due. A callable makes them when they are sent."""

    at_s: float
    payload: Payload

    def take(self) -> bytes:
        return self.payload if isinstance(self.payload, bytes) else self.payload()


@dataclass(frozen=True, slots=True)
class DemoReply:
    """A response: with `length` one body of that many bytes, without it a chunked stream, one chunk
    a step.
    """

    status: int
    headers: Headers
    steps: Iterable[Step]
    length: int | None = None
    # loop time that `at_s` counts from, if it is not when the request came
    started: float | None = None
    pace: float | None = None  # in place of the server's: a load stream keeps its own rate


def whole(body: bytes, headers: Headers, status: int = 200, at_s: float = 0.0) -> DemoReply:
    """Return a reply that is not streamed: all of `body` at `at_s`."""
    return DemoReply(status, headers, [Step(at_s, body)], length=len(body))


def timed(events: Iterable[tuple[float, bytes]]) -> Iterator[Step]:
    """Yield steps from pauses: each event is due its pause after the one before it."""
    at_s = 0.0
    for pause_s, data in events:
        at_s += pause_s
        yield Step(at_s, data)


def batched(steps: Iterable[Step], size: int) -> Iterator[Step]:
    """Join `size` steps into one, due when the last of them is: several events in one chunk."""
    rest = iter(steps)
    while group := tuple(islice(rest, size)):
        yield Step(group[-1].at_s, partial(_together, group))


def _together(steps: Iterable[Step]) -> bytes:
    return b"".join(step.take() for step in steps)


def encoded(steps: Iterable[Step], encoder: Encoder) -> Iterator[Step]:
    """Compress and flush every step, so that each can be read as soon as it arrives."""
    last_s = 0.0
    for step in steps:
        last_s = step.at_s
        yield Step(last_s, partial(_flushed, encoder, step))
    yield Step(last_s, encoder.finish)


def _flushed(encoder: Encoder, step: Step) -> bytes:
    return encoder.flush(step.take())
