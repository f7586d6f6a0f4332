"""The sender of a probe: each request of its cases, one after another, through a recorder that listens at a URL.

Rules of this file:

* It judges nothing: what came is in the log, and is judged from there.
* It is never silent for long: a gateway that hangs, or never ends, is left after the limits, and that is a finding.
* A request follows the one before it, so that the n-th request is the n-th exchange of the session.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import httpx

from recorder import __version__
from recorder.probe.cases import WRONG_KEY, Case, Mode, ProbeApi, ProbeCall, ProbeStep, Progress

SILENCE_S = 60.0  # without a byte: the slowest reasoning models send a sign of life, or an answer, before that
REQUEST_FACTOR = 5  # a request may take so many times the silence that is allowed: five minutes, and then it is stuck
BODY_LIMIT_BYTES = 16 * 2**20  # of an answer: a thousand times what the limits on tokens allow, however it is framed

Trouble = Literal["silent", "endless", "too large", "broke off"]
"""Why an answer was given up by the client, or could not be received."""


class Sent(NamedTuple):
    """A request that was sent, and how that went."""

    api: ProbeApi
    case: Case
    mode: Mode
    step: ProbeStep
    number: int  # of the step in its case; 1 is the first
    call: ProbeCall
    status: int  # 0 without a response
    body: bytes
    seconds: float
    trouble: Trouble | None = None


class ProbeSettings(NamedTuple):
    """The settings of a run."""

    url: str  # of the recorder, with the prefix of the session
    key: str
    model: str
    silence_s: float = SILENCE_S


async def send_all(
    api: ProbeApi, cases: Sequence[tuple[Case, Mode]], settings: ProbeSettings, report: Callable[[Sent], None]
) -> list[Sent]:
    """Send the requests of all cases in order. `report` is told of each when it has been answered, and may raise."""
    found: list[Sent] = []
    async with httpx.AsyncClient(base_url=settings.url, timeout=settings.silence_s, trust_env=False) as client:
        for case, mode in cases:
            async for sent in _send_case(client, api, settings, case, mode):
                report(sent)
                found.append(sent)
    return found


async def _send_case(
    client: httpx.AsyncClient, api: ProbeApi, settings: ProbeSettings, case: Case, mode: Mode
) -> AsyncIterator[Sent]:
    received: list[bytes] = []
    for number, step in enumerate(case.steps, 1):
        call = step.make(Progress(settings.model, mode == "streamed", received))
        if call is None:
            return
        reply = _Reply()
        began_s = time.monotonic()
        key = WRONG_KEY if call.key == "wrong" else settings.key
        headers = {"user-agent": f"recorder-probe/{__version__}", **api.headers(key)}
        await _send(client, call, headers, reply, REQUEST_FACTOR * settings.silence_s)
        received.append(bytes(reply.body))
        seconds = time.monotonic() - began_s
        yield Sent(api, case, mode, step, number, call, reply.status, bytes(reply.body), seconds, reply.trouble)


class _Reply:
    """An answer as it comes."""

    def __init__(self) -> None:
        self.status = 0
        self.body = bytearray()
        self.trouble: Trouble | None = None

    def add(self, piece: bytes) -> None:
        """Add a piece of the body; more than the limit is a trouble."""
        self.body += piece
        if len(self.body) > BODY_LIMIT_BYTES:
            self.trouble = "too large"

    def frames(self) -> int:
        """Return how many events have come, as far as that can be told without reading them."""
        return self.body.count(b"\n\n") + self.body.count(b"\r\n\r\n")


async def _send(
    client: httpx.AsyncClient, call: ProbeCall, headers: Mapping[str, str], reply: _Reply, limit_s: float
) -> None:
    """Send a request and receive its answer, as far as the limits allow; never raises what the gateway causes."""
    try:
        async with (
            asyncio.timeout(limit_s),
            client.stream(call.method, call.target, json=call.body, headers=headers) as response,
        ):
            reply.status = response.status_code
            async for piece in response.aiter_bytes():
                reply.add(piece)
                if reply.trouble or (call.leaves_after is not None and reply.frames() >= call.leaves_after):
                    return
    except TimeoutError:
        reply.trouble = "endless"
    except httpx.TimeoutException:
        reply.trouble = "silent"
    except httpx.HTTPError:
        reply.trouble = "broke off"
