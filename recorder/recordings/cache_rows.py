"""The prompt cache of a session of a log: its rows of `prompts`, and the requests of those that changed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import select

from recorder.model.events import Session
from recorder.projections.prompts import PromptRow
from recorder.recordings.cache import CacheTurn, prompt_in, turns_of
from recorder.recordings.selection import Numbered
from recorder.store.reader import LogReader
from recorder.store.schema import tables_of
from recorder.wire.dialects.prompt import Prompt

_COLUMNS = [name for name in PromptRow.__struct_fields__ if name not in ("digests", "places")]


async def cache_of_log(log: LogReader, session: Session, exchanges: Sequence[Numbered]) -> list[CacheTurn]:
    """Return the turns of a session of a log, of those exchanges that got a response."""
    prompts = tables_of["prompts"]
    of_session = select(*(prompts.c[name] for name in _COLUMNS)).where(prompts.c.session_id == session.session_id)
    found = [dict(zip(_COLUMNS, row, strict=True), digests=b"", places=b"") for row in await log.rows(of_session)]
    rows = msgspec.convert(found, list[PromptRow], strict=False)
    targets = {exchange.exchange_id: exchange.target for _, exchange in exchanges}

    async def load(exchange_id: str) -> Prompt | None:
        events = log.events(session.session_id, exchange_id, kinds=("request",))
        body = b"".join([event.raw async for event in events if event.pos])
        api = next(row.api for row in rows if row.exchange_id == exchange_id)
        return prompt_in(api, targets[exchange_id], body)

    return await turns_of(rows, {exchange.exchange_id: number for number, exchange in exchanges}, load)
