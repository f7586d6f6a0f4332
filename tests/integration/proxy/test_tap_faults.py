"""The tap on the path that `recorder serve` uses: a fault of ours while chunks pass reaches no
client.

A real upstream sends a stream to two clients at once; while it passes, a function of the recorder
raises. Both clients have every byte, the upstream is not blamed, and what the journal has and what
its gaps count is all that was sent.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import pytest

import recorder.journal.writer
from recorder.journal.format import Gap, Mark
from recorder.journal.reader import JournalReader
from recorder.journal.writer import ExchangeWriter, Journal
from recorder.model.events import ExchangeEnd
from tests.support.event_loop import on_uvloop
from tests.support.proxy import get, proxied
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    ScriptedUpstream,
    Send,
    Wait,
    chunked,
)

EVENTS = [b"data: %d\n\n" % number for number in range(40)]
WHOLE = b"".join(EVENTS)
TURN = 5  # events of one send: they come in one read, those of both streams in one turn of the loop
CLIENTS = 2

How = Literal["once", "for a while", "to the end"]


ALONE = ("the journal's write", "the bytes of a record", "the exchange's writer", "the clock")
TOGETHER = ("the journal's wait", "many at once", "the header of a record", "the clock")
PASSED = [
    *(("alone", place) for place in (*ALONE, "the journal's wait")),
    *(("together", place) for place in TOGETHER),
    *(("strict", place) for place in ALONE),
]
RETRIED = {"many at once", "the header of a record"}  # one by one, so that nothing is lost


class Fault:
    """What makes a function raise from the moment that it is armed."""

    def __init__(self, how: How, error: Exception | None = None) -> None:
        self._how, self._error = how, error or ZeroDivisionError()
        self._armed = False
        self.calls = 0

    def arm(self) -> None:
        self._armed = True

    def heal(self) -> None:
        if self._how == "for a while":
            self._armed = False

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def faulty(*args: Any, **kwargs: Any) -> Any:
            if self._armed:
                self.calls += 1
                self._armed = self._how != "once"
                raise self._error
            return function(*args, **kwargs)

        return faulty


class Place(NamedTuple):
    """A function of the way of a chunk."""

    owner: Any
    name: str


PLACES = {
    "the journal's wait": Place(Journal, "wait"),
    "the journal's write": Place(Journal, "write"),
    "many at once": Place(Journal, "write_together"),
    "the bytes of a record": Place(recorder.journal.writer, "record_bytes"),
    "the header of a record": Place(recorder.journal.writer, "record_header"),
    "the exchange's writer": Place(ExchangeWriter, "write"),
}


async def streamed(
    folder: Path, fault: Fault, *, strict: bool, clock_ns: Callable[[], int] | None
) -> list[bytes]:
    """Two streams at once, the fault armed after the first events; returns what the journal has,
    record by record.
    """
    armed, healed = asyncio.Event(), asyncio.Event()
    first, second, third = EVENTS[:1], EVENTS[1:31], EVENTS[31:]
    turns = [Send(chunked(*second[at : at + TURN])) for at in range(0, len(second), TURN)]
    rest = [Send(chunked(*third[:TURN])), Send(chunked(*third[TURN:]) + LAST_CHUNK)]
    script: list[Action] = [
        Send(STREAM_HEAD + chunked(*first)),
        Wait(armed),
        *turns,
        Wait(healed),
        *rest,
    ]

    async with (
        ScriptedUpstream(script) as upstream,
        proxied(folder, upstream.base, strict=strict, clock_ns=clock_ns) as proxy,
    ):
        clients = [await proxy.connect() for _ in range(CLIENTS)]
        for client in clients:
            await client.send(get())
            start = await client.read_until(chunked(*first))
            assert start.startswith(b"HTTP/1.1 200 OK")
        fault.arm()
        armed.set()
        middle = [await client.read_until(second[-1] + b"\r\n") for client in clients]
        fault.heal()
        healed.set()
        ends = [await client.read_until(LAST_CHUNK) for client in clients]
        for client in clients:
            client.socket.close()
    return [_unchunked(each + end) for each, end in zip(middle, ends, strict=True)]


def _unchunked(data: bytes) -> bytes:
    body = b""
    while size := int(data[: (line := data.index(b"\r\n"))], 16):
        body += data[line + 2 : line + 2 + size]
        data = data[line + 4 + size :]
    return body


class Account:
    """What a journal has of one exchange: `stored` and `lost` bytes, and how it ended."""

    def __init__(self) -> None:
        self.stored = self.lost = 0
        self.reasons: list[str] = []
        self.outcome: str | None = None

    def add(self, mark: Mark, payload: bytes) -> None:
        at = self.stored + self.lost
        match mark:
            case Mark.CHUNK:
                assert WHOLE[at : at + len(payload)] == payload, f"a hole, or bytes twice, at {at}"
                self.stored += len(payload)
            case Mark.GAP:
                gap = msgspec.json.decode(payload, type=Gap)
                self.lost += gap.size_bytes
                self.reasons.append(gap.reason)
            case Mark.END:
                self.outcome = msgspec.json.decode(payload, type=ExchangeEnd).outcome


def accounts(folder: Path) -> list[Account]:
    reader, found = JournalReader(folder / "journal" / "recorder"), dict[int, Account]()
    while records := reader.read(2**24, writer_is_dead=True):
        for record in records:
            found.setdefault(record.exchange, Account()).add(Mark(record.mark), record.payload)
    return list(found.values())


@pytest.fixture(params=["alone", "together", "strict"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How chunks are written: each at once, those of a turn of the loop together, or each before a
    sync.
    """
    monkeypatch.setattr(
        recorder.journal.writer, "TURN_NS", 10**18 if request.param == "together" else -1
    )
    return str(request.param)


def clients_have_all(
    folder: Path, fault: Fault, way: str, clock_ns: Callable[[], int] | None = None
) -> None:
    async def scenario() -> None:
        try:
            bodies = await streamed(folder, fault, strict=way == "strict", clock_ns=clock_ns)
        except OSError as error:
            pytest.fail(f"a client was cut off: {error}")
        assert bodies == [WHOLE.removeprefix(EVENTS[0])] * CLIENTS

    on_uvloop(scenario)()
    assert fault.calls > 0, "nothing was broken"


@pytest.mark.parametrize("how", ["once", "for a while", "to the end"])
@pytest.mark.parametrize(("way", "place"), PASSED, indirect=["way"])
def test_a_fault_while_chunks_pass_costs_clients_nothing_and_is_counted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: str,
    how: How,
    way: str,
) -> None:
    """D9, B7."""
    fault, clock_ns = Fault(how), None
    if place == "the clock":
        clock_ns = fault.around(time.monotonic_ns)
    else:
        owner, name = PLACES[place]
        monkeypatch.setattr(owner, name, fault.around(getattr(owner, name)))
    clients_have_all(tmp_path, fault, way, clock_ns)
    assert "ZeroDivisionError" in caplog.text
    assert "Traceback" in caplog.text
    assert "broke off" not in caplog.text, "the upstream is blamed"
    found = accounts(tmp_path)
    assert len(found) == CLIENTS
    for account in found:
        if how != "to the end":
            assert account.outcome == "eof"
            assert account.stored + account.lost == len(WHOLE)
        assert account.stored >= len(EVENTS[0])
        assert all("ZeroDivisionError" in reason for reason in account.reasons)
    if how != "to the end":
        assert (sum(account.lost for account in found) > 0) == (place not in RETRIED)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_while_chunks_pass_costs_clients_nothing_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, way: str
) -> None:
    """B6, B7."""
    fault, writev = Fault("for a while", OSError(number, os.strerror(number))), os.writev
    defaults = Journal.__init__.__kwdefaults__ or {}
    monkeypatch.setattr(
        Journal.__init__, "__kwdefaults__", {**defaults, "writev": fault.around(writev)}
    )
    clients_have_all(tmp_path, fault, way)
    for account in accounts(tmp_path):
        assert (account.outcome, account.stored + account.lost) == ("eof", len(WHOLE))
        assert account.reasons == [os.strerror(number)]
        assert account.lost > 0
