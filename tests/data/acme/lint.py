"""The rules of the format."""

from __future__ import annotations

from collections.abc import Iterable

from recorder.lint.rule import Hit, Rule
from recorder.lint.stream import StreamView


def _no_start(stream: StreamView) -> Iterable[Hit]:
    if stream.frames[0].type != "start":
        yield Hit(stream.frames[0].pos)


RULES = (Rule("AC001", "error", "It does not begin.", "No client knows why.", "Acme", frozenset({"acme"}), _no_start),)
