"""A recording with a fault: what the fault makes of the recorded answer, recorded again on a clock that never waits."""

from __future__ import annotations

import contextlib

import msgspec

from recorder.errors import UpstreamError
from recorder.model.events import Recording, as_sent
from recorder.proxy.app import address
from recorder.proxy.http.messages import Request, RequestExtensions, Response, WholeUpload
from recorder.proxy.recording import RecordingTransport
from recorder.proxy.routing import Origin
from recorder.recordings.memory import MemoryJournal
from recorder.replay.faults.forms import parse_fault
from recorder.replay.faults.transport import FaultTransport
from recorder.replay.matching import Matcher
from recorder.replay.pace import Clock
from recorder.replay.transport import ReplayTransport

GAP_S = 1.0
"""Before a connection breaks. Some clients lose what they have not read by then: without a pause it would be chance how
much that is, and so would be the verdict."""

_OF_THE_BODY = ("content-encoding", "content-length")  # as it was sent: a recorded one is decoded


class _SkippingClock(Clock):
    """A clock on which every wait is over at once: only the times that are recorded show it."""

    def __init__(self) -> None:
        self._time_ns = 0
        self.now_ns = lambda: self._time_ns

    async def sleep_until(self, deadline_ns: int) -> None:
        self._time_ns = max(self._time_ns, deadline_ns)


class _Recorded:
    """A transport that answers with one recording, whatever is asked."""

    def __init__(self, recorded: Recording, replay: ReplayTransport) -> None:
        self._recorded, self._replay = recorded, replay

    async def handle_async_request(self, request: Request) -> Response:
        return await self._replay.replay(request, self._recorded)

    async def aclose(self) -> None:
        await self._replay.aclose()


async def with_faults(recorded: Recording, forms: tuple[str, ...], speed: float | None) -> Recording:
    """Return a recording with faults, and without any pause but theirs if `speed` is None.

    Its exchange has a new id. Without faults it is the recording at that speed.
    """
    clock, journal = _SkippingClock(), MemoryJournal()
    replay = _Recorded(recorded, ReplayTransport(Matcher([]), speed=speed, clock=clock))
    faults = [parse_fault(form) for each in forms for form in _with_gap(each)]
    faulty = FaultTransport(replay, faults, clock=clock)
    wall_ns = recorded.exchange.started_ns
    transport = RecordingTransport(faulty, journal, wall_ns=lambda: wall_ns, clock_ns=clock.now_ns)
    with contextlib.suppress(UpstreamError):  # which is recorded
        response = await transport.handle_async_request(_request(recorded))
        async for _ in response.stream:
            pass
    [made] = journal.recordings(recorded.exchange.session_id)
    return msgspec.structs.replace(made, name=recorded.name, number=recorded.number)


def _with_gap(form: str) -> tuple[str, ...]:
    """Return a fault, and the pause before it if it breaks the connection: what is applied later strikes first."""
    kind, _, rest = form.partition("@")
    event = rest.partition(":")[0]
    return (form, f"stall@{event}:{GAP_S}s") if kind == "cut" else (form,)


def _request(recorded: Recording) -> Request:
    asked = recorded.request
    headers = as_sent(each for each in asked.headers if each[0].lower() not in _OF_THE_BODY)
    extensions = RequestExtensions(recorder=Origin(asked.upstream, asked.target, headers))
    url = address(f"http://{asked.upstream}.invalid")._replace(raw_path=asked.target.encode())
    return Request(asked.method, url, headers, WholeUpload(recorded.request_body), extensions)
