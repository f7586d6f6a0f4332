"""`recorder mock`: what was recorded through `recorder serve` is served again to the same clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

from recorder.commands.terminal.recordings import loader
from recorder.demo.server import start
from recorder.errors import RecorderError
from tests.support.sdk_playback import APIS, Streamed, streamed_async
from tests.support.sdks import ASKS, Got
from tests.support.server import STOPPED_S, Ran, Serving, everywhere, run, run_apart, running, serving, wait_until
from tests.support.sessions import FRAMES
from tests.support.sessions import Recorded as Made

pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

QUESTION = {"model": "gpt-5.5", "input": "hello", "stream": True}
LOCAL = {"model": "gpt-5.5", "input": "of another upstream", "stream": True}


@contextlib.contextmanager
def mocking(db: Path, *options: object) -> Iterator[Serving]:
    """A mock with that database, stopped as a supervisor would."""
    with running(db, "mock", "--speed", "max", *map(str, options)) as mock:
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
            with serving(self.db, *options) as serve:
                self.answers, self.streams = await ask_all(f"{serve.base}/s/all")
                self.body = (await asyncio.to_thread(post, f"{serve.base}/s/one", QUESTION)).content
                local = await asyncio.to_thread(post, f"{serve.base}/s/local/local", LOCAL, "/responses")
                assert local.status_code == 200
                self.models = (await asyncio.to_thread(get, f"{serve.base}/s/local", "/v1/models")).content
        run(self.db, "db", "recover")  # on a machine that is busy the recorder has left some of it to others


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


def frames(body: bytes) -> list[bytes]:
    return [frame + b"\n\n" for frame in body.split(b"\n\n") if frame]


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Taken:
    made = Taken(tmp_path_factory.mktemp("mock") / "recorder.db")
    asyncio.run(made.record())
    return made


def failing(*arguments: object, db: Path) -> Ran:
    ran = run(db, "mock", "--port", 0, *arguments)
    assert re.search(r"^Error: [^\n]*\.$", ran.err, re.MULTILINE), ran.err
    return ran


async def test_the_sdks_get_what_they_got_when_it_was_recorded(taken: Taken) -> None:
    with mocking(taken.db, "all", "--strict") as mock:
        answers, streams = await ask_all(mock.base)
        page = get(mock.base, "/_recorder/requests").json()
    assert answers == taken.answers
    assert streams == taken.streams
    assert all(stream.events and stream.error is None for stream in streams.values())
    assert {each["how"] for each in page["requests"]} == {"exact"}
    assert page["unused"] == []


def test_an_answer_has_the_recorded_bytes(taken: Taken) -> None:
    with mocking(taken.db, "one") as mock:
        response = post(mock.base, QUESTION)
    assert (response.status_code, response.content) == (200, taken.body)
    assert response.headers["content-type"].startswith("text/event-stream")


def test_strict_gives_each_recording_once(taken: Taken) -> None:
    with mocking(taken.db, "one", "--strict") as mock:
        assert post(mock.base, QUESTION).content == taken.body
        with openai.OpenAI(base_url=f"{mock.base}/v1", api_key="sk-none", max_retries=0) as client:
            with pytest.raises(openai.BadRequestError) as refusal:
                client.responses.create(model="gpt-5.5", input="hello", stream=True)
    assert refusal.value.code == "recording_not_found"
    assert "more often than it was recorded" in mock.said


def test_else_the_last_answer_is_given_again(taken: Taken) -> None:
    with mocking(taken.db, "one") as mock:
        assert [post(mock.base, QUESTION).content for _ in range(3)] == [taken.body] * 3


def test_a_stream_is_resumed_after_every_event(taken: Taken) -> None:
    sent = frames(taken.body)
    [id] = set(re.findall(rb'"id": ?"(resp_\w+)"', taken.body))
    with mocking(taken.db, "one") as mock:
        for number in range(0, len(sent) - 1, 7):
            rest = get(mock.base, f"/v1/responses/{id.decode()}?stream=true&starting_after={number}")
            assert (rest.status_code, rest.content) == (200, b"".join(sent[number + 1 :]))
        document = get(mock.base, f"/v1/responses/{id.decode()}").json()
    assert (document["id"], document["status"]) == (id.decode(), "completed")


def test_the_page_says_what_was_asked_and_what_is_not_used(taken: Taken) -> None:
    with mocking(taken.db, "one") as mock:
        before = get(mock.base, "/_recorder/requests").json()
        post(mock.base, QUESTION)
        post(mock.base, {**QUESTION, "input": "never asked"})
        after = get(mock.base, "/_recorder/requests").json()
    [unused] = before["unused"]
    assert before["requests"] == []
    assert (unused["method"], unused["target"], unused["upstream"]) == ("POST", "/v1/responses", "openai")
    answered, missed = after["requests"]
    assert (answered["how"], answered["exchange_id"]) == ("exact", unused["exchange_id"])
    assert (missed["how"], missed["exchange_id"]) == ("miss", None)
    assert "never asked" in missed["message"]
    assert after["unused"] == []


def test_the_page_is_for_those_that_the_proxy_lets_in(taken: Taken) -> None:
    with mocking(taken.db, "one", "--allow-host", "mock.test") as mock:
        statuses = [
            get(mock.base, "/_recorder/requests", **headers).status_code
            for headers in ({"Host": "evil.test"}, {"Origin": "https://evil.test"}, {"Host": "mock.test"})
        ]
        assert httpx.post(f"{mock.base}/_recorder/requests", trust_env=False).status_code == 404
        assert get(mock.base, "/_recorder/healthz").json() == {"status": "ok"}
    assert statuses == [403, 403, 200]


def test_a_miss_is_an_error_of_the_provider_and_a_line_that_names_the_nearest(taken: Taken) -> None:
    messages: Any = [{"role": "user", "content": "\x1b[31mnever asked"}]
    with mocking(taken.db, "all") as mock:
        client = anthropic.Anthropic(base_url=mock.base, api_key="sk-none", max_retries=0)
        with client, pytest.raises(anthropic.BadRequestError) as refusal:
            client.messages.create(model="claude-opus-5", max_tokens=4_096, messages=messages)
    assert refusal.value.body["error"]["type"] == "invalid_request_error"  # type: ignore[index]
    [line] = re.findall(r"recorder: (Nothing recorded answers .*)\n", mock.said)
    assert re.search(r"none is equal\. The nearest is exchange \d+ of session all\. It differs in \d+ places: ", line)
    assert re.search(r", asked .*; .*: recorded .*, asked ", line)
    assert "\x1b" not in mock.said


def test_otherwise_is_a_status_of_your_choice(taken: Taken) -> None:
    with mocking(taken.db, "one", "--otherwise", "503") as mock:
        response = post(mock.base, {**QUESTION, "input": "never asked"})
    assert (response.status_code, response.headers["x-recorder-miss"]) == (503, "1")
    assert response.json()["error"]["type"] == "server_error"


async def test_otherwise_what_is_not_recorded_is_forwarded(taken: Taken) -> None:
    async with await start(pace=0) as demo:
        with mocking(taken.db, "one", "--otherwise", "forward", *everywhere(demo.base_url)) as mock:
            recorded = await asyncio.to_thread(post, mock.base, QUESTION)
            forwarded = await asyncio.to_thread(post, mock.base, {**QUESTION, "input": "never asked"})
            page = await asyncio.to_thread(get, mock.base, "/_recorder/requests")
        [asked] = demo.requests
    assert [each["how"] for each in page.json()["requests"]] == ["exact", "forwarded"]
    assert "recorder: Forwarded. Nothing recorded answers POST" in mock.said
    assert "Requests: 2, forwarded: 1. Recordings not used: 0." in mock.said
    assert recorded.content == taken.body
    assert forwarded.status_code == 200
    assert b"response.completed" in forwarded.content
    assert json.loads(asked.body)["input"] == "never asked"


def test_an_upstream_that_only_the_recorder_knew_is_found_again(taken: Taken) -> None:
    with mocking(taken.db, "local") as mock:
        assert post(mock.base, LOCAL, path="/local/responses").status_code == 200


def test_what_only_tells_a_state_is_told_again(taken: Taken) -> None:
    assert json.loads(taken.models)["data"]
    with mocking(taken.db, "local", "--strict") as mock:
        assert [get(mock.base, "/v1/models").content for _ in range(2)] == [taken.models] * 2


def test_max_body_is_the_largest_request_that_is_let_through(taken: Taken) -> None:
    with mocking(taken.db, "one", "--max-body", "1") as mock:
        refused = post(mock.base, {**QUESTION, "input": "x" * 2**20})
        assert post(mock.base, QUESTION).content == taken.body
    assert (refused.status_code, "the limit of 1 MiB; see --max-body" in refused.text) == (413, True)


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
    assert [each["target"] for each in unused] == ["/local/responses", "/v1/models", "/v1/responses"]
    assert [each["recording"] for each in unused] == [
        *("exchange 1 of session local", "exchange 2 of session local", f"exchange 1 of {cassette}")
    ]


def test_without_a_name_it_is_the_latest(taken: Taken) -> None:
    with mocking(taken.db) as mock:
        assert post(mock.base, LOCAL, path="/local/responses").status_code == 200


def test_faults_are_done_to_what_is_replayed(taken: Taken) -> None:
    came: list[bytes] = []
    with mocking(taken.db, "one", "--fault", "cut@3") as mock:
        with httpx.stream("POST", f"{mock.base}/v1/responses", json=QUESTION, trust_env=False) as response:
            with pytest.raises(httpx.RemoteProtocolError):
                came.extend(response.iter_raw())
    assert b"".join(came) == b"".join(frames(taken.body)[:3])
    assert "broke off: the connection was cut by a fault" in mock.said


def test_a_fault_that_did_nothing_is_named_and_what_one_answered_is_counted(taken: Taken) -> None:
    with mocking(
        taken.db, "one", "--fault", "status:529:times=1", "--fault", "cut@999", "--fault", "drip:99999"
    ) as mock:
        assert [post(mock.base, QUESTION).status_code for _ in range(2)] == [529, 200]
        page = get(mock.base, "/_recorder/requests").json()
    assert [(each["how"], each["message"]) for each in page["requests"]] == [
        ("fault", "The fault status:529:times=1 has answered it."),
        ("exact", None),
    ]
    assert (page["unused"], page["unused_faults"]) == ([], ["cut@999"])
    assert "Requests: 2, answered by a fault: 1, not recorded: 0. Recordings not used: 0.\n" in mock.said
    assert mock.said.endswith("\n--fault cut@999 did nothing: no response had an event 999.\n")


def test_a_document_is_cut_before_its_beginning(taken: Taken) -> None:
    with mocking(taken.db, "local", "--fault", "cut@0") as mock:
        with pytest.raises(httpx.RemoteProtocolError):
            get(mock.base, "/v1/models")
    assert "did nothing" not in mock.said


@pytest.mark.timed
def test_a_stalled_stream_does_not_keep_it_from_stopping(taken: Taken) -> None:
    with mocking(taken.db, "one", "--fault", "stall@1") as mock:
        with httpx.stream("POST", f"{mock.base}/v1/responses", json=QUESTION, trust_env=False) as response:
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


@pytest.mark.parametrize("content", ["", "mine\n", "http://example.com/\n", "http://127.0.0.1:1\nmore\n", "link"])
def test_a_file_that_no_recorder_wrote_is_no_ready_file(taken: Taken, tmp_path: Path, content: str) -> None:
    ready = tmp_path / "mine"
    if content == "link":
        (tmp_path / "other").write_text("http://127.0.0.1:65535\n")
        ready.symlink_to(tmp_path / "other")
    else:
        ready.write_text(content)
    before = ready.read_bytes()
    ran = failing("one", "--ready-file", ready, db=taken.db)
    assert (ran.code, "there is a file that no recorder wrote" in ran.err) == (2, True), ran.err
    assert ready.read_bytes() == before


def test_a_ready_file_that_somebody_replaced_stays(taken: Taken, tmp_path: Path) -> None:
    ready = tmp_path / "mock.url"
    with mocking(taken.db, "one", "--ready-file", ready) as mock:
        ready.write_text("http://127.0.0.1:1\n")
        mock.interrupt()
        assert mock.process.wait(STOPPED_S) == 0
    assert ready.read_text() == "http://127.0.0.1:1\n"


def test_a_recorder_has_a_ready_file_too_with_the_token_in_it(tmp_path: Path) -> None:
    ready, token = tmp_path / "serve.url", "a-token-of-22-letters_"
    with serving(tmp_path / "recorder.db", "--ready-file", str(ready), "--token", token) as serve:
        assert ready.read_text() == f"{serve.base}/t/{token}\n"
        assert get(ready.read_text().strip(), "/_recorder/healthz").status_code == 200
    assert not ready.exists()


def test_gaps_are_taken_only_if_allowed(tmp_path: Path) -> None:
    made = Made(tmp_path / "recorder.db")
    made.session("gappy", FRAMES[:2], gap=True)
    cassette = tmp_path / "gappy.sse.jsonl"
    cassette.write_bytes(run(made.path, "export", "gappy", "--format", "cassette").out)
    for source in (["gappy"], ["--cassette", cassette]):
        ran = failing(*source, db=made.path)
        assert ran.code == 1
        assert "--allow-gaps takes the rest" in ran.err
        with mocking(made.path, *source, "--allow-gaps") as mock:
            assert post(mock.base, {"stream": True}).content == b"".join(FRAMES[:2])


def test_recordings_that_take_too_much_memory_are_refused(taken: Taken) -> None:
    held = asyncio.run(loader(str(taken.db)).answers(["one"], []))
    assert [each.exchange.target for each in held] == ["/v1/responses"]
    with pytest.raises(RecorderError, match="of memory: name fewer of them"):
        asyncio.run(loader(str(taken.db)).answers(["one"], [], limit_bytes=len(taken.body)))


def test_wrong_use_is_refused(taken: Taken, tmp_path: Path) -> None:
    forward = ("--otherwise", "forward", "--port", "9999", "--upstream", "openai=http://127.0.0.1:9999")
    for arguments, code, words in (
        (["nosuch"], 3, "no session 'nosuch'"),
        (["--cassette", tmp_path / "none.sse.jsonl"], 3, "There is no file"),
        (["--cassette", tmp_path], 2, "is a directory: name the files in it."),
        (["one", "--fault", "ruin@3"], 2, "'ruin@3' is no fault"),
        (["one", "--speed", "0"], 2, "over 0, or max"),
        (["one", *forward], 2, "this recorder itself"),
        (["one", "--host", "0.0.0.0"], 2, "not a loopback address"),
    ):
        ran = failing(*arguments, db=taken.db)
        assert (ran.code, words in ran.err) == (code, True), ran.err
    assert failing(db=tmp_path / "none.db").code == 3
    ran = run_apart(taken.db, "mock", "--port", 0, "one", "--ready-file", tmp_path / "none" / "file")  # it listens then
    assert (ran.code, "cannot be written" in ran.err) == (1, True), ran.err
