"""`recorder.commands`: what a user types, what comes out, and the exit code."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from recorder.journal.format import Mark
from recorder.journal.writer import Journal
from recorder.model.events import RequestHead
from recorder.model.ids import uuid7
from recorder.store.write.writer import Store
from tests.conftest import Demo
from tests.support.commands import COMMANDS
from tests.support.conversations import FRAMES, HOSTILE, Conversations, Recorded
from tests.support.server import Ran, run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    made = Recorded(tmp_path_factory.mktemp("recorded") / "recorder.db")
    made.session("first", FRAMES)
    made.session("hostile", [b"data: " + HOSTILE.encode() + b"\xff\n\n"])
    made.session("gappy", FRAMES[:2], gap=True)
    made.session("streaming", FRAMES[:2], ended=False)
    made.session("two", FRAMES, FRAMES[:1])
    return made


@pytest.fixture
def on(recorded: Recorded) -> Callable[..., Ran]:
    return lambda *words: run(recorded.path, *words)


def test_sessions_are_listed_newest_first(on: Callable[..., Ran]) -> None:
    rows = json.loads(on("sessions", "--json").out)
    assert [row["name"] for row in rows] == ["two", "streaming", "gappy", "hostile", "first"]
    assert (rows[0]["exchanges"], rows[0]["status"], rows[1]["status"], rows[1]["open"]) == (
        2,
        "incomplete",
        "open",
        1,
    )
    assert rows[-1]["bytes"] == len(b"".join(FRAMES))
    assert [row["gaps"] for row in rows] == [0, 0, 1, 0, 0]
    assert [
        json.loads(line)["name"]
        for line in on("sessions", "--jsonl", "--limit", 2).text.splitlines()
    ] == [
        "two",
        "streaming",
    ]
    table = on("sessions")
    assert (table.code, table.err) == (0, "")
    assert table.text.splitlines()[0].split()[:2] == ["session", "name"]
    assert len(table.text.splitlines()) == 6
    assert [line.split()[1] for line in table.text.splitlines() if ", gaps" in line] == ["gappy"]


def test_a_session_is_found_by_id_prefix_name_and_latest(
    on: Callable[..., Ran], recorded: Recorded
) -> None:
    session_id = json.loads(on("sessions", "--json", "--limit", 1).out)[0]["session_id"]
    outputs = {
        on("events", ref, "--json").out for ref in (session_id, session_id[:-4], "two", "latest")
    }
    assert len(outputs) == 1


def test_raw_events_are_the_body(on: Callable[..., Ran]) -> None:
    assert on("events", "first", "--raw").out == b"".join(FRAMES)
    assert on("replay", "first", "--speed", "max").out == b"".join(FRAMES)
    assert on("replay", "two", "--speed", "max").out == b"".join([*FRAMES, FRAMES[0]])


def test_events_have_the_columns_of_the_log(on: Callable[..., Ran]) -> None:
    events = json.loads(on("events", "first", "--json").out)
    assert tuple(events[0]) == EVENT_COLUMNS
    assert [event["pos"] for event in events] == list(range(len(events)))
    assert [event["sequence_number"] for event in events if event["kind"] == "frame"] == [
        0,
        1,
        2,
        3,
    ]
    assert on("events", "first", "--jsonl", "--limit", 2).text.count("\n") == 2
    assert on("events", "first").text.splitlines()[0].split()[:4] == [
        "exchange",
        "pos",
        "t_ms",
        "type",
    ]


EVENT_COLUMNS = (
    *(
        "session_id",
        "exchange_id",
        "pos",
        "kind",
        "t_ns",
        "type",
        "sequence_number",
        "item_id",
        "output_index",
    ),
    *("raw", "data_start", "data_length", "hash"),
)


FORMATTED = {
    name
    for name, each in COMMANDS.items()
    if {"json", "jsonl"} <= {option.name for option in each.params}
}


def test_two_formats_at_once_are_refused_by_every_command() -> None:
    """Before anything else is looked at: there is no such database."""
    refused = Ran(2, b"", "Error: --json and --jsonl are different formats: choose one.\n")
    wrong = {}
    for name in FORMATTED:
        ran = run(
            Path("/none/recorder.db"), *name.split(), *needed(COMMANDS[name]), "--json", "--jsonl"
        )
        if ran != refused:
            wrong[name] = ran
    assert len(FORMATTED) > 10
    assert wrong == {}


def needed(command: click.Command) -> list[str]:
    """The arguments that a command does not go without."""
    words = []
    for each in command.params:
        if isinstance(each, click.Argument) and each.required:
            words.append("x")
        if isinstance(each, click.Option) and each.required:
            words += [
                each.opts[0],
                each.type.choices[0] if isinstance(each.type, click.Choice) else "3d",
            ]
    return words


def test_bytes_that_are_no_text_are_base64_in_json(on: Callable[..., Ran]) -> None:
    [frame] = [
        event
        for event in json.loads(on("events", "hostile", "--json").out)
        if event["kind"] == "frame"
    ]
    assert list(frame["raw"]) == ["base64"]


def test_one_exchange_can_be_chosen(on: Callable[..., Ran]) -> None:
    ids = list(
        dict.fromkeys(
            event["exchange_id"] for event in json.loads(on("events", "two", "--json").out)
        )
    )
    assert on("events", "two", "--exchange", 2, "--raw").out == FRAMES[0]
    assert on("events", "two", "--exchange", ids[0], "--raw").out == b"".join(FRAMES)
    assert on("replay", "two", "--exchange", ids[1][:-6], "--speed", "max").out == FRAMES[0]


def test_replay_speaks_three_formats(on: Callable[..., Ran]) -> None:
    rows = [
        json.loads(line)
        for line in on("replay", "first", "--speed", "max", "--format", "jsonl").text.splitlines()
    ]
    assert [row["sequence_number"] for row in rows] == [0, 1, None, 2, 3]
    assert rows[1]["data"]["delta"] == "Hello"
    assert (rows[2]["raw"], "data" in rows[2], "raw" in rows[1]) == (
        FRAMES[2].decode(),
        False,
        False,
    )
    assert on("replay", "first", "--speed", "max", "--format", "text") == (
        0,
        "Hello, été\n".encode(),
        "",
    )


def test_each_text_ends_its_line(recorded: Recorded, tmp_path: Path) -> None:
    made = Recorded(tmp_path / "texts.db")
    made.session("texts", FRAMES, FRAMES[:2], FRAMES[:1])
    ran = run(made.path, "replay", "texts", "--speed", "max", "--format", "text")
    assert ran == (0, "Hello, été\nHello\n".encode(), "Exchange 3: there is no text in it.\n")


CHAT = {"api": "openai-chat", "target": "/v1/chat/completions"}
GEMINI = {"provider": "gemini", "api": "gemini", "target": "/v1beta/models/g:streamGenerateContent"}


def _chat(index: int, text: str, kind: str = "delta") -> dict[str, Any]:
    return {"choices": [{"index": index, kind: {"role": "assistant", "content": text}}]}


def _candidate(index: int, text: str) -> dict[str, Any]:
    return {
        "candidates": [{"index": index, "content": {"role": "model", "parts": [{"text": text}]}}]
    }


CHOICES: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "chat": (CHAT, [_chat(0, "Hel"), _chat(1, "Bye"), _chat(0, "lo"), _chat(1, "!")]),
    "gemini": (
        GEMINI,
        [_candidate(0, "Hel"), _candidate(1, "Bye"), _candidate(0, "lo"), _candidate(1, "!")],
    ),
    "a document": (
        CHAT,
        [
            {
                "choices": _chat(1, "Bye", "message")["choices"]
                + _chat(0, "Hello", "message")["choices"]
            }
        ],
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_of_several_choices_the_text_is_that_of_the_first(tmp_path: Path, name: str) -> None:
    fields, said = CHOICES[name]
    bodies = [json.dumps(each).encode() for each in said]
    is_stream = name != "a document"
    frames = [b"data: " + body + b"\n\n" for body in bodies] if is_stream else bodies
    content_type = "text/event-stream" if is_stream else "application/json"
    session = Conversations(tmp_path / "log.db").session("choices")
    session.exchange(
        frames, body={"model": "m", "messages": []}, content_type=content_type, **fields
    )
    ran = run(session.path, "replay", "choices", "--speed", "max", "--format", "text")
    assert ran == (0, b"Hello\n", "")


def test_a_replay_says_how_a_stream_broke_off(tmp_path: Path) -> None:
    made = Recorded(tmp_path / "cut.db")
    made.session("cut", FRAMES[:2], outcome="truncated")
    ran = run(made.path, "replay", "cut", "--speed", "max")
    assert ran == (0, b"".join(FRAMES[:2]), "Exchange 1: it broke off (truncated).\n")


def test_nothing_to_replay_is_exit_code_three(tmp_path: Path) -> None:
    made = Recorded(tmp_path / "empty.db")
    made.session("empty", [])
    ran = run(made.path, "replay", "empty")
    assert (ran.code, ran.out) == (3, b"")
    assert "Session empty has no response body" in ran.err


def test_replay_refuses_a_session_with_gaps(on: Callable[..., Ran]) -> None:
    refused = on("replay", "gappy", "--speed", "max")
    assert (refused.code, refused.out) == (1, b"")
    assert "--allow-gaps" in refused.err
    assert on("replay", "gappy", "--speed", "max", "--allow-gaps").out == b"".join(FRAMES[:2])


def test_a_stream_that_is_still_open_plays_as_far_as_it_is(on: Callable[..., Ran]) -> None:
    ran = on("replay", "streaming", "--speed", "max")
    assert (ran.code, ran.out) == (0, b"".join(FRAMES[:2]))
    assert "Exchange 1: it is not finished" in ran.err


def test_a_followed_table_has_a_header_and_columns(on: Callable[..., Ran]) -> None:
    followed = on("events", "first", "--follow", "--limit", 7).text.splitlines()
    assert followed[0].split() == on("events", "first").text.splitlines()[0].split()
    for column in ("type", "text"):
        assert {line[followed[0].index(column) - 1] for line in followed} == {" "}


@pytest.mark.parametrize(
    "arguments", [("events", "hostile"), ("events", "hostile", "--follow", "--limit", 4)]
)
def test_recorded_text_cannot_take_over_a_terminal(
    on: Callable[..., Ran], arguments: tuple[str, ...]
) -> None:
    shown = on(*arguments).text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert "\\x1b" in shown


def test_nothing_recorded_is_exit_code_three(tmp_path: Path) -> None:
    missing = run(tmp_path / "none.db", "sessions", "--json")
    assert (missing.code, missing.out, "nothing has been recorded there" in missing.err) == (
        3,
        b"[]\n",
        True,
    )
    Store(tmp_path / "empty.db").close()
    empty = run(tmp_path / "empty.db", "sessions")
    assert (empty.code, "Nothing is recorded yet" in empty.err) == (3, True)
    assert run(tmp_path / "empty.db", "sessions", "--json").out == b"[]\n"
    latest = run(tmp_path / "empty.db", "show", "latest")
    assert (latest.code, latest.err.endswith("empty.db: nothing is recorded there.\n")) == (3, True)


OF_A_LOG = (
    "db recover",
    "db rebuild",
    "export --to http://127.0.0.1:1",
    "tail",
    "ui --port 0",
    "usage",
    "verify",
)


def test_only_who_records_makes_a_database(tmp_path: Path) -> None:
    for words in OF_A_LOG:
        ran = run(tmp_path / "typo.db", *words.split())
        assert (ran.code, list(tmp_path.iterdir())) == (3, []), words
        assert "There is no database" in ran.err, words


def test_db_path_upgrade_and_recover(tmp_path: Path) -> None:
    path = tmp_path / "new" / "recorder.db"
    assert run(path, "db", "path").text == f"{path}\n"
    assert not path.exists()
    assert run(path, "db", "upgrade").code == 0
    assert path.exists()
    assert "nothing to recover" in run(path, "db", "recover").err
    journal = Journal(Path(f"{path}.journal"), "killed")
    head = RequestHead(
        uuid7(1, bytes(10)), uuid7(2, bytes(10)), 3, "POST", "/v1/responses", "openai", []
    )
    journal.exchange().write(Mark.REQUEST, 1, msgspec.json.encode(head))
    journal.close()
    assert "1 journal recovered" in run(path, "db", "recover").err
    assert json.loads(run(path, "sessions", "--json").out)[0]["status"] == "recorder_crash"


@pytest.mark.long
def test_the_demo_says_lines_that_can_be_pasted(demo: Demo) -> None:
    shown = [
        line[2:]
        for line in demo.said.splitlines()
        if line.startswith(("$ recorder ", "  recorder "))
    ]
    assert len(shown) == 9
    for line in shown:
        program, *arguments = shlex.split(line)
        assert (program, arguments[-2:]) == ("recorder", ["--db", str(demo.path)])
    again = shlex.split(next(line for line in shown if "events" in line))[1:]
    assert run(demo.path, *again).code == 0
