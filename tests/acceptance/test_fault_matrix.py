"""Client × upstream × store × process: every pair of faults once, and of each cell the log is held
against the books.

The cells are few of very many: chosen so that any two faults of different kinds meet in one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import shutil
import signal
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recorder.ingest.ingester import recover
from recorder.journal.reader import segment_name
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import never
from tests.support import scripts
from tests.support.event_loop import on_uvloop
from tests.support.scripts import (
    Action,
    Behaviour,
    Chunk,
    End,
    Fin,
    LeaveAfter,
    ReadAll,
    Received,
    Reset,
    ResetAfter,
    Sleep,
    Slow,
    Stall,
    Upstream,
    ask,
    body_of,
)
from tests.support.server import Serving, everywhere, halt, run, serving, wait_until

STREAMS = 4
PATIENCE_S = 4.0
FRAME = b'data: {"type":"e","sequence_number":%d,"pad":"%b"}\n\n'
FRAMES = [FRAME % (number, b"x" * (number * 37 % 400)) for number in range(40)]


def paced(*chunks: bytes, end: Action) -> list[Action]:
    return [*(action for chunk in chunks for action in (Chunk(chunk), Sleep(0.03))), end]


CLIENTS: dict[str, Behaviour] = {
    "reads all": ReadAll(),
    "slow": Slow(4_000),
    "leaves": LeaveAfter(1_500),
    "resets": ResetAfter(1_500),
}
UPSTREAMS: dict[str, Sequence[Action]] = {
    "ok": paced(*FRAMES, end=End()),
    "reset before head": [Reset()],
    "reset in frame": [*paced(*FRAMES[:20], FRAMES[20][:9], end=Sleep(0.1)), Reset()],
    "no last chunk": paced(*FRAMES[:20], end=Fin()),
    "stalls": paced(*FRAMES[:20], end=Stall()),
    "byte by byte": [*(Chunk(FRAMES[9][at : at + 1]) for at in range(len(FRAMES[9]))), End()],
    "burst": [
        *(Chunk(b"data: %b\n\n" % (b"%05d" % number * 10_000)) for number in range(40)),
        End(),
    ],
    "no newline": [*(Chunk(b"y" * 30_000) for _ in range(20)), End()],
    "odd bytes": paced(
        b"\xef\xbb\xbfdata: a\r\rdata: \x00\xff\r",
        b"\n\r\n: ping\n\n",
        b"data: \xe2\x80",
        end=End(),
    ),
    "nothing": [Chunk(b": \n\n"), End()],
}


# -- the store: for a second, while streams are under way


async def is_well(serve: Serving) -> None:
    await asyncio.sleep(1)


async def is_locked(serve: Serving) -> None:
    with contextlib.closing(sqlite3.connect(serve.db, isolation_level=None, timeout=20)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        await asyncio.sleep(1)
        holder.execute("ROLLBACK")


async def is_stopped(serve: Serving) -> None:
    """Nobody ingests."""
    stopped = serve.ingesters()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(1)
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


async def is_read_only(serve: Serving) -> None:
    """Its lock cannot be taken."""
    lock = Path(f"{serve.db}.lock")
    lock.rename(lock.with_suffix(".away"))
    lock.mkdir()
    await asyncio.sleep(1)
    lock.rmdir()
    lock.with_suffix(".away").rename(lock)


STORES: dict[str, Callable[[Serving], Coroutine[Any, Any, None]]] = {
    "ok": is_well,
    "locked": is_locked,
    "ingester stopped": is_stopped,
    "cannot be written": is_read_only,
}

# -- the process: what befalls it in the middle


async def lives(serve: Serving) -> None: ...


async def ingester_is_killed(serve: Serving) -> None:
    for pid in serve.ingesters():
        os.kill(pid, signal.SIGKILL)


async def is_killed(serve: Serving) -> None:
    await asyncio.to_thread(serve.kill)


async def is_ended(serve: Serving) -> None:
    assert await asyncio.to_thread(serve.stop) == 0


async def is_interrupted_twice(serve: Serving) -> None:
    serve.interrupt()
    await asyncio.sleep(0.2)
    serve.interrupt()


async def is_frozen(serve: Serving) -> None:
    os.kill(serve.process.pid, signal.SIGSTOP)
    await asyncio.sleep(1)
    os.kill(serve.process.pid, signal.SIGCONT)


PROCESSES: dict[str, Callable[[Serving], Coroutine[Any, Any, None]]] = {
    "lives": lives,
    "ingester killed": ingester_is_killed,
    "killed": is_killed,
    "SIGTERM": is_ended,
    "SIGINT twice": is_interrupted_twice,
    "frozen": is_frozen,
}


class Cell(NamedTuple):
    client: str
    upstream: str
    store: str
    process: str

    @property
    def pairs(self) -> set[tuple[int, str, int, str]]:
        return {(i, a, j, b) for (i, a), (j, b) in itertools.combinations(enumerate(self), 2)}


def covering(*kinds: Sequence[str]) -> list[Cell]:
    """Cells in which every two values of different kinds meet: again and again the one with most
    pairs that are new.
    """
    every = [Cell(*each) for each in itertools.product(*kinds)]
    random.Random(1).shuffle(every)
    left, found = (
        set[tuple[int, str, int, str]]().union(*(cell.pairs for cell in every)),
        list[Cell](),
    )
    while left:
        found.append(max(every, key=lambda cell: len(cell.pairs & left)))
        left -= found[-1].pairs
    return found


CELLS = covering(list(CLIENTS), list(UPSTREAMS), list(STORES), list(PROCESSES))


def test_every_two_faults_meet() -> None:
    met = set[tuple[int, str, int, str]]().union(*(cell.pairs for cell in CELLS))
    sizes = [len(CLIENTS), len(UPSTREAMS), len(STORES), len(PROCESSES)]
    assert len(met) == sum(one * other for one, other in itertools.combinations(sizes, 2))
    assert len(CELLS) < 2 * len(UPSTREAMS) * len(PROCESSES)


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS, ids=" × ".join)
@on_uvloop
async def test_nothing_is_lost_where_faults_meet(tmp_path: Path, cell: Cell) -> None:
    db, script = tmp_path / "recorder.db", UPSTREAMS[cell.upstream]
    async with Upstream(lambda id: script) as upstream:
        with serving(db, *everywhere(upstream.base)) as serve:
            async with asyncio.TaskGroup() as tasks:
                asking = [
                    tasks.create_task(
                        ask(serve.port, f"s{number}", CLIENTS[cell.client], patience_s=PATIENCE_S)
                    )
                    for number in range(STREAMS)
                ]
                tasks.create_task(STORES[cell.store](serve))
                await asyncio.sleep(0.5)
                await PROCESSES[cell.process](serve)
            if serve.process.poll() is None:
                await asyncio.to_thread(serve.stop)
        with Store(db) as store:
            recover(store, Path(f"{db}.journal"), never)
    received = [task.result() for task in asking]
    report = scripts.check(db, received, lambda id: body_of(script)[: upstream.sent.get(id, 0)])
    assert (report.findings, report.gap_bytes) == ([], 0)
    assert list(Path(f"{db}.journal").iterdir()) == []
    assert "Traceback" not in serve.said


# -- the files of the journal: deleted by somebody else, in the middle


def the_journal(serve: Serving) -> Path:
    (directory,) = Path(f"{serve.db}.journal").iterdir()
    return directory


JOURNALS: dict[str, Callable[[Path], object]] = {
    "deleted": shutil.rmtree,
    "deleted with all journals": lambda directory: shutil.rmtree(directory.parent),
    "moved away": lambda directory: directory.rename(directory.parent.parent / "elsewhere"),
    "one segment": lambda directory: (directory / segment_name(1)).unlink(),
    "lock": lambda directory: (directory / "lock").unlink(),
}


async def while_streaming(
    serve: Serving, upstream: Upstream, name: str, deed: Callable[[Path], object]
) -> list[Received]:
    """What clients get while somebody does that; the ingester is stopped, so nothing but the
    journal has it.
    """
    ids = [f"{name.replace(' ', '-')}-{number}" for number in range(STREAMS)]
    said = serve.said.count("they are put back")
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(ask(serve.port, id, CLIENTS["reads all"])) for id in ids]
        await asyncio.to_thread(wait_until, lambda: {*ids} <= upstream.sent.keys())
        ingesters = serve.ingesters()
        for pid in ingesters:
            halt(pid)
        deed(the_journal(serve))
        await asyncio.to_thread(wait_until, lambda: serve.said.count("they are put back") > said)
        assert (
            "deleted or cut" in run(serve.db, "doctor").err + run(serve.db, "doctor").out.decode()
        )
        for pid in ingesters:
            os.kill(pid, signal.SIGCONT)
    return [task.result() for task in asking]


@on_uvloop
async def test_nothing_is_lost_if_the_journal_is_deleted(tmp_path: Path) -> None:
    db, script, received = tmp_path / "recorder.db", UPSTREAMS["ok"], list[Received]()
    async with Upstream(lambda id: script) as upstream:
        with serving(db, *everywhere(upstream.base)) as serve:
            for name, deed in JOURNALS.items():
                received += await while_streaming(serve, upstream, name, deed)
            assert await asyncio.to_thread(serve.stop) == 0
    assert {each.ending for each in received} == {"complete"}
    report = scripts.check(db, received, lambda id: body_of(script)[: upstream.sent.get(id, 0)])
    assert (report.findings, report.gap_bytes, report.exchanges) == ([], 0, len(received))
    assert not Path(f"{db}.journal").exists() or list(Path(f"{db}.journal").iterdir()) == []
    assert "Traceback" not in serve.said
