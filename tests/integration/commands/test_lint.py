"""`recorder lint`, its report, its page, and `assert_lints`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from recorder.commands.lint import command
from recorder.errors import NotFoundError, RecorderError, UsageError
from recorder.lint.linter import PLACES_LIMIT, RULES, Finding
from recorder.lint.report import Judged, judged, lines, summary
from recorder.lint.rule import Hit
from recorder.lint.sse import CODEX_SILENCE_NS, PROXY_SILENCE_NS
from recorder.model.events import Session
from recorder.recordings.session import RecordedSession
from recorder.testing import assert_lints
from recorder.wire.recording import recording_of
from tests.support.conversations import Conversations
from tests.support.corpus import ROOT
from tests.support.recordings import Reply, recorded
from tests.unit.lint.test_openai_responses import COMPLETED, DELTA, GOOD, but, less
from tools.lint_docs import page

NO_ITEM_ID = but(DELTA, less("item_id"))
NOTED = GOOD.put(5, {"type": "ping"})
WARNED = GOOD.without(14).numbered()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "good.sse", GOOD)


def written(path: Path, reply: Reply) -> Path:
    path.write_bytes(b"".join(reply.blocks()))
    return path


def lint(*arguments: object) -> Result:
    """The command as it is called, without a process of its own."""
    return CliRunner().invoke(command, [*map(str, arguments)], catch_exceptions=False)


def failing(*arguments: object) -> RecorderError:
    result = CliRunner().invoke(command, [*map(str, arguments)])
    assert isinstance(result.exception, RecorderError), result.exception
    return result.exception


def test_a_good_stream_ends_with_0(file: Path) -> None:
    ran = lint(file)
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        f"{file}:1  POST /v1/responses  by profile openai: no finding",
        "No finding in 1 exchange",
    ]


def test_a_fault_is_shown_with_place_and_reason_and_ends_with_4(tmp_path: Path) -> None:
    ran = lint(written(tmp_path / "bad.sse", NO_ITEM_ID))
    assert ran.exit_code == 4
    heading, first, place, why, *_, last = ran.stdout.splitlines()
    assert heading.endswith("bad.sse:1  POST /v1/responses  by profile openai")
    assert first == "  error    RS021  An event of an item has no `item_id`."
    assert place.strip() == "event 13, 14: response.output_text.delta"
    assert why.strip().startswith("why: ")
    assert last == "1 error in 1 exchange"


@pytest.mark.parametrize(
    ("reply", "options", "code", "last"),
    [
        (NOTED, "", 0, "1 note in 1 exchange"),
        (NOTED, "--fail-on warning", 0, "1 note in 1 exchange"),
        (NOTED, "--fail-on note", 4, "1 note in 1 exchange"),
        (WARNED, "--fail-on error", 0, "warning"),
        (WARNED, "--fail-on warning", 4, "warning"),
        (NO_ITEM_ID, "--fail-on error", 4, "1 error in 1 exchange"),
        (NO_ITEM_ID, "--ignore RS021", 0, "No finding in 1 exchange"),
        (NO_ITEM_ID, "--profile codex", 0, ""),
    ],
)
def test_what_fails_is_as_severe_as_is_asked_for(
    tmp_path: Path, reply: Reply, options: str, code: int, last: str
) -> None:
    ran = lint(written(tmp_path / "judged.sse", reply), *options.split())
    assert (ran.exit_code, last in ran.stdout.splitlines()[-1]) == (code, True)


def test_a_probe_that_no_rule_is_about_is_not_named(tmp_path: Path) -> None:
    session = Conversations(tmp_path / "recorder.db").session("run")
    session.exchange([], api="other", method="HEAD", target="/api/hello")
    session.exchange(GOOD.blocks(), at_s=1)
    ran = lint("run", "--db", tmp_path / "recorder.db")
    assert (ran.exit_code, ran.stderr) == (0, "")


def test_several_subjects_are_summed_up_together(file: Path, tmp_path: Path) -> None:
    ran = lint(file, written(tmp_path / "bad.sse", NO_ITEM_ID), f"{file}:1")
    assert ran.stdout.splitlines()[-1] == "1 error in 3 exchanges"


def test_json_has_all_of_a_finding_and_where_it_is(tmp_path: Path) -> None:
    [row] = json.loads(lint(written(tmp_path / "bad.sse", NO_ITEM_ID), "--json").stdout)
    assert set(row) == {"session", "exchange", "exchange_id", "profile", *Finding.__struct_fields__}
    assert (row["exchange"], row["profile"], row["rule"], row["count"]) == (1, "openai", "RS021", 2)
    assert row["places"] == [{"pos": pos, "said": DELTA} for pos in (13, 14)]


def test_jsonl_is_a_line_for_each_finding(tmp_path: Path) -> None:
    ran = lint(written(tmp_path / "bad.sse", NO_ITEM_ID.without(COMPLETED)), "--jsonl")
    assert [json.loads(line)["rule"] for line in ran.stdout.splitlines()] == ["RS002", "RS021"]


def test_json_of_a_good_stream_is_empty(file: Path) -> None:
    assert json.loads(lint(file, "--json").stdout) == []


def test_what_a_profile_is_not_about_is_said(file: Path, tmp_path: Path) -> None:
    chat = tmp_path / "chat.sse"
    chat.write_bytes(b'data: {"object":"chat.completion.chunk","choices":[]}\n\ndata: [DONE]\n\n')
    ran = lint(file, chat, "--profile", "codex")
    assert ran.exit_code == 0
    assert (
        ran.stderr
        == f"{chat}: exchange 1 was not judged: it speaks openai-chat, and the profile codex is of openai-responses.\n"
    )


def test_nothing_to_judge_ends_with_3(file: Path) -> None:
    error = failing(file, "--profile", "gemini")
    assert isinstance(error, NotFoundError)
    assert (error.exit_code, str(error)) == (3, "There was nothing to judge.")


def test_a_session_of_the_database_is_judged(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "recorder.db")
    made.session("run").exchange(GOOD.blocks()[:-1])
    ran = lint("latest", "--db", made.path)
    assert "RS002" in ran.stdout
    assert ran.stdout.startswith("run:1  POST /v1/responses")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Which SUBJECT? `recorder lint latest`, or a file."),
        (
            ["latest", "--list"],
            "--list names rules and judges nothing: leave 'latest' away. --profile NAME gives those of one profile.",
        ),
        (
            ["latest", "--ignore", "XX001"],
            "There is no rule XX001: `recorder lint --list` and docs/probe.md name them.",
        ),
        (["latest", "--json", "--jsonl"], "--json and --jsonl are different formats: choose one."),
    ],
)
def test_what_makes_no_sense_ends_with_2(arguments: Sequence[str], says: str) -> None:
    error = failing(*arguments)
    assert isinstance(error, UsageError)
    assert str(error) == says


def test_the_rules_are_listed() -> None:
    assert len(lint("--list").stdout.splitlines()) == len(RULES) + 1
    of_codex = [rule.id for rule in RULES if "codex" in rule.profiles]
    assert [
        line.split()[0] for line in lint("--list", "--profile", "codex").stdout.splitlines()[1:]
    ] == of_codex


def test_the_rules_are_data() -> None:
    rows: list[dict[str, Any]] = json.loads(lint("--list", "--json").stdout)
    assert [row["id"] for row in rows] == [rule.id for rule in RULES]
    assert set(rows[0]) == {"id", "severity", "meaning", "why", "source", "profiles"}


# -- the report


def report(*places: Hit, count: int | None = None) -> list[str]:
    recording = recording_of(*recorded(GOOD))
    finding = Finding(
        "RS000", "error", "Wrong.", "Breaks.", "S", count or len(places), list(places)
    )
    found = judged("run", recording, None)._replace(findings=[finding])
    return [line.strip() for line in lines(found)][2:-2]


def test_places_where_the_same_stands_are_named_together() -> None:
    assert report(Hit(3, "a"), Hit(4, "b"), Hit(5, "a")) == ["event 3, 5: a", "event 4: b"]


def test_what_is_not_shown_is_counted() -> None:
    assert report(*(Hit(pos, "a") for pos in range(9)), count=150) == [
        "event 0, 1, 2, 3, 4: a",
        "and 145 more",
    ]
    assert report(*(Hit(pos, str(pos)) for pos in range(4))) == [
        "event 0: 0",
        "event 1: 1",
        "event 2: 2",
        "and 1 more",
    ]


def test_a_place_may_be_the_whole_exchange() -> None:
    assert report(Hit(None, "status 500")) == ["status 500"]
    assert report(Hit(None)) == []


def test_lines_fit_the_width() -> None:
    found = judged("run", recording_of(*recorded(NO_ITEM_ID)), None)
    assert all(len(line) <= 60 for line in lines(found, 60) if line.startswith(" "))


def test_the_summary_counts_findings_by_severity() -> None:
    exchange, events = recorded(NO_ITEM_ID.without(COMPLETED).put(5, {"type": "ping"}))
    found = judged("run", recording_of(exchange, events), None)
    assert summary([found, found]) == "4 errors, 2 notes in 2 exchanges"
    assert summary([Judged("run", 1, exchange, None, ())]) == "No finding in 0 exchanges"


# -- the page


def test_every_rule_is_on_the_page() -> None:
    text = page()
    assert [
        rule.id
        for rule in RULES
        if f"## {rule.id}\n\n**{rule.meaning}** ({rule.severity};" not in text
    ] == []


def test_the_limits_on_the_page_are_those_of_the_program() -> None:
    text = (ROOT / "docs" / "lint.md").read_text()
    silences = (
        f"(from {PROXY_SILENCE_NS // 10**9} s on)",
        f"(from {CODEX_SILENCE_NS // 10**9} s on)",
    )
    assert [each for each in (*silences, f"the first {PLACES_LIMIT}:") if each not in text] == []


# -- in tests


def contents(reply: Reply) -> RecordedSession:
    return RecordedSession(
        Session("s", 1, "run", "test", "{}", "live"), [recording_of(*recorded(reply))]
    )


def test_a_good_recording_passes(file: Path) -> None:
    assert_lints(file)
    assert_lints(str(file), profile="sdk")
    assert_lints(contents(GOOD))
    assert_lints(contents(NOTED))


def test_a_test_fails_with_the_report() -> None:
    with pytest.raises(AssertionError) as raised:
        assert_lints(contents(NO_ITEM_ID))
    first, heading, finding, *_ = str(raised.value).splitlines()
    assert first == "1 error in 1 exchange:"
    assert heading == "run:1  POST /v1/responses  by profile openai"
    assert finding == "  error    RS021  An event of an item has no `item_id`."


def test_a_rule_can_be_left_out() -> None:
    assert_lints(contents(NO_ITEM_ID), ignore=["RS021"])


def test_a_rule_that_there_is_not_cannot_be_left_out() -> None:
    with pytest.raises(UsageError, match="There is no rule RS999 to be ignored"):
        assert_lints(contents(GOOD), ignore=["RS021", "RS999"])
    with pytest.raises(UsageError, match="give a list"):
        assert_lints(contents(GOOD), ignore="RS021")


def test_what_is_not_a_recording_is_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECORDER_DB", str(Conversations(tmp_path / "recorder.db").path))
    unknown: Any = "responses"
    nothing: Any = 7
    with pytest.raises(UsageError, match="is not a recording"):
        assert_lints(nothing)
    with pytest.raises(UsageError, match="nothing to judge"):
        assert_lints(file, profile="gemini")
    with pytest.raises(UsageError, match="no profile 'responses'"):
        assert_lints(file, profile=unknown)
    with pytest.raises(RecorderError, match="no file"):
        assert_lints(file.with_name("gone.sse"))
