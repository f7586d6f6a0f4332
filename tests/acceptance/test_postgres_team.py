"""A team on one PostgreSQL: what clients got is in the log, whole and once, whatever the server
does meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import pytest
from sqlalchemy import URL

from recorder.store.location import database_url
from recorder.store.maintain.verify.chain import ChainVerifier
from recorder.store.write.writer import Store
from tests.integration.store.test_postgres import end_connections
from tests.support import scripts
from tests.support.event_loop import on_uvloop
from tests.support.logbook import asking, assert_chained, entries
from tests.support.postgres import MISSING, Cluster, conninfo, programs
from tests.support.scripts import (
    Action,
    Chunk,
    End,
    ReadAll,
    Received,
    Sleep,
    Upstream,
    ask,
    body_of,
)
from tests.support.server import Serving, everywhere, run, serving

RECORDERS, STREAMS = 4, 200
FRAMES, EVERY_S = 80, 0.15  # of a stream: twelve seconds
WAIT_MS = 50  # for a lock: what the server waits for longer it writes down


class Usage(NamedTuple):
    """What the upstream says it took."""

    input: int
    output: int


def usage_of(id: str) -> Usage:
    dice = random.Random(id)
    return Usage(dice.randrange(10, 10_000), dice.randrange(10, 10_000))


def _event(type: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (
        type.encode(),
        msgspec.json.encode({"type": type, **fields}),
    )


def _frames(id: str, texts: Sequence[str], usage: Usage) -> list[bytes]:
    response = {"id": f"resp_{id}", "object": "response", "model": "gpt-demo", "output": []}
    message = {"id": f"msg_{id}", "type": "message", "role": "assistant"}
    place = {"item_id": message["id"], "output_index": 0, "content_index": 0}
    total = {"input_tokens": usage.input, "output_tokens": usage.output, "total_tokens": sum(usage)}
    text = "".join(texts)
    return [
        _event("response.created", response={**response, "status": "in_progress"}),
        _event("response.output_item.added", output_index=0, item={**message, "content": []}),
        *(_event("response.output_text.delta", **place, delta=each) for each in texts),
        _event("response.output_text.done", **place, text=text),
        _event("response.completed", response={**response, "status": "completed", "usage": total}),
    ]


def script_of(id: str) -> list[Action]:
    """Frames cut anywhere, and pauses between the pieces."""
    dice = random.Random(f"{id} said")
    texts = ["".join(dice.choices("abcdefg ", k=dice.randrange(1, 200))) for _ in range(FRAMES)]
    body = b"".join(_frames(id, texts, usage_of(id)))
    cuts = sorted({0, len(body), *dice.sample(range(1, len(body)), FRAMES)})
    pieces = [body[begin:end] for begin, end in itertools.pairwise(cuts)]
    return [*(action for piece in pieces for action in (Chunk(piece), Sleep(EVERY_S))), End()]


async def trouble(cluster: Cluster) -> None:
    """What happens to the server: connections end, it crashes and is away, it is restarted in
    order.
    """
    await asyncio.sleep(2)
    for _ in range(3):
        await asyncio.to_thread(end_connections, cluster.url)
        await asyncio.sleep(0.3)
    await asyncio.to_thread(cluster.stop, "immediate")
    await asyncio.sleep(1.5)
    await asyncio.to_thread(cluster.start)
    await asyncio.sleep(2.5)
    await asyncio.to_thread(cluster.stop, "fast")
    await asyncio.to_thread(cluster.start)


async def record(
    cluster: Cluster, upstream: Upstream, folder: Path
) -> tuple[list[Received], list[Serving]]:
    """Recorders on machines of their own, and clients of all of them at once; then each machine
    recovers.
    """
    serves, db = list[Serving](), conninfo(cluster.url)
    homes = [folder / f"machine-{number}" for number in range(RECORDERS)]
    with contextlib.ExitStack() as stack:
        for home in homes:
            home.mkdir()
            started = serving(home / "none", "--db", db, *everywhere(upstream.base))
            serves.append(await asyncio.to_thread(stack.enter_context, started))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(trouble(cluster))
            asking_ = []
            for number in range(STREAMS):
                id, port = f"s-{number}", serves[number % RECORDERS].port
                asking_.append(tasks.create_task(ask(port, id, ReadAll(), prefix="/s/team")))
        for serve in serves:
            await asyncio.to_thread(serve.stop)
    for home in homes:
        assert (await asyncio.to_thread(run, home / "none", "db", "recover", "--db", db)).code == 0
    return [task.result() for task in asking_], serves


def assert_verified(url: URL) -> None:
    """By the chain as its rules are, and by what `recorder verify` would say."""
    found = entries(url)
    assert_chained(found)
    for _, exchange, events in found:
        verifier = ChainVerifier(exchange.session_id, exchange.exchange_id, exchange)
        for event in events:
            verifier.feed(event)
        assert verifier.close() == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@on_uvloop
async def test_four_recorders_lose_nothing_of_200_streams_while_the_server_restarts(
    tmp_path: Path,
) -> None:
    """Every byte is there, once, in order; all verifies; the sums of usage are those of the
    upstream's ledger.
    """
    folder = programs()
    if folder is None:
        pytest.skip(MISSING)
    settings = {"log_lock_waits": "on", "deadlock_timeout": f"{WAIT_MS}ms"}
    with TemporaryDirectory() as directory, Cluster(folder, Path(directory), **settings) as cluster:
        url = database_url(cluster.url)
        Store(url).close()
        async with Upstream(script_of) as upstream:
            received, serves = await record(cluster, upstream, tmp_path)
        bodies = {f"s-{number}": body_of(script_of(f"s-{number}")) for number in range(STREAMS)}
        assert {id: count for id, count in upstream.sent.items() if count != len(bodies[id])} == {}
        assert set(upstream.requests.values()) == {1}
        report = scripts.check(url, received, bodies.__getitem__)
        assert (report.findings, report.gap_bytes, report.exchanges) == ([], 0, STREAMS)
        assert (report.outcomes, report.stored_bytes) == (
            {"eof": STREAMS},
            sum(map(len, bodies.values())),
        )
        assert_verified(url)
        with asking(url) as look:
            sums = look(
                "SELECT sum(input_tokens), sum(output_tokens), count(*), max(partial) FROM p_usage_v1"
            )
            left = look(
                "SELECT (SELECT count(*) FROM dead_letters), (SELECT count(*) FROM ingest_offsets)"
            )
        ledger = [usage_of(id) for id in bodies]
        assert sums == [
            (sum(each.input for each in ledger), sum(each.output for each in ledger), STREAMS, 0)
        ]
        assert left == [(0, 0)]
        assert all("Traceback" not in serve.said for serve in serves)
        waits = re.findall(
            r"still waiting for .*|acquired .* after .*", (Path(directory) / "log").read_text()
        )
        assert waits == [], "no recorder waits for another"
