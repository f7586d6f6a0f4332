"""`recorder.testing`: clients of both libraries get from a replay what they got when it was
recorded, failures too.
"""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import Callable, Container
from typing import Any

import anthropic
import httpx
import httpx2
import msgspec
import openai
import pytest
from google import genai
from google.genai.errors import ClientError

from recorder import testing
from recorder.errors import NotFoundError
from recorder.model.events import Recording
from recorder.replay.pace import Clock
from recorder.testing import (
    UnusedRecordingsError,
    async_fault_transport,
    async_replay_transport,
    fault_transport,
    replay_transport,
)
from recorder.wire.dialects import by_name
from tests.support.corpus import CORPUS, corpus_index, needs_corpus
from tests.support.facts import MS, PATHS
from tests.support.sdks import APIS, BASE, PAIRS, Streamed, asked, of, streamed, streamed_async
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    Close,
    Reset,
    ScriptedUpstream,
    Send,
    Sleep,
    answer,
    chunked,
)
from tests.unit.replay.test_pace import TestClock

STREAMS: dict[str, list[bytes]] = {
    "openai-responses": [
        b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1","output":[]},'
        b'"sequence_number":0}\n\n',
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"msg_1",'
        b'"output_index":0,"content_index":0,"delta":"Z\xc3\xbcrich","sequence_number":1}\n\n',
        b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"resp_1","output":[]},'
        b'"sequence_number":2}\n\n',
    ],
    "openai-chat": [
        b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Z"}}]}\n\n',
        b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"\xc3\xbc"}}]}\n\n',
        b"data: [DONE]\n\n",
    ],
    "anthropic": [
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","content":[],"usage":{}}}\n\n',
        b'event: ping\ndata: {"type":"ping"}\n\n',
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ],
    "gemini": [
        b'data: {"candidates":[{"content":{"parts":[{"text":"Z\xc3\xbc"}],"role":"model"}}]}\r\n\r\n',
        b'data: {"candidates":[{"content":{"parts":[{"text":"rich"}],"role":"model"},"finishReason":"STOP"}]}\r\n\r\n',
    ],
}
ERRORS: dict[str, bytes] = {
    "openai-responses": b'event: error\ndata: {"type":"error","error":{"type":"server_error","message":"sorry"}}\n\n',
    "openai-chat": b'data: {"error":{"message":"sorry","type":"server_error"}}\n\n',
    "anthropic": b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
    "gemini": b'data: {"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}\r\n\r\n',
}
REFUSAL = (
    b'{"error":{"message":"slow down","type":"requests","code":429,"status":"RESOURCE_EXHAUSTED"}}'
)

both_libraries = pytest.mark.parametrize("library", [httpx2, httpx])
each_client = pytest.mark.parametrize(("api", "library"), PAIRS)


def whole(api: str, **how: Any) -> Recording:
    return of(api, b"".join(STREAMS[api]), **how)


async def live(api: str, library: Any, script: list[Action], *, asynchronous: bool) -> Streamed:
    async with ScriptedUpstream(script) as upstream:
        if asynchronous:
            async with library.AsyncClient() as client:
                return await streamed_async(api, client, upstream.base)
        with library.Client() as client:
            return await asyncio.to_thread(streamed, api, client, upstream.base)


async def replayed(
    api: str, library: Any, recording: Recording, *, asynchronous: bool, **how: Any
) -> Streamed:
    if asynchronous:
        transport = async_replay_transport([recording], library=library, **how)
        async with library.AsyncClient(transport=transport) as client:
            return await streamed_async(api, client)
    with library.Client(transport=replay_transport([recording], library=library, **how)) as client:
        return streamed(api, client)


def cut_off(recording: Recording, outcome: Any) -> Recording:
    """The same without a response."""
    assert recording.end is not None
    end = msgspec.structs.replace(recording.end, outcome=outcome)
    return msgspec.structs.replace(recording, response=None, pieces=(), reads=(), end=end)


@each_client
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_a_replay_yields_the_events_that_the_socket_did(
    api: str, library: Any, asynchronous: bool
) -> None:
    script: list[Action] = [
        Send(STREAM_HEAD),
        *(Send(chunked(frame)) for frame in STREAMS[api]),
        Send(LAST_CHUNK),
    ]
    came = await live(api, library, script, asynchronous=asynchronous)
    again = await replayed(api, library, whole(api), asynchronous=asynchronous)
    assert came.error is None
    assert came.events
    assert again == came


@each_client
@pytest.mark.parametrize("step", [39, pytest.param(13, marks=pytest.mark.slow)])
async def test_any_chunking_yields_the_same_events(api: str, library: Any, step: int) -> None:
    length = len(b"".join(STREAMS[api]))
    expected = await replayed(api, library, whole(api), asynchronous=True)
    for cut in range(1, 150, step):
        recording = whole(api, cuts=range(cut, length, cut))
        assert await replayed(api, library, recording, asynchronous=False) == expected, cut


@pytest.mark.parametrize("api", APIS)
def test_a_stream_of_another_type_is_one_to_the_sdks_and_here(api: str) -> None:
    for content_type in ("text/plain", "application/json", "application/octet-stream"):
        recording = whole(api, content_type=content_type)
        assert [piece.raw for piece in recording.pieces] == STREAMS[api]
        assert sdk_events(recording) == sdk_events(whole(api)), content_type
        with httpx2.Client(transport=replay_transport([recording], library=httpx2)) as client:
            answered = client.post(f"{BASE}{PATHS[api]}", content=recording.request_body)
        assert answered.headers["content-type"] == content_type
        assert answered.content == b"".join(STREAMS[api])


def sdk_events(recording: Recording) -> list[Any]:
    """What the SDK that a recording is of yields when it is replayed."""
    with httpx2.Client(transport=replay_transport([recording], library=httpx2)) as client:
        return streamed(recording.exchange.api, client).events


@pytest.mark.parametrize("api", APIS)
def test_json_without_data_is_read_as_the_sdk_reads_it(api: str) -> None:
    first, second, *rest = STREAMS[api]
    bare = of(api, b"".join([first, second[second.index(b"{") :], *rest]))
    passed_over = of(api, b"".join([first, *rest]))
    assert (sdk_events(bare) != sdk_events(passed_over)) == by_name(api).reads_bare_json


FIRST = 1  # events that come before a stream fails

Failing = tuple[Callable[[str], list[Action]], Callable[[str], Recording]]


def _begun(api: str, *actions: Action) -> list[Action]:
    return [Send(STREAM_HEAD + chunked(*STREAMS[api][:FIRST])), *actions]


def _cut(outcome: Any) -> Callable[[str], Recording]:
    return lambda api: of(api, b"".join(STREAMS[api][:FIRST]), outcome=outcome)


FAILURES: dict[str, Failing] = {
    "429": (
        lambda api: answer(
            REFUSAL, b"Content-Type: application/json", b"Retry-After: 7", status=b"429 Slow Down"
        ),
        lambda api: of(api, REFUSAL, content_type="application/json", status=429),
    ),
    "500": (
        lambda api: answer(b"oops", b"Content-Type: text/plain", status=b"500 Oops"),
        lambda api: of(api, b"oops", content_type="text/plain", status=500),
    ),
    "error event": (
        lambda api: _begun(api, Send(chunked(ERRORS[api]) + LAST_CHUNK)),
        lambda api: of(api, b"".join(STREAMS[api][:FIRST]) + ERRORS[api]),
    ),
    "closed in mid-stream": (lambda api: _begun(api, Close()), _cut("truncated")),
    "closed in mid-event": (
        lambda api: _begun(api, Send(chunked(STREAMS[api][FIRST][:20])), Close()),
        lambda api: of(
            api, b"".join(STREAMS[api][:FIRST]) + STREAMS[api][FIRST][:20], outcome="truncated"
        ),
    ),
    "reset in mid-stream": (lambda api: _begun(api, Sleep(0.05), Reset()), _cut("upstream_reset")),
    "closed without an answer": (
        lambda api: [Close()],
        lambda api: cut_off(whole(api), "truncated"),
    ),
    "reset without an answer": (
        lambda api: [Reset()],
        lambda api: cut_off(whole(api), "upstream_reset"),
    ),
}


@each_client
@pytest.mark.parametrize(
    "other", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["quick", "the other way"]
)
async def test_a_replayed_failure_is_the_one_that_was_seen_live(
    api: str, library: Any, other: bool
) -> None:
    """By turns in a synchronous client and in an asynchronous one."""
    for number, (script, recording) in enumerate(FAILURES.values()):
        is_async = other != bool(number % 2)
        came = await live(api, library, script(api), asynchronous=is_async)
        again = await replayed(api, library, recording(api), asynchronous=is_async)
        assert came.error is not None
        assert (again.events, again.failure) == (came.events, came.failure)


@each_client
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_an_upstream_that_was_not_there_is_not_there_again(
    api: str, library: Any, asynchronous: bool
) -> None:
    async with ScriptedUpstream([]) as gone:
        pass
    if asynchronous:
        async with library.AsyncClient() as client:
            came = await streamed_async(api, client, gone.base)
    else:
        with library.Client() as client:
            came = streamed(api, client, gone.base)
    again = await replayed(
        api, library, cut_off(whole(api), "upstream_unreachable"), asynchronous=asynchronous
    )
    assert came.error is not None
    assert again.failure == came.failure


def test_the_headers_of_a_failure_are_there() -> None:
    recording = of("openai-responses", REFUSAL, content_type="application/json", status=429)
    assert recording.response is not None
    headers = [*recording.response.headers, ("Retry-After", "7")]
    recording = msgspec.structs.replace(
        recording, response=msgspec.structs.replace(recording.response, headers=headers)
    )
    error = streamed(
        "openai-responses", httpx2.Client(transport=replay_transport([recording]))
    ).error
    assert isinstance(error, openai.RateLimitError)
    assert error.response.headers["retry-after"] == "7"


@both_libraries
async def test_a_stall_ends_with_the_client_s_own_timeout(library: Any) -> None:
    stalled = msgspec.structs.replace(whole("openai-responses"), end_ns=3_600_000 * MS)
    clock = TestClock()
    transport = replay_transport([stalled], speed=1, clock=clock, library=library)
    came = streamed("openai-responses", library.Client(transport=transport))
    transport = async_replay_transport([stalled], speed=1, clock=clock, library=library)
    came_async = await streamed_async("openai-responses", library.AsyncClient(transport=transport))
    assert len(came.events) == len(came_async.events) == 3
    assert came.failure is not None
    assert came.failure[1] == f"{library.__name__}.ReadTimeout"
    assert came_async.failure == came.failure


def _said(came: Streamed) -> tuple[int, str | None, str | None]:
    """As `sdk_oracle.json` says it: how many events, the last one, the error."""
    last = came.events[-1].get("type") or "chunk" if came.events else None
    return len(came.events), last, type(came.error).__name__ if came.error else None


async def _corpus(api: str, files: Container[str], *, asynchronous: bool) -> None:
    """Each file over a transport, in reads for the sync SDK, event by event for the other."""
    oracle = json.loads((CORPUS / "sdk_oracle.json").read_text())["files"]
    oracle = {file: said for file, said in oracle.items() if said["sdk"] == api and file in files}
    assert oracle
    for file, said in oracle.items():
        body = (CORPUS / file).read_bytes()
        recording = of(api, body, cuts=range(1_000, len(body), 1_000))
        came = await replayed(
            api, httpx2, recording, asynchronous=asynchronous, reads=not asynchronous
        )
        error = said["error"].partition(":")[0] if said["error"] else None
        assert _said(came) == (said["yielded"], said["last"], error), file


@pytest.mark.long
@needs_corpus
@pytest.mark.filterwarnings("ignore::UserWarning:google.genai")
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_streams_of_the_corpus_yield_what_the_sdk_yields(
    api: str, asynchronous: bool
) -> None:
    core = {entry["file"] for entry in corpus_index() if entry["core"]}
    await _corpus(api, core, asynchronous=asynchronous)


@needs_corpus
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:google.genai")
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_every_stream_of_the_corpus_yields_what_the_sdk_yields(
    api: str, asynchronous: bool
) -> None:
    await _corpus(api, {entry["file"] for entry in corpus_index()}, asynchronous=asynchronous)


def test_what_was_asked_is_told() -> None:
    transport = replay_transport([whole("openai-chat")])
    streamed("openai-chat", httpx2.Client(transport=transport))
    missed = streamed("anthropic", httpx2.Client(transport=transport))
    assert [(seen.target, seen.how) for seen in transport.requests] == [
        ("/v1/chat/completions", "exact"),
        ("/v1/messages", "miss"),
    ]
    assert isinstance(missed.error, anthropic.BadRequestError)
    assert missed.error.body == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": transport.requests[1].message},
    }


@both_libraries
async def test_unused_recordings_are_an_error_if_asked_for(library: Any) -> None:
    for make, close in ((replay_transport, "close"), (async_replay_transport, "aclose")):
        transport = make([whole("openai-chat"), whole("gemini")], library=library)
        assert len(transport.unused()) == 2
        with pytest.raises(
            UnusedRecordingsError, match=r"2 recordings were not asked for:\n.*/v1/chat/completions"
        ):
            transport.assert_all_used()
        done = getattr(transport, close)()
        if done is not None:
            await done
    assert issubclass(UnusedRecordingsError, AssertionError)


@pytest.mark.parametrize("api", APIS)
def test_no_sdk_asks_again_after_a_miss(api: str) -> None:
    """With the retries that it has by itself."""
    transport = replay_transport([])
    http = httpx2.Client(transport=transport)
    said = pytest.raises(
        (openai.BadRequestError, anthropic.BadRequestError, ClientError), match="recordings"
    )
    with said:
        if api == "gemini":
            options: Any = {"base_url": BASE, "httpx_client": http}
            genai.Client(api_key="none", http_options=options).models.generate_content(
                model="m", contents="hi"
            )
        elif api == "anthropic":
            client = anthropic.Anthropic(api_key="none", base_url=BASE, http_client=http)
            client.messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
            )
        else:
            openai.OpenAI(api_key="none", base_url=BASE, http_client=http).responses.create(
                model="m", input="hi"
            )
    assert [seen.how for seen in transport.requests] == ["miss"]


@both_libraries
async def test_a_miss_may_go_to_a_transport_of_the_library(library: Any) -> None:
    def other(request: Any) -> Any:
        return library.Response(201, content=request.content)

    mock = library.MockTransport(other)
    with library.Client(transport=replay_transport([], otherwise=mock, library=library)) as client:
        response = client.post(f"{BASE}/v1/x", content=iter([b"bo", b"dy"]))
    async with library.AsyncClient(
        transport=async_replay_transport([], otherwise=mock, library=library)
    ) as client:
        again = await client.post(f"{BASE}/v1/x", content=b"body")
    assert (response.status_code, response.content, again.content) == (201, b"body", b"body")


def test_a_miss_may_raise() -> None:
    with httpx2.Client(transport=replay_transport([], otherwise=None)) as client:
        with pytest.raises(NotFoundError):
            client.get(f"{BASE}/v1/models")


class Told(Clock):
    """A clock that stands still, and tells what it is asked to wait for."""

    def __init__(self) -> None:
        self.deadlines: list[int] = []
        self.now_ns = lambda: 0

    async def sleep_until(self, deadline_ns: int) -> None:
        self.deadlines.append(deadline_ns)


async def test_timing_is_that_of_the_clock_that_is_given() -> None:
    recording = of("openai-chat", b"".join(STREAMS["openai-chat"]), cuts=[5, 50])
    expected = [MS, 2 * MS, 3 * MS, 4 * MS, recording.end_ns]
    sync, asynchronous = Told(), Told()
    streamed(
        "openai-chat", httpx2.Client(transport=replay_transport([recording], speed=1, clock=sync))
    )
    transport = async_replay_transport([recording], speed=2, clock=asynchronous)
    await streamed_async("openai-chat", httpx2.AsyncClient(transport=transport))
    assert expected[: len(sync.deadlines)] == sync.deadlines
    assert len(sync.deadlines) >= 4
    assert [2 * each for each in asynchronous.deadlines][: len(sync.deadlines)] == sync.deadlines


@both_libraries
async def test_faults_raise_what_the_library_raises(library: Any) -> None:
    recording = whole("openai-responses")
    transport = replay_transport([recording], faults=["cut@1:reset"], library=library)
    came = streamed("openai-responses", library.Client(transport=transport))
    inner = async_replay_transport([recording], library=library)
    transport = async_fault_transport(inner, "cut@1", library=library)
    again = await streamed_async("openai-responses", library.AsyncClient(transport=transport))
    assert len(came.events) == len(again.events) == 1
    name = library.__name__
    assert came.failure is not None
    assert again.failure is not None
    assert (came.failure[1], again.failure[1]) == (
        f"{name}.ReadError",
        f"{name}.RemoteProtocolError",
    )


async def test_a_cut_at_a_time_does_not_wait_for_the_next_byte() -> None:
    script: list[Action] = _begun("openai-chat", Sleep(5))
    async with ScriptedUpstream(script) as upstream:
        transport = async_fault_transport(httpx2.AsyncHTTPTransport(), "cut@100ms")
        async with httpx2.AsyncClient(transport=transport) as client, asyncio.timeout(3):
            came = await streamed_async("openai-chat", client, upstream.base)
    assert len(came.events) == 1
    assert came.error is not None


def test_a_status_is_injected_as_often_as_asked_for() -> None:
    transport = fault_transport(
        replay_transport([whole("openai-chat")]), "status:429:retry-after=0:times=2"
    )
    client = openai.OpenAI(
        api_key="k", http_client=httpx2.Client(transport=transport), max_retries=2
    )
    ask: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    assert len(list(client.chat.completions.create(**ask, stream=True))) == 2


def test_threads_may_share_a_transport() -> None:
    count = 40
    transport = replay_transport(
        [whole("openai-chat", started_ns=number) for number in range(count)]
    )
    client = httpx2.Client(transport=transport)
    came: list[Streamed] = []
    threads = [
        threading.Thread(target=lambda: came.append(streamed("openai-chat", client)))
        for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.error for each in came] == [None] * count
    transport.assert_all_used()


def test_every_public_name_is_there() -> None:
    assert all(hasattr(testing, name) for name in testing.__all__)
    assert sorted(testing.__all__) == testing.__all__


@both_libraries
async def test_a_client_may_leave_in_mid_stream(library: Any) -> None:
    recording = whole("openai-chat", cuts=[5, 50])
    url = f"{BASE}/v1/chat/completions"
    faults = ["repeat:50%", "slice:1"]
    transport = replay_transport([recording], faults=faults, library=library)
    with library.Client(transport=transport) as client:
        with client.stream("POST", url, content=asked("openai-chat")) as response:
            assert next(response.iter_raw()) == STREAMS["openai-chat"][0][:1]
    transport = async_replay_transport([recording], faults=faults, library=library)
    async with library.AsyncClient(transport=transport) as client:
        async with client.stream("POST", url, content=asked("openai-chat")) as response:
            assert await anext(response.aiter_raw()) == STREAMS["openai-chat"][0][:1]
    gc.collect()  # what was left open would be an error here
