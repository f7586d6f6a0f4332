"""A run of a bisect: a fork of the recording up to a turn, recorded as a session of its own, and
what the check says.

Rules of this file:

* What was asked live, and what it cost, is known from what passed: it is kept in memory until the
  run has ended.
* A run that fails proves nothing if a live request was never answered: the model had no say in it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import IO, Any, NamedTuple

from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.commands.clients import child
from recorder.commands.serving.forking import Fork, ForkTerms
from recorder.commands.serving.resending import Budget, asked_model
from recorder.commands.serving.running import Destinations, recorded_command
from recorder.errors import NotFoundError, RecorderError, UpstreamError
from recorder.model.events import ENDED_HERE, WHOLE, Recording
from recorder.proxy.http.messages import Request, Response, Transport
from recorder.proxy.http.network import Network
from recorder.proxy.recording import ExchangeJournal, RecordingTransport
from recorder.recordings.memory import MemoryJournal
from recorder.recordings.session import RecordedSession
from recorder.replay.bisect import CheckedRun, Search, dearest
from recorder.replay.fork import is_agent_turn
from recorder.replay.resend import identity_of
from recorder.store.location import VARIABLE
from recorder.store.queries.session_named import count_named

INFIX = "-bisect-"
"""What stands in the name of a run between that of the recording and its last recorded turn."""

SESSION_VARIABLE = "RECORDER_SESSION"
"""The variable in which the check finds the name of the session of its run."""

EXIT_CODE_VARIABLE = "RECORDER_EXIT_CODE"
"""The variable in which it finds the exit code of the program."""

_STDERR = 2  # also for what a check prints: stdout is for the result


class Sought(NamedTuple):
    """What is searched, what is known of it, and what may be spent on it."""

    parent: RecordedSession
    turns: Sequence[Recording]
    passes: int | None  # so many recorded turns, it is known
    fails: int | None
    search: Search
    budget: Budget

    @property
    def step(self) -> Recording | None:
        """The turn that was found."""
        return None if self.search.step is None else self.turns[self.search.step - 1]

    def dearest(self) -> Sequence[int]:
        """Return how many turns each run answers from the recording, where most are asked."""
        return dearest(len(self.turns), self.passes, self.fails)

    def models(self) -> list[str]:
        """Return the models that are asked."""
        if self.budget.model is not None:
            return [self.budget.model]
        return sorted({asked_model(turn) or "?" for turn in self.turns})

    def cost_usd(self, until: int) -> Decimal | None:
        """Return what a run is likely to cost that asks for the turns after `until`; None without a
        price.
        """
        total = Decimal()
        for turn in self.turns[until:]:
            cost = self.budget.cost(turn)
            if cost is None:
                return None
            total += cost
        return total

    def plan_cost_usd(self, plan: Sequence[int]) -> Decimal | None:
        """Return what all runs of a plan are likely to cost; None without a price."""
        costs = [self.cost_usd(until) for until in plan]
        known = [cost for cost in costs if cost is not None]
        return sum(known, Decimal()) if len(known) == len(costs) else None


class Bisect(NamedTuple):
    """What all runs share."""

    url: URL
    db: str | None
    source: str  # an id, or the path of a cassette
    is_file: bool
    name: str  # of sessions, before the turn
    words: Sequence[str]
    check: str
    places: Destinations
    network: Network
    budget: Budget
    speed: float | None
    descriptors: int


class EndedRun(NamedTuple):
    """A run, the exit code of its check, its session, and what was asked live."""

    run: CheckedRun
    code: int
    session: str
    live: Sequence[Recording]  # turns
    cost_usd: Decimal
    is_partial: bool  # the cost of an answer is not known
    is_limited: bool  # a request was refused, as the limit was reached


async def run_once(bisect: Bisect, until: int, spent_usd: Decimal) -> EndedRun:
    """Run the command with turns 1 to `until` from the recording, then the check.

    Raises `RecorderError` if the check cannot be run.
    """
    name = await _free_name(bisect.url, f"{bisect.name}{INFIX}{until}")
    terms = ForkTerms(bisect.source, bisect.is_file, until, bisect.speed, bisect.budget.model)
    fork = await Fork.load(bisect.db, terms, name, bisect.places.upstreams)
    asked = _Asked(bisect.budget, spent_usd)

    def recorded(upstream: Transport, journal: ExchangeJournal) -> Transport:
        return fork.transport(asked.through(upstream), journal)

    options: dict[str, Any] = {"websocket": False, "recorded": recorded, "network": bisect.network}
    with tempfile.TemporaryFile() as printed:
        async with recorded_command(bisect.url, bisect.words, name, bisect.places, **options) as (
            _,
            command,
        ):
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": printed}
            ended = await child.apart(
                command.words, command.environment, descriptors=bisect.descriptors, **streams
            )
        printed.seek(0)
        code = await _checked(
            bisect, printed, {SESSION_VARIABLE: name, EXIT_CODE_VARIABLE: str(ended)}
        )
    live = asked.turns()
    run = CheckedRun(until, fork.replayed(), len(live), passes=code == 0)
    return EndedRun(run, code, name, live, asked.cost_usd(), asked.is_partial(), asked.is_limited)


async def _checked(bisect: Bisect, printed: IO[bytes], variables: Mapping[str, str]) -> int:
    """Run the check, which gets what the command printed; return its exit code."""
    given = {**os.environ, VARIABLE: bisect.url.render_as_string(hide_password=False), **variables}
    streams: dict[str, Any] = {"stdin": printed, "stdout": _STDERR}
    code = await child.apart(
        ["sh", "-c", bisect.check], given, descriptors=bisect.descriptors, **streams
    )
    if code is None or code in (child.NOT_EXECUTABLE, child.NOT_FOUND):
        raise RecorderError(
            f"The check cannot be run (exit code {code}): give a command of the shell with --check."
        )
    return code


async def _free_name(url: URL, name: str) -> str:
    """Return a name that no session has: this one, or with a number."""
    try:
        async with await open_log(url) as log:
            number, free = 1, name
            while await count_named(log, free):
                number += 1
                free = f"{name}-{number}"
            return free
    except NotFoundError:  # the recording is a file, and there is no log yet
        return name


def unanswered(live: Iterable[Recording]) -> Recording | None:
    """Return a request that got an error, or no whole answer, and that was not answered when it was
    sent again.
    """
    answered = {identity_of(each) for each in live if _is_answered(each)}
    for each in live:
        if identity_of(each) not in answered:
            return each
    return None


def _is_answered(asked: Recording) -> bool:
    if asked.response is None or asked.response.status >= 400 or asked.end is None:
        return False
    return asked.end.outcome in WHOLE or asked.end.outcome in ENDED_HERE


class _Asked:
    """The live requests of a run: a transport that asks for nothing more when a limit is reached."""

    def __init__(self, budget: Budget, spent_usd: Decimal) -> None:
        self._budget, self._spent_usd = budget, spent_usd
        self._memory = MemoryJournal()
        self.is_limited = False

    def through(self, upstream: Transport) -> Transport:
        """Return this transport, which asks `upstream`."""
        self._upstream = RecordingTransport(upstream, self._memory)
        return self

    async def handle_async_request(self, request: Request) -> Response:
        limit_usd = self._budget.limit_usd
        if limit_usd is not None and self._spent_usd + self.cost_usd() >= limit_usd:
            self.is_limited = True
            raise UpstreamError(f"The limit of ${limit_usd} is reached.", "upstream_unreachable")
        return await self._upstream.handle_async_request(request)

    async def aclose(self) -> None:
        await self._upstream.aclose()

    def turns(self) -> list[Recording]:
        """Return the turns that were asked."""
        return [each for each in self._memory.recordings("") if is_agent_turn(each)]

    def cost_usd(self) -> Decimal:
        """Return what the answers have cost, as far as it is known.

        One that is still on its way costs nothing yet.
        """
        costs = [self._budget.cost(each) or Decimal() for each in self.turns()]
        return sum(costs, Decimal())

    def is_partial(self) -> bool:
        """Return whether the cost of an answer is not known."""
        return any(self._budget.cost(each) is None for each in self.turns() if _is_answered(each))
