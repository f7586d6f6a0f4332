"""`recorder otlp push`: its options, the environment that SDKs have too, and a push that goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.collector import Answer, Receiver, receiving
from tests.support.conversations import Conversations, asking, call, message, response
from tests.support.rows import START_NS
from tests.support.scripts import Chunk, End, ReadAll, Sleep, Upstream, ask
from tests.support.server import environment, run, serving, wait_until

SECRET = "s3cr3t-of-nobody"
SOON_S = 2.0  # within which a new exchange is sent


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def log(tmp_path: Path) -> Conversations:
    """A log with one session of one exchange."""
    log = Conversations(tmp_path / "log.db")
    log.session("talk").exchange(response(*message("Hi.")), asking("Hello"))
    return log


@pytest.fixture
def path(log: Conversations) -> Path:
    return log.path


# -- options


def test_a_push_says_what_it_sent_in_one_line(path: Path, receiver: Receiver) -> None:
    ran = run(path, "otlp", "push", receiver.url)
    size = sum(len(request.body) for request in receiver.requests)
    sent = "1 span and 4 points of metrics, of 1 exchange in 1 session"
    assert (ran.code, ran.out) == (0, b"")
    assert ran.err == f"{sent}, sent to {receiver.url} ({size:,} bytes).\n"
    assert run(path, "otlp", "push", receiver.url).err == f"Nothing new to be sent to {receiver.url}.\n"


def test_json_is_a_row(path: Path, receiver: Receiver) -> None:
    row = json.loads(run(path, "otlp", "push", receiver.url, "--jsonl").out)
    assert row.pop("bytes") > 0
    assert row == {
        "target": receiver.url,
        "form": "1.41.0",
        "spans": 1,
        "points": 4,
        "exchanges": 1,
        "sessions": 1,
        "rejected": 0,
    }


def test_headers_are_sent_and_never_shown(path: Path, receiver: Receiver) -> None:
    receiver.plan(Answer(401, json.dumps({"message": f"{SECRET} is unknown"}).encode()))
    ran = run(
        path, "otlp", "push", receiver.url, "--header", f"x-key={SECRET}", "--header", f"Authorization=B {SECRET}"
    )
    assert (ran.code, SECRET in ran.err) == (1, False)
    assert receiver.requests[0].headers["x-key"] == SECRET
    assert receiver.requests[0].headers["authorization"] == f"B {SECRET}"


def test_a_password_in_the_url_is_sent_and_never_shown(path: Path, receiver: Receiver) -> None:
    url = receiver.url.replace("//", f"//me:{SECRET}@")
    receiver.plan(Answer(400, f"no such key: {SECRET}".encode()))
    for code in (1, 0):
        ran = run(path, "otlp", "push", f"{url}?key={SECRET}", "--json")
        assert (ran.code, SECRET in ran.err + ran.out.decode()) == (code, False)
    assert receiver.requests[0].headers["authorization"].startswith("Basic ")
    assert receiver.requests[0].path == f"/v1/traces?key={SECRET}"
    assert SECRET not in run(path, "query", "SELECT * FROM export_cursors", "--json").out.decode()


@pytest.mark.parametrize(
    ("url", "endpoint", "header"),
    [
        (None, "HERE", "one, two"),
        ("HERE", None, "one, two"),
        ("HERE", "HERE/", "one, two"),
        ("HERE", "http://127.0.0.1:1", None),
    ],
)
def test_the_environment_names_a_collector_and_the_headers_for_it(
    path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, url: str | None, endpoint: str | None, header: str
) -> None:
    """A key of one collector is not sent to another."""
    if endpoint is not None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.replace("HERE", receiver.url))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=one%2C%20two,x-other=1")
    given = [] if url is None else [receiver.url]
    assert run(path, "otlp", "push", *given, "--header", "x-other=2").code == 0
    headers = receiver.requests[0].headers
    assert (headers.get("x-key"), headers["x-other"]) == (header, "2")


def test_a_setting_may_name_the_headers(path: Path, receiver: Receiver, tmp_path: Path) -> None:
    settings = tmp_path / "recorder" / "recorder.toml"
    settings.parent.mkdir()
    settings.write_text('[otlp]\nheader = ["x-key=of a file"]\nmetrics = false\n')
    assert run(path, "otlp", "push", receiver.url).code == 0
    assert [(request.path, request.headers["x-key"]) for request in receiver.requests] == [("/v1/traces", "of a file")]


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        ([], 2, "Give the URL of a collector, such as http://127.0.0.1:4318, or set OTEL_EXPORTER_OTLP_ENDPOINT."),
        (["localhost:4318"], 2, "That is not the URL of a collector: give one such as http://127.0.0.1:4318."),
        (["http://a", "--header", SECRET], 2, "A header is NAME=VALUE"),
        (["http://a", "--convention", "0.1"], 2, "'0.1' is not one of"),
        (["http://a", "--follow", "--json"], 2, "--follow does not end"),
        (["http://a", "--since", "soon"], 2, "'soon' is not a time"),
    ],
)
def test_a_call_that_makes_no_sense_is_one_sentence(path: Path, options: list[str], code: int, sentence: str) -> None:
    ran = run(path, "otlp", "push", *options)
    assert (ran.code, sentence in ran.err) == (code, True), ran.err
    assert SECRET not in ran.err


def test_there_must_be_a_log(tmp_path: Path) -> None:
    assert run(tmp_path / "none.db", "otlp", "push", "http://127.0.0.1:1").code == 3
    assert not (tmp_path / "none.db").exists()


# -- a push that goes on


class Following:
    """A running `recorder otlp push --follow`."""

    def __init__(self, process: processes.Process, said: Path) -> None:
        self.process, self._said = process, said

    @property
    def said(self) -> str:
        return self._said.read_text()


@contextlib.contextmanager
def following(
    path: Path, receiver: Receiver, tmp_path: Path, options: tuple[str, ...] = ("--follow",)
) -> Iterator[Following]:
    said = tmp_path / "said"
    said.touch()
    arguments = ["otlp", "push", receiver.url, *options, "--db", str(path)]
    process = processes.Process(arguments, environment(tmp_path), Path("/"), (str(said), str(said)), leads=True)
    try:
        yield Following(process, said)
        assert process.poll() is None or process.poll() in (0, 130, 143), said.read_text()
    finally:
        process.kill()
        process.wait(60)


def arrives(receiver: Receiver, count: int) -> float:
    """Wait until the collector has so many spans; returns how long it took."""
    began_s = time.monotonic()
    wait_until(lambda: len(receiver.spans) >= count)
    return time.monotonic() - began_s


@pytest.mark.timed
async def test_what_is_recorded_arrives_soon(receiver: Receiver, tmp_path: Path) -> None:
    path = tmp_path / "recorder.db"
    frames = [Chunk(frame) for frame in response(*message("Hi."))]
    async with Upstream(lambda id: [*frames, Sleep(0.1), End()]) as upstream:
        with serving(path, "--upstream", f"openai={upstream.base}") as serve:
            await ask(serve.port, "first", ReadAll())
            wait_until(lambda: run(path, "sessions", "--json").code == 0)
            with following(path, receiver, tmp_path) as pushing:
                await asyncio.to_thread(arrives, receiver, 1)
                took_s = []
                for number in range(2, 5):
                    await ask(serve.port, f"number-{number}", ReadAll())
                    took_s.append(await asyncio.to_thread(arrives, receiver, number))
                pushing.process.send_signal(signal.SIGTERM)
                assert pushing.process.wait(60) == 0
    assert min(took_s) < SOON_S
    assert (len(receiver.spans), set(receiver.span_ids.values())) == (4, {1})


def test_a_collector_that_goes_away_and_comes_back_misses_nothing(
    log: Conversations, receiver: Receiver, tmp_path: Path
) -> None:
    with following(log.path, receiver, tmp_path) as pushing:
        arrives(receiver, 1)
        wait_until(lambda: receiver.metrics)  # so it has the answer to the spans
        receiver.close()
        began_s = (time.time_ns() - START_NS) / 1e9
        log.session("while it is away", began_s).exchange(response(*call("roll", "{}"), id="resp_2"), asking("Roll"))
        wait_until(lambda: "takes nothing now" in pushing.said)
        receiver.listen()
        arrives(receiver, 2)
        wait_until(lambda: "takes it again" in pushing.said)
        pushing.process.send_signal(signal.SIGINT)
        assert pushing.process.wait(60) == 130
    assert set(receiver.span_ids.values()) == {1}
    assert run(log.path, "otlp", "push", receiver.url, "--no-metrics").err.startswith("Nothing new")


@pytest.mark.parametrize("options", [("--follow",), ()])
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_loses_nothing_that_the_collector_takes(
    path: Path, receiver: Receiver, tmp_path: Path, options: tuple[str, ...], by: signal.Signals
) -> None:
    interrupted: list[Callable[[], object]] = []

    def interrupt() -> None:
        wait_until(lambda: interrupted)
        interrupted[0]()

    receiver.plan(Answer(before=interrupt))
    with following(path, receiver, tmp_path, options) as pushing:
        interrupted.append(lambda: pushing.process.send_signal(by))
        ended = 130 if by == signal.SIGINT else 0 if options else 143
        assert pushing.process.wait(60) == ended
    run(path, "otlp", "push", receiver.url, "--no-metrics")
    assert set(receiver.span_ids.values()) == {1}


def test_a_final_answer_ends_it(path: Path, receiver: Receiver, tmp_path: Path) -> None:
    receiver.plan(Answer(401, b'{"message":"who are you"}'))
    said = tmp_path / "said"
    said.touch()
    arguments = ["otlp", "push", receiver.url, "--follow", "--db", str(path)]
    process = processes.Process(arguments, environment(tmp_path), Path("/"), (str(said), str(said)))
    assert process.wait(60) == 1
    assert "refused it with status 401: who are you." in said.read_text()
