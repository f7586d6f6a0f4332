"""The prompt cache of a session in a log: the rows of `prompts`, and requests only where a
difference is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import select

from recorder.model.events import Session
from recorder.projections.rows import PromptRow
from recorder.recordings.cache import CacheTurn, prompt_in, turns_of
from recorder.recordings.selection import Numbered
from recorder.store.queries.costs import exchange_costs
from recorder.store.queries.reader import LogReader
from recorder.store.schema import tables_of
from recorder.store.sql import of_session
from recorder.wire.dialects.prompt import Prompt

_COLUMNS = [name for name in PromptRow.__struct_fields__ if name not in ("digests", "places")]


async def cache_of_log(
    log: LogReader, session: Session, exchanges: Sequence[Numbered], only: str | None = None
) -> list[CacheTurn]:
    """Return the turns of those exchanges of a session that got a response; `only` is the id of one
    exchange.
    """
    rows = await _prompts(log, session.session_id, only)
    numbers = {exchange.exchange_id: number for number, exchange in exchanges}
    by_id = {exchange.exchange_id: exchange for _, exchange in exchanges}

    async def load_prompt(exchange_id: str) -> Prompt | None:
        events = log.events(session.session_id, exchange_id, kinds=("request",))
        body = b"".join([event.raw async for event in events if event.pos])
        return prompt_in(by_id[exchange_id].api, by_id[exchange_id].target, body)

    costs = {}
    if any(row.missed_tokens for row in rows):
        costs = await exchange_costs(log, session.session_id)
    turns = []
    for turn in await turns_of(rows, numbers, load_prompt):
        cost = costs.get(turn.row.exchange_id)
        turns.append(
            turn
            if cost is None
            else turn._replace(cost_usd=cost.missed_usd(turn.row.missed_tokens))
        )
    return turns


async def _prompts(log: LogReader, session_id: str, only: str | None) -> list[PromptRow]:
    """Return rows of a session without their digests, which only the fold needs."""
    prompts = tables_of["prompts"]
    wanted = select(*(prompts.c[name] for name in _COLUMNS)).where(of_session(prompts))
    if only is not None:
        wanted = wanted.where(prompts.c.exchange_id == only)
    selected = await log.rows(wanted, session_id=session_id)
    found = [dict(zip(_COLUMNS, row, strict=True), digests=b"", places=b"") for row in selected]
    return msgspec.convert(found, list[PromptRow], strict=False)
