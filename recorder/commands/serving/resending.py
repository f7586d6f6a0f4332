"""Requests of a recording on their way to an upstream again, one after another, through a recorder
of our own.

An answer that may be another one later (a key that is refused, a rate limit, an upstream that
fails) ends it: the next call goes on from there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.archive.place import database_of
from recorder.commands.serving.listening import listening
from recorder.commands.serving.recording import Ending, recording
from recorder.commands.terminal.behind import wait_for
from recorder.commands.terminal.output import dollars, echo
from recorder.errors import NotFoundError, RecorderError
from recorder.model.events import Recording
from recorder.model.text import safe_text
from recorder.prices.table import ListPrice, list_price, valid_prices
from recorder.proxy.http.network import Network
from recorder.proxy.recording import RecordingTransport
from recorder.proxy.routing import Upstream
from recorder.recordings.loader import load_exchanges
from recorder.recordings.session import projected
from recorder.replay.resend import Resend, is_refusal
from recorder.store.location import journal_root
from recorder.store.queries.session_named import session_named

DRAIN_S = 60.0  # for the database to have all of it: it is compared from there
SILENCE_S = 300.0  # without a byte: reasoning models that do not stream think for minutes
SHOWN_BYTES = 300  # of an error

Prices = Mapping[tuple[str, str | None], ListPrice]
"""By upstream and model."""


class Budget(NamedTuple):
    """What answers may cost, and what they cost by the prices of the log."""

    limit_usd: Decimal | None
    prices: Prices
    model: str | None  # that is asked in place of the recorded ones

    def cost(self, answered: Recording) -> Decimal | None:
        """Return what a recorded answer cost or would cost; None without a price, or without a
        count of tokens.
        """
        usage = projected(answered.exchange, answered.events)["usage"][0]
        price = self.prices.get((answered.request.upstream, self.model or asked_model(answered)))
        if price is None or usage.input_tokens is None:
            return None
        return price.usd(usage.input_tokens, usage.output_tokens or 0)


class Sending(NamedTuple):
    """What is to be sent, and into which session."""

    session: str
    labels: str
    wanted: Sequence[Resend]
    upstreams: Sequence[Upstream]
    keys: Mapping[str, str]  # by upstream
    budget: Budget


class _Spent:
    """What a session has cost so far, from the log."""

    def __init__(self, url: URL, sending: Sending) -> None:
        self._url, self._sending = url, sending
        self._costs: dict[str, Decimal] = {}

    async def require_room(self, request: Resend) -> None:
        """Raise `RecorderError` if another request is likely to pass the limit."""
        budget = self._sending.budget
        if budget.limit_usd is None:
            return
        await self._read()
        spent = sum(self._costs.values(), Decimal())
        next_usd = budget.cost(request.recorded) or Decimal()
        if spent + next_usd > budget.limit_usd:
            raise RecorderError(
                f"The next request may pass the limit of ${budget.limit_usd}: {self._sending.session} has cost about "
                f"{dollars(str(spent), is_partial=False)}. The same command with a higher --limit goes on from there."
            )

    async def _read(self) -> None:
        """Add the costs of what is new.

        An answer without a count of tokens costs what its recording did.
        """
        await asyncio.to_thread(
            wait_for, journal_root(database_of(self._url)), time.monotonic() + DRAIN_S
        )
        budget = self._sending.budget
        async with await open_log(self._url) as log:
            try:
                session = await session_named(log, self._sending.session)
            except NotFoundError:
                return
            numbered = enumerate(await log.exchanges(session.session_id), 1)
            new = [each for each in numbered if each[1].exchange_id not in self._costs]
            for each in await load_exchanges(log, session, new):
                self._costs[each.exchange.exchange_id] = budget.cost(each) or Decimal()


def asked_model(recording: Recording) -> str | None:
    """Return the model that a recorded request names."""
    model: str | None = projected(recording.exchange, recording.events)["exchanges"][
        0
    ].request_model
    return model


async def prices_of(url: URL, recorded: Iterable[Recording], model: str | None) -> Prices:
    """Return the prices of the log (`recorder prices update`) of what would be asked again."""
    found = {}
    asked = {(each.request.upstream, model or asked_model(each)) for each in recorded}
    try:
        log = await open_log(url)
    except RecorderError:  # there is none yet: the recording is a file
        return {}
    async with log:
        for upstream, name in asked:
            price = (
                list_price(await valid_prices(log, time.time_ns(), name), upstream)
                if name
                else None
            )
            if price is not None:
                found[upstream, name] = price
    return found


async def send(url: URL, sending: Sending, network: Network) -> None:
    """Send all requests. Raises `RecorderError` where that ends before the last."""
    recorded = partial(RecordingTransport, labels=sending.labels)
    spent = _Spent(url, sending)
    options: dict[str, Any] = {"ending": Ending(DRAIN_S), "network": network, "recorded": recorded}
    failure: RecorderError | None = None
    async with recording(url, sending.upstreams, **options) as proxy, listening(proxy) as base:
        async with httpx.AsyncClient(timeout=SILENCE_S, trust_env=False) as client:
            try:
                for number, request in enumerate(sending.wanted, 1):
                    await spent.require_room(request)
                    place = f"{base}/s/{quote(sending.session, safe='')}"
                    status, error = await _send(
                        client, place, request, sending.keys.get(request.upstream, "none")
                    )
                    what = f"{number} of {len(sending.wanted)}: exchange {request.recorded.number}"
                    echo(f"  {what}: {f'status {status}' if status else error}")
                    _require_answer(status, error, sending.session)
            except RecorderError as error_here:
                failure = error_here  # all that was sent is brought in first
    if failure is not None:
        raise failure


def _require_answer(status: int, error: str, session: str) -> None:
    if not status or is_refusal(status):
        raise RecorderError(
            f"Nothing more is sent: {safe_text(error)} What was answered is in session {safe_text(session)}; the same "
            "command goes on from there."
        )


async def _send(
    client: httpx.AsyncClient, place: str, request: Resend, key: str
) -> tuple[int, str]:
    """Send a request and let its answer pass; return its status, and the beginning of an error."""
    target, headers = request.sent(key)
    shown = b""
    try:
        sent = httpx.Request("POST", place + target, headers=headers, content=request.body)
        response = await client.send(sent, stream=True)
        try:
            async for piece in response.aiter_raw():
                shown = (shown + piece)[:SHOWN_BYTES]
        finally:
            await response.aclose()
    except httpx.HTTPError as error:
        return 0, f"the answer broke off ({type(error).__name__})."
    return (
        response.status_code,
        f"status {response.status_code}, {shown.decode('utf-8', 'replace')}.",
    )
