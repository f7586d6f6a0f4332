"""Requests: what it takes to keep an agent's history, which it sends again with every turn."""

from __future__ import annotations

import random
import sqlite3
import string
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from benchmarks import traffic
from benchmarks.figures import Column, Round, Row
from benchmarks.settings import Settings
from recorder.ingest.ingester import Ingester
from recorder.journal.format import Mark
from recorder.journal.writer import Journal
from recorder.model.events import ExchangeEnd, RequestEnd
from recorder.store.write.writer import Store

COLUMNS = (
    Column("µs/request", "request_us"),
    Column("x last request, sent", "sent_ratio"),
    Column("x last request, stored", "stored_ratio"),
)

TURNS = 50

_STORED = "SELECT sum(length(raw)) FROM events WHERE kind = 'request' AND pos > 0"


def rounds(settings: Settings) -> list[Round]:
    bodies = list(_bodies())
    return [{"50 turns": _measured(bodies)} for _ in range(settings.rounds)]


def _bodies() -> Iterator[bytes]:
    """Instructions and tools that stay, and an input to which a call and its output are added."""
    noise = random.Random(1)
    words = _words(noise)

    def text(count: int) -> str:
        return " ".join(noise.choices(words, k=count))

    tools = [
        {"type": "function", "name": f"tool_{number}", "description": text(150)}
        for number in range(12)
    ]
    told = [{"role": "user", "content": text(50)}]
    instructions = text(800)
    for turn in range(TURNS):
        body = {
            "model": "gpt-demo",
            "instructions": instructions,
            "input": told,
            "tools": tools,
            "stream": True,
        }
        yield msgspec.json.encode(body)
        call = {
            "type": "function_call",
            "call_id": f"call_{turn}",
            "name": "tool_1",
            "arguments": text(15),
        }
        told += [
            call,
            {"type": "function_call_output", "call_id": f"call_{turn}", "output": text(130)},
        ]


def _words(noise: random.Random) -> list[str]:
    return [
        "".join(noise.choices(string.ascii_lowercase, k=noise.randrange(2, 10))) for _ in range(500)
    ]


def _measured(bodies: list[bytes]) -> Row:
    with tempfile.TemporaryDirectory(prefix="recorder-bench-") as folder:
        path = Path(folder) / "requests.db"
        with Store(path) as store:
            journal = Journal(Path(folder) / "journal", "recorder")
            ingester = Ingester(store, Path(folder) / "journal" / "recorder", lambda _: False)
            seconds = [
                _recorded(journal, ingester, number, body) for number, body in enumerate(bodies)
            ]
            journal.close()
        with closing(sqlite3.connect(path)) as connection:
            (stored,) = connection.execute(_STORED).fetchone()
    last = len(bodies[-1])
    return {
        "request_us": sum(seconds) / len(seconds) * 1e6,
        "sent_ratio": sum(map(len, bodies)) / last,
        "stored_ratio": stored / last,
    }


def _recorded(journal: Journal, ingester: Ingester, number: int, body: bytes) -> float:
    """How long one request takes from the journal into the log."""
    tape = journal.exchange()
    tape.write(Mark.REQUEST, time.monotonic_ns(), msgspec.json.encode(traffic.request_head(number)))
    tape.write(Mark.REQUEST_BODY, time.monotonic_ns(), body)
    tape.write(Mark.REQUEST_END, time.monotonic_ns(), msgspec.json.encode(RequestEnd(True)))
    tape.end(time.monotonic_ns(), msgspec.json.encode(ExchangeEnd("eof")))
    begun = time.perf_counter()
    ingester.step()
    return time.perf_counter() - begun
