"""What a command judges: the exchanges of a session, or of a file, each with all its events, held in memory.

A file is held like a session, without a database: it passes through the same assembly as what is imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from recorder.cassettes import Entry, refused
from recorder.commands.ui.catch_up import current_url
from recorder.commands.ui.files import NAMES, STDIN, cassette_in, opened, own_name, reason, shown
from recorder.commands.ui.selection import select
from recorder.errors import NotFoundError, RecorderError, StoreError
from recorder.ingest.assembler import Assembler
from recorder.journal.format import START, Mark, Record
from recorder.model.events import Event, Exchange, Session
from recorder.model.text import safe_text
from recorder.store.reader import LogReader

HELD_LIMIT = 512 * 2**20
"""Bytes of one subject: a hundred long sessions of an agent, and what any machine can spare."""

EVENT_BYTES = 500
"""What an event takes besides its bytes."""

SUBJECT_HELP = (
    "A session (its id, the beginning of one, its name, or `latest`), or a file: a cassette, or whatever "
    "`recorder import` reads. With `:N` at its end, only the exchange of that number or id."
)


class Episode(NamedTuple):
    """An exchange with its events, in order."""

    number: int  # in its session; 1 is the first
    exchange: Exchange
    events: list[Event]


class Subject(NamedTuple):
    """A session, or what is in a file."""

    name: str
    session: Session
    episodes: list[Episode]


async def subject(db: str | None, said: str) -> Subject:
    """What a person names so (`SUBJECT_HELP`).

    Raises `NotFoundError` if there is no such thing, `RecorderError` if a file cannot be read or is too large.
    """
    for name, part in _readings(said):
        if is_file(name):
            return _only(_in_file(Path(name)), part)
    try:
        async with await LogReader.open(current_url(db)) as log:
            return await _in_log(log, said)
    except (NotFoundError, StoreError) as error:
        if _looks_like_file(said):
            if Path(said).is_dir():
                raise refused(said, IsADirectoryError()) from None
            if isinstance(error, NotFoundError):
                raise NotFoundError(f"There is no file {said}, and no session of that name.") from None
            raise NotFoundError(f"There is no file {said}, and as a session: {error}") from error
        raise


def _readings(said: str) -> list[tuple[str, str | None]]:
    """A name may have a colon in it; what stands before the last one may be the name."""
    name, colon, part = said.rpartition(":")
    return [(said, None), (name, part)] if colon and name and part else [(said, None)]


def is_file(name: str) -> bool:
    """A file in this directory that has the name of a session, and no ending, is called ./NAME."""
    return name == str(STDIN) or (_looks_like_file(name) and Path(name).is_file())


def _looks_like_file(name: str) -> bool:
    return "/" in name or "." in name


async def _in_log(log: LogReader, said: str) -> Subject:
    missing: NotFoundError | None = None
    for name, part in _readings(said):
        try:
            session, chosen = await select(log, name, part)
        except NotFoundError as error:
            missing = error if part is not None or missing is None else missing
            continue
        held = _Held(safe_text(session.name))
        for number, exchange in chosen:
            events = [held.counted(event) async for event in log.events(exchange.session_id, exchange.exchange_id)]
            held.episodes.append(Episode(number, exchange, events))
        return Subject(session.name, session, held.episodes)
    raise missing or NotFoundError(f"There is no session {said!r}.")


def _in_file(path: Path) -> Subject:
    with opened(path) as file:
        try:
            cassette = cassette_in(file)
            session = cassette.session(own_name(cassette, path), NAMES)
            episodes = _assembled(cassette.entries(session, NAMES), session.session_id, _Held(shown(path)))
        except (OSError, RecorderError) as error:
            raise RecorderError(f"{shown(path)} cannot be read: {reason(error)}.") from error
    return Subject(shown(path), session, episodes)


def _assembled(entries: Iterable[Entry], session_id: str, held: _Held) -> list[Episode]:
    """The rows that the log would have of these entries."""
    assembler = Assembler(session_id, lambda head, grouping: session_id)
    number = 0
    for mark, t_ns, payload in entries:
        number += mark is Mark.REQUEST
        assembler.tell(Record(number, mark, t_ns, payload, START), START)
        held.count(len(payload))
    by_exchange: dict[str, list[Event]] = {}
    for event in assembler.batch.events:
        by_exchange.setdefault(event.exchange_id, []).append(event)
    exchanges = enumerate(assembler.batch.exchanges, 1)
    return [Episode(place, each, by_exchange.get(each.exchange_id, [])) for place, each in exchanges]


def _only(found: Subject, part: str | None) -> Subject:
    """The exchange that a part of its name names; all of them without one."""
    if part is None:
        return found
    chosen = [each for each in found.episodes if part in (str(each.number), each.exchange.exchange_id)]
    if not chosen:
        count = len(found.episodes)
        raise NotFoundError(
            f"{found.name} has no exchange {part}: it has {'only 1' if count == 1 else f'1 to {count}'}."
        )
    return found._replace(episodes=chosen)


class _Held:
    """What is held so far of one subject."""

    def __init__(self, name: str) -> None:
        self.episodes: list[Episode] = []
        self._name, self._size_bytes = name, 0

    def counted(self, event: Event) -> Event:
        self.count(len(event.raw))
        return event

    def count(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes + EVENT_BYTES
        if self._size_bytes > HELD_LIMIT:
            raise RecorderError(
                f"{self._name} takes over {HELD_LIMIT >> 20} MiB of memory: name one exchange of it, as {self._name}:1"
            )
