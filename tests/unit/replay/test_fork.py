"""`recorder.replay.fork`: the model of a live request, in its path and in its body."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from recorder.errors import UpstreamError
from recorder.proxy.http.messages import Request, Response
from recorder.proxy.recording import RecordingTransport
from recorder.proxy.routing import Origin
from recorder.recordings.memory import MemoryJournal
from recorder.replay.fork import ForkTransport, in_body, in_path
from recorder.replay.matching import Matcher
from recorder.replay.transport import ReplayTransport
from tests.support.proxy import request_for
from tests.support.recordings import ask, record
from tests.support.websocket import answer, end_of
from tests.unit.replay.test_transport import request, stream


class Upstream:
    """An upstream that keeps what it is asked, and cannot be reached."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    async def handle_async_request(self, request: Request) -> Response:
        self.asked.append(request)
        raise UpstreamError("nobody is there", "upstream_unreachable")

    async def aclose(self) -> None: ...


recorded = partial(RecordingTransport, journal=MemoryJournal())


async def sent(asked: Request, model: str | None) -> Request:
    """A request as a fork without recordings sends it on."""
    upstream = Upstream()
    fork = ForkTransport(ReplayTransport(Matcher([])), upstream, recorded, model=model)
    with pytest.raises(UpstreamError):
        await fork.handle_async_request(asked)
    return upstream.asked[0]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            "/v1beta/models/gemini-pro:streamGenerateContent?alt=sse",
            "/v1beta/models/new:streamGenerateContent?alt=sse",
        ),
        ("/v1beta/models/gemini-pro%3AgenerateContent", "/v1beta/models/new%3AgenerateContent"),
        (
            "/v1/publishers/anthropic/models/claude:rawPredict",
            "/v1/publishers/anthropic/models/new:rawPredict",
        ),
        ("/v1beta/models/gemini-pro", "/v1beta/models/gemini-pro"),
        ("/v1/responses?of=/models/x:y", "/v1/responses?of=/models/x:y"),
    ],
)
def test_a_model_in_a_path_is_replaced_where_a_method_follows(target: str, expected: str) -> None:
    assert in_path(target, "new") == expected


def test_a_model_for_a_path_cannot_leave_it() -> None:
    assert in_path("/v1beta/models/a:b", "../x?y") == "/v1beta/models/..%2Fx%3Fy:b"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            b'{"model": "a", "t": 1.0, "x": {"model": "a"}}',
            b'{"model":"new","t":1.0,"x":{"model": "a"}}',
        ),
        (b'{"model":"models/a"}', b'{"model":"models/new"}'),
        (b'{"input":"model"}', None),
        (b'{"model":1}', None),
        (b"no JSON", None),
        (b"", None),
    ],
)
def test_a_model_in_a_body_is_replaced_and_nothing_else(
    body: bytes, expected: bytes | None
) -> None:
    assert in_body(body, "new") == expected


@pytest.mark.parametrize(("coded", "coding"), [(bytes, b""), (gzip.compress, b"gzip")])
async def test_a_body_with_another_model_has_its_own_length_and_no_coding(
    coded: Callable[[bytes], bytes], coding: bytes
) -> None:
    body = coded(b'{"model":"a","input":"hi"}')
    asked = request_for("POST", "https://api.openai.com/v1/responses", content=body)
    asked.headers.raw += [(b"content-encoding", coding)] if coding else []
    asked.extensions["recorder"] = Origin("openai", "/v1/responses", asked.headers.raw)
    went = await sent(asked, "another-model")
    body = await went.aread()
    assert json.loads(body) == {"model": "another-model", "input": "hi"}
    origin = went.extensions["recorder"]
    assert isinstance(origin, Origin)
    for headers in (went.headers.raw, origin.headers):
        known = {name.lower(): value for name, value in headers}
        assert (known[b"content-length"], b"content-encoding" in known) == (
            b"%d" % len(body),
            False,
        )


async def test_without_a_model_a_live_request_is_not_touched() -> None:
    asked = request()
    stream_before = asked.stream
    went = await sent(asked, None)
    assert went.stream is stream_before


async def test_a_probe_that_was_not_recorded_is_live_and_nothing_else() -> None:
    upstream = Upstream()
    fork = ForkTransport(ReplayTransport(Matcher([stream()]), speed=None), upstream, recorded)
    with pytest.raises(UpstreamError):
        await fork.handle_async_request(request("HEAD", "/api/hello", body=b""))
    assert (await fork.handle_async_request(request())).status_code == 200
    assert (len(upstream.asked), fork.unused()) == (1, [])


async def test_a_live_request_has_the_items_of_a_replayed_answer_in_the_place_of_its_id() -> None:
    said = {"role": "user", "content": "hi"}
    body = {"model": "m", "input": [said], "stream": True}
    blocks = [b"data: %b\n\n" % payload for payload in answer("resp_1", ["Hello."])]
    upstream = Upstream()
    played = msgspec.structs.replace(record(ask(body), *blocks), end=end_of())
    fork = ForkTransport(ReplayTransport(Matcher([played]), speed=None), upstream, recorded)
    await fork.handle_async_request(request(body=json.dumps(body).encode()))
    asked = request(body=json.dumps({**body, "previous_response_id": "resp_1"}).encode())
    asked.extensions["recorder"] = Origin("openai", "/v1/responses", asked.headers.raw)
    with pytest.raises(UpstreamError):
        await fork.handle_async_request(asked)
    went = json.loads(await upstream.asked[0].aread())
    items = went.pop("input")
    assert went == {"model": "m", "stream": True}
    assert (items[0], items[1]["content"][0]["text"], items[2]) == (said, "Hello.", said)
