"""B1 for tunnels, SIGKILL in mid-connection: what either side has received is in the journal, in
order.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

from recorder.journal.format import Mark
from recorder.journal.reader import JournalReader
from tests.support.proxy import OFFER, SWITCHED, Listener, Tape, get
from tests.support.server import everywhere, serving
from tests.support.sockets import RawClient

TUNNELS = 8
LIVE_S = (0.05, 0.6)  # how long they have lived when the kill comes


class Talk:
    """One connection, both of whose sides send without a pause until it breaks."""

    def __init__(self, name: str, seed: str) -> None:
        self.name, self._seed = name, seed
        self.received = {"client": bytearray(), "upstream": bytearray()}

    async def connect(self, port: int, listener: Listener) -> None:
        self._client = await RawClient.connect(port)
        await self._client.send(
            get("/v1/responses", *OFFER, b"X-Recorder-Session: " + self.name.encode())
        )
        self._upstream = await listener.accept()
        await self._upstream.read_until(b"\r\n\r\n")
        await self._upstream.send(SWITCHED)
        await self._client.read_until(b"\r\n\r\n")

    async def run(self) -> None:
        async with self._client, self._upstream, asyncio.TaskGroup() as tasks:
            for peer, side in ((self._client, "client"), (self._upstream, "upstream")):
                tasks.create_task(self._send(peer, random.Random(self._seed + side)))
                tasks.create_task(self._receive(peer, side))

    async def _send(self, peer: RawClient, dice: random.Random) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await peer.send(dice.randbytes(dice.choice((10, 500, 20_000))))
                await asyncio.sleep(dice.choice((0, 0, 0.002)))

    async def _receive(self, peer: RawClient, side: str) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await peer.read():
                self.received[side] += data


async def killed(db: Path, dice: random.Random) -> list[Talk]:
    """Kill a recorder with open tunnels."""
    async with Listener() as listener:
        with serving(db, *everywhere(listener.base)) as serve:
            talks = [Talk(f"talk-{number}", f"{dice.random()}") for number in range(TUNNELS)]
            async with asyncio.TaskGroup() as tasks:
                for talk in talks:  # one after another, so that each finds its own upstream
                    await talk.connect(serve.port, listener)
                    tasks.create_task(talk.run())
                await asyncio.sleep(dice.uniform(*LIVE_S))
                serve.kill()
    return talks


def tapes(root: Path) -> dict[str, Tape]:
    """What the journals of dead recorders have, by the name of the session."""
    found = dict[str, Tape]()
    for directory in root.iterdir():
        reader, tapes = JournalReader(directory), dict[int, Tape]()
        while records := reader.read(2**24, writer_is_dead=True):
            for record in records:
                tapes.setdefault(record.exchange, Tape()).add(Mark(record.mark), record.payload)
        found |= {tape.json[Mark.REQUEST]["session"]: tape for tape in tapes.values()}
    return found


async def check_kills(folder: Path, count: int, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(count):
        db = folder / f"{number}.db"
        talks = await killed(db, dice)
        kept = tapes(Path(f"{db}.journal"))
        assert sum(len(received) for talk in talks for received in talk.received.values()) > 0
        for talk in talks:
            tape = kept[talk.name]
            assert Mark.GAP not in tape.marks
            assert tape.body.startswith(talk.received["client"])
            assert tape.sent.startswith(talk.received["upstream"])


async def test_what_both_sides_of_a_tunnel_had_survives_a_kill(tmp_path: Path, seed: int) -> None:
    await check_kills(tmp_path, 2, seed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_what_both_sides_of_a_tunnel_had_survives_20_kills(tmp_path: Path, seed: int) -> None:
    await check_kills(tmp_path, 20, seed)
