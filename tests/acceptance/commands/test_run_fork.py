"""`recorder run --replay … --until N --then live`: a recording followed, then left."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from recorder.demo.server import DemoServer, start
from tests.acceptance.commands.test_run import run
from tests.support.conversations import Conversations, asking, message, response
from tests.support.logbook import entries
from tests.support.server import Ran
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


@pytest.fixture
async def demo() -> AsyncIterator[DemoServer]:
    async with await start(pace=0) as server:
        yield server


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with the session `parent`, of three exchanges."""
    db = tmp_path_factory.mktemp("parent") / "recorder.db"

    async def record() -> Ran:
        async with await start(pace=0) as demo:
            words = ("--session", "parent", *at(demo), "--", *client("one", "two", "three"))
            return await asyncio.to_thread(run, db, *words)

    assert asyncio.run(record()).code == 0
    return db


@pytest.fixture
def parent(recorded: Path, tmp_path: Path) -> Path:
    """A copy of that log."""
    return Path(shutil.copy(recorded, tmp_path / "recorder.db"))


def at(demo: DemoServer) -> Sequence[str]:
    return "--upstream", f"openai={demo.base_url}"


async def forked(db: Path, demo: DemoServer, until: int, *words: str, more: Sequence[str] = ()) -> Ran:
    """A fork of `parent`, recorded as `child`."""
    options = ("--replay", "parent", "--until", until, "--then", "live", "--session", "child", "--speed", "max", *more)
    return await asyncio.to_thread(run, db, *options, *at(demo), "--", *client(*words))


def models(db: Path) -> list[str]:
    """The models that the requests of `child` named, in order."""
    return [json.loads(each.request_body)["model"] for each in entries(db) if each.session == "child"]


async def test_a_fork_asks_the_upstream_only_behind_its_last_exchange(parent: Path, demo: DemoServer) -> None:
    before = entries(parent)
    ran = await forked(parent, demo, 2, "one", "two", "else", more=["--model", "gpt-else"])
    assert ran.code == 0, ran.err
    assert "3 exchanges, of which 2 replayed from parent and 1 live, " in ran.err
    child = [each for each in entries(parent) if each.session == "child"]
    assert [each.body for each in child[:2]] == [each.body for each in before[:2]], "byte for byte"
    assert models(parent) == ["gpt-demo", "gpt-demo", "gpt-else"], "the log has what went out"
    assert child[2].body != before[2].body


async def test_a_fork_names_its_parent(parent: Path, demo: DemoServer, tmp_path: Path) -> None:
    await forked(parent, demo, 1, "one", "two")
    named = {each["name"]: each for each in json.loads(command(parent, "sessions", "--json").out)}
    label = json.loads(named["child"]["labels"])["forked_from"]
    assert label == {"name": "parent", "until": 1, "session_id": named["parent"]["session_id"]}
    shown = json.loads(command(parent, "show", "child", "--json").out)
    assert shown["session"]["forked_from"] == label
    Draft202012Validator(schemas()["show"]).validate(shown)
    assert "forked from parent behind exchange 1" in command(parent, "show", "child").out.decode()
    for form in ("jsonl", "cassette"):
        file = tmp_path / f"child.{form}"
        file.write_bytes(command(parent, "export", "child", "--format", form).out)
        assert command(tmp_path / f"{form}.db", "import", file).code == 0
        (again,) = json.loads(command(tmp_path / f"{form}.db", "sessions", "--json").out)
        assert json.loads(again["labels"]) == {"forked_from": label}


async def test_the_first_request_that_differs_is_named_and_all_is_live_from_there(
    parent: Path, demo: DemoServer
) -> None:
    ran = await forked(parent, demo, 3, "one", "else", "three", more=["--model", "gpt-else"])
    assert "request 2 (POST /openai/v1/responses) differs from the recording: live from here." in ran.err
    assert 'input: recorded "two", asked "else"' in ran.err
    assert models(parent) == ["gpt-demo", "gpt-else", "gpt-else"], "the third is recorded, and decided otherwise"
    assert "Not asked for: exchange 2 of session parent" in ran.err


async def test_a_recording_is_followed_once(parent: Path, demo: DemoServer) -> None:
    ran = await forked(parent, demo, 2, "one", "one")
    assert "2 exchanges, of which 1 replayed from parent and 1 live" in ran.err


async def test_a_fork_at_its_beginning_is_live(parent: Path, demo: DemoServer) -> None:
    ran = await forked(parent, demo, 0, "one")
    assert "1 exchange, of which 0 replayed from parent and 1 live" in ran.err


async def test_tokens_are_those_that_were_paid_for(parent: Path, demo: DemoServer) -> None:
    ran = await forked(parent, demo, 2, "one", "two", "else")
    paid = json.loads(command(parent, "show", "child", "3", "--json").out)["exchanges"][0]["usage"]
    assert f"1 live, {paid['input_tokens']:,} input tokens" in ran.err
    assert re.search(rf" {paid['output_tokens']:,} output tokens", ran.err)


async def test_a_fork_that_costs_nothing_has_no_tokens(parent: Path, demo: DemoServer) -> None:
    ran = await forked(parent, demo, 2, "one", "two")
    assert ran.err.rstrip().endswith("2 exchanges, of which 2 replayed from parent and 0 live.")


async def test_diff_says_where_a_fork_parts(parent: Path, demo: DemoServer) -> None:
    await forked(parent, demo, 2, "one", "two", "else")
    compared = await asyncio.to_thread(command, parent, "diff", "parent", "child")
    assert compared.code == 4
    assert compared.out.decode().startswith("alike up to exchange 2, but for timing\n"), "told of, however fast it was"
    assert 'input: "three" → "else"' in compared.out.decode()


async def test_a_cassette_can_be_forked_into_a_new_database(parent: Path, demo: DemoServer, tmp_path: Path) -> None:
    cassette, db = tmp_path / "parent.sse.jsonl", tmp_path / "other.db"
    cassette.write_bytes(command(parent, "export", "parent", "--format", "cassette").out)
    words = ("--replay", cassette, "--until", "1", "--then", "live", "--session", "child", *at(demo), "--speed", "max")
    ran = await asyncio.to_thread(run, db, *words, "--", *client("one", "two"))
    assert "2 exchanges, of which 1 replayed from parent and 1 live" in ran.err
    (child,) = json.loads(command(db, "sessions", "--json").out)
    assert json.loads(child["labels"]) == {"forked_from": {"name": "parent", "until": 1}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--replay", "parent", "--then", "live"), "--then live needs --until N"),
        (("--replay", "parent", "--until", "1"), "--until is for a fork: give --then live with it"),
        (("--replay", "parent", "--model", "m"), "--model is for a fork"),
        (("--then", "live", "--until", "1"), "--until is for a replay: name a recording with --replay"),
        (("--replay", "parent", "--then", "live", "--until", "1", "--strict"), "leave --strict out"),
        (("--replay", "parent", "--then", "live", "--until", "4"), "has 3 exchanges: give --until 3 or less, not 4"),
        (("--replay", "parent", "--then", "live", "--until", "1", "--model", " "), "--model needs the name of a model"),
        (
            ("--replay", "parent", "--then", "live", "--until", "1", "--session", "parent"),
            "There is a session parent, and a fork is a new one: give another --session.",
        ),
    ],
)
def test_wrong_use_of_a_fork_is_one_sentence(parent: Path, words: Sequence[str], said: str) -> None:
    ran = run(parent, *words, "--", "true")
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("until", "said"),
    [
        (
            1,
            "replay nothing: exchange 1 is a connection, a prewarm or a probe; the first answer is 4: give --until 4",
        ),
        (3, "replay nothing: exchanges 1 to 3 are connections, prewarms or probes; the first answer is 4"),
    ],
)
def test_a_fork_that_would_replay_nothing_is_refused(tmp_path: Path, until: int, said: str) -> None:
    session = Conversations(tmp_path / "recorder.db").session("parent")
    session.exchange([], method="HEAD", target="/", api="anthropic", provider="anthropic")
    session.exchange([], method="GET", headers=[("upgrade", "websocket")], at_s=1)
    session.exchange(response(), body={"model": "m", "input": [], "generate": False}, at_s=2)
    session.exchange(response(*message("Hi")), asking("Hello?"), at_s=3)
    ran = run(session.path, "--replay", "parent", "--then", "live", "--until", until, "--", "true")
    assert (ran.code, ran.out) == (2, b"")
    assert said in ran.err


async def test_an_address_that_is_missing_is_asked_for(tmp_path: Path, demo: DemoServer) -> None:
    db, script = tmp_path / "recorder.db", client("one")
    script[2] = script[2].replace('os.environ["OPENAI_BASE_URL"]', '(os.environ["OPENAI_BASE_URL"][:-9] + "local/v1")')
    recorded = ("--session", "parent", "--upstream", f"local={demo.base_url}", "--", *script)
    assert (await asyncio.to_thread(run, db, *recorded)).code == 0
    ran = await asyncio.to_thread(run, db, "--replay", "parent", "--then", "live", "--until", "1", "--", *script)
    assert ran.code == 2
    assert "whose address is not known here: give it with --upstream local=URL." in ran.err
