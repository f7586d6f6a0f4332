"""`recorder run --replay … --then live`: what equals a recording is answered from it, and the rest
is live.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from jsonschema import Draft202012Validator

from tests.acceptance.commands.test_run import demo_upstream
from tests.support.conversations import Conversations, asking, message, response
from tests.support.empty_log import empty
from tests.support.event_loop import beside
from tests.support.logbook import Entry, entries
from tests.support.server import Ran, run_parent
from tests.support.server import run as command
from tools.landed_schemas import schemas

# A client that asks for each of its words in turn, and prints what came.
CLIENT = """
import os, sys, urllib.request as web
for words in sys.argv[1:]:
    body = '{"model": "gpt-demo", "input": "%s", "stream": true}' % words
    url = os.environ["OPENAI_BASE_URL"] + "/responses"
    with web.urlopen(web.Request(url, body.encode(), {"Content-Type": "application/json"})) as response:
        sys.stdout.buffer.write(response.read())
"""


def client(*words: str) -> list[str]:
    return [sys.executable, "-c", CLIENT, *words]


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """The words that put OpenAI at the demo."""
    with beside(demo_upstream) as demo:
        yield f"openai={demo.base_url}"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, upstream: str) -> Path:
    """A log with the session `parent`, of three exchanges."""
    db = empty(tmp_path_factory.mktemp("parent") / "recorder.db")
    words = ("--session", "parent", "--upstream", upstream, "--", *client("one", "two", "three"))
    assert run_parent(db, "run", *words).code == 0
    return db


@pytest.fixture
def parent(recorded: Path, tmp_path: Path) -> Path:
    """A copy of that log."""
    return Path(shutil.copy(recorded, tmp_path / "recorder.db"))


def fork(db: Path, upstream: str, until: int, *words: str, more: Sequence[str] = ()) -> Ran:
    """Fork `parent`, recorded as `child`."""
    options = (
        "--replay",
        "parent",
        "--until",
        until,
        "--then",
        "live",
        "--session",
        "child",
        "--speed",
        "max",
        *more,
    )
    return run_parent(db, "run", *options, "--upstream", upstream, "--", *client(*words))


def child(db: Path) -> list[Entry]:
    return [each for each in entries(db) if each.session == "child"]


def models(db: Path) -> list[str]:
    """The models that the requests of `child` named, in order."""
    return [json.loads(each.request_body)["model"] for each in child(db)]


class Forked(NamedTuple):
    """A log with `parent` and `child`, and what was said when that was recorded."""

    db: Path
    said: str


@pytest.fixture(scope="module")
def forked(recorded: Path, tmp_path_factory: pytest.TempPathFactory, upstream: str) -> Forked:
    """With two exchanges of the parent, and one that another model answered."""
    db = Path(shutil.copy(recorded, tmp_path_factory.mktemp("forked") / "recorder.db"))
    ran = fork(db, upstream, 2, "one", "two", "else", more=["--model", "gpt-else"])
    assert ran.code == 0, ran.err
    return Forked(db, ran.err)


def test_a_fork_asks_the_upstream_only_behind_its_last_exchange(
    forked: Forked, recorded: Path
) -> None:
    before, after = entries(recorded), child(forked.db)
    assert "3 exchanges, of which 2 replayed from parent and 1 live, " in forked.said
    assert [each.body for each in after[:2]] == [each.body for each in before[:2]], "byte for byte"
    assert models(forked.db) == ["gpt-demo", "gpt-demo", "gpt-else"], "the log has what went out"
    assert after[2].body != before[2].body


def test_a_fork_names_its_parent(forked: Forked, tmp_path: Path) -> None:
    db = forked.db
    named = {each["name"]: each for each in json.loads(command(db, "sessions", "--json").out)}
    label = json.loads(named["child"]["labels"])["forked_from"]
    assert label == {"name": "parent", "until": 2, "session_id": named["parent"]["session_id"]}
    shown = json.loads(command(db, "show", "child", "--json").out)
    assert shown["session"]["forked_from"] == label
    Draft202012Validator(schemas()["show"]).validate(shown)
    assert "forked from parent, up to turn 2" in command(db, "show", "child").text
    for form in ("jsonl", "cassette"):
        file = tmp_path / f"child.{form}"
        file.write_bytes(command(db, "export", "child", "--format", form).out)
        assert command(tmp_path / f"{form}.db", "import", file).code == 0
        (again,) = json.loads(command(tmp_path / f"{form}.db", "sessions", "--json").out)
        assert json.loads(again["labels"]) == {"forked_from": label}


def test_tokens_are_those_that_were_paid_for(forked: Forked) -> None:
    paid = json.loads(command(forked.db, "show", "child", "3", "--json").out)["exchanges"][0][
        "usage"
    ]
    assert f"1 live, {paid['input_tokens']:,} input tokens" in forked.said
    assert re.search(rf" {paid['output_tokens']:,} output tokens", forked.said)


def test_diff_says_where_a_fork_parts(forked: Forked) -> None:
    compared = command(forked.db, "diff", "parent", "child")
    assert compared.code == 4
    assert compared.text.startswith("alike up to exchange 2, but for timing\n"), (
        "told of, however fast it was"
    )
    assert 'input: "three" → "else"' in compared.text


def test_a_request_that_differs_is_named_and_alone_is_live(parent: Path, upstream: str) -> None:
    ran = fork(parent, upstream, 3, "one", "else", "three", more=["--model", "gpt-else"])
    assert (
        "request 2 (POST /openai/v1/responses) differs from the recording, so it is live."
        in ran.err
    )
    assert 'input: recorded "two", asked "else"' in ran.err
    assert models(parent) == ["gpt-demo", "gpt-else", "gpt-demo"]
    assert "Not asked for: exchange 2 of session parent" in ran.err


@pytest.mark.parametrize(
    ("until", "words", "said"),
    [
        pytest.param(
            2,
            ["one", "one"],
            r"2 exchanges, of which 1 replayed from parent and 1 live, .*",
            id="once",
        ),
        pytest.param(
            0,
            ["one"],
            r"1 exchange, of which 0 replayed from parent and 1 live, .*",
            id="at its beginning",
        ),
        pytest.param(
            2,
            ["one", "two"],
            r"2 exchanges, of which 2 replayed from parent and 0 live\.",
            id="no tokens",
        ),
    ],
)
def test_a_recording_is_followed_once_and_as_far_as_it_is_said(
    parent: Path, upstream: str, until: int, words: list[str], said: str
) -> None:
    ran = fork(parent, upstream, until, *words)
    assert re.search(rf"{said}$", ran.err.rstrip()), ran.err


def test_a_cassette_can_be_forked_into_a_new_database(
    parent: Path, upstream: str, tmp_path: Path
) -> None:
    cassette, db = tmp_path / "parent.sse.jsonl", tmp_path / "other.db"
    cassette.write_bytes(command(parent, "export", "parent", "--format", "cassette").out)
    words = (
        "--replay",
        cassette,
        "--until",
        "1",
        "--then",
        "live",
        "--session",
        "child",
        "--upstream",
        upstream,
    )
    ran = run_parent(db, "run", *words, "--speed", "max", "--", *client("one", "two"))
    assert "2 exchanges, of which 1 replayed from parent and 1 live" in ran.err
    (child,) = json.loads(command(db, "sessions", "--json").out)
    assert json.loads(child["labels"]) == {"forked_from": {"name": "parent", "until": 1}}


def test_an_edited_answer_is_played_and_the_child_says_so(parent: Path, upstream: str) -> None:
    before = [each.body for each in entries(parent)]
    ran = fork(parent, upstream, 2, "one", "two", more=["--edit", "2=All is different."])
    assert ran.code == 0, ran.err
    assert "Edited: turn 2 (exchange 2 of session parent)." in ran.err
    assert [each.body for each in entries(parent) if each.session == "parent"] == before
    assert b"All is different." in ran.out, "to the client"
    shown = json.loads(command(parent, "show", "child", "--json").out)
    assert shown["session"]["forked_from"]["edited"] == [{"turn": 2, "what": "text"}]
    Draft202012Validator(schemas()["show"]).validate(shown)
    text = command(parent, "show", "child").text
    assert "up to turn 2, turn 2 edited (text)" in text
    assert "All is different." in text
    assert command(parent, "lint", "child").code == 0


def test_a_fork_says_what_it_answered_although_a_time_differs(
    tmp_path: Path, upstream: str
) -> None:
    db, asked = tmp_path / "recorder.db", "It is 2026-11-27T10:00:0{}Z."
    (tmp_path / "recorder.toml").write_text('[match]\nuntil = "stamps"\n')
    options = ("--session", "parent", "--upstream", upstream)
    assert run_parent(db, "run", *options, "--", *client(asked.format(1))).code == 0
    ran = fork(db, upstream, 1, asked.format(2))
    assert "of which 1 replayed from parent and 0 live" in ran.err
    assert (
        "1 request was answered although times or UUIDs in it differ from the recording: input.\n"
        in ran.err
    )


WRONG = [
    (("--replay", "parent", "--until", "1"), "--until is for a fork: give --then live with it"),
    (("--replay", "parent", "--model", "m"), "--model is for a fork"),
    (("--replay", "parent", "--edit", "1=a"), "--edit is for a fork"),
    (
        ("--replay", "parent", "--then", "live", "--edit", "one"),
        "'one' is not an edit: write N=TEXT, ",
    ),
    (
        ("--replay", "parent", "--then", "live", "--edit", "1=a", "--edit", "1=b"),
        "--edit 1 is given twice",
    ),
    (
        ("--replay", "parent", "--then", "live", "--until", "1", "--edit", "2=a"),
        "--edit 2 is not replayed: 1 turn of parent can be answered from it.",
    ),
    (("--then", "live", "--until", "1"), "--until is for a replay: name a recording with --replay"),
    (("--replay", "parent", "--then", "live", "--until", "1", "--strict"), "leave --strict out"),
    (
        ("--replay", "parent", "--then", "live", "--until", "4"),
        "has 3 turns: give --until 3 or less, not 4",
    ),
    (
        ("--replay", "parent", "--then", "live", "--until", "1", "--model", " "),
        "--model needs the name of a model",
    ),
    (
        ("--replay", "parent", "--then", "live", "--until", "1", "--session", "parent"),
        "There is a session parent, and a fork is a new one: give another --session.",
    ),
]


def test_wrong_use_of_a_fork_is_one_sentence(recorded: Path) -> None:
    wrong = []
    for words, said in WRONG:
        ran = run_parent(recorded, "run", *words, "--", "true")
        if ran.code != 2 or said not in ran.err or "Traceback" in ran.err:
            wrong.append((words, ran))
    assert wrong == []


def test_turns_are_counted_without_connections_prewarms_and_probes(tmp_path: Path) -> None:
    session = Conversations(tmp_path / "recorder.db").session("parent")
    session.exchange([], method="HEAD", target="/", api="anthropic", provider="anthropic")
    session.exchange([], method="GET", headers=[("upgrade", "websocket")], at_s=1)
    session.exchange(response(), body={"model": "m", "input": [], "generate": False}, at_s=2)
    session.exchange(response(*message("Hi")), asking("Hello?"), at_s=3)
    ran = run_parent(
        session.path, "run", "--replay", "parent", "--then", "live", "--until", 1, "--", "true"
    )
    assert (
        "its 1 turn, the last of which is exchange 4 of session parent (POST /v1/responses)."
        in ran.err
    )
    ran = run_parent(
        session.path, "run", "--replay", "parent", "--then", "live", "--until", 2, "--", "true"
    )
    assert ran.code == 2
    assert "has 1 turn: give --until 1 or less, not 2" in ran.err


# An agent whose workers ask at the same time, each with a prompt and a word; then it asks with all
# that they had.
WORKERS = """
import os, sys, urllib.request as web
from concurrent.futures import ThreadPoolExecutor
def ask(words):
    body = '{"model": "gpt-demo", "instructions": "%s", "input": "%s", "stream": true}' % tuple(words.split(":"))
    url = os.environ["OPENAI_BASE_URL"] + "/responses"
    with web.urlopen(web.Request(url, body.encode(), {"Content-Type": "application/json"})) as response:
        response.read()
with ThreadPoolExecutor() as workers:
    list(workers.map(ask, sys.argv[1:]))
ask("Sum up.:" + " ".join(sys.argv[1:]).replace(":", ""))
"""


def test_of_five_workers_one_with_an_edited_prompt_four_are_replayed(
    upstream: str, tmp_path: Path
) -> None:
    db, agent = tmp_path / "recorder.db", [sys.executable, "-c", WORKERS]
    words = [f"Work on it.:{word}" for word in ("one", "two", "three", "four", "five")]
    options = ("--session", "parent", "--upstream", upstream)
    assert run_parent(db, "run", *options, "--", *agent, *words).code == 0
    words[1] = "Work hard on it.:two"
    forked = (
        "--replay",
        "parent",
        "--then",
        "live",
        "--session",
        "child",
        "--speed",
        "max",
        "--upstream",
        upstream,
    )
    ran = run_parent(db, "run", *forked, "--", *agent, *words)
    assert ran.code == 0, ran.err
    assert "its 6 turns, the last of which is exchange 6 of session parent" in ran.err
    assert "6 exchanges, of which 4 replayed from parent and 2 live, " in ran.err
    recorded = {each.request_body: each.body for each in entries(db) if each.session == "parent"}
    again = {each.request_body: each.body for each in child(db)}
    alike = [asked for asked, body in again.items() if recorded.get(asked) == body]
    assert len(alike) == 4, "byte for byte, wherever they stand"


# A client over WebSocket that asks for each of its words, each time with only what is new.
TALKER = """
import json, os, sys
from websockets.sync.client import connect
before = {}
with connect(os.environ["OPENAI_BASE_URL"].replace("http", "ws", 1) + "/responses", proxy=None) as server:
    for words in sys.argv[1:]:
        server.send(json.dumps({"type": "response.create", "model": "gpt-demo", "input": words, **before}))
        while (event := json.loads(server.recv()))["type"] != "response.completed":
            pass
        before = {"previous_response_id": event["response"]["id"]}
"""


def test_a_turn_over_websocket_is_live_where_it_differs(upstream: str, tmp_path: Path) -> None:
    db, talker = tmp_path / "recorder.db", [sys.executable, "-c", TALKER]
    options = ("--session", "parent", "--upstream", upstream)
    assert run_parent(db, "run", *options, "--", *talker, "one", "two").code == 0
    forked = (
        "--replay",
        "parent",
        "--then",
        "live",
        "--session",
        "child",
        "--speed",
        "max",
        "--upstream",
        upstream,
    )
    ran = run_parent(db, "run", *forked, "--", *talker, "one", "else", "more")
    assert ran.code == 0, ran.err
    assert (
        "request 2 (POST /openai/v1/responses) differs from the recording, so it is live."
        in ran.err
    )
    assert "5 exchanges, of which 2 replayed from parent and 3 live, " in ran.err, (
        "each with its connection"
    )
    inputs = [json.loads(each.request_body)["input"] for each in child(db) if each.request_body]
    [whole] = [each for each in inputs if isinstance(each, list)]
    said = [each["content"] for each in whole if each.get("role") == "user"]
    assert (said, len(whole) > 2) == (["one", "else"], True), "with the answer between them"
    assert command(db, "lint", "child").code == 0


def test_an_address_that_is_missing_is_asked_for(tmp_path: Path, upstream: str) -> None:
    db, script = tmp_path / "recorder.db", client("one")
    script[2] = script[2].replace(
        'os.environ["OPENAI_BASE_URL"]', '(os.environ["OPENAI_BASE_URL"][:-9] + "local/v1")'
    )
    local = upstream.replace("openai=", "local=")
    assert (
        run_parent(db, "run", "--session", "parent", "--upstream", local, "--", *script).code == 0
    )
    ran = run_parent(
        db, "run", "--replay", "parent", "--then", "live", "--until", "1", "--", *script
    )
    assert ran.code == 2
    assert "whose address is not known here: give it with --upstream local=URL." in ran.err
