"""The payloads of an event stream as JSON lines, as others keep them for tests (`*.chunks.txt`). Pure.

Event names, comments and times are lost; `recorder.cassettes.foreign` reads such files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from recorder.cassettes.content import is_payload
from recorder.model.events import Event
from recorder.wire.sse import BOM, ends_block, parse


def payload_lines(events: Iterable[Event]) -> Iterator[bytes]:
    """The payload of each event that has one, from the body events of an exchange in order."""
    for block in _blocks(events):
        data = parse(block.removeprefix(BOM)).data
        line = b"" if data is None else data.replace(b"\n", b" ")  # white space, where JSON has it
        if is_payload(line):
            yield line + b"\n"


def _blocks(events: Iterable[Event]) -> Iterator[bytes]:
    """Blocks of the stream, those that came in parts put together again."""
    parts: list[bytes] = []
    for event in events:
        if event.kind == "part":
            parts.append(event.raw)
        if parts and (event.kind != "part" or ends_block(event.raw)):
            yield b"".join(parts)
            parts.clear()
        if event.kind == "frame":
            yield event.raw
    yield b"".join(parts)
