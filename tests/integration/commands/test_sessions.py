"""`recorder sessions`: what it says of each, and which ones it finds."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from sqlalchemy import URL

from recorder.model.attribution import Attribution
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_list import SessionFilter, list_sessions
from tests.support.conversations import (
    HOSTILE,
    Conversations,
    answering,
    asking,
    call,
    message,
    response,
    thought,
)
from tests.support.provider.server import start
from tests.support.server import Ran, everywhere, run, serving
from tests.support.superuser import connected
from tests.support.terminal import on_terminal

DAY_S = 86_400.0


def filled(database: Path | URL) -> Conversations:
    made = Conversations(database)
    weather = made.session("weather")
    weather.exchange(
        response(*thought("Paris is meant."), *call("get_weather", '{"unit": "kelvin"}', index=1)),
        asking("What is the weather in Paris?"),
        client="codex",
        attribution=Attribution("Ann"),
    )
    weather.exchange(
        response(*message("291 K, façade in the sun"), model="gpt-5-mini"), answering("291"), at_s=2
    )
    broken = made.session("broken", DAY_S)
    broken.exchange(
        response(*message("I would say"), model="o3")[:-1], asking("Say it."), outcome="truncated"
    )
    live = made.session("live", 2 * DAY_S)
    live.exchange(response(*message("Kelvin"), model="o3"), asking("A scale?"), client="aider")
    live.exchange(response(*message("Still", " there"))[:4], asking("Go on."), at_s=9, ended=False)
    return made


@pytest.fixture(scope="module")
def recorded(shared_database: URL) -> Conversations:
    return filled(shared_database)


@pytest.fixture(scope="module")
def in_file(tmp_path_factory: pytest.TempPathFactory) -> Conversations:
    """The same for what is shown of it, which is not matter of the engine, and takes a process
    each.
    """
    return filled(tmp_path_factory.mktemp("shown") / "recorder.db")


@pytest.fixture
def sessions(recorded: Conversations) -> Callable[..., Ran]:
    return lambda *arguments: run(recorded.database, "sessions", *arguments)


@pytest.fixture
def told(sessions: Callable[..., Ran]) -> Callable[..., list[dict[str, Any]]]:
    def ask(*arguments: object) -> list[dict[str, Any]]:
        ran = sessions(*arguments, "--json")
        rows: list[dict[str, Any]] = json.loads(ran.out)
        assert ran.code == (0 if rows else 3)
        assert ran.err == "" or not rows or ran.err.endswith("--limit shows more.\n")
        return rows

    return ask


@pytest.mark.long
def test_a_session_says_what_it_was_about(told: Callable[..., list[dict[str, Any]]]) -> None:
    weather = told()[-1]
    assert (weather["title"], weather["turns"]) == ("What is the weather in Paris?", 1)
    assert (weather["models"], weather["tools"]) == (["gpt-5", "gpt-5-mini"], ["get_weather"])
    assert (weather["tool_calls"], weather["errors"], weather["status"]) == (1, 0, "completed")
    assert (weather["input_tokens"], weather["output_tokens"]) == (2468, 912)
    assert weather["duration_ns"] == weather["ended_ns"] - weather["started_ns"] == 2_800_000_000
    assert (weather["clients"], weather["apis"], weather["open"]) == (
        ["codex"],
        ["openai-responses"],
        0,
    )


def test_what_is_there_of_an_open_session_is_said(
    told: Callable[..., list[dict[str, Any]]],
) -> None:
    live = told()[0]
    assert (live["name"], live["status"], live["open"], live["exchanges"]) == ("live", "open", 1, 2)
    assert (live["turns"], live["models"], live["title"]) == (1, ["o3"], "A scale?")


def test_a_session_has_title_and_model_as_soon_as_it_has_a_request(database: URL) -> None:
    live = Conversations(database).session("live")
    live.exchange([], asking("Name this chat"), ended=False)
    live.exchange([], asking("Roll the dice."), at_s=1, ended=False)
    [row] = json.loads(run(database, "sessions", "--json").out)
    assert (row["title"], row["models"], row["status"]) == ("Name this chat", ["gpt-5"], "open")


def test_the_keys_are_those_of_the_view(
    recorded: Conversations, told: Callable[..., list[dict[str, Any]]]
) -> None:
    with connected(recorded.database) as connection:
        view = [
            column[0] for column in connection.execute("SELECT * FROM session_summary").description
        ]
    assert set(view) - {"session_name"} <= set(told()[0]), (
        "the log's own column for that is called name"
    )


FILTERS: dict[tuple[str, ...], list[str]] = {
    ("--model", "o3"): ["live", "broken"],
    ("--model", "GPT-5-M"): ["weather"],
    ("--model", "gpt_5"): [],
    ("--model", "%"): [],
    ("--client", "code"): ["weather"],
    ("--owner", "ann"): ["weather"],
    ("--owner", "an"): [],
    ("--status", "open"): ["live"],
    ("--status", "truncated"): ["broken"],
    ("--status", "completed"): ["live", "weather"],
    ("--status", "failed"): [],
    ("--since", "2026-09-22T12:00:00Z"): ["live", "broken"],
    ("--until", "2026-09-22T12:00:00Z"): ["weather"],
    ("--since", "2026-09-22T12:00:00Z", "--until", "2026-09-23T12:00:00Z"): ["broken"],
    ("-q", "kelvin"): ["live", "weather"],
    ("-q", "paris MEANT"): ["weather"],
    ("-q", "façade SUN"): ["weather"],
    ("-q", "paris sun"): [],
    ("-q", "kelv"): [],
    ("-q", "kelv*"): ["live", "weather"],
    ("-q", "par* meant"): ["weather"],
    ("-q", "kel*in"): [],
    ("-q", "get"): [],  # names of tools are not searched
    ("-q", "kelvin", "--model", "o3"): ["live"],
    ("-q", "weather Paris?"): ["weather"],
    ("-q", "kelvin", "--limit", "1"): ["live"],
    ("--model", "o3", "--client", "codex"): [],
}


@pytest.mark.long
def test_sessions_are_found(told: Callable[..., list[dict[str, Any]]]) -> None:
    assert {filters: names_of(told(*filters)) for filters in FILTERS} == FILTERS


def names_of(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


def test_in_a_file_accents_make_no_difference(in_file: Conversations) -> None:
    """A server finds words as they are written."""
    assert b"weather" in run(in_file.path, "sessions", "-q", "facade").out


def test_nothing_found_says_which_filters(sessions: Callable[..., Ran]) -> None:
    ran = sessions("--model", "nosuch", "--since", "7d", "-q", HOSTILE.replace("\x1b", "AND"))
    assert (ran.code, ran.out) == (3, b"")
    assert ran.err.startswith(
        "Error: No session matches --model 'nosuch' and --since and -q 'AND]52;"
    )
    assert "-q finds whole words in prompts, in messages and reasoning of models" in ran.err
    assert "-q finds" not in sessions("--model", "nosuch").err
    assert sessions("--status", "colourful").code == 2
    assert sessions("--since", "2d", "--until", "3d").code == 2


TEXTS = st.text(max_size=40) | st.sampled_from(
    [
        '"',
        "AND",
        "NEAR(a b)",
        "text:x",
        "a*",
        "*",
        "**",
        '"*',
        "-*",
        "^a",
        "-a",
        "()",
        "",
        " ",
        "\0",
    ]
)


@pytest.mark.long
@settings(max_examples=6)  # of many texts each: to open a log takes longer than to ask
@given(st.lists(TEXTS, min_size=10, max_size=20))
async def test_any_text_can_be_searched_for(recorded: Conversations, texts: list[str]) -> None:
    async with await LogReader.open(recorded.database) as log:
        for words in texts:
            wanted = SessionFilter(words=words.encode("utf-8", "replace").decode())
            assert len(await list_sessions(log, None, wanted)) <= 3


def test_sessions_are_readable_on_a_terminal(in_file: Conversations) -> None:
    """Names and titles are there at every width; what is not there is said."""
    shown = on_terminal(80, "sessions", "--db", in_file.path, said="session")
    assert shown[0].split() == ["name", "title", "last", "model", "tokens", "status", "errors"]
    assert all(cell_len(line) <= 80 for line in shown)
    assert re.search(
        r"^weather +What is the we\w*.*…  09-21 ..:..  gpt-5\S* .* 3,380  completed$", shown[-1]
    )
    wide = on_terminal(160, "sessions", "--db", in_file.path)
    assert wide[0].split() == ["session", *shown[0].split()]
    assert "What is the weather in Paris?" in wide[-1]


def test_a_name_is_whole_before_others_have_room(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "recorder.db")
    name = "7b1fb5a5-9a52-4b5c-b0c5-5d1f4b2f6a10"
    made.session(name).exchange(response(*message("Hello.")), asking("Say hello to everybody."))
    [header, line] = on_terminal(80, "sessions", "--db", made.path, said="session")
    assert re.match(rf"{name}  Say hello to\W", line)
    assert header.split() == ["name", "title", "last", "status"]


def test_columns_are_chosen(in_file: Conversations, sessions: Callable[..., Ran]) -> None:
    header, *_, weather = on_terminal(
        80, "sessions", "--columns", "name,exchanges,output", "--db", in_file.path
    )
    assert (header.split(), weather.split()) == (
        ["name", "exchanges", "output"],
        ["weather", "2", "912"],
    )
    piped = (
        run(in_file.path, "sessions", "--columns", "tokens, last,name,name")
        .out.decode()
        .splitlines()
    )
    assert piped[0].split() == ["tokens", "last", "name"]
    assert re.fullmatch(r" *3380  2026-09-2\d \d\d:\d\d:\d\d  weather", piped[-1])
    for arguments, sentence in (
        (
            ("--columns", "colour"),
            "Error: There is no column 'colour': choose from session, name, ",
        ),
        (
            ("--columns", "name", "--csv"),
            "Error: --columns is for the table: --json, --jsonl, --csv have every",
        ),
    ):
        ran = sessions(*arguments)
        assert (ran.code, ran.out) == (2, b"")
        assert ran.err.startswith(sentence)


def test_csv_has_what_json_has(
    sessions: Callable[..., Ran], told: Callable[..., list[dict[str, Any]]]
) -> None:
    rows = list(csv.DictReader(io.StringIO(sessions("--csv").out.decode())))
    assert rows == [{key: in_csv(value) for key, value in row.items()} for row in told()]


def in_csv(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else "" if value is None else str(value)


def test_nothing_found_is_exit_code_three_in_every_format(in_file: Conversations) -> None:
    for format, out in (("--json", b"[]\n"), ("--jsonl", b""), ("--csv", b"session_id,")):
        ran = run(in_file.path, "sessions", "--model", "nosuch", format)
        assert (ran.code, ran.err) == (3, "Error: No session matches --model 'nosuch'.\n")
        assert ran.out.startswith(out)
        assert ran.out.count(b"\n") == (format != "--jsonl")


async def test_a_limit_takes_the_newest_of_those_that_are_wanted(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "recorder.db")
    for number in range(12):
        made.session(f"run-{number}", number * 60.0).exchange(
            response(*message("Hello.")), asking("Hello?")
        )
    async with await LogReader.open(made.database) as log:
        every = await list_sessions(log)
        assert [row.name for row in every] == [f"run-{number}" for number in reversed(range(12))]
        assert await list_sessions(log, 7) == every[:7]
        assert await list_sessions(log, 7, SessionFilter(model="gpt")) == every[:7]


def test_where_sessions_come_from_and_that_they_failed_is_shown_only_if_so(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "recorder.db")
    made.session("live").exchange(response(*message("Hello.")), asking("Hello?"))
    assert {"errors", "origin"}.isdisjoint(
        on_terminal(250, "sessions", "--db", made.path)[0].split()
    )
    copied = made.session("copied", origin="import")
    copied.exchange(response(*message("Hello."))[:-1], asking("Hello?"), outcome="truncated")
    copied.exchange(response(*message("Hello.")), asking("Hello?"), at_s=5)
    header, first, second = on_terminal(250, "sessions", "--db", made.path)
    at = header.index("errors")
    assert first[at:].split()[:2] == ["1", "import"]
    assert second[at:].split() == []
    found = json.loads(run(made.path, "sessions", "--status", "truncated", "--json").out)
    assert [(row["name"], row["status"]) for row in found] == [("copied", "completed")]


@pytest.mark.long
async def test_probes_are_recorded_and_not_listed(tmp_path: Path) -> None:
    """As agents ask before their first question."""
    db, probes = (
        tmp_path / "recorder.db",
        [("HEAD", "/v1/messages"), ("GET", "/v1/models"), ("GET", "/v1/models?page=2")],
    )
    async with await start(pace=0) as demo:
        with serving(db, *everywhere(demo.base_url)) as serve:
            async with httpx.AsyncClient(base_url=serve.base) as client:
                for method, target in probes:
                    await client.request(method, target)
        only = run(db, "sessions")
        with serving(db, *everywhere(demo.base_url)) as serve:
            async with httpx.AsyncClient(base_url=serve.base) as client:
                await client.post("/v1/responses", json={"model": "gpt-5", "input": "hi"})
                await client.head("/v1/messages")
    assert (only.code, only.out) == (3, b"")
    assert "--probes" in only.err
    listed, kept = (
        json.loads(run(db, "sessions", *options, "--json").out) for options in ((), ("--probes",))
    )
    assert [(row["source"], row["exchanges"]) for row in listed] == [("history", 1)]
    assert sum(row["exchanges"] for row in kept) == len(probes) + 1
    assert all(row["source"] == "probe" and row["name"] == "probes" for row in kept)
    assert (
        json.loads(run(db, "show", "latest", "--json").out)["session"]["name"] == listed[0]["name"]
    )
