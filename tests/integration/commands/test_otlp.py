"""`recorder export --to`: its options, and the environment that SDKs have too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.conversations import Conversations, asking, message, response
from tests.support.otlp import Answer, Receiver, receiving
from tests.support.server import run

SECRET = "s3cr3t-of-nobody"


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
    ran = run(path, "export", "--to", receiver.url)
    size = sum(len(request.body) for request in receiver.requests)
    sent = "1 span and 4 points of metrics, of 1 exchange in 1 session"
    assert (ran.code, ran.out) == (0, b"")
    assert ran.err == f"{sent}, sent to {receiver.url} ({size:,} bytes).\n"
    assert (
        run(path, "export", "--to", receiver.url).err
        == f"Nothing new to be sent to {receiver.url}.\n"
    )


def test_json_is_a_row(path: Path, receiver: Receiver) -> None:
    row = json.loads(run(path, "export", "--to", receiver.url, "--jsonl").out)
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
        path,
        "export",
        "--to",
        receiver.url,
        "--header",
        f"x-key={SECRET}",
        "--header",
        f"Authorization=B {SECRET}",
    )
    assert (ran.code, SECRET in ran.err) == (1, False)
    assert receiver.requests[0].headers["x-key"] == SECRET
    assert receiver.requests[0].headers["authorization"] == f"B {SECRET}"


def test_a_password_in_the_url_is_sent_and_never_shown(path: Path, receiver: Receiver) -> None:
    url = receiver.url.replace("//", f"//me:{SECRET}@")
    receiver.plan(Answer(400, f"no such key: {SECRET}".encode()))
    for code in (1, 0):
        ran = run(path, "export", "--to", f"{url}?key={SECRET}", "--json")
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
    path: Path,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    url: str | None,
    endpoint: str | None,
    header: str,
) -> None:
    """A key of one collector is not sent to another."""
    if endpoint is not None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.replace("HERE", receiver.url))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=one%2C%20two,x-other=1")
    given = [] if url is None else [receiver.url]
    assert run(path, "export", "--to", *given, "--header", "x-other=2").code == 0
    headers = receiver.requests[0].headers
    assert (headers.get("x-key"), headers["x-other"]) == (header, "2")


def test_a_setting_may_name_the_headers(path: Path, receiver: Receiver, tmp_path: Path) -> None:
    settings = tmp_path / "recorder" / "recorder.toml"
    settings.parent.mkdir()
    settings.write_text('[export]\nheader = ["x-key=of a file"]\nmetrics = false\n')
    assert run(path, "export", "--to", receiver.url).code == 0
    assert [(request.path, request.headers["x-key"]) for request in receiver.requests] == [
        ("/v1/traces", "of a file")
    ]


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (
            [],
            2,
            "Give the URL of a collector, such as http://127.0.0.1:4318, or set OTEL_EXPORTER_OTLP_ENDPOINT.",
        ),
        (
            ["localhost:4318"],
            2,
            "That is not the URL of a collector: give one such as http://127.0.0.1:4318.",
        ),
        (["http://a", "--header", SECRET], 2, "A header is NAME=VALUE"),
        (["http://a", "--convention", "0.1"], 2, "0.1"),
        (["http://a", "--follow", "--json"], 2, "--follow does not end"),
        (["http://a", "--since", "soon"], 2, "'soon' is not a time"),
    ],
)
def test_a_call_that_is_not_valid_is_one_sentence(
    path: Path, options: list[str], code: int, sentence: str
) -> None:
    ran = run(path, "export", "--to", *options)
    assert (ran.code, sentence in ran.err) == (code, True), ran.err
    assert SECRET not in ran.err


def test_a_final_answer_ends_a_push_that_goes_on(path: Path, receiver: Receiver) -> None:
    receiver.plan(Answer(401, b'{"message":"who are you"}'))
    ran = run(path, "export", "--to", receiver.url, "--follow")
    assert ran.code == 1
    assert "refused it with status 401: who are you." in ran.err
