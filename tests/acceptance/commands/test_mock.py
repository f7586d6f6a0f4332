"""`recorder mock`: what was recorded through `recorder serve` is served again to the same clients.

What answers a request, faults, and resumed streams are tested in tests/unit/replay and
tests/integration/replay.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

from tests.support.conversations import FRAMES
from tests.support.conversations import Recorded as Made
from tests.support.empty_log import empty
from tests.support.provider.server import start
from tests.support.sdks import APIS, ASKS, Got, Streamed, streamed_async
from tests.support.server import (
    PROGRAM,
    STARTED_S,
    STOPPED_S,
    Serving,
    everywhere,
    run,
    running,
    serving,
    wait_until,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:Inheritance class AiohttpClientSession:DeprecationWarning"
)

QUESTION = {"model": "gpt-5.5", "input": "hello", "stream": True}
LOCAL = {"model": "gpt-5.5", "input": "of another upstream", "stream": True}


@contextlib.contextmanager
def mocking(db: Path, *options: object, **variables: str) -> Iterator[Serving]:
    """A mock with that database, stopped as a supervisor would."""
    with running(db, "mock", "--speed", "max", *map(str, options), variables=variables) as mock:
        yield mock
        if mock.process.poll() is None:
            assert mock.stop() == 0


class Taken:
    """What clients got when it was recorded."""

    def __init__(self, db: Path) -> None:
        self.db = db
        self.answers: dict[str, Got] = {}
        self.streams: dict[str, Streamed] = {}
        self.body = self.models = b""

    async def record(self) -> None:
        async with await start(pace=0) as demo:
            options = [*everywhere(demo.base_url), "--upstream", f"local={demo.base_url}/v1"]
            with serving(self.db, *options, program=PROGRAM) as serve:
                self.answers, self.streams = await ask_all(f"{serve.base}/s/all")
                self.body = (await asyncio.to_thread(post, f"{serve.base}/s/one", QUESTION)).content
                local = await asyncio.to_thread(
                    post, f"{serve.base}/s/local/local", LOCAL, "/responses"
                )
                assert local.status_code == 200
                self.models = (
                    await asyncio.to_thread(get, f"{serve.base}/s/local", "/v1/models")
                ).content
        # on a machine that is busy the recorder has left some of it to others
        run(self.db, "db", "recover")


async def ask_all(base: str) -> tuple[dict[str, Got], dict[str, Streamed]]:
    """Every SDK in every way; and all that they yield of a stream."""
    answers = {name: await ask(base, "weather") for name, ask in ASKS.items()}
    streams = {}
    for api in APIS:
        async with httpx2.AsyncClient() as client:
            streams[api] = await streamed_async(api, client, base)
    return answers, streams


def post(base: str, body: Any, path: str = "/v1/responses") -> httpx.Response:
    return httpx.post(f"{base}{path}", json=body, trust_env=False, timeout=30)


def get(base: str, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{base}{path}", headers=headers, trust_env=False, timeout=30)


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Taken:
    made = Taken(empty(tmp_path_factory.mktemp("mock") / "recorder.db"))
    asyncio.run(made.record())
    return made


async def test_the_sdks_get_what_they_got_when_it_was_recorded(taken: Taken) -> None:
    with mocking(taken.db, "all", "local", "--strict") as mock:
        answers, streams = await ask_all(mock.base)
        assert post(mock.base, LOCAL, path="/local/responses").status_code == 200, (
            "an upstream that it alone knew"
        )
        states = [get(mock.base, "/v1/models").content for _ in range(2)]
        page = get(mock.base, "/_recorder/requests").json()
    assert answers == taken.answers
    assert streams == taken.streams
    assert all(stream.events and stream.error is None for stream in streams.values())
    assert states == [taken.models] * 2, "what only tells a state is told again"
    assert json.loads(taken.models)["data"]
    assert {each["how"] for each in page["requests"]} == {"exact"}
    assert page["unused"] == []


@pytest.fixture(scope="module")
def mock(taken: Taken) -> Iterator[Serving]:
    """Without a name it has the latest session, here `local`: so they are named."""
    with mocking(
        taken.db, "all", "one", RECORDER_MOCK_ALLOW_HOST="mock.test", RECORDER_MOCK_MAX_BODY="1"
    ) as mock:
        yield mock


def test_an_answer_has_the_recorded_bytes_and_is_given_again(taken: Taken, mock: Serving) -> None:
    for _ in range(3):
        response = post(mock.base, QUESTION)
        assert (response.status_code, response.content) == (200, taken.body)
        assert response.headers["content-type"].startswith("text/event-stream")


def test_a_miss_is_an_error_of_the_provider_and_a_line_that_names_the_nearest(
    mock: Serving,
) -> None:
    messages: Any = [{"role": "user", "content": "\x1b[31mnever asked"}]
    client = anthropic.Anthropic(base_url=mock.base, api_key="sk-none", max_retries=0)
    with client, pytest.raises(anthropic.BadRequestError) as refusal:
        client.messages.create(model="claude-opus-5", max_tokens=4_096, messages=messages)
    assert refusal.value.body["error"]["type"] == "invalid_request_error"  # type: ignore[index]
    [line] = re.findall(r"recorder: (Nothing recorded answers .*)\n", mock.said)
    assert re.search(
        r"none is equal\. The nearest is exchange \d+ of session all\. It differs in \d+ places: ",
        line,
    )
    assert re.search(r", asked .*; .*: recorded .*, asked ", line)
    assert "\x1b" not in mock.said


def test_the_page_is_for_those_that_the_proxy_lets_in(mock: Serving) -> None:
    page = "/_recorder/requests"
    hosts = ({"Host": "evil.test"}, {"Origin": "https://evil.test"}, {"Host": "mock.test"})
    assert [get(mock.base, page, **headers).status_code for headers in hosts] == [403, 403, 200]
    assert httpx.post(f"{mock.base}{page}", trust_env=False).status_code == 404
    assert get(mock.base, "/_recorder/healthz").json() == {"status": "ok"}


def test_max_body_is_the_largest_request_that_is_let_through(mock: Serving) -> None:
    refused = post(mock.base, {**QUESTION, "input": "x" * 2**20})
    assert (
        refused.status_code,
        "the limit of 1 MiB; see the setting max-body" in refused.text,
    ) == (413, True)


def test_strict_gives_each_recording_once(taken: Taken) -> None:
    with mocking(taken.db, "one", "--strict") as mock:
        assert post(mock.base, QUESTION).content == taken.body
        with openai.OpenAI(base_url=f"{mock.base}/v1", api_key="sk-none", max_retries=0) as client:
            with pytest.raises(openai.BadRequestError) as refusal:
                client.responses.create(model="gpt-5.5", input="hello", stream=True)
    assert refusal.value.code == "recording_not_found"
    assert "more often than it was recorded" in mock.said


def test_an_agent_with_other_instructions_is_answered_by_position_unless_it_is_strict(
    taken: Taken,
) -> None:
    changed = {**QUESTION, "instructions": "Be brief."}
    with mocking(taken.db, "one") as mock:
        assert post(mock.base, changed).content == taken.body
        page = get(mock.base, "/_recorder/requests").json()
    assert [(each["how"], each["differing"]) for each in page["requests"]] == [
        ("position", ["instructions"])
    ]
    said = "1 request was answered by its position, although this differs from the recording: instructions.\n"
    assert said in mock.said
    with mocking(taken.db, "one", "--strict") as mock:
        assert post(mock.base, changed).status_code == 400
    assert 'It differs in 1 place: instructions: recorded (nothing), asked "Be brief."' in mock.said


def test_the_page_says_what_was_asked_and_what_is_not_used(taken: Taken) -> None:
    with mocking(taken.db, "one", "--otherwise", "503") as mock:
        before = get(mock.base, "/_recorder/requests").json()
        post(mock.base, QUESTION)
        response = post(mock.base, {**QUESTION, "input": "never asked"})
        after = get(mock.base, "/_recorder/requests").json()
    assert (response.status_code, response.headers["x-recorder-miss"]) == (503, "1")
    assert response.json()["error"]["type"] == "server_error"
    [unused] = before["unused"]
    assert before["requests"] == []
    assert (unused["method"], unused["target"], unused["upstream"]) == (
        "POST",
        "/v1/responses",
        "openai",
    )
    answered, missed = after["requests"]
    assert (answered["how"], answered["exchange_id"]) == ("exact", unused["exchange_id"])
    assert (missed["how"], missed["exchange_id"]) == ("miss", None)
    assert "never asked" in missed["message"]
    assert after["unused"] == []


async def test_otherwise_what_is_not_recorded_is_forwarded(taken: Taken) -> None:
    async with await start(pace=0) as demo:
        with mocking(taken.db, "one", "--otherwise", "forward", *everywhere(demo.base_url)) as mock:
            recorded = await asyncio.to_thread(post, mock.base, QUESTION)
            forwarded = await asyncio.to_thread(
                post, mock.base, {**QUESTION, "input": "never asked"}
            )
            page = await asyncio.to_thread(get, mock.base, "/_recorder/requests")
        [asked] = demo.requests
    assert [each["how"] for each in page.json()["requests"]] == ["exact", "forwarded"]
    assert "recorder: Forwarded. Nothing recorded answers POST" in mock.said
    assert "Requests: 2, forwarded: 1. Recordings not used: 0." in mock.said
    assert recorded.content == taken.body
    assert forwarded.status_code == 200
    assert b"response.completed" in forwarded.content
    assert json.loads(asked.body)["input"] == "never asked"


def test_a_cassette_needs_no_database(taken: Taken, tmp_path: Path) -> None:
    cassette = tmp_path / "one.sse.jsonl"
    cassette.write_bytes(run(taken.db, "export", "one", "--format", "cassette").out)
    with mocking(tmp_path / "none.db", "--cassette", cassette) as mock:
        assert post(mock.base, QUESTION).content == taken.body
        [post(mock.base, {**QUESTION, "input": "never asked"}) for _ in range(3)]
    said = f"The nearest is exchange 1 of {cassette}, already used."
    assert (
        mock.said.count(
            f"recorder: Nothing recorded answers POST /responses (openai): of 1 there, none is equal. {said}"
        )
        == 1
    )
    assert "\n3 times: Nothing recorded answers POST" in mock.said


def test_sessions_and_cassettes_answer_together_and_each_once(taken: Taken, tmp_path: Path) -> None:
    cassette = tmp_path / "one.sse.jsonl"
    cassette.write_bytes(run(taken.db, "export", "one", "--format", "cassette").out)
    named = ("local", "local", "--cassette", cassette, "--cassette", cassette)
    with mocking(taken.db, *named) as mock:
        unused = get(mock.base, "/_recorder/requests").json()["unused"]
    assert [each["target"] for each in unused] == [
        "/local/responses",
        "/v1/models",
        "/v1/responses",
    ]
    assert [each["recording"] for each in unused] == [
        *("exchange 1 of session local", "exchange 2 of session local", f"exchange 1 of {cassette}")
    ]


def test_without_a_name_it_is_the_latest_and_faults_are_done_to_it(taken: Taken) -> None:
    with mocking(taken.db, "--fault", "cut@3") as mock:
        came: list[bytes] = []
        with httpx.stream(
            "POST", f"{mock.base}/local/responses", json=LOCAL, trust_env=False
        ) as response:
            with pytest.raises(httpx.RemoteProtocolError):
                came.extend(response.iter_raw())
    sent = b"".join(came)
    assert (sent.count(b"\n\n"), sent.endswith(b"\n\n")) == (3, True)
    assert "broke off: the connection was cut by a fault" in mock.said


def test_a_fault_that_did_nothing_is_named_and_what_one_answered_is_counted(taken: Taken) -> None:
    with mocking(
        taken.db,
        "one",
        "--fault",
        "status:529:times=1",
        "--fault",
        "cut@999",
        "--fault",
        "drip:99999",
    ) as mock:
        assert [post(mock.base, QUESTION).status_code for _ in range(2)] == [529, 200]
        page = get(mock.base, "/_recorder/requests").json()
    expected = [("fault", "The fault status:529:times=1 has answered it."), ("exact", None)]
    assert [(each["how"], each["message"]) for each in page["requests"]] == expected
    assert (page["unused"], page["unused_faults"]) == ([], ["cut@999"])
    assert (
        "Requests: 2, answered by a fault: 1, not recorded: 0. Recordings not used: 0.\n"
        in mock.said
    )
    assert mock.said.endswith("\n--fault cut@999 did nothing: no response had an event 999.\n")


@pytest.mark.timed
def test_a_stalled_stream_does_not_keep_it_from_stopping(taken: Taken) -> None:
    with mocking(taken.db, "one", "--fault", "stall@1") as mock:
        with httpx.stream(
            "POST", f"{mock.base}/v1/responses", json=QUESTION, trust_env=False
        ) as response:
            chunks = response.iter_raw()  # which closes the connection when it is gone
            assert next(chunks)
            mock.interrupt()
            wait_until(lambda: "Stopping: open streams (1)" in mock.said)
            mock.interrupt()
            assert mock.process.wait(4) == 0  # before the grace of the stream has ended


def test_the_ready_file_has_the_url_while_it_listens(taken: Taken, tmp_path: Path) -> None:
    ready = tmp_path / "mock.url"
    ready.write_text("http://127.0.0.1:65535\n")  # of an earlier one, which was killed
    with mocking(taken.db, "one", "--ready-file", ready) as mock:
        assert ready.read_text() == f"{mock.base}\n"
        mock.interrupt()
        assert mock.process.wait(STOPPED_S) == 0
    assert not ready.exists()
    assert "Requests: 0, not recorded: 0. Recordings not used: 1." in mock.said


def test_a_ready_file_that_cannot_be_written_ends_it(taken: Taken, tmp_path: Path) -> None:
    words = (
        "mock",
        "one",
        "--port",
        "0",
        "--db",
        str(taken.db),
        "--ready-file",
        str(tmp_path / "none" / "file"),
    )
    # it listens then
    done = subprocess.run([*PROGRAM, *words], capture_output=True, timeout=STARTED_S)
    assert (done.returncode, b"cannot be written" in done.stderr) == (1, True), done.stderr


def test_a_ready_file_that_somebody_replaced_stays(taken: Taken, tmp_path: Path) -> None:
    ready = tmp_path / "mock.url"
    with mocking(taken.db, "one", "--ready-file", ready) as mock:
        ready.write_text("http://127.0.0.1:1\n")
        mock.interrupt()
        assert mock.process.wait(STOPPED_S) == 0
    assert ready.read_text() == "http://127.0.0.1:1\n"


def test_a_recorder_has_a_ready_file_too_with_the_token_in_it(tmp_path: Path) -> None:
    ready, token = tmp_path / "serve.url", "a-token-of-22-letters_"
    with serving(
        empty(tmp_path / "recorder.db"),
        "--ready-file",
        str(ready),
        "--token",
        token,
        program=PROGRAM,
    ) as serve:
        assert ready.read_text() == f"{serve.base}/t/{token}\n"
        assert get(ready.read_text().strip(), "/_recorder/healthz").status_code == 200
    assert not ready.exists()


def test_gaps_are_served_where_they_are_allowed(tmp_path: Path) -> None:
    made = Made(tmp_path / "recorder.db")
    made.session("gappy", FRAMES[:2], gap=True)
    with mocking(made.path, "gappy", "--allow-gaps") as mock:
        assert post(mock.base, {"stream": True}).content == b"".join(FRAMES[:2])
