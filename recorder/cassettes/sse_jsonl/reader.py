"""The lines of a cassette → rows of the log, in order, each line checked against those before it.

Columns that follow from a line are computed from it (`steps`, `frames`). A line that cannot follow
raises a `ValueError` inside and a `RecorderError` with the number of the line outside. Pure, but
for the file it is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import msgspec

from recorder.cassettes.sse_jsonl.frames import Framing, Style, bounded, piece
from recorder.cassettes.sse_jsonl.lines import (
    LINE_LIMIT,
    SECONDS_LIMIT,
    content_bytes,
    microseconds,
    nanoseconds,
    read_header,
    value,
)
from recorder.cassettes.sse_jsonl.steps import Sums, restore, usual_request
from recorder.cassettes.sse_jsonl.writer import (
    LEFT_OUT,
    NO_KEYS,
    is_raw,
    usual_keys,
    usual_row,
    usual_step,
)
from recorder.errors import RecorderError
from recorder.model.chain import hash_after, root
from recorder.model.events import (
    EVENT_BYTES,
    Event,
    Exchange,
    Kind,
    MemoryBudget,
    RequestRecord,
    Session,
)
from recorder.model.ids import uuid7
from recorder.model.jsonl import storable_row
from recorder.wire.dialects import DIALECTS, Keys
from recorder.wire.framing.sse import BOM, FRAME_LIMIT
from recorder.wire.redaction.headers import redact_target

# a row has at most 1 MiB, of which each byte may be six characters of JSON
PIECE_LINE_LIMIT = 8 * 2**20
REASON_LIMIT = 200  # characters of why: it may quote the line
REQUEST_LIMIT = 64 * 2**20  # of a request body: what the proxy lets through

Row = Exchange | Event

_MERGE = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")
_STEPS: tuple[Kind, ...] = ("response", "reads", "sent", "control", "frames", "gap", "end", "note")


class CassetteReader:
    """The lines of one cassette, read once from the beginning."""

    def __init__(self, file: BinaryIO) -> None:
        file.seek(0)
        self._file = file
        self.line = 0
        self.session = Session("", 0, "", "", "{}", "import")

    def rows(self) -> Iterator[Row]:
        """Yield each exchange, followed by its events. Raises `RecorderError` with the line."""
        try:
            self.session = read_header(self._next().removeprefix(BOM))
            current: _ExchangeReader | None = None
            ids: dict[int, str] = {}
            while written := self._next():
                if not written.strip():
                    continue
                rows, current = _read_line(written, current, self.session.session_id, ids)
                ids[current.number] = current.exchange_id
                yield from rows
        except (ValueError, RecursionError) as error:
            reason = " ".join(str(error).split())[:REASON_LIMIT]
            raise RecorderError(f"line {self.line} is none of a cassette: {reason}") from error

    def exchanges(
        self, budget: MemoryBudget | None = None, overhead_bytes: int = EVENT_BYTES
    ) -> Iterator[tuple[Exchange, list[Event]]]:
        """Yield each exchange with all its events.

        Raises `RecorderError` like `rows`, and when a budget is spent.
        """
        exchange: Exchange | None = None
        events: list[Event] = []
        for row in self.rows():
            if isinstance(row, Event):
                if budget is not None:
                    budget.add(len(row.raw), overhead_bytes)
                events.append(row)
                continue
            if exchange is not None:
                yield exchange, events
            exchange, events = row, []
        if exchange is not None:
            yield exchange, events

    def _next(self) -> bytes:
        self.line += 1
        written = self._file.readline(LINE_LIMIT + 1)
        limit = PIECE_LINE_LIMIT if written.startswith(b"[") else LINE_LIMIT
        if len(written) > limit:
            raise ValueError(f"it has over {limit >> 20} MiB")
        if written.startswith(_MERGE):
            raise ValueError("it is the mark of a merge conflict, which is to be resolved first")
        return written


def _read_line(
    written: bytes, current: _ExchangeReader | None, session_id: str, ids: Mapping[int, str]
) -> tuple[list[Row], _ExchangeReader]:
    given = value(written)
    number = given.get("exchange") if isinstance(given, dict) else None
    if isinstance(given, list) and len(given) in (4, 5):
        number = given[1]
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**31:
        raise ValueError(
            "it is neither an object with the number of an exchange, nor an array with one in second place"
        )
    if isinstance(given, dict) and "request" in given:
        if current is not None and number <= current.number:
            raise ValueError(f"exchange {number} begins after exchange {current.number}")
        return _read_request(number, given, session_id, ids)
    if current is None or number != current.number:
        raise ValueError(f"it is of exchange {number}, whose request does not stand before it")
    return [current.piece(given) if isinstance(given, list) else current.step(given)], current


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of an exchange."""

    exchange: int
    started: str
    api: str
    request: Any
    about: dict[str, Any] = {}
    body: Any = msgspec.UNSET
    style: Style = Style()


class _Keys(Keys, frozen=True, forbid_unknown_fields=True):
    """The columns that a line has of its event."""


class _More(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fifth cell of a piece."""

    pad: int = 0
    keys: _Keys | None = None


class _CassetteStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a step besides its kind."""

    exchange: int
    after: Any
    keys: _Keys | None = None
    framing: Framing | None = None
    style: Style = Style()  # of a message of the client


def _read_request(
    number: int, given: Any, session_id: str, exchange_ids: Mapping[int, str]
) -> tuple[list[Row], _ExchangeReader]:
    """Return the rows of a request: the exchange, its head, its body in parts."""
    first = msgspec.convert(given, _Request)
    if first.api not in {dialect.name for dialect in DIALECTS}:
        raise ValueError(f"the api {first.api!r} is not known")
    if (
        unknown := first.about.keys() - set(Exchange.__struct_fields__)
        | first.about.keys() & LEFT_OUT
    ):
        raise ValueError(f"about has {min(unknown)!r}, which does not belong there")
    body = b"" if first.body is msgspec.UNSET else _json_bytes(first.body, first.style)
    if len(body) > REQUEST_LIMIT:
        raise ValueError(f"its body has over {REQUEST_LIMIT >> 20} MiB")
    raw = restore("request", _with_connection(first.request, exchange_ids), usual_request(body))
    usual = usual_row(msgspec.json.decode(raw, type=RequestRecord))
    started_ns = nanoseconds(first.started)
    ids = {
        "session_id": session_id,
        "exchange_id": uuid7(max(0, started_ns), number.to_bytes(10, "big")),
    }
    own = {**ids, "started_ns": started_ns, "recorder_id": "cassette", "api": first.api}
    exchange = msgspec.convert({**usual, **first.about, **own}, Exchange)
    exchange = storable_row(
        msgspec.structs.replace(exchange, target=redact_target(exchange.target))
    )
    reader = _ExchangeReader(number, exchange)
    parts = [body[at : at + FRAME_LIMIT] for at in range(0, len(body), FRAME_LIMIT)]
    return [
        exchange,
        reader.event("request", raw),
        *(reader.event("request", each, Keys("body")) for each in parts),
    ], reader


def _json_bytes(given: Any, style: Style) -> bytes:
    """Return the bytes of a request body, or another message of the client. Raises `ValueError`."""
    return content_bytes(given["raw"]) if is_raw(given) else style.text(given).encode()


def _with_connection(request: Any, exchange_ids: Mapping[int, str]) -> Any:
    """Return a request that names its connection by id.

    Raises `ValueError` if that does not stand before it.
    """
    place = request.get("websocket") if isinstance(request, dict) else None
    if not isinstance(place, dict) or not isinstance(number := place.get("connection"), int):
        return request
    if number not in exchange_ids:
        raise ValueError(f"exchange {number}, its connection, does not stand before it")
    return {**request, "websocket": {**place, "connection": exchange_ids[number]}}


class _ExchangeReader:
    """An exchange that is being read."""

    def __init__(self, number: int, exchange: Exchange) -> None:
        self.number = number
        self.sums = Sums()
        self._exchange = exchange
        self._framing = Framing()
        self._pos, self._at_us, self._ended = 0, 0, False
        self._hash = root(exchange.session_id, exchange.exchange_id)

    def piece(self, given: list[Any]) -> Event:
        """Return the event of an array. Raises `ValueError`."""
        more = msgspec.convert(given[4] if len(given) > 4 else {}, _More)
        kind, raw = piece(given[2], given[3], more.pad, self._framing)
        self._pass(given[0])
        return self.event(
            kind, raw, self._usual_keys(kind, raw) if more.keys is None else more.keys
        )

    def _usual_keys(self, kind: Kind, raw: bytes) -> Keys:
        return usual_keys(self._exchange, self._framing.form, kind, raw)

    @property
    def exchange_id(self) -> str:
        return self._exchange.exchange_id

    def step(self, given: dict[str, Any]) -> Event:
        """Return the event of an object. Raises `ValueError`."""
        kind = next((kind for kind in _STEPS if kind in given), None)
        if kind is None:
            raise ValueError(f"it says none of {', '.join(('request', *_STEPS))}")
        step = msgspec.convert(
            {name: value for name, value in given.items() if name != kind}, _CassetteStep
        )
        self._framing = step.framing or self._framing
        self._pass(step.after)
        if kind == "sent":
            raw = _json_bytes(given[kind], step.style)
        else:
            raw = restore(kind, given[kind], usual_step(kind, self.sums))
        return self.event(kind, raw, step.keys or self._usual_keys(kind, raw))

    def event(self, kind: Kind, raw: bytes, keys: Keys = NO_KEYS) -> Event:
        """Return the next event, chained to the one before it.

        Raises `ValueError` if none may follow.
        """
        if self._ended and kind != "note":
            raise ValueError(f"exchange {self.number} has ended before it")
        ids = (self._exchange.session_id, self._exchange.exchange_id)
        columns = msgspec.structs.asdict(storable_row(keys))
        event = Event(
            *ids, self._pos, kind, self._at_us * 1000, raw=bounded(raw), hash=b"", **columns
        )
        self._hash = hash_after(self._hash, event, self._pos)
        self._pos += 1
        self._ended = self._ended or kind == "end"
        self.sums.add(event)
        return msgspec.structs.replace(event, hash=self._hash)

    def _pass(self, after: Any) -> None:
        self._at_us += microseconds(after)
        if abs(self._at_us) >= SECONDS_LIMIT * 1_000_000:
            raise ValueError("it is too long after the beginning of its exchange")
