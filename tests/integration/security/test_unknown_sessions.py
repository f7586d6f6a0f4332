"""What a login that reads its own rows is told of a session of others: what it is told of one that
there is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.foreign_rows import Team, a_team
from tests.support.postgres import Server
from tests.support.server import run

NONE = "019a0000-0000-7000-8000-000000000000"  # in the form of an id


@pytest.fixture(scope="module")
def team(postgres_server: Server, postgres_template: str) -> Iterator[Team]:
    with a_team(postgres_server, postgres_template) as made:
        yield made


COMMANDS = (
    *("show ID", "events ID", "lint ID", "diff weather ID", "diff ID:1 weather", "show --cache ID"),
    *("replay ID", "mock ID --port 0", "resend ID", "run --replay ID -- true", "tail ID"),
    "run --replay ID --then live --until 1 -- true",
    "bisect ID --check true -- true",
    *(f"export ID --format {name}" for name in ("jsonl", "cassette", "har", "html", "otlp-json")),
    *(f"export ID --format {name}" for name in ("chat", "perfetto", "sse", "vcr", "atif")),
)


@pytest.mark.parametrize("typed", COMMANDS)
def test_a_session_of_others_is_one_that_there_is_not(team: Team, typed: str) -> None:
    told = []
    for id in (team.his[0].session_id, NONE):
        ran = run(team.ann, *typed.replace("ID", id).split())
        told.append(
            (ran.code, re.sub(r"[\w./-]*recorder-\w+", "", (ran.text + ran.err).replace(id, "")))
        )
    assert told[0] == told[1]
    assert told[0][0] in (2, 3), told[0]
