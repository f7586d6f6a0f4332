"""The demo upstream behind gateways that break it, each in its own way: one server, and a path
prefix for each fault.

    with gateways(FAULTS) as base:
        f"{base}/chat-no-done"         # speaks as the demo does, but for what that fault changes

What a gateway breaks is a `Planted`: a function of the request and of the way to ask the demo. Its
answers are made by `tests.support.provider`, event by event, and so a fault is planted in events,
not in bytes that came together by chance.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from recorder.probe.apis import APIS
from recorder.probe.judge import CaseVerdict, judge
from recorder.probe.runner import Plan, send_all
from recorder.probe.sdks import reader_for
from recorder.proxy.app import Proxy
from recorder.proxy.http.server import Server
from recorder.proxy.http.server_exchange import ServerExchange
from recorder.proxy.recording import RecordingTransport
from recorder.proxy.routing import Routes, parse_upstream
from recorder.proxy.upstream import UpstreamTransport
from recorder.recordings.memory import MemoryJournal
from recorder.wire.dialects import by_name
from tests.support.event_loop import DEADLINE_S
from tests.support.provider.app import App
from tests.support.provider.reply import DemoReply, DemoRequest
from tests.support.proxy import served

Ask = Callable[[DemoRequest], DemoReply]
Planted = Callable[[DemoRequest, Ask], DemoReply]

CLEAN = "clean"
"""The name of the gateway that breaks nothing."""


class Gateway:
    """The gateways, listening on one port."""

    def __init__(self, planted: Mapping[str, Planted]) -> None:
        self._planted: dict[str, Planted] = {CLEAN: lambda request, ask: ask(request), **planted}
        self._server = Server(
            self._answer, "127.0.0.1", 0, on_drain=lambda: self._server.drop_clients()
        )
        clock = asyncio.get_running_loop().time
        self._apps = {name: App(clock, pace=0) for name in self._planted}

    async def start(self) -> str:
        """Listen; return scheme, host and port."""
        await self._server.start()
        return f"http://127.0.0.1:{self._server.port}"

    async def stop(self) -> None:
        await self._server.stop(grace_s=0)

    async def _answer(self, exchange: ServerExchange) -> None:
        """Answer a request `/FAULT/…` as the demo answers `/…`, with that fault."""
        name, _, path = exchange.path.decode().lstrip("/").partition("/")
        body = bytearray()
        while piece := await exchange.read():
            body += piece
        headers = tuple(
            (key.decode("latin-1"), value.decode("latin-1")) for key, value in exchange.headers
        )
        query = exchange.query.decode()
        request = DemoRequest(
            exchange.method, f"/{path}{'?' * bool(query)}{query}", headers, bytes(body)
        )
        await _send(exchange, self._planted[name](request, self._apps[name].reply))


async def _send(exchange: ServerExchange, reply: DemoReply) -> None:
    """Send a reply without pauses, but for those that its script wants."""
    clock = asyncio.get_running_loop().time
    started = clock() if reply.started is None else reply.started
    length = [] if reply.length is None else [(b"content-length", b"%d" % reply.length)]
    exchange.start(
        reply.status, [*((key.encode(), value.encode()) for key, value in reply.headers), *length]
    )
    for step in reply.steps:
        wait_s = started + step.at_s * (reply.pace or 0.0) - clock()
        if reply.pace and wait_s > 0:
            await asyncio.sleep(wait_s)
        exchange.write(step.take())
        await exchange.flow.drain()
    exchange.finish()


@contextmanager
def gateways(planted: Mapping[str, Planted]) -> Iterator[str]:
    """The gateways in a thread of their own; what they are called with is before their names in a
    URL.
    """
    base: Future[str] = Future()
    stopping: Future[Callable[[], object]] = Future()

    async def serve() -> None:
        gateway, stop = Gateway(planted), asyncio.Event()
        base.set_result(await gateway.start())
        loop = asyncio.get_running_loop()
        stopping.set_result(lambda: loop.call_soon_threadsafe(stop.set))
        await stop.wait()
        await gateway.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield base.result(DEADLINE_S)
    finally:
        stopping.result(DEADLINE_S)()
        thread.join()


# -- A probe around a test: its requests go through a recorder that writes into memory, and the
# answers are judged


SESSION = "probe"
KEY = "sk-good"
SILENCE_S = DEADLINE_S


async def probed(
    url: str, api_name: str, only: Collection[str] = (), *, reads_with_sdk: bool = True
) -> Sequence[CaseVerdict]:
    """The verdicts of a probe of that URL: of all cases of an API, or of some.

    The SDK takes most of the time.
    """
    api, journal = APIS[api_name], MemoryJournal()
    upstream = parse_upstream(f"{by_name(api.name).upstream}={url}")
    cases = [
        (case, mode) for case in api.cases if not only or case.name in only for mode in case.modes
    ]
    missing = set(only) - {case.name for case, _ in cases}
    assert not missing, f"{api_name} has no case {missing}"
    transport = RecordingTransport(UpstreamTransport(), journal)
    proxy = Proxy(transport, Routes([upstream]))
    async with contextlib.aclosing(transport), served(proxy, proxy.shutdown) as server:
        plan = Plan(api, upstream, api.model, KEY, cases, SILENCE_S)
        sent = await send_all(f"http://127.0.0.1:{server.port}", plan, lambda _: None)
    reader = reader_for(api)
    assert reader is not None, f"the SDK of {api_name} is not installed"
    return judge(sent, journal.recordings(SESSION), reader if reads_with_sdk else None)


def faults_in(verdicts: Sequence[CaseVerdict]) -> dict[str, list[str]]:
    """The errors and warnings of each verdict, by their rules: `{"text streamed": ["RS002"]}`."""
    found = {
        f"{each.case} {each.mode}": [
            finding.rule for _, finding in each.findings if finding.severity != "note"
        ]
        for each in verdicts
    }
    return {where: rules for where, rules in found.items() if rules}
