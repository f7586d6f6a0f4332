"""The rules of the format."""

from __future__ import annotations

from recorder.lint.rule import Faults, rules
from recorder.lint.stream import StreamBlock, StreamView


class Chatter:
    """Follows the events of a stream."""

    def __init__(self, stream: StreamView) -> None:
        self._has_begun = False

    def feed(self, block: StreamBlock) -> Faults:
        if not self._has_begun and block.type != "start":
            yield "AC001", block.pos, ""
        self._has_begun = True

    def end(self) -> Faults:
        return ()


RULES = rules(
    """
AC001 error
It does not begin.
No client knows why.
Acme
""",
    Chatter,
    "acme",
)
