"""Newline-delimited JSON: each line is one event (https://github.com/ndjson/ndjson-spec). Ollama
streams so.
"""

from __future__ import annotations

from recorder.wire.framing.blocks import BlockSplitter
from recorder.wire.framing.sse import Fields


class Splitter(BlockSplitter):
    """A splitter into lines, each with its line end. A blank line is a comment."""

    spaces = b" \t\r\n"

    def _end(self, start: int) -> int:
        found = self._held.find(b"\n", start + self._scanned)
        self._scanned = 0 if found >= 0 else len(self._held) - start
        return found + 1 if found >= 0 else -1


def fields(raw: bytes) -> Fields:
    """Return the fields of a line: its data is the line without its end."""
    data = raw.rstrip(b"\r\n")
    return Fields(None, data, 0, len(data)) if data.strip() else Fields()
