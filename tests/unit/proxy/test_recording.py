"""The tap: whatever happens in it, what passes is the same, and what was lost is said."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from recorder.errors import UpstreamError
from recorder.journal.format import Mark
from recorder.journal.reader import JournalReader
from recorder.journal.writer import Journal
from recorder.proxy import recording
from recorder.proxy.http.messages import IteratedBody, Request, Response, Sink
from recorder.proxy.recording import RecordingTransport
from recorder.proxy.routing import Routes, Upstream
from tests.support.proxy import Tape, request_for

CHUNKS = [b"one", b"two", b"three"]


class Chunks(httpx.AsyncByteStream):
    def __init__(self, *chunks: bytes | Exception) -> None:
        self._chunks = chunks
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    async def aclose(self) -> None:
        self.closed = True


class Echo:
    """Reads the request and answers with the given chunks."""

    def __init__(self, *chunks: bytes | Exception) -> None:
        self.stream = Chunks(*chunks)
        self.uploaded = b""

    async def handle_async_request(self, request: Request) -> Response:
        async for chunk in request.stream:
            self.uploaded += chunk
        return Response(
            200, b"OK", [(b"content-type", b"text/event-stream")], IteratedBody(self.stream)
        )

    async def aclose(self) -> None:
        """Hold nothing."""


class Failing:
    """A journal whose n-th write fails, or all from the n-th on."""

    def __init__(self, journal: Journal, *, fails: Callable[[int], bool]) -> None:
        self._journal, self._fails, self._calls = journal, fails, count()

    def exchange(self) -> Failing:
        self._writer = self._journal.exchange()
        return self

    def flush(self) -> None:
        self._journal.flush()

    def write(self, mark: Mark, t_ns: int, payload: bytes) -> None:
        self._count()
        self._writer.write(mark, t_ns, payload)

    def write_all(self, t_ns: int, records: list[tuple[Mark, bytes]]) -> None:
        self._count()
        self._writer.write_all(t_ns, records)

    def later(self, t_ns: int, data: bytes, then: Sink) -> bool:
        self._count()
        return self._writer.later(t_ns, data, then)

    def end(self, t_ns: int, payload: bytes, last: bytes = b"") -> None:
        self._count()
        self._writer.end(t_ns, payload, last)

    def _count(self) -> None:
        if self._fails(next(self._calls)):
            raise ZeroDivisionError


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    journal = Journal(tmp_path, "recorder")
    yield journal
    journal.close()


def tape_of(journal: Journal) -> Tape:
    tape, reader = Tape(), JournalReader(journal.directory)
    while records := reader.read(2**20):
        for record in records:
            tape.add(Mark(record.mark), record.payload)
    return tape


async def pass_through(transport: RecordingTransport, **extensions: Any) -> list[bytes]:
    request = request_for(
        "POST",
        "http://h/v1/x?key=canary",
        headers={"content-length": "4"},
        stream=Chunks(b"bo", b"dy"),
        extensions=extensions,
    )
    response = await transport.handle_async_request(request)
    try:
        return [chunk async for chunk in response.stream]
    finally:
        await response.stream.aclose()


async def test_an_exchange_is_kept_whole_and_in_order(journal: Journal) -> None:
    echo, clock = Echo(*CHUNKS), count(1000)
    transport = RecordingTransport(
        echo,
        journal,
        wall_ns=lambda: 77,
        clock_ns=lambda: next(clock),
        make_id=iter(["exchange", "session"]).__next__,
    )
    assert await pass_through(transport) == CHUNKS
    records = JournalReader(journal.directory).read(2**20)
    wanted = [Mark.REQUEST, Mark.REQUEST_BODY, Mark.REQUEST_BODY, Mark.REQUEST_END, Mark.RESPONSE]
    assert [record.mark for record in records] == [
        *wanted,
        Mark.CHUNK,
        Mark.CHUNK,
        Mark.CHUNK,
        Mark.END,
    ]
    assert [record.t_ns for record in records] == list(range(1000, 1009))
    tape = tape_of(journal)
    assert (tape.request_body, tape.body, tape.outcome) == (b"body", b"onetwothree", "eof")
    head = tape.json[Mark.REQUEST]
    assert (head["exchange_id"], head["session_id"], head["started_ns"]) == (
        "exchange",
        "session",
        77,
    )
    assert "canary" not in str(head)
    assert echo.stream.closed


@pytest.mark.parametrize(
    ("base", "recorded"),
    [
        ("https://api.openai.com", None),
        ("http://gateway.test/openai", "http://gateway.test/openai"),
    ],
)
async def test_the_address_of_an_upstream_is_recorded_unless_it_is_the_public_one(
    journal: Journal, base: str, recorded: str | None
) -> None:
    routes = Routes([Upstream("openai", base)])
    await pass_through(
        RecordingTransport(Echo(*CHUNKS), journal), recorder=routes.route("/v1/responses", [])
    )
    assert tape_of(journal).json[Mark.REQUEST].get("base_url") == recorded


class Hasty(Echo):
    """Answers when it has as much of the request as it wants, without asking whether more comes."""

    async def handle_async_request(self, request: Request) -> Response:
        chunks = aiter(request.stream)
        while len(self.uploaded) < 4:
            self.uploaded += await anext(chunks)
        return Response(200, b"OK", [], IteratedBody(self.stream))


async def test_a_request_is_whole_when_all_that_was_declared_has_passed(journal: Journal) -> None:
    await pass_through(RecordingTransport(Hasty(*CHUNKS), journal))
    tape = tape_of(journal)
    assert (tape.request_body, tape.json[Mark.REQUEST_END]) == (b"body", {"complete": True})


async def test_a_body_whose_length_is_empty_is_recorded_to_its_end(journal: Journal) -> None:
    request = request_for(
        "POST", "http://h/", headers={"content-length": ""}, stream=Chunks(b"bo", b"dy")
    )
    response = await RecordingTransport(Echo(*CHUNKS), journal).handle_async_request(request)
    assert [chunk async for chunk in response.stream] == CHUNKS
    tape = tape_of(journal)
    assert (tape.request_body, tape.json[Mark.REQUEST_END]) == (b"body", {"complete": True})


async def test_a_chunk_is_in_the_journal_before_it_is_handed_on(journal: Journal) -> None:
    request = request_for("GET", "http://h/", stream=Chunks())
    response = await RecordingTransport(Echo(*CHUNKS), journal).handle_async_request(request)
    seen = b""
    async for chunk in response.stream:
        seen += chunk
        assert tape_of(journal).body == seen
    await response.stream.aclose()


async def test_whoever_lets_go_of_an_exchange_may_say_why(journal: Journal) -> None:
    request = request_for("GET", "http://h/", stream=Chunks(), extensions={"error": "Too large."})
    response = await RecordingTransport(Echo(*CHUNKS), journal).handle_async_request(request)
    await response.stream.aclose()
    assert tape_of(journal).json[Mark.END] == {
        "outcome": "client_disconnect",
        "error": "Too large.",
    }


@pytest.mark.parametrize("outcome", [None, "recorder_shutdown"])
async def test_closing_early_means_the_client_left_unless_told_otherwise(
    journal: Journal, outcome: str | None
) -> None:
    request = request_for("GET", "http://h/", stream=Chunks())
    response = await RecordingTransport(Echo(*CHUNKS), journal).handle_async_request(request)
    await anext(aiter(response.stream))
    if outcome is not None:
        request.extensions["outcome"] = outcome
    await response.stream.aclose()
    await response.stream.aclose()
    tape = tape_of(journal)
    assert (tape.body, tape.outcome, tape.marks[-1]) == (
        b"one",
        outcome or "client_disconnect",
        Mark.END,
    )


async def test_how_the_upstream_broke_is_kept(journal: Journal) -> None:
    broken = UpstreamError("it closed", "truncated")
    with pytest.raises(UpstreamError):
        await pass_through(RecordingTransport(Echo(b"one", broken), journal))
    assert tape_of(journal).json[Mark.END] == {"outcome": "truncated", "error": "it closed"}


@pytest.mark.parametrize("first", range(9))
@pytest.mark.parametrize("how", ["once", "for good"])
async def test_store_fails(journal: Journal, how: str, first: int) -> None:
    """Whichever write fails, the client and the upstream get every byte, and the record says that
    it is not whole.
    """
    echo = Echo(*CHUNKS)
    failing = Failing(
        journal, fails=lambda call: call == first or (how == "for good" and call > first)
    )
    assert await pass_through(RecordingTransport(echo, failing)) == CHUNKS
    assert echo.uploaded == b"body"
    tape = tape_of(journal)
    if how == "once" and first in (5, 6, 7):  # one of the three chunks
        kept, lost = CHUNKS[: first - 5], CHUNKS[first - 5 :]
        gap = tape.json[Mark.GAP]
        assert (gap["mark"], gap["chunks"], gap["size_bytes"]) == (
            Mark.CHUNK,
            len(lost),
            len(b"".join(lost)),
        )
        assert (tape.body, tape.marks[-2:]) == (b"".join(kept), [Mark.GAP, Mark.END])
    if how == "once" and first in (1, 2):  # one of the two chunks of the request
        assert tape.json[Mark.REQUEST_END] == {"complete": False}
    if how == "for good":
        assert Mark.END not in tape.marks
    if how == "once" and first != 8:
        assert (
            tape.json[Mark.END]["error"]
            == "The recording of this exchange failed: ZeroDivisionError."
        )


def _raise(*_: Any) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "stage", ["redact_headers", "redact_target", "clock_ns", "wall_ns", "make_id", "exchange"]
)
async def test_a_bug_in_the_tap_never_reaches_the_client(
    journal: Journal, stage: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {}
    if hasattr(recording, stage):
        monkeypatch.setattr(recording, stage, _raise)
    elif stage == "exchange":
        monkeypatch.setattr(journal, stage, _raise)
    else:
        options[stage] = _raise
    assert await pass_through(RecordingTransport(Echo(*CHUNKS), journal, **options)) == CHUNKS
    assert "recording of an exchange failed: ZeroDivisionError" in caplog.text
