"""`recorder replay` of what came over WebSocket."""

from __future__ import annotations

from pathlib import Path

from recorder.store.location import database_url
from tests.integration.ingest.test_websocket_log import ingested
from tests.support.server import run
from tests.support.websocket import Connection

REALTIME = (
    Connection("/v1/realtime?model=gpt-realtime")
    .server({"type": "session.created"})
    .client({"type": "response.create"})
    .server({"type": "response.done"})
    .close()
)


def test_messages_of_a_connection_without_turns_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "recorder.db"
    ingested(database_url(path), tmp_path / "journal", REALTIME.steps)
    ran = run(path, "replay", "latest", "--speed", "max")
    assert (ran.code, ran.err) == (0, "")
    assert [block.splitlines()[0] for block in ran.out.split(b"\n\n")[:-1]] == [
        b"event: session.created",
        b"event: response.done",
    ]
