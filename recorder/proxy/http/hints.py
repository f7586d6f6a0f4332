"""What a person should do whose client is refused without an answer that it shows: a line in the
log.

A client that retries is refused again and again: each hint is given at most once in `AGAIN_S`.
"""

from __future__ import annotations

import logging
import time

log = logging.getLogger(__name__)

AGAIN_S = 60.0

_FOREIGN = {
    b"\x16\x03": "A client spoke TLS to this port, which speaks plain HTTP: begin its base URL with http://, or put a "
    "proxy with TLS in front of this one.",
    b"PRI * HTTP/2": "A client spoke HTTP/2 to this port at once (h2c with prior knowledge): set it to HTTP/1.1.",
}


class Hints:
    """The hints of one server."""

    def __init__(self) -> None:
        self._given_s: dict[str, float] = {}

    def give(self, kind: str, sentence: str) -> None:
        """Give a hint, unless one of that kind was given a short while ago."""
        now_s = time.monotonic()
        if now_s - self._given_s.get(kind, float("-inf")) >= AGAIN_S:
            self._given_s[kind] = now_s
            log.warning("%s", sentence)

    def on_no_http(self, beginning: bytes) -> None:
        """Give the hint for the first bytes of a connection that are not HTTP, if it is known what
        they are.
        """
        for prefix, sentence in _FOREIGN.items():
            if beginning.startswith(prefix):
                self.give(sentence, sentence)
