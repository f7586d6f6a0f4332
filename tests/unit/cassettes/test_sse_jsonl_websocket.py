"""WebSocket connections and their turns in cassettes."""

from __future__ import annotations

import io
import json

import msgspec
import pytest

from recorder.cassettes import Entry
from recorder.cassettes.sse_jsonl import formatted
from recorder.ingest.pending import Batch
from recorder.model.events import RequestRecord, WebSocketTurn
from recorder.wire.framing.websocket import encode_frame
from recorder.wire.recording import recording_of
from tests.support.websocket import MASK, Connection, Step, create, needs_transcripts, transcript
from tests.unit.cassettes.test_cassettes import told
from tests.unit.cassettes.test_sse_jsonl import in_microseconds, restored, write


def recorded(steps: list[Step]) -> Batch:
    """What the ingester makes of connections, one after another."""
    return told(Entry(step.mark, step.t_ns, step.payload) for step in steps)


def a_turn() -> Connection:
    connection = Connection().client(create("hi")).server(raw=encode_frame("ping", b"p"))
    connection.client(raw=encode_frame("pong", b"p", mask=MASK)).client({"type": "response.cancel"})
    return connection.answer("resp_1", "Hel", "lo").close(1000, "bye")


def connections(batch: Batch) -> dict[str, str]:
    """The connection that each turn names, by the id of the turn."""
    heads = {
        event.exchange_id: msgspec.json.decode(event.raw, type=RequestRecord)
        for event in batch.events
        if event.kind == "request" and event.pos == 0
    }
    return {
        id: head.websocket.connection
        for id, head in heads.items()
        if isinstance(head.websocket, WebSocketTurn)
    }


def without_ids(batch: Batch) -> list[object]:
    names = {exchange.exchange_id: str(number) for number, exchange in enumerate(batch.exchanges)}
    written = msgspec.json.encode(
        [[row[0], row[1], row[2], *map(repr, row[3:])] for row in in_microseconds(batch)]
    )
    for id, number in names.items():
        written = written.replace(id.encode(), number.encode())
    return list(json.loads(written))


def test_a_turn_is_read_line_by_line() -> None:
    lines = write(recorded(a_turn().steps)).decode().splitlines()
    assert lines[0].startswith('{"recorder_cassette":2,')
    [request] = [line for line in lines if '"method":"WEBSOCKET"' in line]
    assert '"websocket":{"connection":1,"number":1}' in request
    assert '"body":{"type":"response.create","model":"gpt-5",' in request
    frames = [line for line in lines if line.startswith("[")]
    assert [json.loads(line)[3]["type"] for line in frames][:1] == ["response.created"]
    assert all(json.loads(line)[1:3] == [2, None] and len(json.loads(line)) == 4 for line in frames)
    assert any('"sent":{"type":"response.cancel"}' in line for line in lines)
    assert any('"control":{"by":"server","opcode":"ping","payload":"70"}' in line for line in lines)
    assert any(
        '"control":{"by":"client","opcode":"close"' in line and '"code":1000' in line
        for line in lines
    )


def test_what_was_imported_has_the_same_rows() -> None:
    batch = recorded(a_turn().steps)
    again = restored(write(batch))
    assert without_ids(again) == without_ids(batch)
    assert [each.method for each in again.exchanges] == ["GET", "WEBSOCKET"]
    connection, turn = again.exchanges
    assert connections(again) == {turn.exchange_id: connection.exchange_id}


def test_a_turn_whose_connection_is_not_there_names_it_by_id() -> None:
    batch = recorded(a_turn().steps)
    [turn] = [each for each in batch.exchanges if each.method == "WEBSOCKET"]
    alone = Batch(
        batch.sessions,
        [turn],
        [each for each in batch.events if each.exchange_id == turn.exchange_id],
    )
    assert list(connections(restored(write(alone))).values()) == [batch.exchanges[0].exchange_id]


def test_formatting_keeps_what_there_is() -> None:
    written = write(recorded(a_turn().steps))
    assert b"".join(formatted(io.BytesIO(written))) == written


@needs_transcripts
@pytest.mark.parametrize(
    "name", ["codex-0.169", "codex-0.169-midclose", "openai-python-3.54-responses"]
)
def test_the_connections_of_real_clients_come_back(name: str) -> None:
    batch = recorded(transcript(name))
    again = restored(write(batch))
    assert without_ids(again) == without_ids(batch)
    for one, other in zip(batch.exchanges, again.exchanges, strict=True):
        made, back = (
            recording_of(each, [e for e in rows.events if e.exchange_id == each.exchange_id])
            for each, rows in ((one, batch), (other, again))
        )
        assert made.body == back.body
        assert made.request_body == back.request_body
