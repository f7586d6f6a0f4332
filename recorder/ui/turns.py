"""What a reader tells the exchanges of a session by: question, results, model, tokens, cost, and
which sub-agent asks.

All is read from views, for a whole session at once. Of an exchange that is open its request is
read, so that a session that is followed says what is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import select

from recorder.model.events import Exchange
from recorder.store.engine import AnyRow
from recorder.store.queries.costs import exchange_costs
from recorder.store.queries.open_session import requested_rows
from recorder.store.queries.reader import LogReader
from recorder.store.schema import tables_of, view_of
from recorder.store.sql import of_session

# exchanges whose requests are read, the newest: a session has more open ones if a recorder was
# killed
OPEN_LIMIT = 16
NAMES_LIMIT = 8  # of the tools whose results a request has: more is not a line
NAME_CHARS = 80  # of a sub-agent

_asked = view_of("exchange_summary", "session_id exchange_id model user_text is_turn total_tokens")
_ASKED = select(_asked).where(of_session(_asked))
_calls = view_of("tool_calls", "session_id exchange_id item type name failed output_exchange_id")
_RESULTS = (
    select(_calls.c.output_exchange_id, _calls.c.name, _calls.c.type, _calls.c.failed)
    .where(of_session(_calls), _calls.c.output_exchange_id.is_not(None))
    .order_by(_calls.c.exchange_id, _calls.c.item)
)
_prompts = tables_of["prompts"]
_MISSED = select(_prompts.c.exchange_id, _prompts.c.missed_tokens).where(
    of_session(_prompts), _prompts.c.missed_tokens > 0
)
# A call that begins a sub-agent: `Agent`, `Task`, `spawn_agent`, `task`. Texts of other calls may
# be long: not read.
_begun = view_of("tool_calls", "session_id name arguments_json output")
_BEGUN = select(_begun).where(
    of_session(_begun), _begun.c.name.ilike("%agent%") | _begun.c.name.ilike("%task%")
)
_NAMING = ("nickname", "task_name", "name", "description", "subagent_type", "agent_type")
"""Keys of such a call, and of its result, that have the name of the sub-agent: the best first."""


class Turn(msgspec.Struct, frozen=True):
    """An exchange in a line of the list."""

    model: str | None = None
    user_text: str | None = None  # the last that a person says in the request
    is_turn: bool = False  # whether the request ends with that
    results: Sequence[str] = ()  # the names of the tools whose results it has
    failed: Sequence[str] = ()  # those among them that failed
    missed_tokens: int | None = None  # that the provider's cache could have had
    total_tokens: int | None = None
    cost_usd: str | None = None
    agent: str | None = None  # the name of the sub-agent that asks, where it is known


async def turns(
    log: LogReader, session_id: str, exchanges: Sequence[Exchange], agents: set[str]
) -> dict[str, Turn]:
    """Return the lines of a session's exchanges, by their ids.

    `agents` are the exchanges of sub-agents.
    """
    asked = {row.exchange_id: row for row in await log.rows(_ASKED, session_id=session_id)}
    missed = {
        row.exchange_id: row.missed_tokens for row in await log.rows(_MISSED, session_id=session_id)
    }
    results: dict[str, list[str]] = defaultdict(list)
    failed: dict[str, list[str]] = defaultdict(list)
    for row in await log.rows(_RESULTS, session_id=session_id):
        results[row.output_exchange_id].append(row.name or row.type)
        if row.failed:
            failed[row.output_exchange_id].append(row.name or row.type)
    costs = await exchange_costs(log, session_id)
    begun = await log.rows(_BEGUN, session_id=session_id) if agents else ()
    names = _names((each for each in exchanges if each.exchange_id in agents), asked, begun)
    found = {}
    for exchange_id, row in asked.items():
        cost = costs.get(exchange_id)
        found[exchange_id] = Turn(
            model=row.model,
            user_text=row.user_text,
            is_turn=bool(row.is_turn),
            results=results[exchange_id][:NAMES_LIMIT],
            failed=failed[exchange_id][:NAMES_LIMIT],
            missed_tokens=missed.get(exchange_id),
            total_tokens=row.total_tokens,
            cost_usd=cost.usd if cost else None,
            agent=names.get(exchange_id),
        )
    projected = {row.exchange_id for row in asked.values() if row.is_turn is not None}
    for each in [each for each in exchanges if each.exchange_id not in projected][-OPEN_LIMIT:]:
        for known in await requested_rows(log, each):
            found[each.exchange_id] = Turn(known.request_model, known.user_text, known.is_turn)
    return found


def _names(
    exchanges: Iterable[Exchange], asked: Mapping[str, AnyRow], begun: Sequence[AnyRow]
) -> dict[str, str]:
    """Return the names of the sub-agents of exchanges.

    A thread has the name of its first request.
    """
    calls = [_Call(row) for row in begun]
    of_threads: dict[str, str | None] = {}
    names: dict[str, str] = {}
    for each in exchanges:
        row = asked.get(each.exchange_id)
        text = row.user_text if row else None
        thread = each.thread_id or text or each.exchange_id
        if thread not in of_threads:
            call = next((call for call in calls if call.has_begun(each.thread_id, text)), None)
            of_threads[thread] = call.agent if call else None
        name = of_threads[thread]
        if name is not None:
            names[each.exchange_id] = name
    return names


class _Call:
    """A call that began a sub-agent."""

    def __init__(self, row: AnyRow) -> None:
        self._output = row.output or ""
        told = [_object(row.arguments_json), _object(row.output)]
        self._texts = [
            " ".join(value.split()) for value in told[0].values() if isinstance(value, str)
        ]
        self.agent = _agent_in(*reversed(told))

    def has_begun(self, thread_id: str | None, text: str | None) -> bool:
        """Return whether the sub-agent is that of a thread, which its result names, or of a first
        question.
        """
        if thread_id is not None and thread_id in self._output:
            return True
        return text is not None and any(
            value.startswith(text.removesuffix("…")) for value in self._texts
        )


def _agent_in(*told: Mapping[str, Any]) -> str | None:
    """Return the name of a sub-agent, by the best of the members that have it."""
    for name in _NAMING:
        for each in told:
            value = each.get(name)
            if isinstance(value, str) and value:
                return value[:NAME_CHARS]
    return None


def _object(written: str | None) -> dict[str, Any]:
    try:
        return msgspec.json.decode(written or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}
