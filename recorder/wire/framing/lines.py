"""The standard streams of a program as messages: each line is one, with its end, as MCP and ACP
have it over stdio.

The invariant: whatever the cuts, the payloads joined are the input, and they are the same. Nothing
is ever refused.
"""

from __future__ import annotations

from recorder.wire.framing.websocket import MESSAGE_LIMIT, Message


class LineParser:
    """The bytes of one direction in any cuts in, its lines out.

    One over `MESSAGE_LIMIT` comes in pieces.
    """

    is_framed = True

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Add bytes; returns the lines that are complete now."""
        scanned = len(self._held)
        self._held += data
        found: list[Message] = []
        start = 0
        while (end := self._held.find(b"\n", max(start, scanned))) >= 0:
            found.append(Message("text", bytes(self._held[start : end + 1])))
            start = end + 1
        del self._held[:start]
        if len(self._held) >= MESSAGE_LIMIT:
            found += self.close()
        return found

    def close(self) -> list[Message]:
        """End the direction; returns the rest, a line without its end."""
        rest, self._held = bytes(self._held), bytearray()
        return [Message("text", rest)] if rest else []
