"""Durability `strict`: what a client has is on the disk."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from recorder.journal.writer import Journal
from recorder.proxy.durable import DurableTransport
from recorder.proxy.recording import RecordingTransport
from tests.support.event_loop import DEADLINE_S, on_uvloop
from tests.support.proxy import get, proxied, request_for
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    ScriptedUpstream,
    Send,
    Wait,
    chunked,
)
from tests.unit.proxy.test_recording import Echo

CHUNKS = [b"%d" % number * 100 for number in range(20)]


class Disk:
    """What of each file is on the disk: its size when it was synced last."""

    def __init__(self, fsync: Any) -> None:
        self._fsync = fsync
        self.synced: dict[int, int] = {}
        self.syncs = 0
        self.fails = False

    def fsync(self, descriptor: int) -> None:
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._fsync(descriptor)
        self.syncs += 1
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            self.synced[status.st_ino] = status.st_size

    def has_all_of(self, directory: Path) -> bool:
        segments = [path.stat() for path in directory.glob("*.seg")]
        return all(self.synced.get(each.st_ino) == each.st_size for each in segments)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(os.fsync)
    monkeypatch.setattr(os, "fsync", disk.fsync)
    return disk


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path, "recorder", segment_bytes=700, durable=True)
    yield journal
    journal.close()


def transport(journal: Journal) -> DurableTransport:
    return DurableTransport(RecordingTransport(Echo(*CHUNKS), journal), journal)


async def received(strict: DurableTransport) -> AsyncIterator[bytes]:
    response = await strict.handle_async_request(request_for("GET", "http://h/v1/x"))
    async for chunk in response.stream:
        yield chunk
    await response.stream.aclose()


async def test_what_a_client_has_is_on_the_disk_and_so_is_the_end(
    disk: Disk, journal: Journal
) -> None:
    strict, chunks = transport(journal), []
    async for chunk in received(strict):
        assert disk.has_all_of(journal.directory)
        chunks.append(chunk)
    assert disk.has_all_of(journal.directory)
    assert chunks == CHUNKS
    assert len(list(journal.directory.glob("*.seg"))) > 2, "finished segments are synced too"
    await strict.aclose()


@on_uvloop
async def test_what_a_client_of_the_real_server_has_is_on_the_disk(
    disk: Disk, tmp_path: Path
) -> None:
    """With the real upstream, whose reads go to the client without a task in between where nothing
    is synced.
    """
    sent = [asyncio.Event() for _ in CHUNKS]
    steps: list[list[Action]] = [
        [Wait(each), Send(chunked(chunk))] for each, chunk in zip(sent, CHUNKS, strict=True)
    ]
    # else the record of the end is on its way to the disk while the last chunk is looked at
    ended = asyncio.Event()
    script = [Send(STREAM_HEAD), *chain.from_iterable(steps), Wait(ended), Send(LAST_CHUNK)]
    async with (
        ScriptedUpstream(script) as upstream,
        proxied(tmp_path, upstream.base, strict=True) as proxy,
        await proxy.connect() as client,
    ):
        await client.send(get())
        for event, chunk in zip(sent, CHUNKS, strict=True):
            event.set()
            await client.read_until(chunked(chunk))
            assert disk.has_all_of(tmp_path / "journal" / "recorder")
        ended.set()
        await client.read_until(LAST_CHUNK)
        assert disk.has_all_of(tmp_path / "journal" / "recorder")
    assert disk.syncs >= len(CHUNKS)


async def test_without_it_nothing_is_synced(disk: Disk, tmp_path: Path) -> None:
    journal = Journal(tmp_path, "recorder")
    response = await RecordingTransport(Echo(*CHUNKS), journal).handle_async_request(
        request_for("GET", "http://h/")
    )
    assert [chunk async for chunk in response.stream] == CHUNKS
    journal.close()
    assert disk.syncs == 0


async def test_streams_that_wait_share_a_sync(disk: Disk, journal: Journal) -> None:
    strict = transport(journal)

    async def whole() -> list[bytes]:
        return [chunk async for chunk in received(strict)]

    async with asyncio.TaskGroup() as tasks:
        streams = [tasks.create_task(whole()) for _ in range(20)]
    assert all(stream.result() == CHUNKS for stream in streams)
    segments = len(list(journal.directory.glob("*.seg")))
    assert disk.syncs < 20 * len(CHUNKS) / 4 + 2 * segments
    await strict.aclose()


async def test_a_disk_that_cannot_sync_costs_the_client_nothing(
    disk: Disk, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    disk.fails = True
    strict = transport(journal)
    with caplog.at_level(logging.ERROR):
        assert [chunk async for chunk in received(strict)] == CHUNKS
    assert [record.message for record in caplog.records] == [
        "the journal cannot be synced (Input/output error): a power cut may lose what clients saw"
    ]
    await strict.aclose()


async def test_a_client_that_leaves_disturbs_no_other(disk: Disk, journal: Journal) -> None:
    strict = transport(journal)
    leaving = asyncio.ensure_future(anext(received(strict)))
    staying = [chunk async for chunk in received(strict)]
    leaving.cancel()
    assert staying == CHUNKS
    await asyncio.gather(leaving, return_exceptions=True)
    await strict.aclose()


async def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    journal = Journal(tmp_path, "recorder", segment_bytes=200, durable=True)
    strict = transport(journal)
    assert [chunk async for chunk in received(strict)] == CHUNKS
    await strict.aclose()
    journal.close()
    assert len(os.listdir("/dev/fd")) == before


async def test_a_client_that_leaves_while_the_disk_is_slow_closes_the_response(
    disk: Disk, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncing, go_on = threading.Event(), threading.Event()

    def fsync(descriptor: int) -> None:
        syncing.set()
        go_on.wait(DEADLINE_S)

    monkeypatch.setattr(os, "fsync", fsync)
    echo = Echo(*CHUNKS)
    strict = DurableTransport(RecordingTransport(echo, journal), journal)
    asking = asyncio.ensure_future(strict.handle_async_request(request_for("GET", "http://h/v1/x")))
    assert await asyncio.to_thread(syncing.wait, DEADLINE_S)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert echo.stream.closed
    go_on.set()
    await strict.aclose()


async def test_whoever_waits_when_it_is_closed_is_let_go(journal: Journal) -> None:
    strict = transport(journal)
    streams = [asyncio.ensure_future(anext(received(strict))) for _ in range(3)]
    await asyncio.sleep(0)
    await strict.aclose()
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(*streams)
