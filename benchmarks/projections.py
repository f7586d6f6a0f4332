"""Projections: what a fold costs against decoding the same payloads, how fast a rebuild is, how
fast sums are asked.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import machine, traffic
from benchmarks.figures import Column, Round, Row
from benchmarks.settings import Settings
from recorder.ingest.capture import Capture
from recorder.ingest.ingester import Ingester
from recorder.journal.format import Mark
from recorder.journal.writer import Journal
from recorder.model.events import Event, Exchange, RequestEnd, RequestHead
from recorder.projections.fold import Folding
from recorder.store.maintain.rebuild import rebuild
from recorder.store.queries.reader import LogReader
from recorder.store.queries.usage import By, usage
from recorder.store.write.writer import Store
from recorder.wire.dialects import by_path

FOLD_COLUMNS = (
    Column("fold µs/event", "fold_us"),
    Column("decode µs/event", "decode_us"),
    Column("x decode", "ratio"),
)
REBUILD_COLUMNS = (Column("events/s", "rows_s"), Column("exchanges/s", "exchanges_s"))
ASK_COLUMNS = (Column("ms", "ms"),)

MODELS = 8
# of an exchange that is asked about: what matters there is how many exchanges there are
EVENTS = 12

_TEXT = b'{"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_68af4030baa48193b0b43b4c2a176a1a",'
_CHAT = (
    b'{"id":"chatcmpl-68af4030baa48193b0b4",'
    b'"object":"chat.completion.chunk","created":1790000000,"model":"gpt-demo",'
)
_CLAUDE = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" lorem"}}'
_GEMINI = b'{"candidates":[{"content":{"parts":[{"text":" lorem"}],"role":"model"},"index":0}],"usageMetadata":'

# By dialect: where it is asked for, what begins an item, and the delta that comes again and again.
STREAMS: dict[str, tuple[str, bytes, Callable[[int], bytes]]] = {
    "openai-responses": (
        "/v1/responses",
        b"",
        lambda n: (
            b"event: response.output_text.delta\ndata: "
            + _TEXT % n
            + b'"output_index":0,"content_index":0,"delta":" lorem","logprobs":[],"obfuscation":"kJ8vQ2xT0a"}\n\n'
        ),
    ),
    "openai-chat": (
        "/v1/chat/completions",
        b"data: "
        + _CHAT
        + b'"choices":[{"index":0,"delta":{"role":"assistant","content":"Lorem"}}]}\n\n',
        lambda n: (
            b"data: "
            + _CHAT
            + b'"choices":[{"index":0,"delta":{"content":" lorem"},"finish_reason":null}]}\n\n'
        ),
    ),
    "anthropic": (
        "/v1/messages",
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
        b'"content_block":{"type":"text","text":""}}\n\n',
        lambda n: b"event: content_block_delta\ndata: " + _CLAUDE + b" " * (n % 12) + b"\n\n",
    ),
    "gemini": (
        "/v1beta/models/gemini-demo:streamGenerateContent",
        b"",
        lambda n: (
            b"data: "
            + _GEMINI
            + b'{"promptTokenCount":9,"candidatesTokenCount":%d,"totalTokenCount":%d},"responseId":"r"}\r\n\r\n'
            % (n, n + 9)
        ),
    ),
}


def fold_rounds(settings: Settings) -> list[Round]:
    """The whole way from events of the log to rows, and plain `msgspec.json.decode` of their
    payloads.
    """
    streams = {name: _events(name, settings.rows) for name in STREAMS}
    with machine.on_core(machine.MEASURED_CORE):
        return [
            {name: _fold(*stream) for name, stream in streams.items()}
            for _ in range(settings.rounds)
        ]


def _events(name: str, count: int) -> tuple[Exchange, list[Event]]:
    path, first, delta = STREAMS[name]
    head = msgspec.structs.replace(traffic.request_head(1), target=path)
    capture = Capture(head.session_id, head.exchange_id, by_path("POST", path), 0)
    events = (
        capture.request(head, b"", wire=b"")
        + capture.response(1, traffic.RESPONSE_HEAD)
        + capture.chunk(2, first)
    )
    for number in range(count):
        events += capture.chunk(traffic.when(number), delta(number))
    exchange = Exchange(
        head.session_id, head.exchange_id, 0, "benchmark", "openai", name, "POST", path
    )
    return exchange, events + capture.end(traffic.when(count), traffic.END)


def _fold(exchange: Exchange, events: Sequence[Event]) -> Row:
    payloads = [
        event.raw[event.data_start : event.data_start + event.data_length]
        for event in events
        if event.data_start is not None and event.data_length is not None
    ]
    decode_s = _cpu(lambda: _each(msgspec.json.decode, payloads))
    folding = Folding(exchange)
    fold_s = _cpu(lambda: _rows(folding, events))
    counts = len(payloads)
    return {
        "fold_us": fold_s / counts * 1e6,
        "decode_us": decode_s / counts * 1e6,
        "ratio": fold_s / decode_s,
    }


def _rows(folding: Folding, events: Sequence[Event]) -> None:
    folding.apply_all(events)
    folding.rows()


def _each(work: Callable[[bytes], Any], payloads: Sequence[bytes]) -> None:
    for payload in payloads:
        work(payload)


def _cpu(work: Callable[[], object]) -> float:
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def rebuild_rounds(settings: Settings) -> list[Round]:
    """All projections of a log, computed again."""
    exchanges = max(1, settings.rows // 500)
    with (
        tempfile.TemporaryDirectory(prefix="recorder-bench-") as folder,
        machine.on_core(machine.MEASURED_CORE),
    ):
        path = _recorded(Path(folder), exchanges, 500)
        with Store(path) as store:
            return [{"rebuild": _rebuilt(store, exchanges, 500)} for _ in range(settings.rounds)]


def _rebuilt(store: Store, exchanges: int, events: int) -> Row:
    began_s = time.perf_counter()
    rebuild(store, lambda done, total: None)
    took_s = time.perf_counter() - began_s
    return {"rows_s": exchanges * events / took_s, "exchanges_s": exchanges / took_s}


def ask_rounds(settings: Settings) -> list[Round]:
    """What commands and views ask of a log of many exchanges."""
    with (
        tempfile.TemporaryDirectory(prefix="recorder-bench-") as folder,
        machine.on_core(machine.MEASURED_CORE),
    ):
        path = _recorded(Path(folder), settings.exchanges, EVENTS)
        return [_asked(path) for _ in range(settings.rounds)]


def _asked(path: Path) -> Round:
    usage: tuple[By, ...] = ("model", "day", "session", "tool")
    views = ("usage_by_model", "session_summary", "tool_stats")
    return {
        **{f"usage --by {by}": {"ms": asyncio.run(_tally(path, by))} for by in usage},
        **{view: {"ms": _view(path, view)} for view in views},
    }


async def _tally(path: Path, by: By) -> float:
    async with await LogReader.open(path) as log:
        began_s = time.perf_counter()
        await usage(log, (by,))
        return (time.perf_counter() - began_s) * 1e3


def _view(path: Path, view: str) -> float:
    with closing(sqlite3.connect(path)) as connection:
        began_s = time.perf_counter()
        connection.execute(f"SELECT * FROM {view}").fetchall()
        return (time.perf_counter() - began_s) * 1e3


def _recorded(folder: Path, exchanges: int, events: int) -> Path:
    """A log of so many short responses with usage, through journal and ingester."""
    path = folder / "recorder.db"
    journal = Journal(folder / "recorder.db.journal", "benchmark", limit_bytes=2**40)
    encode = msgspec.json.encode
    for number in range(exchanges):
        tape = journal.exchange()
        tape.write(Mark.REQUEST, 0, encode(_head(number)))
        tape.write(
            Mark.REQUEST_BODY,
            0,
            b'{"model":"model-%d","input":"Count.","stream":true}' % (number % MODELS),
        )
        tape.write(Mark.REQUEST_END, 0, encode(RequestEnd(True)))
        tape.write(Mark.RESPONSE, traffic.TICK_NS, encode(traffic.RESPONSE_HEAD))
        for count, frame in enumerate(itertools.islice(_response(number), events)):
            tape.write(Mark.CHUNK, traffic.when(count), frame)
        tape.end(traffic.when(events), encode(traffic.END))
    journal.close()
    with Store(path) as store:
        Ingester(store, journal.directory, lambda _: False).drain()
    return path


def _head(number: int) -> RequestHead:
    """Ten exchanges are a session."""
    ids = {
        "exchange_id": traffic.make_id(number),
        "session_id": traffic.make_id(10**7 + number // 10),
    }
    return msgspec.structs.replace(
        traffic.request_head(number), session=f"run-{number // 10}", **ids
    )


def _response(number: int) -> Iterator[bytes]:
    """A call of a tool, the usage, and a text without end."""
    yield from told(number)
    for count in itertools.count():
        yield traffic.frame(count)


def told(number: int) -> tuple[bytes, bytes]:
    """A call of a tool, and the usage."""
    model = b'"id":"resp_%d","model":"model-%d","status":"completed","output":[]' % (
        number,
        number % MODELS,
    )
    call = (
        b'"type":"function_call","id":"fc_1","call_id":"call_%d","name":"tool_%d","arguments":"{}"'
    )
    item = call % (number, number % MODELS)
    counts = b'"input_tokens":%d,"output_tokens":96,"total_tokens":%d,' % (number, number + 96)
    details = b'"input_tokens_details":{"cached_tokens":64},"output_tokens_details":{"reasoning_tokens":32}'
    return (
        _sse(b'"type":"response.output_item.done","output_index":1,"item":{' + item + b"}"),
        _sse(
            b'"type":"response.completed","response":{'
            + model
            + b',"usage":{'
            + counts
            + details
            + b"}}"
        ),
    )


def _sse(fields: bytes) -> bytes:
    return b"data: {" + fields + b"}\n\n"
