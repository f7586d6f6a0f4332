"""A fork over WebSocket: a real client, server, proxy, recording, and an upstream that keeps what
it is asked.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Request, Response

from recorder.model.events import CloseRecord, Outcome, Recording
from recorder.proxy.app import Proxy
from recorder.proxy.recording import RecordingTransport
from recorder.proxy.routing import Routes, Upstream
from recorder.proxy.upstream import UpstreamTransport
from recorder.recordings.memory import MemoryJournal
from recorder.replay.edit import edited, parse_edit
from recorder.replay.fork import ForkTransport
from recorder.replay.matching import Matcher
from recorder.replay.matching.noise import Rules
from recorder.replay.transport import ReplayTransport
from tests.integration.replay.test_websocket import asked, over_http, received, request, texts
from tests.support.event_loop import DEADLINE_S, eventually
from tests.support.proxy import served
from tests.support.websocket import answer, connection, turn

DEVELOPER = {"role": "developer", "content": "Be kind."}
PREWARM = {"model": "m", "input": [DEVELOPER], "generate": False}


def says(words: str, **fields: Any) -> dict[str, Any]:
    """A request that says something."""
    return {"model": "m", "input": [{"role": "user", "content": words}], **fields}


def after(id: str, words: str) -> dict[str, Any]:
    """A request that goes on from a response."""
    return says(words, previous_response_id=id)


RECORDED = (
    connection(),
    turn(says("one"), *answer("resp_1", ["First."])),
    turn(after("resp_1", "two"), *answer("resp_2", ["Second."]), number=2),
)


class Live:
    """An upstream over WebSocket: what it was asked on each connection, and how it answers."""

    def __init__(self) -> None:
        self.connections: list[list[dict[str, Any]]] = []
        self.keys: list[str] = []
        self.waits_behind: str | None = None  # a type of messages that have no answer
        # to each request; None: a response that says what was asked
        self.answers: list[bytes] | None = None
        self.close: tuple[int, str] | None = None  # behind each answer
        self.refuses: HTTPStatus | None = None

    async def __call__(self, connected: ServerConnection) -> None:
        asked: list[dict[str, Any]] = []
        self.connections.append(asked)
        async for message in connected:
            asked.append(json.loads(message))
            if asked[-1]["type"] == self.waits_behind:
                continue
            number, stream = sum(map(len, self.connections)), asked[-1].get("stream_id")
            fields = {} if stream is None else {"stream_id": stream}
            for each in self.answers or answer(f"resp_live_{number}", ["Live."], **fields):
                await connected.send(each.decode())
            if self.close is not None:
                await connected.close(*self.close)

    def handshake(self, connected: ServerConnection, request: Request) -> Response | None:
        self.keys.append(request.headers["authorization"])
        return (
            None
            if self.refuses is None
            else connected.respond(self.refuses, '{"error":{"message":"No."}}')
        )


class Forked:
    """A running fork."""

    def __init__(self, port: int, live: Live, journal: MemoryJournal, fork: ForkTransport) -> None:
        self.port, self.live, self._journal, self.fork = port, live, journal, fork

    @asynccontextmanager
    async def connect(self, path: str = "/v1/responses") -> AsyncIterator[ClientConnection]:
        url, headers = f"ws://127.0.0.1:{self.port}{path}", {"Authorization": "Bearer sk-mine"}
        async with websockets.connect(
            url, proxy=None, ping_interval=None, additional_headers=headers
        ) as client:
            yield client

    def recorded(self) -> list[Recording]:
        """What was recorded so far, in order."""
        return self._journal.recordings("s")

    def turns(self) -> list[tuple[dict[str, Any], list[str]]]:
        """The requests and the answers of the recorded turns."""
        turns = [each for each in self.recorded() if each.request.method == "WEBSOCKET"]
        return [
            (json.loads(each.request_body), texts([piece.raw for piece in each.pieces]))
            for each in turns
        ]


@asynccontextmanager
async def forked(
    *recordings: Recording, edits: Mapping[int, str] | None = None, model: str | None = None
) -> AsyncIterator[Forked]:
    """Run a fork of recordings, before an upstream; `edits` are texts in place of answers, by their
    place.
    """
    live, journal, upstream = Live(), MemoryJournal(), UpstreamTransport()
    replay = ReplayTransport(Matcher(recordings, Rules(until="noise")), speed=None)
    record = partial(RecordingTransport, journal=journal)
    others = {
        recordings[place].exchange.exchange_id: edited(recordings[place], parse_edit(f"1={text}"))
        for place, text in (edits or {}).items()
    }
    fork = ForkTransport(replay, record(upstream), record, model=model, edits=others)
    async with serve(live, "127.0.0.1", 0, process_request=live.handshake) as server:
        [listening] = server.sockets
        base = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/"
        proxy = Proxy(fork, Routes([Upstream("openai", base)]))
        async with served(proxy, proxy.shutdown) as front:
            yield Forked(front.port, live, journal, fork)
    await fork.aclose()


async def test_a_turn_that_equals_none_is_asked_on_a_connection_that_is_opened_then() -> None:
    async with forked(*RECORDED) as fork, fork.connect() as client:
        assert await asked(client, says("one")) == texts(answer("resp_1", ["First."]))
        assert fork.live.keys == []
        assert await asked(client, says("else")) == texts(answer("resp_live_1", ["Live."]))
        assert await asked(client, after("resp_1", "two")) == texts(
            answer("resp_2", ["Second."])
        ), "wherever it stands"
        assert fork.live.keys == ["Bearer sk-mine"]
        assert fork.live.connections == [[{"type": "response.create", **says("else")}]]


async def test_a_live_turn_has_the_items_of_the_answers_that_were_played_before_it() -> None:
    async with forked(*RECORDED) as fork, fork.connect() as client:
        await asked(client, says("one"))
        await asked(client, after("resp_1", "two"))
        await asked(client, after("resp_2", "else"))
        await asked(client, after("resp_live_1", "more"))
        [[first, second]] = fork.live.connections
    said = [
        item["content"] if item["role"] == "user" else item["content"][0]["text"]
        for item in first["input"]
    ]
    assert said == ["one", "First.", "two", "Second.", "else"]
    assert "previous_response_id" not in first
    assert second == {"type": "response.create", **after("resp_live_1", "more")}, (
        "which it made itself"
    )


async def test_a_prewarm_is_never_live_and_a_live_turn_has_what_it_had() -> None:
    async with forked(*RECORDED) as fork, fork.connect() as client:
        warmed = json.loads((await asked(client, PREWARM))[-1])["response"]
        await asked(client, after(warmed["id"], "else"))
        [[went]] = fork.live.connections
    assert went == {
        "type": "response.create",
        **says("else"),
        "input": [DEVELOPER, *says("else")["input"]],
    }


async def test_two_streams_are_answered_at_once_one_by_the_recording_and_one_live() -> None:
    async with forked(*RECORDED) as fork, fork.connect() as client:
        await client.send(request(says("else"), stream_id="b"))
        await client.send(request(says("one"), stream_id="a"))
        came = [json.loads(each) for each in [*await received(client), *await received(client)]]
    texts_of = {
        each["stream_id"]: each["delta"] for each in came if each["type"].endswith(".delta")
    }
    assert texts_of == {"a": "First.", "b": "Live."}


async def test_what_a_client_says_to_a_live_answer_reaches_the_upstream() -> None:
    async with forked(*RECORDED) as fork, fork.connect() as client:
        fork.live.waits_behind = "response.create"
        await client.send(request(says("else")))
        await eventually(lambda: bool(fork.live.connections and fork.live.connections[0]))
        await client.send(json.dumps({"type": "response.cancel"}))
        await received(client)
        assert [each["type"] for each in fork.live.connections[0]] == [
            "response.create",
            "response.cancel",
        ]


async def test_a_connection_without_turns_is_live() -> None:
    async with forked(*RECORDED) as fork, fork.connect("/v1/realtime?model=m") as client:
        assert await asked(client, says("one")) == texts(answer("resp_live_1", ["Live."]))


async def test_a_recording_over_http_answers_a_turn() -> None:
    messages = answer("resp_1", ["First."])
    async with forked(over_http(says("one"), *messages)) as fork, fork.connect() as client:
        assert await asked(client, says("one")) == texts(messages)
        assert fork.live.keys == []


async def test_what_goes_on_from_an_edited_answer_is_live_with_that_answer() -> None:
    async with forked(*RECORDED, edits={1: "Other."}) as fork, fork.connect() as client:
        edited_answer = await asked(client, says("one"))
        assert "Other." in edited_answer[-1]
        await asked(client, after(json.loads(edited_answer[-1])["response"]["id"], "two"))
        [[went]] = fork.live.connections
    assert went["input"][0]["content"] == "one"
    assert went["input"][1]["content"][0]["text"] == "Other."
    assert "previous_response_id" not in went


async def test_the_log_has_what_was_played_and_what_went_out() -> None:
    async with forked(*RECORDED, model="other") as fork:
        async with fork.connect() as client:
            await asked(client, says("one"))
            await asked(client, after("resp_1", "else"))
            [[went]] = fork.live.connections
        turns = fork.turns()
        parents = [
            each.request.websocket for each in fork.recorded() if each.request.method == "WEBSOCKET"
        ]
    played, live = turns
    assert played == (
        {"type": "response.create", **says("one")},
        texts(answer("resp_1", ["First."])),
    )
    assert live == (went, texts(answer("resp_live_1", ["Live."])))
    assert went["model"] == "other"
    assert parents[0] != parents[1], "each on the connection that it passed on"


async def test_an_end_of_the_upstream_reaches_the_client_as_it_was() -> None:
    async with forked(*RECORDED) as fork, fork.connect() as client:
        fork.live.answers, fork.live.close = answer("resp_live_1")[:2], (1011, "gone")
        await client.send(request(says("else")))
        with pytest.raises(ConnectionClosed) as closed:
            await received(client)
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1011, "gone")


async def test_a_refused_handshake_is_an_error_of_the_turn() -> None:
    async with forked(*RECORDED) as fork, fork.connect() as client:
        fork.live.refuses = HTTPStatus.UNAUTHORIZED
        error = json.loads((await asked(client, says("else")))[-1])
        assert (error["type"], error["status"], error["error"]) == (
            "error",
            401,
            {"message": "No."},
        )
        assert await asked(client, says("one")) == texts(answer("resp_1", ["First."])), (
            "the connection goes on"
        )


async def test_an_upstream_without_websocket_has_the_client_told_so() -> None:
    async with forked(*RECORDED) as fork:
        fork.live.refuses = HTTPStatus.UPGRADE_REQUIRED
        async with fork.connect() as client:
            await client.send(request(says("else")))
            async with asyncio.timeout(DEADLINE_S):
                await client.wait_closed()
        assert client.close_code == 1012, "with which clients connect again"
        with pytest.raises(InvalidStatus, match="426"):
            async with fork.connect():
                raise AssertionError("it was accepted")


async def test_a_server_that_hung_up_behind_a_whole_answer_does_not_do_so_again() -> None:
    recorded = (
        connection(close=CloseRecord("server", 1001, "idle"), end_ns=1),
        turn(says("one"), *answer("resp_1", ["First."])),
    )
    async with forked(*recorded) as fork, fork.connect() as client:
        await asked(client, says("one"))
        assert await asked(client, says("else")) == texts(answer("resp_live_1", ["Live."]))


@pytest.mark.parametrize(("outcome", "code"), [("truncated", 1011), ("upstream_reset", None)])
async def test_a_played_answer_that_broke_off_breaks_off_again(
    outcome: Outcome, code: int | None
) -> None:
    close = CloseRecord("server", code, "gone") if code is not None else CloseRecord(None)
    broken = turn(says("one"), *answer("resp_1", ["First."])[:3], outcome=outcome)
    async with forked(connection(close=close), broken) as fork:
        async with fork.connect() as client:
            await client.send(request(says("one")))
            with pytest.raises(ConnectionClosed) as closed:
                await received(client)
        assert (closed.value.rcvd.code if closed.value.rcvd is not None else None) == code
        [again] = [each for each in fork.recorded() if each.request.method == "WEBSOCKET"]
    assert again.end is not None
    assert again.end.outcome == outcome
