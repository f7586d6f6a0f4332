"""A log of an agent whose model calls tools, and what a collector has of it after a push."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import URL

from recorder.exports.otlp.telemetry import span_id
from recorder.model.events import Exchange
from tests.support.conversations import Conversation, Conversations, answering, asking, call, response
from tests.support.otlp import Receiver
from tests.support.server import run
from tests.support.superuser import connected

BATCH = 3  # spans, where a test wants small batches


class Log:
    """A database with sessions of an agent."""

    def __init__(self, database: URL) -> None:
        self.database = database
        self.conversations = Conversations(database)
        self.made: set[bytes] = set()

    def talk(self, name: str, turns: int = 2, at_s: float = 0.0) -> Conversation:
        """A session in which each response calls a tool, whose result the next request brings."""
        talk = self.conversations.session(name, at_s)
        asked = asking("Go")
        for turn in range(turns):
            self.add(talk, turn, asked)
            asked = [*asked, *answering(f"result {turn}", f"call_{turn}")]
        return talk

    def add(self, talk: Conversation, turn: int, asked: Any) -> Exchange:
        frames = response(*call("roll", "{}", 0, f"call_{turn}"), id=f"resp_{talk.session.name}_{turn}")
        exchange = talk.exchange(frames, asked, at_s=turn * 10)
        self.made.add(span_id(exchange.exchange_id, "exchange"))
        return exchange

    def push(self, receiver: Receiver, *options: object) -> dict[str, Any]:
        ran = run(self.database, "otlp", "push", receiver.url, "--json", *options)
        assert ran.code == 0, ran.err
        [row] = json.loads(ran.out)
        return dict(row)

    def rows(self) -> int:
        with connected(self.database) as connection:
            [(count,)] = connection.execute("SELECT count(*) FROM export_cursors")
            return int(count)


def once(receiver: Receiver, log: Log, tools: int) -> bool:
    """Whether the collector has each span of the log exactly once."""
    counts = receiver.span_ids
    assert max(counts.values()) == 1, counts
    assert len(counts) == len(log.made) + tools
    assert counts.keys() >= log.made
    return True
