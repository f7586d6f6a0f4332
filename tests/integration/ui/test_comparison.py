"""The comparison that the viewer draws: the JSON of `recorder diff`, and the sides that belong to
it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import URL

from recorder.diff import Terms
from recorder.diff.report import levels_in
from recorder.errors import NotFoundError, RecorderError, UsageError
from recorder.replay.matching.noise import DEFAULT_RULES
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import session_named
from recorder.ui import api
from recorder.ui.api import comparison, terms_of
from tests.support.conversations import Conversations, asking, call, message, response, thought
from tests.support.server import run


def record(database: URL | Path) -> Conversations:
    """Two sessions that differ in a word, an argument and a further item; and one without
    exchanges.
    """
    made = Conversations(database)
    for number, (name, city, words) in enumerate(
        [("before", "Paris", ["It is ", "sunny."]), ("after", "Lyon", ["It is ", "rainy."])]
    ):
        session = made.session(name, at_s=number * 100)
        items = [*thought("Hm."), *call("look", json.dumps({"city": city}), index=1)]
        session.exchange(
            response(*items, *(message("!", index=2) if number else [])), asked=asking("Weather?")
        )
        session.exchange(response(*message(*words), id="resp_2"), asked=asking("So?"), at_s=5)
    made.session("empty", at_s=300)
    return made


async def ask(
    database: URL, a: str, b: str, *only: Any, terms: Terms | None = None
) -> dict[str, Any]:
    async with await LogReader.open(database) as log:
        found: dict[str, Any] = json.loads(
            msgspec.json.encode(await comparison(log, database, a, b, only, terms or Terms()))
        )
        return found


async def test_it_is_what_diff_says_and_names_both_sides(sqlite_database: URL) -> None:
    made = record(sqlite_database)
    found = await ask(made.database, "before", "after")
    ran = run(sqlite_database, "diff", "before", "after", "--json")
    of_command = json.loads(ran.out)
    assert (ran.code, ran.err) == (4, "")
    assert {name: found[name] for name in of_command} == of_command
    assert found.keys() - of_command.keys() == {"sessions", "command"}
    sides = found["sessions"]
    assert [(sides[side]["name"], sides[side]["exchanges"]) for side in "ab"] == [
        ("before", 2),
        ("after", 2),
    ]
    async with await LogReader.open(sqlite_database) as log:
        assert sides["b"]["session_id"] == (await session_named(log, "after")).session_id


async def test_items_that_were_compared_stand_beside_each_other(tmp_path: Path) -> None:
    made = record(tmp_path / "log.db")
    first, second = (await ask(made.database, "before", "after"))["pairs"]
    assert (first["items"], second["items"]) == ([[0, 0], [1, 1], [None, 2]], [[0, 0]])
    [without] = (await ask(made.database, "before:1", "after:1", "timing"))["pairs"]
    assert without["items"] == []


async def test_one_exchange_can_be_a_side(tmp_path: Path) -> None:
    made = record(tmp_path / "log.db")
    found = await ask(made.database, "before:1", "after:2", "answer")
    [pair] = found["pairs"]
    assert (pair["a"]["number"], pair["b"]["number"], pair["how"]) == (1, 2, "alone")
    assert [level["level"] for level in pair["levels"]] == ["answer"]


async def test_the_command_gives_the_same(tmp_path: Path) -> None:
    made = record(tmp_path / "log.db")
    terms = terms_of("2", DEFAULT_RULES, exact=True)
    found = await ask(made.database, "before", "after", *levels_in("answer, bytes"), terms=terms)
    expected = "recorder diff before after --only answer,bytes --tolerance 2 --exact --db"
    assert found["command"] == f"{expected} {made.path}"


async def test_what_is_too_much_for_an_answer_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = record(tmp_path / "log.db")
    whole = await ask(made.database, "before", "after")
    monkeypatch.setattr(api, "ANSWER_BYTES", 0)
    cut = await ask(made.database, "before", "after")
    assert cut["levels"] == whole["levels"]
    assert any(level["count"] for pair in cut["pairs"] for level in pair["levels"])
    assert not any(level["differences"] for pair in cut["pairs"] for level in pair["levels"])


async def test_files_are_not_read(tmp_path: Path) -> None:
    made = record(tmp_path / "log.db")
    file = tmp_path / "a.sse"
    file.write_bytes(b"data: {}\n\n")
    with pytest.raises(NotFoundError, match="There is no session"):
        await ask(made.database, str(file), "after")


async def test_a_side_without_exchanges_is_an_error(tmp_path: Path) -> None:
    made = record(tmp_path / "log.db")
    with pytest.raises(NotFoundError, match=r"^empty has no exchanges\.$"):
        await ask(made.database, "before", "empty")
    with pytest.raises(UsageError, match="Name two sessions"):
        await ask(made.database, "before", "")


async def test_a_session_over_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = record(tmp_path / "log.db")
    monkeypatch.setattr("recorder.model.events.MEMORY_LIMIT", 1000)
    with pytest.raises(
        RecorderError, match=r"^before takes over .* name one exchange of it, as before:1\.$"
    ):
        await ask(made.database, "before", "after")


@pytest.mark.parametrize("given", ["0.5", "nan", "inf", "much"])
def test_a_tolerance_is_a_factor(given: str) -> None:
    with pytest.raises(UsageError, match=r"^The tolerance is a factor of 1 or more, as 1\.25\.$"):
        terms_of(given, DEFAULT_RULES, exact=False)
    assert terms_of(None, DEFAULT_RULES, exact=False) == Terms()


def test_levels_have_names() -> None:
    assert levels_in("") == levels_in(" , ") == ()
    assert levels_in("tools, answer") == ("tools", "answer")
    with pytest.raises(
        UsageError, match="There is no level 'words': the levels are request, answer"
    ):
        levels_in("words")
