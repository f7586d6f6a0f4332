"""What a test has in hand, as exchanges with their events."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from recorder.errors import UsageError
from recorder.model.events import Event, Exchange
from recorder.testing.stored import apart

Numbered = tuple[int, Exchange, list[Event]]


def episodes(said: Any) -> list[Numbered]:
    """Of what the fixture `recorder_replay` gives, of its `session`, of a file by its path, of a session by its name
    (in the database that `RECORDER_DB` names, else in the user's).

    Raises `UsageError` if it is none of them, `RecorderError` if it cannot be read.
    """
    held = said if hasattr(said, "episodes") else getattr(said, "session", said)
    found = getattr(held, "episodes", None)
    if found is not None:
        return [(number, *each) for number, each in enumerate(found, 1)]
    if not isinstance(said, str | Path):
        raise UsageError(f"{said!r} is no recording: give a path, the name of a session, or what was recorded.")
    return [(number, exchange, events) for number, exchange, events in _read(str(said))]


def _read(said: str) -> Any:
    from recorder.commands.ui.subjects import subject

    __tracebackhide__ = True
    return apart(lambda: subject(os.environ.get("RECORDER_DB"), said)).episodes
