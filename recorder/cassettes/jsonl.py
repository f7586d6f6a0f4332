"""Our own export, read back: `recorder.model.jsonl` defines the content of a line, this file the
order of lines.

Nothing in it is taken on trust: positions without a hole, and a chain of hashes that holds, or it
is not an export.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from recorder.cassettes import Entry, Names
from recorder.errors import RecorderError
from recorder.journal.format import Mark
from recorder.model.chain import hash_after, root, row_root
from recorder.model.events import (
    BODY_KINDS,
    Event,
    Exchange,
    ExchangeEnd,
    Imported,
    RequestHead,
    RequestRecord,
    Session,
    WebSocketTurn,
)
from recorder.model.jsonl import Counts, event_line, read_line, read_opening

# rows of the log have at most 1 MiB, of which each byte may be six characters of JSON
LINE_LIMIT = 8 * 2**20

CUT_OFF = ExchangeEnd("recorder_crash", "the exchange was exported before it had ended")


class RowsFile:
    """A file with a session as recorder recorded it, checked: a `Cassette` of rows of the log."""

    def __init__(self, recorded: Session, rows: Callable[[], Iterable[Exchange | Event]]) -> None:
        """`rows` reads the exchanges again, each with its events after it."""
        self._recorded, self._rows = recorded, rows
        self.events = 0

    @property
    def name(self) -> str:
        """The name of the session that was recorded."""
        return self._recorded.name

    def session(self, name: str, names: Names) -> Session:
        """Return the session that was recorded, with a new id."""
        fresh = {"session_id": names.new_id(), "name": name, "source": "import", "origin": "import"}
        return replace(self._recorded, **fresh)

    def entries(self, session: Session, names: Names) -> Iterator[Entry]:
        """Yield the exchanges of the file, with new ids; a chunk is an event."""
        t_ns, begun, fresh = 0, False, FreshIds(session, names)
        for row in self._rows():
            if isinstance(row, Event):
                t_ns = row.t_ns
                self.events += row.kind in BODY_KINDS
                yield Entry(Mark.CHUNK, t_ns, event_line(fresh.event(row)))
                continue
            if begun:
                yield Entry(Mark.END, t_ns, msgspec.json.encode(CUT_OFF))
            t_ns, begun = 0, True
            yield Entry(Mark.REQUEST, 0, msgspec.json.encode(fresh.head(row)))
        yield Entry(Mark.END, t_ns, msgspec.json.encode(CUT_OFF))


class Jsonl(RowsFile):
    """An export, checked."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises `RecorderError` if the file is not an export, or not as it was exported."""
        self._file = file
        checker = _Checker()
        try:
            super().__init__(checker.open(self._opening()), self._exported)
            for line in self._lines():
                checker.check(line)
        except (ValueError, RecursionError) as error:
            raise RecorderError(
                f"line {checker.line} is not as `recorder export` wrote it: {error}"
            ) from error
        if not checker.is_closed:
            raise RecorderError(
                f"it was cut off after line {checker.line}: the last line of an export is missing"
            )
        if not checker.exchanges:
            raise RecorderError("there is no exchange in it")

    def _exported(self) -> Iterator[Exchange | Event]:
        self._opening()
        for line in self._lines():
            row = read_line(line)
            if not isinstance(row, Counts):
                yield row

    def _opening(self) -> bytes:
        self._file.seek(0)
        return self._file.readline(LINE_LIMIT)

    def _lines(self) -> Iterator[bytes]:
        return iter(lambda: self._file.readline(LINE_LIMIT), b"")


class _Checker:
    """A check that lines which follow each other are those of a session."""

    def __init__(self) -> None:
        self._session_id = self._exchange_id = ""
        self._previous: tuple[bytes, ...] = ()  # what the next event may be chained to
        self._pos = 0
        self._ended = False
        self.is_closed = False
        self.exchanges = self.events = 0
        self.line = 1

    def open(self, line: bytes) -> Session:
        """Raises `ValueError` like `check`."""
        session = read_opening(line)
        self._session_id = session.session_id
        return session

    def check(self, line: bytes) -> None:
        """Raises `ValueError` if the line is none of an export, or cannot come here."""
        self.line += 1
        if self.is_closed:
            raise ValueError("it stands after the last line of an export")
        row = read_line(line)
        if isinstance(row, Counts):
            self._close(row)
            return
        if row.session_id != self._session_id:
            raise ValueError("it is of another session")
        if isinstance(row, Event):
            self._check_event(row)
            return
        self._exchange_id, self._pos, self._ended = row.exchange_id, 0, False
        self._previous = row_root(row), root(row.session_id, row.exchange_id)
        self.exchanges += 1

    def _close(self, counts: Counts) -> None:
        if (counts.exchanges, counts.events) != (self.exchanges, self.events):
            raise ValueError(
                f"{counts.events - self.events} of {counts.events} events are missing before it"
            )
        self.is_closed = True

    def _check_event(self, event: Event) -> None:
        self.events += 1
        if (event.exchange_id, event.pos) != (self._exchange_id, self._pos) or not self.exchanges:
            raise ValueError("an event or an exchange is missing before it")
        if self._ended and event.kind != "note":
            raise ValueError("the exchange had ended before it")
        if event.hash not in [
            hash_after(previous, event, event.pos) for previous in self._previous
        ]:
            raise ValueError("it was changed, its hash is not that of its content")
        self._previous = (event.hash,)
        self._pos += 1
        self._ended = self._ended or event.kind == "end"


class FreshIds:
    """The ids that exchanges get when they are imported into a session, by those that they had."""

    def __init__(self, session: Session, names: Names) -> None:
        self._session, self._names = session, names
        self._ids: dict[str, str] = {}

    def head(self, exchange: Exchange) -> RequestHead:
        """Return the head of an exchange that is imported with its events."""
        id = self._ids[exchange.exchange_id] = self._names.new_id()
        return RequestHead(
            exchange_id=id,
            session_id=self._session.session_id,
            started_ns=exchange.started_ns,
            method=exchange.method,
            target=exchange.target,
            upstream=exchange.provider,
            headers=[],
            imported=Imported(self._session, exchange),
        )

    def event(self, event: Event) -> Event:
        """Return an event: the request of a turn over WebSocket with the new id of its connection."""
        if event.kind != "request" or event.pos or b'"websocket"' not in event.raw:
            return event
        try:
            record = msgspec.json.decode(event.raw, type=RequestRecord)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return event  # which is imported as it is, whatever it is
        place = record.websocket
        if not isinstance(place, WebSocketTurn) or place.connection not in self._ids:
            return event
        place = replace(place, connection=self._ids[place.connection])
        raw = msgspec.json.encode(replace(record, websocket=place))
        return replace(event, raw=raw)
