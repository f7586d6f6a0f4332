"""Rows of the log → the lines of a cassette. Pure.

Exchanges follow one another, numbered from 1; their lines are together, so that a change in one
exchange changes only its lines. Columns that the dialect computes from the bytes are left out; a
line has them where they are not.

Exchanges without parts of their responses: what is private to a project, and credentials that a
response repeats.

The log has responses as they came. A cassette is for a repository: a server that repeats the
parameters of a request, an MCP server's `authorization` among them, would bring into it what was
taken out of the request. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import msgspec

from recorder.cassettes.sse_jsonl.frames import (
    STYLES,
    Form,
    Framing,
    Style,
    cells,
    framing_of,
    piece,
)
from recorder.cassettes.sse_jsonl.lines import (
    PAYLOAD_DEPTH,
    Written,
    array,
    content,
    header_line,
    instant,
    line,
    object_,
    seconds,
    value,
)
from recorder.cassettes.sse_jsonl.steps import Sums, restore, shorten, usual_request
from recorder.errors import RecorderError
from recorder.model.events import (
    BODY_KINDS,
    WEBSOCKET,
    ControlRecord,
    Event,
    Exchange,
    RequestRecord,
    Session,
)
from recorder.wire.dialects import Dialect, Keys, by_name, by_path
from recorder.wire.dialects.json_values import without_nulls
from recorder.wire.framing import AWS_EVENT_STREAM, JSON_ARRAY, MESSAGES, NDJSON
from recorder.wire.framing import Framing as WireFraming
from recorder.wire.recording import framing_in
from recorder.wire.redaction.bodies import placed_secrets
from recorder.wire.redaction.unescape import Splice, spliced_pieces

Reads = list[tuple[int, int]]


def repeated_credentials(events: Iterable[Event]) -> list[Splice]:
    """Return where a response has credentials, by their places among the parameters that it
    repeats.
    """
    spans: list[Splice] = []
    size = 0
    for text in _texts(events):
        for start, stop, instead in placed_secrets(text):
            spans.append(Splice(size + start, size + stop, instead))
        size += len(text)
    return spans


def _texts(events: Iterable[Event]) -> Iterator[bytes]:
    """Yield frames, and what was cut at any place as one."""
    cut: list[bytes] = []
    for event in events:
        if event.kind == "frame":
            yield b"".join(cut)
            yield event.raw
            cut = []
        elif event.kind in BODY_KINDS:
            cut.append(event.raw)
    yield b"".join(cut)


def without_spans(
    events: Sequence[Event], spans: Sequence[Splice], keys_of: Callable[[str, bytes], Keys]
) -> list[Event]:
    """Return the events without those spans of the body; sums and sizes of reads are those of the
    bytes left.
    """
    pieces = [event.raw for event in events if event.kind in BODY_KINDS]
    left = iter(spliced_pieces(pieces, spans, splits=False))
    sizes = iter(_sizes(events, b"".join(pieces), spans))
    before, after = Sums(), Sums()
    made: list[Event] = []
    for event in events:
        changed = event
        if event.kind in BODY_KINDS:
            raw = next(left)
            if raw != event.raw:
                keys = msgspec.structs.asdict(keys_of(event.kind, raw))
                changed = msgspec.structs.replace(event, raw=raw, **keys)
        elif event.kind == "reads":
            reads = [(t_ns, next(sizes)) for t_ns, _ in msgspec.json.decode(event.raw, type=Reads)]
            changed = msgspec.structs.replace(event, raw=msgspec.json.encode(reads))
        elif event.kind == "end":
            raw = restore("end", shorten("end", event.raw, before.usual_end()), after.usual_end())
            changed = msgspec.structs.replace(event, raw=raw)
        before.add(event)
        after.add(changed)
        made.append(changed)
    return made


def _sizes(events: Sequence[Event], body: bytes, spans: Sequence[Splice]) -> list[int]:
    """Return the size of each read without the spans.

    Reads of a body that came coded are not changed.
    """
    sizes: list[int] = []
    for event in events:
        if event.kind == "reads":
            sizes += [size for _, size in msgspec.json.decode(event.raw, type=Reads)]
    if sum(sizes) != len(body):
        return sizes
    reads = [body[start:stop] for start, stop in pairwise(accumulate(sizes, initial=0))]
    return [len(read) for read in spliced_pieces(reads, spans, splits=False)]


NO_KEYS = Keys()
_USUAL: Mapping[str, Mapping[str, Any]] = {
    "response": {"http_version": "1.1"},
    "control": {"code": None, "reason": None},
}
LEFT_OUT = frozenset({"session_id", "exchange_id", "recorder_id", "started_ns", "api"})
"""Columns of an exchange that are made again, or stand in its first line under another name."""


def cassette_lines(
    session: Session, exchanges: Iterable[tuple[Exchange, Sequence[Event]]]
) -> Iterator[bytes]:
    """Yield the lines of a session with its exchanges, each with all its events in order.

    Raises `RecorderError`.
    """
    yield header_line(session)
    numbers: dict[str, int] = {}
    for number, (exchange, events) in enumerate(exchanges, 1):
        yield from exchange_lines(number, exchange, events, numbers)


def exchange_lines(
    number: int, exchange: Exchange, events: Sequence[Event], numbers: dict[str, int]
) -> Iterator[bytes]:
    """Yield the lines of one exchange. Raises `RecorderError` if it has no request.

    `numbers` has those of the exchanges before, by id, and gets this one: a turn over WebSocket
    names its connection.
    """
    numbers[exchange.exchange_id] = number
    if not events or events[0].kind != "request":
        raise RecorderError(
            f"Exchange {exchange.exchange_id} has no request: it cannot stand in a cassette."
        )
    sent = sum(event.kind == "request" for event in events)
    form = form_of(exchange, events)
    if repeated := repeated_credentials(events):
        events = without_spans(events, repeated, partial(usual_keys, exchange, form))
    request = events[:sent]
    yield _request_line(number, exchange, request, numbers)
    frames = (event.raw for event in events if event.kind == "frame")
    writer = _ExchangeWriter(number, exchange, framing_of(frames, form))
    for event in request:
        writer.sums.add(event)
    for event in itertools.islice(events, sent, None):  # no slice: it would hold them all
        yield writer.line(event)


def form_of(exchange: Exchange, events: Iterable[Event]) -> Form:
    """Return the form of the frames of an exchange, by all its events."""
    head = next((event.raw for event in events if event.kind == "response"), b"")
    return _FORMS.get(framing_in(exchange, head).name, "event")


def _request_line(
    number: int, exchange: Exchange, events: Sequence[Event], numbers: Mapping[str, int]
) -> bytes:
    head, body = events[0].raw, b"".join(event.raw for event in events[1:])
    request = _with_number(shorten("request", head, usual_request(body)), numbers)
    usual = usual_row(msgspec.json.decode(head, type=RequestRecord))
    row = msgspec.structs.asdict(exchange)
    about = {name: row[name] for name in row.keys() - LEFT_OUT if usual.get(name) != row[name]}
    return line(
        object_(
            exchange=number,
            started=instant(exchange.started_ns),
            api=exchange.api,
            **({"about": dict(sorted(about.items()))} if about else {}),
            request=request,
            **(_json_fields("body", body) if body else {}),
        )
    )


def _with_number(request: dict[str, Any], numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return a request whose connection is named by its number, if that stands before it."""
    place = request.get("websocket")
    if not isinstance(place, dict):
        return request
    kept = without_nulls(place)
    return {
        **request,
        "websocket": {**kept, "connection": numbers.get(place["connection"], place["connection"])},
    }


def usual_row(record: RequestRecord) -> Mapping[str, Any]:
    """Return the columns of an exchange that follow from its request as a rule."""
    return {"provider": record.upstream, "method": record.method, "target": record.target}


def _json_fields(name: str, body: bytes) -> dict[str, Any]:
    """Return the body of a request, or another message of the client: parsed if some style
    reproduces it.
    """
    for style in STYLES:
        try:
            given = value(body, PAYLOAD_DEPTH)
            if (
                not is_raw(given)
                and style.text(value(line(Written(style.text(given))))).encode() == body
            ):
                return (
                    {name: given}
                    if style == Style()
                    else {name: given, "style": msgspec.to_builtins(style)}
                )
        except ValueError:
            continue
    return {name: {"raw": content(body)}}


def is_raw(body: Any) -> bool:
    """Return whether a body is in the form for bytes."""
    return isinstance(body, dict) and list(body) == ["raw"]


class _ExchangeWriter:
    """The lines of an exchange after its request."""

    def __init__(self, number: int, exchange: Exchange, framing: Framing) -> None:
        self._number, self._framing = number, framing
        self._usual_keys = partial(usual_keys, exchange, framing.form)
        self._at_us = 0
        self.sums = Sums()

    def line(self, event: Event) -> bytes:
        after, self._at_us = seconds(event.t_ns // 1000 - self._at_us), event.t_ns // 1000
        written = (
            self._piece(event, after) if event.kind in BODY_KINDS else self._step(event, after)
        )
        self.sums.add(event)
        return written

    def _piece(self, event: Event, after: Written) -> bytes:
        name, payload, pad = cells(event.kind, event.raw, self._framing)
        keys = self._keys(event)
        more = {"pad": pad, **keys} if pad else keys
        written = line(array(after, self._number, name, payload, *([more] if more else [])))
        again = value(written)
        if piece(again[2], again[3], pad, self._framing) == (event.kind, event.raw):
            return written
        word = "raw" if event.kind == "frame" else event.kind
        return line(
            array(after, self._number, None, {word: content(event.raw)}, *([keys] if keys else []))
        )

    def _step(self, event: Event, after: Written) -> bytes:
        more = self._keys(event)
        if event.kind == "sent":
            payload = _json_fields("sent", event.raw)
            return line(object_(exchange=self._number, after=after, **payload, **more))
        shortened = shorten(event.kind, event.raw, usual_step(event.kind, self.sums))
        if event.kind == "response" and self._framing != Framing():
            more["framing"] = msgspec.to_builtins(self._framing)
        return line(object_(exchange=self._number, after=after, **{event.kind: shortened}, **more))

    def _keys(self, event: Event) -> dict[str, Any]:
        """Return the columns of an event, if they differ from the usual ones."""
        usual = self._usual_keys(event.kind, event.raw)
        columns = {name: getattr(event, name) for name in Keys.__struct_fields__}
        if columns == msgspec.structs.asdict(usual):
            return {}
        return {"keys": without_nulls(columns)}


def usual_step(kind: str, sums: Sums) -> Mapping[str, Any]:
    """Return the usual fields of a step, after events with these sums."""
    return sums.usual_end() if kind == "end" else _USUAL.get(kind, {})


_FRAMINGS: Mapping[Form, WireFraming] = {
    "line": NDJSON,
    "binary": AWS_EVENT_STREAM,
    "array": JSON_ARRAY,
}
_FORMS: dict[str, Form] = {
    MESSAGES.name: "message",
    **{each.name: form for form, each in _FRAMINGS.items()},
}


def usual_keys(exchange: Exchange, form: Form, kind: str, raw: bytes) -> Keys:
    """Return the columns that follow from the bytes of an event; `form` is that of the frames of
    its exchange.
    """
    if kind == "control":
        return Keys(type=msgspec.json.decode(raw, type=ControlRecord).opcode)
    if kind == "sent" or (kind == "frame" and form == "message"):
        return _dialect_of_messages(exchange).keys.of_message(raw)
    framing = _FRAMINGS.get(form)
    if kind in ("frame", "tail") and framing is not None:
        return by_name(exchange.api).keys.of_fields(raw, framing.fields(raw))
    return by_name(exchange.api).keys(raw) if kind in ("frame", "tail") else NO_KEYS


def _dialect_of_messages(exchange: Exchange) -> Dialect:
    """Return the dialect of the path: that of a connection is another one than its own."""
    if exchange.method == WEBSOCKET:
        return by_name(exchange.api)
    return by_path(exchange.method, exchange.target)
