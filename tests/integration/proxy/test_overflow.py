"""B7, a journal at its bound: clients have all of it, and what is missing is counted, digested and
said.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from recorder.ingest.ingester import recover
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import never
from tests.support import scripts
from tests.support.event_loop import on_uvloop
from tests.support.proxy import proxied
from tests.support.scripts import Action, Chunk, End, ReadAll, Received, Upstream, ask, body_of
from tests.support.server import run

STREAMS, CHUNKS = 6, 60
BOUND_BYTES = 40_000


def script_of(id: str) -> list[Action]:
    """Far more than the bound."""
    dice = random.Random(id)
    return [
        *(Chunk(b"data: %b\n\n" % dice.randbytes(400).hex().encode()) for _ in range(CHUNKS)),
        End(),
    ]


async def overflow(folder: Path) -> tuple[list[Received], scripts.Report]:
    """Streams are recorded into a journal that is too small for them, which is ingested when all is
    over.
    """
    async with Upstream(script_of) as upstream:
        async with proxied(folder, upstream.base, journal_bytes=BOUND_BYTES) as proxy:
            asking = (ask(proxy.server.port, f"s{number}", ReadAll()) for number in range(STREAMS))
            received = await asyncio.gather(*asking)
    with Store(folder / "recorder.db") as store:
        recover(store, folder / "journal", never)
    report = scripts.check(
        folder / "recorder.db", received, lambda id: body_of(script_of(id))[: upstream.sent[id]]
    )
    return received, report


def assert_counted(received: list[Received], report: scripts.Report) -> None:
    assert [each.ending for each in received] == ["complete"] * STREAMS
    assert report.findings == []
    assert report.gap_bytes > 0
    assert (
        report.stored_bytes + report.gap_bytes
        == report.received_bytes
        == STREAMS * len(body_of(script_of("s0")))
    )


@on_uvloop
async def test_what_does_not_fit_into_the_journal_is_counted_and_said(tmp_path: Path) -> None:
    """B7: stored + gaps = received, the gaps have the bytes and digests of what was sent, and
    `verify` lists them.
    """
    received, report = await overflow(tmp_path)
    assert_counted(received, report)
    verified = run(tmp_path / "recorder.db", "verify")
    assert verified.code == 0
    assert b"the journal is at its bound" in verified.out + verified.err.encode()
