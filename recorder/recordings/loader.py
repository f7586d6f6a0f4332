"""The loader of recordings: a session of a log, or a file of any format, each exchange with all its
events.

A file becomes what a session is, without a database: it passes through the assembler of imports.
The readers of files are imported where one is read: with the assembler, YAML and the codings they
take as long to load as a short session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from recorder.cassettes import refused
from recorder.errors import NotFoundError, StoreError, UsageError
from recorder.model.events import EVENT_BYTES, LATEST, PIECE_BYTES, MemoryBudget, Recording, Session
from recorder.model.text import counted, safe_text
from recorder.program import load
from recorder.recordings.names import is_file, looks_like_file
from recorder.recordings.selection import (
    NoSuchExchangeError,
    Numbered,
    Select,
    readings,
    select_exchanges,
)
from recorder.recordings.session import RecordedSession, budget_of, require_whole
from recorder.store.queries.continued import continued
from recorder.store.queries.reader import LogReader
from recorder.wire.logical_request import links_of
from recorder.wire.recording import RecordingBuilder

OpenLog = Callable[[], Awaitable[LogReader]]


class Loader:
    """The one way to recordings: files, and a log that is opened when a session is requested."""

    def __init__(self, open_log: OpenLog, select: Select = select_exchanges) -> None:
        self._open_log, self._select = open_log, select

    async def find(self, ref: str) -> RecordedSession:
        """Return the session or the file of that name; with `:N` at its end, only the exchange of
        that number or id.

        Raises `NotFoundError` if there is neither, `RecorderError` if a file cannot be read or is
        too large.
        """
        for name, part in readings(ref):
            if is_file(name):
                found: RecordedSession = load("recorder.recordings.files:load_file")(Path(name))
                return _only(found, part)
        with refusing_files(ref):
            async with await self._open_log() as log:
                return await find_session(log, ref, self._select)

    async def answers(
        self,
        sessions: Sequence[str],
        cassettes: Sequence[Path],
        *,
        allow_gaps: bool = False,
        limit_bytes: int | None = None,
    ) -> list[Recording]:
        """Return the recordings to answer with: of the sessions and cassettes in order, of `latest`
        if none is named.

        They hold no events. Raises `RecorderError` if one cannot be an answer, if bytes are missing
        in one and gaps are not allowed, or if all together are too large; `NotFoundError` if there
        is none.
        """
        remedy = (
            "name fewer of them, or make a cassette of what is needed with `recorder export SESSION --exchange N "
            "--format cassette`"
        )
        budget = MemoryBudget("These recordings take", remedy, limit_bytes)
        found: list[Recording] = []
        if sessions or not cassettes:
            refs = sessions or [LATEST]
            with refusing_files(refs[0]):
                opened = await self._open_log()
            async with opened as log:
                loaded: set[str] = set()
                for ref in refs:
                    with refusing_files(ref):
                        session, chosen = await self._select(log, ref, None)
                    if session.session_id not in loaded:
                        loaded.add(session.session_id)
                        found += await load_exchanges(
                            log, session, chosen, budget, keeps_events=False
                        )
        for path in dict.fromkeys(cassettes):
            found += _of_cassette(path, budget)
        if not found:
            raise NotFoundError("There is nothing to answer with: no exchange was recorded there.")
        return require_whole(found, "--allow-gaps takes the rest", allow_gaps=allow_gaps)

    async def beginning(
        self,
        source: str,
        until: int | None,
        is_turn: Callable[[Recording], bool],
        *,
        is_cassette: bool,
    ) -> RecordedSession:
        """Return a session, or that of a cassette, up to turn `until`, or all of it, to answer
        with, without events.

        Raises `UsageError` if it has fewer turns, else like `answers`.
        """
        found: list[Recording] = []
        turns = 0
        if is_cassette:
            read_session = load("recorder.cassettes.sse_jsonl:read_session")
            session, recordings = read_session(Path(source), keeps_events=False)
            for each in recordings:
                if turns == until:
                    break
                found.append(each)
                turns += is_turn(each)
            _require(until, turns, safe_text(source))
            return RecordedSession(session, require_whole(found))
        async with await self._open_log() as log:
            session, chosen = await self._select(log, source, None)
            budget = MemoryBudget(
                "These recordings take", "replay fewer of them with a smaller --until"
            )
            for numbered in chosen:
                if turns == until:
                    break
                (each,) = await load_exchanges(log, session, [numbered], budget, keeps_events=False)
                found.append(each)
                turns += is_turn(each)
            _require(until, turns, f"Session {safe_text(session.name)}")
        return RecordedSession(session, require_whole(found))


@contextmanager
def refusing_files(ref: str) -> Iterator[None]:
    """Say of a session that is not found inside that it is not a file either, if its name looks
    like one.
    """
    try:
        yield
    except NoSuchExchangeError:
        raise
    except (NotFoundError, StoreError) as error:
        if not looks_like_file(ref):
            raise
        if Path(ref).is_dir():
            raise refused(ref, IsADirectoryError()) from None
        if Path(ref).is_file():  # where a session is to be named, and files by an option
            raise UsageError(f"{ref} is a file: name it with --cassette.") from None
        if Path(ref).exists():
            raise UsageError(
                f"{ref} is not a regular file: write what it has to stdin, and name that -."
            ) from None
        if isinstance(error, NotFoundError):
            raise NotFoundError(f"There is no file {ref}, and no session of that name.") from None
        raise NotFoundError(f"There is no file {ref}, and as a session: {error}") from error


def _of_cassette(path: Path, budget: MemoryBudget) -> list[Recording]:
    found: list[Recording] = load("recorder.cassettes.sse_jsonl:read_cassette")(path)
    for each in found:
        for piece in (each.request_body, *(piece.raw for piece in each.pieces)):
            budget.add(len(piece), PIECE_BYTES)
    return found


def _require(wanted: int | None, count: int, name: str) -> None:
    """Raise `UsageError` if there are fewer turns than wanted."""
    if wanted is not None and wanted > count:
        raise UsageError(
            f"{name} has {counted(count, 'turn')}: give --until {count} or less, not {wanted}."
        )


async def find_session(
    log: LogReader, ref: str, select: Select = select_exchanges
) -> RecordedSession:
    """Return the session of that name, with `:N` at its end only the exchange of that number or id.

    No file is read.

    Raises `NotFoundError` if there is none, `RecorderError` if it is too large.
    """
    missing: NotFoundError | None = None
    for name, part in readings(ref):
        try:
            session, chosen = await select(log, name, part)
        except NotFoundError as error:
            missing = error if part is not None or missing is None else missing
            continue
        budget = budget_of(safe_text(session.name))
        recordings = await load_exchanges(log, session, chosen, budget)
        continued = [] if part is None else await load_continued(log, session, recordings, budget)
        return RecordedSession(session, recordings, continued=continued)
    raise missing or NotFoundError(f"There is no session {ref!r}.")


async def load_session(log: LogReader, ref: str, *, keeps_events: bool = True) -> RecordedSession:
    """Return a session of a log: by its id, the beginning of one, its name, or `latest`.

    Raises like `Loader.find`.
    """
    session, chosen = await select_exchanges(log, ref, None)
    return RecordedSession(
        session, await load_exchanges(log, session, chosen, keeps_events=keeps_events)
    )


async def load_exchanges(
    log: LogReader,
    session: Session,
    exchanges: Iterable[Numbered],
    budget: MemoryBudget | None = None,
    *,
    keeps_events: bool = True,
) -> list[Recording]:
    """Return the recordings of some exchanges of a session.

    Raises `RecorderError` if they are too large together.
    """
    budget = budget or budget_of(safe_text(session.name))
    overhead_bytes = EVENT_BYTES if keeps_events else PIECE_BYTES
    recordings: list[Recording] = []
    for number, exchange in exchanges:
        builder = RecordingBuilder(exchange, keeps_events=keeps_events)
        async for event in log.events(exchange.session_id, exchange.exchange_id):
            budget.add(len(event.raw), overhead_bytes)
            builder.add(event)
        recordings.append(
            builder.recording(f"exchange {number} of session {safe_text(session.name)}", number)
        )
    return recordings


async def load_continued(
    log: LogReader,
    session: Session,
    recordings: Iterable[Recording],
    budget: MemoryBudget | None = None,
) -> list[Recording]:
    """Return the recordings, without events, that some of a session continue and that are not among
    them.

    Raises `RecorderError` if they are too large together.
    """
    budget = budget or budget_of(safe_text(session.name))
    waiting = [*recordings]
    known = {each.exchange.exchange_id for each in waiting}
    found: list[Recording] = []
    numbered: dict[str, Numbered] = {}
    while waiting:
        links = links_of(waiting.pop())
        if not any(links):
            continue
        if not numbered:
            every = await log.exchanges(session.session_id)
            numbered = {
                exchange.exchange_id: (number, exchange) for number, exchange in enumerate(every, 1)
            }
        missing = {*await continued(log, session.session_id, links)} - known
        known |= missing
        wanted = [numbered[exchange_id] for exchange_id in missing if exchange_id in numbered]
        loaded = await load_exchanges(log, session, wanted, budget, keeps_events=False)
        found += loaded
        waiting += loaded
    return sorted(found, key=lambda each: each.number)


def _only(found: RecordedSession, part: str | None) -> RecordedSession:
    """Return the session with the one exchange that `part` names; with all of them if it is None."""
    if part is None:
        return found
    chosen = [
        each for each in found.recordings if part in (str(each.number), each.exchange.exchange_id)
    ]
    if not chosen:
        count = len(found.recordings)
        raise NotFoundError(
            f"{found.name} has no exchange {part}: it has {'only 1' if count == 1 else f'1 to {count}'}."
        )
    others = [each for each in found.recordings if each not in chosen]
    return RecordedSession(found.session, chosen, name=found.name, continued=others)
