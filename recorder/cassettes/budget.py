"""What a file of another program may take in memory: the same for every format.

Rules of this file:

* A file is read whole, since its records refer to each other, or are not in the order of their times. So three things
  have a limit: its bytes, the values in one document of it, and the bodies that are made from it. Each is held at once.
* A limit is checked before what it limits is made.
"""

from __future__ import annotations

import re
from typing import BinaryIO

from recorder.errors import RecorderError
from recorder.wire.sse import BOM

FILE_LIMIT = 256 * 2**20  # bytes: hours of a browser, with images, or about 20,000 calls as LiteLLM logs them
VALUES_LIMIT = 10**7  # in one JSON document: of 64 bytes each, where three bytes of a file can be a value
BODIES_LIMIT = 256 * 2**20  # bytes of all bodies of a file: a reference or a coding makes them longer than the file

_PUNCTUATION = (b",", b"[", b"{")  # before each value but the first: it has one of its own, or that of what it is in
_NEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[,\[{]', re.DOTALL)


def read_whole(file: BinaryIO, advice: str, limit_bytes: int = FILE_LIMIT) -> bytes:
    """Return a file without its byte-order mark. Raise `RecorderError`, with the advice, if it is too large."""
    file.seek(0)
    data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise RecorderError(f"it is over {limit_bytes >> 20} MiB{advice}")
    return data.removeprefix(BOM)


def check_values(data: bytes) -> bytes:
    """Return JSON that has few enough values to be decoded. Raise `RecorderError`."""
    if sum(map(data.count, _PUNCTUATION)) <= VALUES_LIMIT:  # which counts those in texts, too
        return data
    values = 0
    for match in _NEXT.finditer(data):
        values += data[match.start()] != ord('"')
        if values > VALUES_LIMIT:
            raise RecorderError(f"it has over {VALUES_LIMIT:,} values in one document, far more than any call")
    return data


class BodyBudget:
    """The bytes that the bodies of a file may still have."""

    def __init__(self, left_bytes: int | None = None) -> None:
        self.left_bytes = BODIES_LIMIT if left_bytes is None else left_bytes

    def take(self, size_bytes: int) -> None:
        """Raise `RecorderError` if there are not as many."""
        self.left_bytes -= size_bytes
        if self.left_bytes < 0:
            raise RecorderError(f"its bodies are over {BODIES_LIMIT >> 20} MiB together: split it")
