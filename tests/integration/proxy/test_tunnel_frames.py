"""Random WebSocket connections through a recorder: `websockets` on either side frames, deflates and
closes.

The bytes that one side sent are those that the other one received and those in the journal, and to
`websockets` they are the same frames.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import (
    ClientPerMessageDeflateFactory,
    ServerPerMessageDeflateFactory,
)
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import Protocol, State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from recorder.journal.format import Mark
from tests.support.event_loop import eventually, on_uvloop
from tests.support.proxy import Listener, Proxied, Tape, proxied
from tests.support.sockets import RawClient, reset

END_CODES = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 4999]
UNSENDABLE_CODES = [1004, 1005, 1006, 1015]  # which no endpoint may send: they pass all the same


class Data(NamedTuple):
    """A message, in so many fragments; pings of that payload come between them."""

    payload: bytes
    is_text: bool
    fragments: int
    pings: tuple[bytes, ...] = ()


class Control(NamedTuple):
    """A ping or pong."""

    opcode: Opcode
    payload: bytes


Ending = Literal["close", "fin", "reset"]


class Side(NamedTuple):
    """What one side sends, and how it ends: a Close frame before its FIN, a FIN without one, or a
    RST.
    """

    sends: list[Data | Control]
    ending: Ending
    code: int


class Deflation(NamedTuple):
    """What both sides want of permessage-deflate; None: nothing."""

    client_takeover: bool
    server_takeover: bool
    client_bits: int
    server_bits: int


class Example(NamedTuple):
    """A whole connection."""

    client: Side
    server: Side
    deflation: Deflation | None
    cuts: int  # seeds where what is sent is cut


# about the edges of the lengths of frames
SIZES = [0, 1, 125, 126, 127, 5_000, 65_535, 65_536, 150_000]


def _noise(size: int) -> bytes:
    """Bytes that do not get shorter by deflation."""
    return random.Random(size).randbytes(size)


_payloads = st.one_of(
    st.sampled_from(SIZES).map(_noise), st.binary(max_size=200), st.just(b"recorded " * 9_000)
)
_data = st.builds(
    Data,
    payload=_payloads,
    is_text=st.just(False),
    fragments=st.integers(1, 4),
    pings=st.lists(st.binary(max_size=125), max_size=2).map(tuple),
)
_text = st.builds(
    Data,
    payload=st.text(max_size=100).map(str.encode),
    is_text=st.just(True),
    fragments=st.integers(1, 3),
)
_control = st.builds(Control, st.sampled_from([Opcode.PING, Opcode.PONG]), st.binary(max_size=125))
_endings: st.SearchStrategy[Ending] = st.sampled_from(["close", "close", "close", "fin", "reset"])
_sides = st.builds(
    Side,
    sends=st.lists(st.one_of(_data, _text, _control), max_size=6),
    ending=_endings,
    code=st.sampled_from(END_CODES + UNSENDABLE_CODES),
)
_bits = st.integers(9, 15)
_deflations = st.none() | st.builds(Deflation, st.booleans(), st.booleans(), _bits, _bits)
_examples = st.builds(Example, _sides, _sides, _deflations, st.integers(0, 2**16))


class Recorder:
    """A recorder and its upstream for many connections, one after another."""

    def __init__(self, proxy: Proxied, listener: Listener) -> None:
        self._proxy, self._listener = proxy, listener
        self._journal = proxy.reader()

    @asynccontextmanager
    async def connected(self, deflation: Deflation | None) -> AsyncIterator[tuple[Peer, Peer]]:
        """Shake hands through the recorder; gives client and server."""
        client, server = ClientProtocol(parse_uri("ws://localhost/v1/responses")), ServerProtocol()
        if deflation is not None:
            one, other = _factories(deflation)
            client = ClientProtocol(parse_uri("ws://localhost/v1/responses"), extensions=[one])
            server = ServerProtocol(extensions=[other])
        async with await self._proxy.connect() as near:
            client.send_request(client.connect())
            await near.send(b"".join(client.data_to_send()))
            async with await self._listener.accept() as far:
                server.receive_data(await far.read_until(b"\r\n\r\n"))
                (request,) = server.events_received()
                assert isinstance(request, Request)
                server.send_response(server.accept(request))
                await far.send(b"".join(server.data_to_send()))
                client.receive_data(await near.read_until(b"\r\n\r\n"))
                (response,) = client.events_received()
                assert isinstance(response, Response)
                assert client.handshake_exc is None
                assert client.state is server.state is State.OPEN
                yield Peer(near, client), Peer(far, server)

    async def tape(self) -> Tape:
        """What the journal has of the last connection, when it has ended."""
        tape = Tape()

        def is_over() -> bool:
            for record in self._journal.read(2**24):
                tape.add(Mark(record.mark), record.payload)
            return tape.outcome is not None

        await eventually(is_over)
        return tape


def _factories(
    wanted: Deflation,
) -> tuple[ClientPerMessageDeflateFactory, ServerPerMessageDeflateFactory]:
    server_no, client_no = not wanted.server_takeover, not wanted.client_takeover
    bits = (wanted.server_bits, wanted.client_bits)
    return (
        ClientPerMessageDeflateFactory(server_no, client_no, *bits),
        ServerPerMessageDeflateFactory(server_no, client_no, *bits),
    )


class Peer:
    """One side: its socket, its `websockets`, and the bytes that it sent and received."""

    def __init__(self, connection: RawClient, protocol: Protocol) -> None:
        self.connection, self.protocol = connection, protocol
        self.sent: list[bytes] = []  # as far as the socket took them
        self.received: list[bytes] = []
        self.frames: list[Frame] = []  # that it sent, as its partner should see them
        self.was_reset = False

    def write(self, side: Side) -> bytes:
        """The bytes of a side, without its end."""
        for each in side.sends:
            self._write(each)
        if side.ending == "close":
            payload = side.code.to_bytes(2) + b"because"
            self.protocol.send_frame(Frame(Opcode.CLOSE, payload))
            self.frames.append(Frame(Opcode.CLOSE, payload))
        return b"".join(self.protocol.data_to_send())

    def _write(self, each: Data | Control) -> None:
        if isinstance(each, Control):
            self._frame(Frame(each.opcode, each.payload))
            return
        step = len(each.payload) // each.fragments + 1
        pieces = [each.payload[at : at + step] for at in range(0, len(each.payload), step)] or [b""]
        for number, piece in enumerate(pieces):
            opcode = Opcode.CONT if number else Opcode.TEXT if each.is_text else Opcode.BINARY
            self._frame(Frame(opcode, piece, fin=number == len(pieces) - 1))
            if number < len(pieces) - 1:
                for ping in each.pings:
                    self._frame(Frame(Opcode.PING, ping))

    def _frame(self, frame: Frame) -> None:
        self.protocol.send_frame(frame)
        self.frames.append(frame)

    async def send(self, data: bytes, ending: Ending, dice: random.Random) -> None:
        """Send in pieces, and end; an end of the other side may come before."""
        with contextlib.suppress(ConnectionError):
            for piece in _cut(data, dice):
                await self.connection.send(piece)
                self.sent.append(piece)
                if dice.random() < 0.2:
                    await asyncio.sleep(0)
            if ending == "reset":
                self.was_reset = True
                return
            self.connection.socket.shutdown(socket.SHUT_WR)

    async def receive(self) -> None:
        """Receive up to the end."""
        try:
            while data := await self.connection.read():
                self.received.append(data)
        except ConnectionError:
            self.was_reset = True


def _cut(data: bytes, dice: random.Random) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = dice.choice((1, 7, 100, 5_000, 200_000))
        yield data[at : at + size]
        at += size


async def passes(recorder: Recorder, example: Example) -> None:
    """Run a connection, and compare all who saw it."""
    dice = random.Random(example.cuts)
    async with recorder.connected(example.deflation) as (client, server):
        sides = ((client, example.client), (server, example.server))
        streams = [peer.write(side) for peer, side in sides]
        resets = [peer for peer, side in sides if side.ending == "reset"]
        async with asyncio.TaskGroup() as tasks:
            for (peer, side), data in zip(sides, streams, strict=True):
                tasks.create_task(peer.send(data, side.ending, dice))
                tasks.create_task(_received_then_reset(peer, len(streams[peer is client]), resets))
        for peer in resets:
            reset(peer.connection.socket)
        tape = await recorder.tape()
    _compare(example, client, server, tape)


async def _received_then_reset(peer: Peer, size: int, resets: list[Peer]) -> None:
    """Receive up to the end, or, if somebody will reset, up to all that was sent: a RST may
    overtake it.
    """
    if not resets:
        await peer.receive()
        return
    while sum(map(len, peer.received)) < size:
        peer.received.append(await peer.connection.read())


def _compare(example: Example, client: Peer, server: Peer, tape: Tape) -> None:
    for sender, receiver, recorded in ((client, server, tape.sent), (server, client, tape.body)):
        assert b"".join(receiver.received) == b"".join(sender.sent) == recorded
        assert _frames_of(receiver) == _readable(sender.frames)
    if "reset" in (example.client.ending, example.server.ending):
        assert tape.outcome in ("client_disconnect", "upstream_reset")
    else:
        assert (tape.outcome, sorted(tape.fins)) == ("eof", [Mark.CHUNK, Mark.CLIENT_CHUNK])


def _frames_of(peer: Peer) -> list[tuple[Opcode, bytes, bool]]:
    """What `websockets` makes of what a side received."""
    peer.protocol.receive_data(b"".join(peer.received))
    return [
        (event.opcode, bytes(event.data), event.fin)
        for event in peer.protocol.events_received()
        if isinstance(event, Frame)
    ]


def _readable(frames: list[Frame]) -> list[tuple[Opcode, bytes, bool]]:
    """The frames that `websockets` shows: not one with a close code that nobody may send."""
    shown = [frame for frame in frames if not _is_unsendable(frame)]
    return [(frame.opcode, bytes(frame.data), frame.fin) for frame in shown]


def _is_unsendable(frame: Frame) -> bool:
    return (
        frame.opcode is Opcode.CLOSE and int.from_bytes(bytes(frame.data[:2])) in UNSENDABLE_CODES
    )


def check_examples(folder: Path, count: int) -> None:
    """Run so many random connections through one recorder."""
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()

        async def start() -> Recorder:
            listener = await stack.enter_async_context(Listener())
            return Recorder(
                await stack.enter_async_context(proxied(folder, listener.base)), listener
            )

        recorder = runner.run(start())

        @settings(max_examples=count, deadline=None)
        @given(_examples)
        def check(example: Example) -> None:
            runner.run(passes(recorder, example))

        try:
            check()
        finally:
            runner.run(stack.aclose())


def test_random_connections_pass_byte_by_byte(tmp_path: Path) -> None:
    check_examples(tmp_path, 50)


@pytest.mark.slow
def test_a_thousand_random_connections_pass_byte_by_byte(tmp_path: Path) -> None:
    check_examples(tmp_path, 1_000)


@on_uvloop
async def test_every_close_code_passes(tmp_path: Path) -> None:
    async with Listener() as listener, proxied(tmp_path, listener.base) as proxy:
        recorder = Recorder(proxy, listener)
        for code in range(1000, 1016):
            side = Side([Data(b"hello", True, 2, (b"ping",))], "close", code)
            await passes(recorder, Example(side, side, Deflation(True, False, 15, 12), code))
