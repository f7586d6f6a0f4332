"""The marks of a session: the findings of `recorder lint` and the anomalies of the views, at their
events.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import URL

from recorder.model import events as model
from recorder.store.queries.reader import LogReader
from recorder.ui import marks as module
from recorder.ui.marks import marks
from tests.support.conversations import Conversations, asking, message, response
from tests.support.html_file import Json
from tests.support.server import run
from tests.support.superuser import asked

FRAMES = response(*message("It is ", "18 °C"))
BROKEN = [*FRAMES[:3], FRAMES[5], *FRAMES[4:]]  # a delta is missing, an event comes twice


async def marked(url: URL | Path, session: str = "s") -> Json:
    async with await LogReader.open(url) as log:
        return dict(msgspec.to_builtins(await marks(log, session)))


async def test_findings_and_anomalies_are_those_of_the_commands(sqlite_database: URL) -> None:
    made = Conversations(sqlite_database).session("s")
    made.exchange(FRAMES, asking("?"))
    made.exchange(BROKEN, asking("?"), at_s=2.0)
    made.exchange(BROKEN[:6], asking("?"), at_s=4.0, ended=False)
    found = await marked(sqlite_database)
    assert found["notes"] == []
    linted = json.loads(run(sqlite_database, "lint", "s", "--json").out)
    expected = [
        (row["exchange"], place["pos"], row["severity"], row["rule"], row["why"])
        for row in linted
        for place in row["places"]
    ]
    assert expected
    findings = [each for each in found["marks"] if each["kind"] == "lint"]
    assert [
        tuple(each[name] for name in ("exchange", "pos", "severity", "rule", "why"))
        for each in findings
    ] == expected
    shown = json.loads(run(sqlite_database, "show", "s", "--json").out)["exchanges"]
    anomalies = [
        (number, row["pos"], row["kind"])
        for number, each in enumerate(shown, 1)
        for row in each["anomalies"]
    ]
    assert {number for number, _, _ in anomalies} == {2, 3}, "of the open one, too"
    of_views = [
        (each["exchange"], each["pos"], each["rule"])
        for each in found["marks"]
        if each["kind"] == "anomaly"
    ]
    assert of_views == anomalies
    assert len(asked(sqlite_database, "SELECT 1 FROM anomalies")) == sum(
        number == 2 for number, _, _ in anomalies
    )


async def test_an_exchange_that_is_too_large_is_named_and_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    made.exchange(response(*message("x" * 90_000)), asking("?"))
    made.exchange(BROKEN, asking("?"), at_s=2.0)
    monkeypatch.setattr(model, "MEMORY_LIMIT", 100_000)
    found = await marked(made.database)
    [note] = found["notes"]
    assert note.startswith("Exchange 1: it takes over")
    assert {each["exchange"] for each in found["marks"] if each["kind"] == "lint"} == {2}


async def test_there_is_a_limit_of_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    for number in range(3):
        made.exchange(BROKEN, asking("?"), at_s=2.0 * number)
    monkeypatch.setattr(module, "MARKS_LIMIT", 2)
    found = await marked(made.database)
    assert len(found["marks"]) == 2
    assert found["notes"] == ["These are the first 2 marks: exchanges after 1 were not looked at."]
