"""`recorder import` of transcripts: one's own history in the log, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from recorder.cassettes.sse_jsonl.lines import nanoseconds
from recorder.projections.rows import ExchangeRow
from tests.support.rows import make_exchange, make_id, make_session, put, row
from tests.support.rows import written as written_rows
from tests.support.server import run
from tests.support.transcripts import (
    SESSION,
    ClaudeLines,
    called,
    counted_by_codex,
    counted_by_gemini,
    counting,
    kept_by_opencode,
    told,
    written,
)
from tests.support.zstandard import zstd


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "recorder.db"


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Return a directory as Claude Code fills it: a session, its sub-agent, and files that are not
    transcripts.
    """
    projects = tmp_path / "projects"
    written(projects / "-work" / f"{SESSION}.jsonl", counting().lines)
    side = ClaudeLines(agent="a30e7645c46b33eaa")
    side.said("Say hello.")
    side.answered("msg_3", told("Hello."), tokens=7)
    written(
        projects / "-work" / SESSION / "subagents" / "agent-a30e7645c46b33eaa.jsonl", side.lines
    )
    (projects / "-work" / "notes.json").write_text('{"a": 1}')
    return projects


def asked(db: Path | URL, sql: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run(db, "query", sql, "--json").out)
    return rows


COUNTS = "SELECT count(*) AS exchanges, sum(input_tokens) AS input, sum(output_tokens) AS output FROM usage"


def test_a_directory_becomes_sessions_with_their_sub_agents(db: Path, history: Path) -> None:
    ran = run(db, "import", history)
    assert ran.err.startswith("2 files imported: session ")
    assert asked(db, COUNTS) == [{"exchanges": 3, "input": 3 * 11952, "output": 14 + 83 + 7}]
    sql = "SELECT session_name, thread_id, purpose FROM exchange_summary ORDER BY thread_id"
    main = {"session_name": SESSION, "thread_id": None, "purpose": "turn"}
    side = {"session_name": SESSION, "thread_id": "a30e7645c46b33eaa", "purpose": "subagent"}
    rows = asked(db, sql)
    assert sorted(rows, key=str) == sorted([main, main, side], key=str)


def test_a_call_has_its_result_and_how_long_that_took(db: Path, history: Path) -> None:
    run(db, "import", history)
    [call] = asked(db, "SELECT name, arguments, output, latency_ns FROM tool_calls")
    assert call == {
        "name": "Bash",
        "arguments": '{"command":"echo 42"}',
        "output": "42",
        "latency_ns": 1_000_000_000,
    }


@pytest.mark.parametrize(
    "lines", [counted_by_codex().lines, counted_by_gemini()], ids=["codex", "gemini-cli"]
)
def test_calls_of_other_agents_have_their_results_too(
    db: Path, tmp_path: Path, lines: list[dict[str, Any]]
) -> None:
    written(tmp_path / "home" / "chats" / "run.jsonl", lines)
    run(db, "import", tmp_path / "home")
    [call] = asked(db, "SELECT arguments_json, output FROM tool_calls")
    assert json.loads(call["arguments_json"]) == {"command": "echo 42"}
    assert "42" in call["output"]
    assert asked(db, "SELECT * FROM anomalies") == []


def test_a_database_of_opencode_has_several_sessions(db: Path, tmp_path: Path) -> None:
    kept_by_opencode(tmp_path / "opencode" / "opencode.db")
    ran = run(db, "import", tmp_path / "opencode")
    assert ran.err.startswith("1 file imported: 2 sessions, 4 events:")
    [call] = asked(db, "SELECT name, output FROM tool_calls")
    assert call == {"name": "bash", "output": "42"}
    ran = run(db, "import", tmp_path / "opencode")
    assert ran.err == "4 responses of transcripts had been recorded or imported before.\n"


def test_a_rollout_that_codex_has_compressed_is_found_and_counts_once(
    db: Path, tmp_path: Path
) -> None:
    plain = written(tmp_path / "sessions" / "rollout-1.jsonl", counted_by_codex().lines)
    packed = plain.with_suffix(".jsonl.zst")
    packed.write_bytes(zstd.compress(plain.read_bytes()))
    (tmp_path / "sessions" / "cut.jsonl.zst").write_bytes(packed.read_bytes()[:-9])
    ran = run(db, "import", tmp_path / "sessions")
    assert (ran.code, "cut.jsonl.zst cannot be read: its compression is damaged." in ran.err) == (
        1,
        True,
    )
    assert asked(db, COUNTS) == [{"exchanges": 2, "input": 300, "output": 14}]


def test_times_of_bytes_are_unknown(db: Path, history: Path) -> None:
    run(db, "import", history)
    columns = "head_ns, first_byte_ns, ttft_ns, last_event_ns, duration_ns, longest_silence_ns, bytes_per_s"
    for times in asked(db, f"SELECT {columns} FROM latency"):
        assert set(times.values()) == {None}


def test_nothing_comes_twice_and_a_session_grows(database: URL, history: Path) -> None:
    run(database, "import", history)
    lines = counting()
    lines.said("And now a greeting.")
    lines.answered("msg_4", told("Good morning."), tokens=5)
    written(history / "-work" / f"{SESSION}.jsonl", lines.lines)
    ran = run(database, "import", history)
    assert "3 responses of transcripts had been recorded or imported before." in ran.err
    assert asked(database, COUNTS)[0]["output"] == 14 + 83 + 7 + 5
    assert len(json.loads(run(database, "sessions", "--json").out)) == 1
    assert run(database, "verify").code == 0


def test_what_was_recorded_is_not_derived_again(database: URL, history: Path) -> None:
    recorded_ns = nanoseconds(counting().lines[1]["timestamp"])
    with written_rows(database) as connection:
        exchange = make_exchange(
            make_session(), exchange_id=make_id(1, recorded_ns), started_ns=recorded_ns
        )
        put(connection, make_session(), exchange, row(ExchangeRow, exchange, response_id="msg_1"))
    ran = run(database, "import", history)
    assert "1 response of transcripts had been recorded or imported before." in ran.err
    assert asked(
        database, "SELECT response_id FROM exchange_summary WHERE session_name = 'run-1'"
    ) == [{"response_id": "msg_1"}]
    [count] = asked(
        database, f"SELECT count(*) AS n FROM exchange_summary WHERE session_name = '{SESSION}'"
    )
    assert count == {"n": 2}


def test_a_copy_of_a_history_in_another_session_counts_once(db: Path, history: Path) -> None:
    lines = counting("a-resumed-session")
    for line in lines.lines:
        line["uuid"] += "-copy"
        line["timestamp"] = line["timestamp"].replace("2026-11-27", "2026-11-28")
    written(history / "-work" / "a-resumed-session.jsonl", lines.lines)
    run(db, "import", history)
    assert asked(db, COUNTS)[0]["exchanges"] == 3


def test_an_answer_in_the_making_waits_for_the_next_import(db: Path, tmp_path: Path) -> None:
    lines = ClaudeLines()
    lines.said("Hello?")
    lines.answered("msg_1", called("toolu_1", "Bash"), stop=None)
    path = written(tmp_path / "run.jsonl", lines.lines, is_resting=False)
    ran = run(db, "import", path)
    assert ran.err == "1 response may still be written: import the same again in a minute.\n"
    lines.answered("msg_1", told("Hello."), stop=None)
    written(path, lines.lines)
    run(db, "import", path)
    assert asked(db, "SELECT messages, tool_calls FROM exchange_summary") == [
        {"messages": 1, "tool_calls": 1}
    ]


def test_a_line_that_cannot_be_read_is_named_and_the_rest_is_imported(
    db: Path, history: Path
) -> None:
    path = history / "-work" / f"{SESSION}.jsonl"
    first, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(b"%b\n{broken\n%b" % (first, rest))
    ran = run(db, "import", history)
    assert ran.code == 1
    assert f"{path}:2 is skipped: it is not a JSON object." in ran.err
    assert asked(db, COUNTS)[0]["exchanges"] == 3


def test_a_directory_without_transcripts_is_named(db: Path, tmp_path: Path) -> None:
    assert run(db, "import", tmp_path) == (
        2,
        b"",
        f"{tmp_path} is a directory: name the files in it.\n",
    )


def test_what_is_derived_is_neither_judged_nor_played(db: Path, history: Path) -> None:
    run(db, "import", history)
    judged = run(db, "lint", SESSION)
    assert "derived from a transcript of Claude Code" in judged.err
    played = run(db, "replay", SESSION, "--exchange", "1")
    assert (played.code, played.out) == (1, b"")
    assert "no byte of a response is known" in played.err
    assert b"derived from a transcript" in run(db, "show", SESSION).out


def test_what_is_derived_is_not_taken_for_a_fault(db: Path, history: Path) -> None:
    run(db, "import", history)
    checks = {line["check"]: line["state"] for line in json.loads(run(db, "doctor", "--json").out)}
    assert checks["gaps"] == "ok"
    assert "no request that a model answered" in run(db, "show", SESSION, "--cache").err
    compared = run(db, "diff", f"{SESSION}:1", f"{SESSION}:2", "--only", "timing")
    assert "the times of A and B are made up" in compared.err
