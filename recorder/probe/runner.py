"""The sender of a probe: each request of its cases, one after another, through a recorder that
listens at a URL.

Rules of this file:

* It judges nothing: what came is in the log, and is judged from there.
* It is never silent for long: a gateway that hangs, or never ends, is left after the limits, and
  that is a finding.
* A request follows the one before it, so that the n-th request is the n-th exchange of the session.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import httpx

from recorder import __version__
from recorder.probe.cases import Case, Mode, ProbeApi, ProbeCall, ProbeStep, Progress
from recorder.proxy.routing import Upstream
from recorder.wire.framing import SSE, Framing, framing_of

# without a byte: the slowest reasoning models send a sign of life, or an answer, before that
SILENCE_S = 60.0
# a request may take so many times the silence that is allowed: five minutes, and then it is stuck
REQUEST_FACTOR = 5
# of an answer: a thousand times what the limits on tokens allow, however it is framed
BODY_LIMIT_BYTES = 16 * 2**20
NO_KEY = "none"  # is sent where no key is given: a gateway without keys takes it as any other

Trouble = Literal["silent", "endless", "too large", "broke off"]
"""Why an answer was given up by the client, or could not be received."""


class Plan(NamedTuple):
    """What is to be sent."""

    api: ProbeApi
    upstream: Upstream
    model: str
    key: str | None
    cases: Sequence[tuple[Case, Mode]]
    silence_s: float


class _Reply(NamedTuple):
    """What came of an answer."""

    status: int  # 0 without a response
    body: bytes
    trouble: Trouble | None


class Sent(NamedTuple):
    """A request that was sent, and how that went."""

    api: ProbeApi
    case: Case
    mode: Mode
    step: ProbeStep
    number: int  # of the step in its case; 1 is the first
    status: int  # 0 without a response
    body: bytes
    trouble: Trouble | None
    seconds: float


async def send_all(url: str, plan: Plan, report: Callable[[Sent], None]) -> list[Sent]:
    """Send the requests of all cases in order, through a recorder at a URL that has the prefix of
    the session.

    `report` is told of each when it has been answered, and may raise.
    """
    found: list[Sent] = []
    base_url = f"{url}/{plan.upstream.name}"  # whatever the path is: not every one says whose it is
    async with httpx.AsyncClient(
        base_url=base_url, timeout=plan.silence_s, trust_env=False
    ) as client:
        for case, mode in plan.cases:
            first = before = b""
            for number, step in enumerate(case.steps, 1):
                call = step.make(Progress(plan.model, mode == "streamed", before, first))
                if call is None:
                    break
                began_s = time.monotonic()
                status, received, trouble = await _send(client, plan, call)
                before = received or before
                first = first or received
                seconds = time.monotonic() - began_s
                sent = Sent(plan.api, case, mode, step, number, status, received, trouble, seconds)
                report(sent)
                found.append(sent)
    return found


async def _send(client: httpx.AsyncClient, plan: Plan, call: ProbeCall) -> _Reply:
    """Send a request and receive its answer, as far as the limits allow; never raises what the
    gateway causes.
    """
    key = call.key or plan.key or NO_KEY
    headers = {"user-agent": f"recorder-probe/{__version__}", **plan.api.headers(key)}
    status, body = 0, bytearray()
    trouble: Trouble | None = None
    try:
        async with (
            asyncio.timeout(REQUEST_FACTOR * plan.silence_s),
            client.stream(call.method, call.target, json=call.body, headers=headers) as response,
        ):
            status = response.status_code
            received = _Received(call, framing_of(response.headers.get("content-type")) or SSE)
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > BODY_LIMIT_BYTES:
                    trouble = "too large"
                    break
                if received.has_enough(piece):
                    break
    except TimeoutError:
        trouble = "endless"
    except httpx.TimeoutException:
        trouble = "silent"
    except httpx.HTTPError:
        trouble = "broke off"
    return _Reply(status, bytes(body), trouble)


class _Received:
    """The events of an answer so far, as far as the client needs them to know when it leaves."""

    def __init__(self, call: ProbeCall, framing: Framing) -> None:
        self._call = call
        self._splitter = framing.splitter()
        self._frames = 0
        self._is_there = False  # the event that it waits for

    def has_enough(self, data: bytes) -> bool:
        """Add a piece.

        Return whether the client leaves: after so many events, or at one, which is there to its
        end.
        """
        for piece in self._splitter.feed(data):
            self._frames += piece.kind == "frame"
            self._is_there = self._is_there or self._is_awaited(piece.raw)
        least = self._call.leaves_after
        return (self._is_there and not self._splitter.rest) or (
            least is not None and self._frames >= least
        )

    def _is_awaited(self, raw: bytes) -> bool:
        awaited = self._call.leaves_at
        return awaited is not None and awaited.search(raw) is not None
