"""What commands write to: terminals of any width, and a stdout that takes nothing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from recorder.commands.events import _COLUMNS as EVENTS
from recorder.commands.sessions import _BY_NAME as BY_NAME
from recorder.commands.sessions import _COLUMNS as SESSIONS
from recorder.commands.terminal.table import Column, fitted
from recorder.store.maintain.rebuild import rebuild
from recorder.store.write.writer import Store
from tests.support.conversations import (
    FRAMES,
    HOSTILE,
    Conversations,
    Recorded,
    asking,
    message,
    response,
)
from tests.support.server import run
from tests.support.terminal import on_terminal, written_on_terminal


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    made = Recorded(tmp_path_factory.mktemp("terminal") / "recorder.db")
    for number in range(3):
        made.session(f"a session with quite a long name, number {number}", FRAMES, gap=number == 1)
    made.session(
        "hostile", [b"data: " + HOSTILE.encode() + b"\xff\n\n"], outcome="upstream_unreachable"
    )
    with Store(made.path) as store:
        rebuild(store, lambda done, total: None)
    return made


@pytest.mark.parametrize("follow", [(), ("--follow", "--limit", 9)])
def test_events_are_readable_on_eighty_columns(
    recorded: Recorded, follow: tuple[object, ...]
) -> None:
    name = "a session with quite a long name, number 0"
    header, *lines = on_terminal(80, "events", name, *follow, "--db", recorded.path)
    assert [name for name in header.split() if name not in ("seq", "bytes")] == [
        "exchange",
        "pos",
        "t_ms",
        "type",
        "text",
    ]
    assert all(cell_len(line) <= 80 for line in (header, *lines))
    assert [line.split()[:2] for line in lines] == [["1", str(pos)] for pos in range(len(lines))]
    assert {"request", "response", "response.created"} < {line.split()[3] for line in lines}


def test_events_show_what_deltas_add(recorded: Recorded) -> None:
    """At any width, and in a pipe, where nothing is cut; the type stands there once."""
    name = "a session with quite a long name, number 0"
    for lines in (
        on_terminal(80, "events", name, "--db", recorded.path),
        on_terminal(200, "events", name, "--db", recorded.path),
        run(recorded.path, "events", name).text.splitlines(),
    ):
        deltas = [line for line in lines if " response.output_text.delta " in line]
        assert [line.split(maxsplit=4)[-1].split('"')[-2] for line in deltas] == ["Hello", ", été"]
        [created] = [line for line in lines if " response.created " in line]
        assert created.count("response.created") == 1


@pytest.mark.parametrize("follow", [(), ("--follow", "--limit", 5)])
def test_events_are_whole_in_a_pipe(tmp_path: Path, follow: tuple[object, ...]) -> None:
    made = Recorded(tmp_path / "log.db")
    text = "word " * 200 + "end"
    made.session("long", [FRAMES[0], b'data: {"type":"made.up","text":"%b"}\n\n' % text.encode()])
    header, *lines = run(made.path, "events", "long", *follow).text.splitlines()
    assert header.split() == [
        "exchange",
        "pos",
        "t_ms",
        "type",
        "seq",
        "item_id",
        "index",
        "bytes",
        "text",
    ]
    [line] = [line for line in lines if "made.up" in line]
    assert line.endswith(f'{{"text":"{text}"}}')


def test_a_long_cell_in_a_pipe_pads_no_other(tmp_path: Path) -> None:
    log = Conversations(tmp_path / "log.db")
    for name, words in (("long", "word " * 50), ("short", "Hello")):
        log.session(name).exchange(response(*message("Yes")), asking(words))
    header, *lines = run(log.path, "sessions").text.splitlines()
    [long] = [line for line in lines if "  long  " in line]
    assert len(re.findall(r"\bword\b", long)) > 20
    assert max(len(line) for line in (header, *lines) if line != long) < 180


def test_a_shortened_id_still_means_its_session(recorded: Recorded) -> None:
    [_, line, *_] = on_terminal(200, "sessions", "--db", recorded.path)
    short = line.split()[0]
    assert 18 <= len(short) < 36
    assert run(recorded.path, "events", short) == run(recorded.path, "events", "latest")


def test_a_wide_terminal_shows_every_column(recorded: Recorded) -> None:
    absent = ("origin", "cost")  # nothing here is imported, and there are no prices
    columns = [column.name for column in SESSIONS if column.name not in absent]
    assert on_terminal(250, "sessions", "--db", recorded.path)[0].split() == columns
    assert on_terminal(400, "sessions", "--columns", "all", "--db", recorded.path)[
        0
    ].split() == list(BY_NAME)
    assert on_terminal(250, "events", "latest", "--db", recorded.path)[0].split() == [
        column.name for column in EVENTS
    ]


@pytest.mark.parametrize(
    "command", [("sessions",), ("usage",), ("show", "hostile"), ("query", "--list")]
)
def test_a_dumb_terminal_gets_no_escapes(recorded: Recorded, command: tuple[str, ...]) -> None:
    arguments = (*command, "--db", recorded.path)
    assert "\x1b" in written_on_terminal(80, *arguments)[0] or command == ("usage",)
    assert "\x1b" not in "".join(written_on_terminal(80, *arguments, term="dumb"))


@given(st.sampled_from([SESSIONS, EVENTS]), st.data(), st.integers(80, 300))
def test_only_the_column_with_room_to_give_is_cut(
    columns: tuple[Column, ...], data: st.DataObject, width: int
) -> None:
    needed = [max(len(column.name), data.draw(st.integers(1, 20))) for column in columns]
    widths = fitted(columns, needed, width)
    for number, shown in widths.items():
        if not columns[number].least:
            assert shown == min(needed[number], columns[number].cap)
    assert all(column.goes for number, column in enumerate(columns) if number not in widths)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_stdout_that_takes_nothing_is_one_sentence(recorded: Recorded) -> None:
    wrong = []
    for command in (
        *(
            "--help",
            "sessions",
            "sessions --json",
            "events latest --raw",
            "events latest",
            "events latest --follow",
        ),
        *(
            "replay latest --speed max",
            "replay latest --speed max --format jsonl",
            "env openai",
            "db path",
        ),
    ):
        with open("/dev/full", "w") as full:
            ran = run(recorded.path, *shlex.split(command), stdout=full)
        if ran.code != 1 or not re.fullmatch(r"Error: stdout cannot be written: .*\.\n", ran.err):
            wrong.append((command, ran))
    assert wrong == []
