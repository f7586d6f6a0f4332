"""The six tools: what each does with its arguments. They read the log of one server, and no file.

Rules of this file:

* A tool gives what the command of its name gives with `--json`, as much as fits into an answer.
* A name leads to a session of the log and never to a file: a text that a model has read must not
  choose what is read from the disk.
* What is left out is named with the arguments that ask for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.archive.place import dialect_of, is_missing
from recorder.archive.query import open_query
from recorder.commands.agents.answer import Answer, Page, plain_row
from recorder.commands.agents.arguments import (
    Arguments,
    DiffArguments,
    EventsArguments,
    LintArguments,
    QueryArguments,
    SessionsArguments,
    ShowArguments,
)
from recorder.commands.terminal.behind import caught_up, sentence
from recorder.commands.terminal.options import ALL_BEHIND, Parsed, T
from recorder.commands.terminal.rules import match_rules
from recorder.commands.terminal.times import INSTANT, MOMENT, period_of
from recorder.diff import Terms, diff
from recorder.diff.report import document as diff_document
from recorder.errors import NotFoundError, RecorderError, UsageError
from recorder.lint.linter import PROFILES
from recorder.lint.report import judged, rows, unjudged
from recorder.model.events import Session
from recorder.model.jsonl import event_row
from recorder.projections.views.columns import described
from recorder.projections.views.contract import VIEWS
from recorder.recordings.loader import find_session
from recorder.recordings.requests import load_requests, request_head, request_json
from recorder.recordings.selection import Numbered, select_exchanges
from recorder.store.queries.query import STOPPED, Query, values_of
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_document import document, exchange_document
from recorder.store.queries.session_list import ListPlace, SessionFilter, session_page
from recorder.store.queries.session_named import count_named
from recorder.store.queries.session_state import cutoff, take_snapshot
from recorder.store.schema import STALE
from recorder.wire.dialects.json_values import decoded

# for the first row, and for all of them: an agent waits, and clients give up after a minute
QUERY_S = 30.0
MAX_NAME = 400  # characters of a text of a session: names and titles are shorter
# exchanges that only one side of a comparison has: who reads more of them compares the wrong two
SIDES_SHOWN = 20


class AgentCall:
    """One call of a tool, which another thread may stop."""

    def __init__(self, url: URL, wait_s: float, limit_chars: int) -> None:
        self.url, self.limit_chars = url, limit_chars
        self._wait_s = wait_s
        self._query: Query | None = None
        self._is_stopped = False

    def catch_up(self, page: Page) -> None:
        """Wait for what was recorded before the call, and remark what is missing."""
        behind = caught_up(self.url, time.monotonic() + self._wait_s)
        for each in behind:
            page.remark(sentence(each))
        if behind and is_missing(self.url):
            raise NotFoundError(ALL_BEHIND)

    async def open_log(self, page: Page) -> LogReader:
        """Open the log when it has caught up, and remark if its projections are stale."""
        self.catch_up(page)
        log = await open_log(self.url)
        if await log.rebuild_is_due():
            page.remark(STALE)
        return log

    def started(self, query: Query) -> None:
        """Keep a query, so that it can be stopped."""
        self._query = query
        if self._is_stopped:
            raise RecorderError(STOPPED)

    def stop(self) -> None:
        """Stop the query of the call, if it has one."""
        self._is_stopped = True
        if self._query is not None:
            self._query.stop()


class Tool(NamedTuple):
    """A tool: its name, what it says of itself to a model, its arguments, and what it does."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    ask: Callable[[AgentCall, Any], Coroutine[Any, Any, Answer]]


async def sessions(call: AgentCall, given: SessionsArguments) -> Answer:
    """Return the sessions that match, the last used first."""
    period = period_of(_parsed(INSTANT, given.since), _parsed(INSTANT, given.until))
    wanted = SessionFilter(
        given.model or None,
        given.client or None,
        given.status or None,
        *period,
        given.query or None,
        given.probes,
    )
    page = Page(call.limit_chars, MAX_NAME)
    async with await call.open_log(page) as log:
        found = await session_page(
            log, given.limit, wanted, ListPlace.parse(given.after) if given.after else None
        )
    for row in found.rows:
        if not page.add(msgspec.structs.asdict(row)):
            break
    last = found.places[len(page) - 1] if len(page) < len(found.rows) else found.next
    if last is not None:
        page.remark(
            f"There may be more sessions: the same call with after={last.cursor()!r} gives those that follow."
        )
    if not found.rows:
        page.remark(
            "No session matches." if wanted != SessionFilter() else "Nothing is recorded yet."
        )
    return page.answer()


async def show(call: AgentCall, given: ShowArguments) -> Answer:
    """Return a session as a conversation, or its requests."""
    has_event = isinstance(given.at_event, int)
    if given.request and (given.at or has_event):
        raise UsageError(
            "A request does not change with time: give request without at and at_event."
        )
    if given.at and has_event:
        raise UsageError("at and at_event both name a moment: choose one.")
    return await (_requests if given.request else _conversation)(call, given)


async def _conversation(call: AgentCall, given: ShowArguments) -> Answer:
    page = Page(call.limit_chars, given.max_text, "exchanges")
    async with await call.open_log(page) as log:
        session, chosen = await _selected(log, page, given)
        everything = list(enumerate(await log.exchanges(session.session_id), 1))
        at = _parsed(MOMENT, given.at)
        share, after_ns = (at.share, at.after_ns) if at is not None else (None, None)
        at_event = given.at_event if isinstance(given.at_event, int) else None
        until = await cutoff(
            log, everything, chosen, after_ns=after_ns, share=share, at_event=at_event
        )
        snapshot = await take_snapshot(log, session, everything, chosen, until)
    page.head({"session": document(snapshot)["session"]})
    for (number, _), taken in zip(chosen, snapshot.exchanges, strict=False):
        if not page.add(exchange_document(taken)):
            _remark_rest(page, number, chosen)
            break
    if snapshot.unfoldable:
        page.remark(
            f"recorder cannot decode {len(snapshot.unfoldable)} of these exchanges; the others are shown."
        )
    return page.answer()


async def _requests(call: AgentCall, given: ShowArguments) -> Answer:
    page = Page(call.limit_chars, given.max_text, "requests")
    async with await call.open_log(page) as log:
        session, chosen = await _selected(log, page, given)
        shown = await load_requests(log, session, chosen)
    page.head({"session": {"session_id": session.session_id, "name": session.name}})
    for recording, request in shown:
        encoded = request_json(request)
        whole = {
            **request_head(recording, request),
            "request": None if encoded is None else decoded(encoded),
        }
        if not page.add(whole):
            _remark_rest(page, recording.number, chosen)
            break
    if not shown:
        raise NotFoundError(f"Session {session.name} has no such request with a body.")
    return page.answer()


async def _selected(
    log: LogReader, page: Page, given: ShowArguments
) -> tuple[Session, list[Numbered]]:
    session, chosen = await _select(log, page, given.session, given.exchange)
    return session, [
        (number, each) for number, each in chosen if number >= given.from_exchange or given.exchange
    ]


async def _select(
    log: LogReader, page: Page, ref: str, exchange: int | str | msgspec.UnsetType
) -> tuple[Session, list[Numbered]]:
    """Return a session with its exchanges, or one of them; remark if others have its name, too."""
    which = None if isinstance(exchange, msgspec.UnsetType) else str(exchange)
    session, chosen = await select_exchanges(log, ref, which)
    if ref == session.name and (count := await count_named(log, ref)) > 1:
        page.remark(f"{count} sessions have this name: this is the newest, {session.session_id}.")
    return session, chosen


def _remark_rest(page: Page, number: int, chosen: Sequence[Numbered]) -> None:
    last = chosen[-1][0]
    which = f"Exchange {number} is" if number == last else f"The exchanges {number} to {last} are"
    page.remark(
        f"{which} left out: from_exchange={number} begins there, exchange={number} gives only that one."
    )


async def events(call: AgentCall, given: EventsArguments) -> Answer:
    """Return the rows of the log of a session, as they were written."""
    if given.after_pos >= 0 and isinstance(given.exchange, msgspec.UnsetType):
        raise UsageError("after_pos is a place in one exchange: give exchange, too.")
    page = Page(call.limit_chars, given.max_text)
    async with await call.open_log(page) as log:
        session, chosen = await _select(log, page, given.session, given.exchange)
        last_number = len(await log.exchanges(session.session_id))
        for number, each in chosen:
            pos = given.after_pos
            async for event in log.events(each.session_id, each.exchange_id, after=pos):
                if len(page) == given.limit or not page.add(event_row(event)):
                    page.remark(_more_events(number, pos, last_number))
                    return page.answer()
                pos = event.pos
    if not len(page):
        page.remark("There are no such events.")
    return page.answer()


def _more_events(number: int, pos: int, last_number: int) -> str:
    others = (
        f", and those of the exchanges {number + 1} to {last_number}"
        if number < last_number
        else ""
    )
    which = f"The events of exchange {number} behind position {pos}{others}"
    return f"{which} are left out: exchange={number}, after_pos={pos} gives the next."


async def query(call: AgentCall, given: QueryArguments) -> Answer:
    """Return the rows of a statement; without one, the views and what they mean."""
    page = Page(call.limit_chars, given.max_text)
    if not given.sql:
        return _views(call, page, given.view or None)
    if given.view:
        raise UsageError("view describes a view and sql asks the log: give one of them.")
    call.catch_up(page)
    until_s = time.monotonic() + QUERY_S
    with open_query(call.url) as opened:
        call.started(opened)
        if opened.is_stale():
            page.remark(STALE)
        result = opened.ask(given.sql, values_of(given.params or {}), QUERY_S)
        for row in result.rows:
            is_late = time.monotonic() > until_s
            if (
                len(page) == given.limit
                or is_late
                or not page.add(plain_row(dict(zip(result.columns, row, strict=True))))
            ):
                why = (
                    f"it takes over {QUERY_S:g} s"
                    if is_late
                    else f"these are the first {len(page)}"
                )
                page.remark(
                    f"There are more rows, {why}: sum up or filter in SQL, or add ORDER BY, LIMIT and OFFSET."
                )
                break
    return page.answer()


def _views(call: AgentCall, page: Page, only: str | None) -> Answer:
    names = [view.name for view in VIEWS]
    if only is not None and only not in names:
        raise NotFoundError(f"There is no view {only!r}: there are {', '.join(names)}.")
    engine = dialect_of(call.url)
    chosen = [view for view in VIEWS if only in (None, view.name)]
    for view in chosen:
        if not page.add(described(view, engine)):
            break
    if rest := [view.name for view in chosen[len(page) :]]:
        page.remark(f"Left out: {', '.join(rest)}. view=NAME describes one.")
    return page.answer()


async def lint(call: AgentCall, given: LintArguments) -> Answer:
    """Return what is wrong in recorded streams."""
    profile = given.profile or None
    if profile is not None and profile not in PROFILES:
        raise UsageError(f"There is no profile {profile!r}: there are {', '.join(PROFILES)}.")
    page = Page(call.limit_chars, given.max_text)
    async with await call.open_log(page) as log:
        found = await find_session(log, given.session)
    verdicts = [judged(found.name, recording, profile) for recording in found.recordings]
    skipped = [each for each in verdicts if each.profile is None and each.exchange.method != "GET"]
    reasons = {each.exchange.api: unjudged(each, profile) for each in skipped}
    for api, reason in sorted(reasons.items()):
        page.remark(f"Exchanges of the API {api} were not judged: {reason}.")
    if all(each.profile is None for each in verdicts):
        raise NotFoundError("There was nothing to judge.")
    every = list(chain.from_iterable(rows(each) for each in verdicts if each.profile is not None))
    for row in every[given.skip :]:
        if not page.add(row):
            break
    if left := len(every[given.skip :]) - len(page):
        page.remark(
            f"{left} of {len(every)} findings are left out: skip={given.skip + len(page)} gives those that follow."
        )
    if not every:
        page.remark("No finding.")
    return page.answer()


async def compare(call: AgentCall, given: DiffArguments) -> Answer:
    """Return the differences of two sessions, level by level."""
    page = Page(call.limit_chars, given.max_text, "pairs")
    async with await call.open_log(page) as log:
        sides = [await find_session(log, ref) for ref in (given.a, given.b)]
    for side in sides:
        if not side.recordings:
            raise NotFoundError(f"{side.name} has no exchanges.")
    one, other = sides
    terms = Terms(given.exact, given.tolerance, match_rules())
    report = diff(
        one.recordings,
        other.recordings,
        tuple(given.only or ()),
        terms,
        (one.continued, other.continued),
    )
    found = diff_document(one.name, other.name, report)
    header = {name: each for name, each in found.items() if name != "pairs"}
    for name in ("missing", "added"):
        if len(found[name]) > SIDES_SHOWN:
            page.remark(
                f"{len(found[name])} exchanges are {name}: the first {SIDES_SHOWN} are listed."
            )
            header[name] = found[name][:SIDES_SHOWN]
    page.head(header)
    _add_pairs(page, found["pairs"], given)
    return page.answer()


def _add_pairs(page: Page, pairs: Sequence[dict[str, Any]], given: DiffArguments) -> None:
    left_out = 0
    for pair in pairs[given.from_pair - 1 :]:
        levels = [
            {**each, "differences": each["differences"][: given.differences]}
            for each in pair["levels"]
        ]
        if not page.add({**pair, "levels": levels}):
            break
        left_out += sum(
            max(0, len(each["differences"]) - given.differences) for each in pair["levels"]
        )
    if left_out:
        page.remark(
            f"{left_out} differences are counted and not listed: differences=N lists more of each level."
        )
    following = given.from_pair + len(page)
    if following <= len(pairs):
        page.remark(
            f"The pairs {following} to {len(pairs)} are left out: from_pair={following} gives them."
        )


def _parsed(type: Parsed[T], text: str | msgspec.UnsetType) -> T | None:
    return type.convert(text, None, None) if text else None


TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "sessions",
            "Sessions",
            "List recorded LLM sessions, the last used first: name, title, models, turns, tokens, errors, cost.",
            SessionsArguments,
            sessions,
        ),
        Tool(
            "show",
            "Show a session",
            "Show a session as a conversation: of each exchange the model's messages, reasoning, tool calls with "
            "results, usage, times, anomalies. With request=true what the model was sent.",
            ShowArguments,
            show,
        ),
        Tool(
            "events",
            "Events",
            "Show the raw events of a session as they came over the wire: request, response head, every SSE frame with "
            "its time, end.",
            EventsArguments,
            events,
        ),
        Tool(
            "query",
            "SQL",
            "Ask the log in SQL (one read-only statement). Call it without sql first: it lists the views with the "
            "meaning of their columns and an example of each.",
            QueryArguments,
            query,
        ),
        Tool(
            "lint",
            "Lint",
            "Judge the recorded streams of a session by the rules of their protocol: what is wrong, where, which "
            "client it breaks.",
            LintArguments,
            lint,
        ),
        Tool(
            "diff",
            "Compare two sessions",
            "Say how session b differs from session a: request, answer, tools, usage, timing, events. Exchanges are "
            "paired by their requests.",
            DiffArguments,
            compare,
        ),
    )
}
