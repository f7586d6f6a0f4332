"""Recordings as a test names them: what the fixture gives, its session, a file by its path, a
session by its name.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from recorder.errors import RecorderError, UsageError
from recorder.model.events import Recording
from recorder.program import load
from recorder.recordings.session import RecordedSession, require_whole

T = TypeVar("T")


class RecordedTest(ABC):
    """A test with its recordings: what the fixture `recorder_replay` gives."""

    @property
    @abstractmethod
    def session(self) -> RecordedSession:
        """Return the recordings as one session."""


Subject = RecordedTest | RecordedSession | str | Path


def recorded_in(database: str | Path, session: str = "latest") -> list[Recording]:
    """Return the exchanges of a session: its id, the beginning of one, its name, or `latest`.

    Raises `recorder.errors.NotFoundError` if there is no such session or database, and
    `RecorderError` if bytes are missing in one of them, or too many.
    """
    __tracebackhide__ = True
    return require_whole(loaded("session_in", database, session, keeps_events=False).recordings)


def loaded(function: str, *given: Any, **how: Any) -> RecordedSession:
    """Return what a function of `recorder.testing.databases` loads. Raises `RecorderError`."""
    __tracebackhide__ = True
    loading = load(f"recorder.testing.databases:{function}")
    found: RecordedSession = in_thread(lambda: loading(*given, **how))
    return found


def session_of(subject: Subject) -> RecordedSession:
    """Return the session that a test names: a path or a name is looked up as `recorder lint` does.

    Raises `UsageError` if it is not a subject, `RecorderError` if it cannot be read.
    """
    __tracebackhide__ = True
    if isinstance(subject, RecordedTest):
        return subject.session
    if isinstance(subject, RecordedSession):
        return subject
    if not isinstance(subject, str | Path):
        raise UsageError(
            f"{subject!r} is not a recording: give a path, the name of a session, or what was recorded."
        )
    return loaded("find", str(subject))


def name_of(subject: Subject, session: RecordedSession) -> str:
    """Return the path or name that was given, else the name of the session."""
    return str(subject) if isinstance(subject, str | Path) else session.session.name


def in_thread(load: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the result of a coroutine, run in a separate thread: the caller may run in an event
    loop.
    """
    __tracebackhide__ = True
    with ThreadPoolExecutor(1) as threads:
        loading = threads.submit(lambda: asyncio.run(load()))
    error = loading.exception()
    if isinstance(error, RecorderError):
        raise error.with_traceback(None) from None  # the caller sees nothing of the thread
    return loading.result()
