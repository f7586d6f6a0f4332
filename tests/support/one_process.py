"""A recorder in this process, scripted clients before it and a scripted upstream behind it; then its log, judged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from recorder.ingest.ingester import recover
from recorder.journal.writer import LIMIT_BYTES
from recorder.store.writer import Store
from tests.integration.ingest.test_ingester import never
from tests.support import history
from tests.support.proxy import proxied
from tests.support.scripts import Behaviour, Received, Script, Upstream, ask, body_of


async def judged(
    folder: Path,
    script_of: Callable[[str], Script],
    clients: Mapping[str, Behaviour],
    *,
    journal_bytes: int = LIMIT_BYTES,
    patience_s: float = 20.0,
) -> tuple[list[Received], history.Report]:
    """What each client got, and what is wrong with the log. The journal is ingested when all is over."""
    async with Upstream(script_of) as upstream:
        async with proxied(folder, upstream.base, journal_bytes=journal_bytes) as proxy:
            asking = (ask(proxy.server.port, id, each, patience_s=patience_s) for id, each in clients.items())
            received = await asyncio.gather(*asking)
        with Store(folder / "recorder.db") as store:
            recover(store, folder / "journal", never)
        sent = upstream.sent
    report = history.check(folder / "recorder.db", received, lambda id: body_of(script_of(id))[: sent.get(id, 0)])
    return received, report
