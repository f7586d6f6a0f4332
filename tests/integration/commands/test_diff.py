"""`recorder diff` as a user types it, and `assert_same_stream` in a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from recorder.commands import main
from recorder.diff.alignment import changes
from recorder.diff.report import DIFFERENCES_LIMIT
from recorder.errors import UsageError
from recorder.model.events import Session
from recorder.recordings.session import RecordedSession
from recorder.testing import assert_same_stream
from recorder.testing.subject import RecordedTest
from recorder.wire.recording import recording_of
from tests.support.conversations import Conversations, asking, message, response
from tests.support.recordings import MESSAGES, RESPONSES, Reply, recorded, replaced
from tests.support.server import Ran
from tests.support.terminal import on_terminal

Diff = Callable[..., Ran]


@pytest.fixture
def diff(capfdbinary: pytest.CaptureFixture[bytes]) -> Diff:
    """`recorder diff` in this process."""

    def run(*arguments: object) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main(["diff", *map(str, arguments)])
        said = capfdbinary.readouterr()
        return Ran(int(ended.value.code or 0), said.out, said.err.decode())

    return run


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[str, Reply], Path]:
    """A reply as a file."""

    def store(name: str, reply: Reply) -> Path:
        path = tmp_path / f"{name}.sse"
        path.write_bytes(b"".join(reply.blocks()))
        return path

    return store


Stored = Callable[[str, Reply], Path]


def test_equal_files_say_nothing_and_end_well(diff: Diff, stored: Stored) -> None:
    path = stored("a", RESPONSES)
    assert diff(path, path) == (0, b"", "")


def test_a_changed_word_is_shown_among_its_neighbours(diff: Diff, stored: Stored) -> None:
    ran = diff(stored("a", RESPONSES), stored("b", replaced(RESPONSES, "sunny", "rainy")))
    assert ran.code == 4
    assert ran.out.decode().splitlines() == [
        "1 ↔ 1  POST /v1/responses",
        "  answer  1 difference",
        "    message 0: It is [-sunny-]{+rainy+} in Paris.",
        "  equal: tools, usage, events",
        "  request: not compared: A and B do not say what was asked",
        "  timing: not compared: the times of A and B are made up",
    ]


def test_stat_is_one_line_per_level(diff: Diff, stored: Stored) -> None:
    ran = diff(stored("a", MESSAGES), stored("b", replaced(MESSAGES, "87", "9")), "--stat")
    lines = [
        "request    not compared",
        "answer     equal",
        "tools      equal",
        "usage      2 differences",
    ]
    assert (ran.code, ran.out.decode().splitlines()) == (
        4,
        [*lines, "timing     not compared", "events     equal"],
    )


def test_a_level_that_was_asked_for_and_not_compared_is_said(diff: Diff, stored: Stored) -> None:
    path = stored("a", RESPONSES)
    ran = diff(path, path, "--only", "timing,events")
    assert (ran.code, ran.out, ran.err) == (
        0,
        b"",
        "timing: not compared: the times of A and B are made up.\n",
    )


def test_json_is_one_object(diff: Diff, stored: Stored) -> None:
    ran = diff(stored("a", RESPONSES), stored("b", replaced(RESPONSES, "Lyon", "Nice")), "--json")
    found = json.loads(ran.out)
    assert (found["is_equal"], found["levels"]["tools"], found["levels"]["answer"]) == (False, 1, 0)
    [tools] = [level for level in found["pairs"][0]["levels"] if level["level"] == "tools"]
    expected = {"where": "tool_call 0 look_up · arguments.city", "a": '"Lyon"', "b": '"Nice"'}
    assert tools["differences"] == [expected]


@pytest.mark.parametrize(
    "only", [("--only", "tools,usage"), ("--only", "tools", "--only", "usage")]
)
def test_only_some_levels_are_compared(diff: Diff, stored: Stored, only: tuple[str, ...]) -> None:
    one, other = stored("a", RESPONSES), stored("b", replaced(RESPONSES, "sunny", "rainy"))
    assert diff(one, other, *only) == (0, b"", "")
    assert list(json.loads(diff(one, other, *only, "--json").out)["levels"]) == ["tools", "usage"]


def test_the_first_differences_are_shown_and_the_others_counted(diff: Diff, stored: Stored) -> None:
    one = stored("a", RESPONSES)
    other = stored(
        "b", RESPONSES.put(1, *({"type": f"response.new_{number}"} for number in range(12)))
    )
    assert b"    and 2 more (--all)\n" in diff(one, other).out
    assert b"response.new_11 (#" in diff(one, other, "--all").out


def test_one_exchange_can_be_named(diff: Diff, stored: Stored) -> None:
    path = stored("a", RESPONSES)
    assert diff(f"{path}:1", path).code == 0
    ran = diff(path, f"{path}:7")
    assert (ran.code, "has no exchange 7" in ran.err) == (3, True)


def test_what_is_not_there_is_not_found(diff: Diff, tmp_path: Path) -> None:
    ran = diff(tmp_path / "no.sse", "latest", "--db", tmp_path / "none.db")
    assert (ran.code, "no.sse" in ran.err) == (3, True)


@pytest.mark.parametrize("verb", ["diff", "lint"])
def test_files_that_cannot_be_judged_are_named_in_one_sentence(
    verb: str, stored: Stored, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def said(path: Path) -> tuple[object, str]:
        subjects = [path] if verb == "lint" else [stored("a", RESPONSES), path]
        with pytest.raises(SystemExit) as ended:
            main([verb, *map(str, subjects), "--db", str(tmp_path / "none.db")])
        return ended.value.code, capfd.readouterr().err

    gone = tmp_path / "gone.sse"
    assert said(gone) == (3, f"Error: There is no file {gone}, and no session of that name.\n")
    assert said(tmp_path) == (2, f"Error: {tmp_path} is a directory: name the files in it.\n")


@pytest.mark.parametrize(
    "wrong", [("--only", "colour"), ("--tolerance", "0.5"), ("--json", "--stat")]
)
def test_what_is_not_valid_is_refused(diff: Diff, stored: Stored, wrong: tuple[str, ...]) -> None:
    path = stored("a", RESPONSES)
    assert diff(path, path, *wrong).code == 2


def test_sessions_are_compared_with_files(diff: Diff, tmp_path: Path, stored: Stored) -> None:
    made = Conversations(tmp_path / "recorder.db")
    made.session("first").exchange(response(*message("Six."), id="resp_1"), asking("Roll."))
    made.session("later").exchange(response(*message("Five."), id="resp_2"), asking("Roll."))
    ran = diff("first", "later", "--db", made.path)
    assert (ran.code, "message 0: [-Six-]{+Five+}." in ran.out.decode()) == (4, True)
    ran = diff("first", stored("b", RESPONSES), "--db", made.path)
    assert (
        ran.code,
        "request: not compared: B does not say what was asked" in ran.out.decode(),
    ) == (4, True)


def test_a_report_fits_a_terminal(stored: Stored) -> None:
    one, other = stored("a", RESPONSES), stored("b", MESSAGES)
    options = ("--only", "answer,tools,usage,events")
    lines = on_terminal(60, "diff", one, other, *options)
    assert lines
    assert all(cell_len(line) <= 60 for line in lines)


def test_a_text_that_is_wrapped_keeps_its_indentation(stored: Stored) -> None:
    long = replaced(
        RESPONSES, "sunny", "sunny, as far as anyone could see from the top of the tower,"
    )
    lines = on_terminal(40, "diff", stored("a", RESPONSES), stored("b", long), "--only", "answer")
    start = next(number for number, line in enumerate(lines) if "message 0" in line)
    rest = [line for line in lines[start + 1 :] if "answer" not in line]
    assert rest
    assert all(line.startswith("      ") for line in rest)


def test_the_measures_that_differ_are_marked(diff: Diff, stored: Stored) -> None:
    out = diff(
        stored("a", MESSAGES), stored("b", replaced(MESSAGES, "87", "9")), "--only", "usage"
    ).out.decode()
    assert [
        line.endswith("≠")
        for line in out.splitlines()
        if line.split()[:1] in (["input"], ["output"])
    ] == [
        False,
        True,
    ]


# -- in a test


def contents(*replies: Reply) -> RecordedSession:
    recordings = [
        recording_of(*recorded(reply), number=number) for number, reply in enumerate(replies, 1)
    ]
    return RecordedSession(Session("s", 1, "made", "test", "{}", "live"), recordings)


class Replay(RecordedTest):
    """A test that has a session, as the fixture `recorder_replay` does."""

    def __init__(self, session: RecordedSession) -> None:
        self._session = session

    @property
    def session(self) -> RecordedSession:
        return self._session


def test_the_same_stream_passes_whatever_it_is_given_as(stored: Stored) -> None:
    held, path = contents(RESPONSES), stored("a", RESPONSES)
    assert_same_stream(held, held)
    assert_same_stream(Replay(held), held)
    assert_same_stream(path, str(path))
    assert_same_stream(path, held, only=["answer", "tools", "usage"])


def test_another_stream_fails_with_the_report(stored: Stored) -> None:
    with pytest.raises(AssertionError) as failed:
        assert_same_stream(contents(RESPONSES), contents(replaced(RESPONSES, "sunny", "rainy")))
    said = str(failed.value).splitlines()
    assert said[0] == "made (B) differs from made (A):"
    assert "answer     1 difference" in said
    assert "    message 0: It is [-sunny-]{+rainy+} in Paris." in said


def test_a_test_does_not_compare_times_unless_it_asks_for_that() -> None:
    one, other = contents(RESPONSES), contents(RESPONSES._replace(pauses={1: 2.0}))
    assert_same_stream(one, other)
    with pytest.raises(AssertionError, match="timing"):
        assert_same_stream(one, other, only="timing")


def test_ids_differ_in_a_test_only_exactly() -> None:
    one, other = contents(RESPONSES), contents(replaced(RESPONSES, "resp_1", "resp_2"))
    assert_same_stream(one, other)
    with pytest.raises(AssertionError, match="bytes"):
        assert_same_stream(one, other, exact=True)


def test_a_failure_names_what_was_compared_and_no_option_of_a_command(stored: Stored) -> None:
    one = stored("a", RESPONSES)
    other = stored(
        "b", RESPONSES.put(1, *({"type": f"response.new_{number}"} for number in range(12)))
    )
    with pytest.raises(AssertionError) as failed:
        assert_same_stream(one, other)
    said = str(failed.value)
    assert said.startswith(f"{other} (B) differs from {one} (A):\n")
    assert "    and 2 more\n" in said
    assert "--all" not in said


@pytest.mark.parametrize(("a", "only"), [(7, None), (None, None), ("x.sse", "colour")])
def test_what_is_not_a_recording_is_refused(a: Any, only: Any) -> None:
    with pytest.raises(UsageError):
        assert_same_stream(a, contents(RESPONSES), only=only)


# -- words


def test_a_long_text_is_cut_around_its_changes() -> None:
    words = [f"w{number}" for number in range(10_000)]
    other = [*words[:5000], "new", *words[5001:]]
    [place] = changes(" ".join(words), " ".join(other))
    assert [word.text for word in place if word.of != "="] == ["w5000", "new"]
    assert sum(len(word.text) for word in place) < 120


def test_words_that_are_not_written_apart_are_compared_character_by_character() -> None:
    [place] = changes("今日は晴れです", "今日は雨です")
    assert [word for word in place if word.of != "="] == [("-", "晴れ"), ("+", "雨")]


def test_a_report_does_not_grow_past_its_limit(diff: Diff, stored: Stored) -> None:
    one = stored("a", RESPONSES)
    other = stored(
        "b",
        RESPONSES.put(1, *({"type": f"response.new_{n}"} for n in range(DIFFERENCES_LIMIT + 5))),
    )
    found = json.loads(diff(one, other, "--json", "--only", "events").out)
    [level] = found["pairs"][0]["levels"]
    assert (level["count"], len(level["differences"])) == (DIFFERENCES_LIMIT + 5, DIFFERENCES_LIMIT)
