"""`recorder bisect`: whether the planted step is named, what is asked for that, and where no step
is named.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from math import ceil, log2
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.integration.commands.test_schema import problems
from tests.support.empty_log import empty
from tests.support.event_loop import beside
from tests.support.planted_answers import (
    APIS,
    KINDS,
    Case,
    PlantedServer,
    case_of,
    planted_upstream,
)
from tests.support.server import Ran, run_parent

HUNDRED_S = 3600  # of twenty cases, on a machine that has other things to do


@pytest.fixture(scope="module")
def upstream() -> Iterator[PlantedServer]:
    with beside(planted_upstream) as server:
        yield server


class Recorded(NamedTuple):
    """A log with the session `parent` of a case, and the upstream that it asked."""

    db: Path
    case: Case
    server: PlantedServer

    @property
    def option(self) -> str:
        return f"--upstream={APIS[self.case.api]}={self.server.base_url}"

    @property
    def check(self) -> str:
        return f"grep -qx '{self.case.expected()}'"

    def bisect(self, *options: object, says: str | None = None) -> Ran:
        """Bisect with the check that all answers are right; the agent `says` something more at its
        end.
        """
        words = self.case.words() if says is None else self.case.words(says)
        return run_parent(
            self.db, "bisect", "parent", "--check", self.check, self.option, *options, "--", *words
        )

    def found(self, says: str | None = None) -> dict[str, Any]:
        """What `--json` says."""
        ran = self.bisect("--json", says=says)
        document: dict[str, Any] = json.loads(ran.out)
        return document


def record(server: PlantedServer, folder: Path, case: Case) -> Recorded:
    recorded = Recorded(empty(folder / f"{case.name}.db"), case, server)
    server.planted = case.planted
    try:
        ran = run_parent(
            recorded.db, "run", "--session", "parent", recorded.option, "--", *case.words()
        )
    finally:
        server.planted = None
    assert ran.code == 0, ran.err
    return recorded


def misses(server: PlantedServer, folder: Path, seeds: range) -> list[tuple[Case, dict[str, Any]]]:
    """The cases of these seeds in which another step than the planted one is named, or none, or
    after too many runs.
    """
    wrong = []
    for seed in seeds:
        case = case_of(seed)
        found = record(server, folder, case).found()
        is_named = found["verdict"] == "step" and found["question"] == case.planted
        if not is_named or len(found["runs"]) > ceil(log2(found["turns"])) + 2:
            wrong.append((case, found))
    return wrong


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 8, 34])
def test_the_planted_step_is_named(upstream: PlantedServer, tmp_path: Path, seed: int) -> None:
    assert misses(upstream, tmp_path, range(seed, seed + 1)) == []


@pytest.mark.slow
@pytest.mark.timeout(HUNDRED_S)
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_of_a_hundred_planted_steps_all_are_named(
    upstream: PlantedServer, tmp_path: Path, kind: int
) -> None:
    assert misses(upstream, tmp_path, range(kind, 100, len(KINDS))) == []


@pytest.mark.slow
@pytest.mark.timeout(HUNDRED_S)
@pytest.mark.parametrize("first", range(100, 120, 5))
def test_no_step_is_named_where_none_is_wrong(
    upstream: PlantedServer, tmp_path: Path, first: int
) -> None:
    verdicts = []
    for seed in range(first, first + 5):
        recorded = record(upstream, tmp_path, case_of(seed, is_planted=False))
        for says in (None, "and more"):
            found = recorded.found(says)
            verdicts.append((found["verdict"], found["turn"], len(found["runs"])))
    assert verdicts == [("always passes", None, 1), ("not in the model's answers", None, 2)] * 5


PRICES = '[[price]]\nprovider = "openai"\nmodel = "m"\ninput = 1000\noutput = 1000\n'
TURN_USD = 0.11  # of 100 tokens in and 10 out


@pytest.fixture(scope="module")
def priced(upstream: PlantedServer, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A recording of six steps whose third is wrong, in a log that has prices."""
    folder = tmp_path_factory.mktemp("priced")
    case = Case("openai-chat", "chain", "priced", 6, "priced: step 2")
    recorded = record(upstream, folder, case)
    (folder / "prices.toml").write_text(PRICES)
    assert run_parent(recorded.db, "prices", "update", "--file", folder / "prices.toml").code == 0
    return recorded


@pytest.fixture
def parent(priced: Recorded, tmp_path: Path) -> Recorded:
    """A copy of that log."""
    return priced._replace(db=Path(shutil.copy(priced.db, tmp_path / "recorder.db")))


def test_a_step_is_named_with_its_question_and_its_answer(parent: Recorded) -> None:
    asked = len(parent.server.requests)
    ran = parent.bisect()
    assert ran.code == 0, ran.err
    *_, named, question, answer = ran.text.splitlines()
    assert named.startswith(
        "step 3: CMD fails with the recorded answer to turn 3 (exchange 3 of session parent)"
    )
    assert (question, answer) == ("  asked: priced: step 2", "  answered: <7777>")
    assert (
        "parent has 6 turns: 5 runs at most, and 18 live turns of m if PROGRAM asks what it asked before"
        in ran.err
    )
    assert "about $1.98, if the answers are as long as before." in ran.err
    live = len(parent.server.requests) - asked
    assert f"{live} live turns, ${live * TURN_USD:.2f}." in ran.err, (
        "what is said at the end is what was asked"
    )
    for name in ("parent-bisect-6", "parent-bisect-0"):
        shown = json.loads(run_parent(parent.db, "show", name, "--json").out)
        assert shown["session"]["forked_from"]["name"] == "parent"


def test_what_is_written_as_json_is_as_its_schema_says(parent: Recorded) -> None:
    found = parent.found()
    assert problems("bisect", found) == []
    assert (found["turn"], found["exchange"], found["answer"]) == (3, 3, "<7777>")
    assert [run["until"] for run in found["runs"]][:2] == [6, 0]


def test_a_dry_run_asks_for_nothing_and_needs_no_program(parent: Recorded) -> None:
    asked = len(parent.server.requests)
    ran = run_parent(parent.db, "bisect", "parent", "--check", "false", "--dry-run")
    assert (ran.code, len(parent.server.requests)) == (0, asked)
    assert "5 runs at most" in ran.text


def test_a_limit_ends_it_and_the_same_command_goes_on(parent: Recorded) -> None:
    ran = parent.bisect("--limit", 0.8)
    assert ran.code == 1
    assert "The next run may pass the limit of $0.8: about $0.66 are spent." in ran.err
    assert "The same command with --passes 0 and --fails 6 and a higher --limit goes on." in ran.err
    asked = len(parent.server.requests)
    ran = parent.bisect("--passes", 0, "--fails", 6)
    assert "step 3" in ran.text
    assert "parent-bisect-0" not in ran.text, "that was known"
    assert len(parent.server.requests) - asked < 10


def test_a_program_that_asks_for_more_than_before_is_held_up_at_the_limit(parent: Recorded) -> None:
    longer = parent.case._replace(steps=40).words()
    options = ("--check", "false", "--limit", 1, "--passes", 5, parent.option)
    asked = len(parent.server.requests)
    ran = run_parent(parent.db, "bisect", "parent", *options, "--", *longer)
    assert ran.code == 1
    assert "The limit was reached in this run." in ran.err
    assert len(parent.server.requests) - asked == 10, "at 11 cents each"


def test_a_run_whose_live_requests_fail_proves_nothing(parent: Recorded) -> None:
    ran = parent.bisect("--upstream=openai=http://127.0.0.1:1")
    assert ran.code == 1
    assert "This run proves nothing: a live request got no answer" in ran.err
    assert "The same command with --fails 6 goes on." in ran.err


def test_a_check_has_what_was_printed_and_the_session_and_the_exit_code(parent: Recorded) -> None:
    show = f'{sys.executable} -m recorder show "$RECORDER_SESSION"'
    check = f"""test "$RECORDER_EXIT_CODE" = 0 && grep -q 7777 && {show} | grep '<7777>'"""
    options = ("--check", check, parent.option)
    program = {"PYTHONPATH": str(Path(__file__).parents[3])}
    ran = run_parent(parent.db, "bisect", "parent", *options, "--", *parent.case.words(), **program)
    assert ran.code == 3, ran.err
    assert ran.text.splitlines()[-1].startswith("always passes: "), "the recording has it"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ("parent", "--check", "false"),
            2,
            "Which program? The log does not keep the command that was recorded",
        ),
        (("parent", "--", "true"), 2, "Missing option '--check'"),
        (("nobody", "--check", "false", "--", "true"), 3, "nobody"),
        (("parent", "--check", "false", "--", "true"), 3, "PROGRAM sent no request here"),
        (
            ("parent", "--check", "nothing", "--fails", 6, "--", "true"),
            1,
            "The check cannot be run (exit code 127)",
        ),
        (
            ("parent", "--check", "false", "--", "no-such-program"),
            127,
            "no-such-program is not on the PATH",
        ),
        (
            ("parent", "--check", "false", "--passes", 6, "--", "true"),
            2,
            "--passes 6 leaves no turn to search",
        ),
        (
            ("parent", "--check", "false", "--model", " ", "--", "true"),
            2,
            "--model needs the name of a model",
        ),
        (
            ("parent", "--check", "false", "--limit", 1, "--model", "new", "--", "true"),
            2,
            "--limit needs the price",
        ),
    ],
)
def test_wrong_use_is_one_sentence(
    parent: Recorded, words: tuple[object, ...], code: int, said: str
) -> None:
    ran = run_parent(parent.db, "bisect", *words)
    assert (ran.code, "Traceback" in ran.err) == (code, False), ran.err
    assert said in ran.err


def test_another_program_is_told_from_a_wrong_answer(parent: Recorded) -> None:
    other = parent.case._replace(name="other")
    ran = run_parent(
        parent.db, "bisect", "parent", "--check", "false", parent.option, "--", *other.words()
    )
    assert ran.code == 1
    assert (
        "PROGRAM asked for none of the recorded turns: is it the command that was recorded?"
        in ran.err
    )
