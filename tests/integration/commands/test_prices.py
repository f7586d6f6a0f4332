"""`recorder prices`, with and without the package, in every database, and beside what moves and
deletes sessions.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import URL

from recorder.errors import missing_extra
from recorder.prices.table import own_prices, update
from recorder.store.postgres.rights import GRANTS
from recorder.store.write.writer import Store
from tests.support.conversations import Conversations, asking, message, response
from tests.support.server import run
from tests.support.superuser import asked, connected, execute, login

GPT = response(*message("Hi."))
OWN = '[[price]]\nprovider = "openai"\nmodel = "gpt-5"\ninput = 1.25\noutput = 10\n'
ALL = "SELECT * FROM prices ORDER BY provider, rank, model, unit, service_tier, above_input_tokens, valid_from_ns"
TOTAL = "SELECT sum(cost_picousd), count(*) FROM costs"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(OWN)
    return path


@pytest.fixture
def _is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an import of the package fail, as where it is not installed."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)


def recorded(database: URL | Path) -> None:
    made = Conversations(database)
    made.session("one").exchange(GPT, asking("Hello?"))
    made.session("two", 10).exchange(GPT, asking("Hello?"))


@pytest.mark.usefixtures("_is_missing")
def test_without_the_package_an_update_names_the_extra(tmp_path: Path) -> None:
    ran = run(tmp_path / "log.db", "prices", "update")
    assert ran.code == 1
    assert ran.err == f"Error: {missing_extra('The list of prices of providers', 'pricing')}\n"
    assert "Traceback" not in ran.err


@pytest.mark.usefixtures("_is_missing")
def test_without_the_package_own_prices_count(tmp_path: Path, file: Path) -> None:
    log = tmp_path / "log.db"
    recorded(log)
    ran = run(log, "prices", "update", "--file", file)
    assert (ran.code, ran.err.splitlines()[:2]) == (
        0,
        ["Prices of prices.toml for openai.", "2 rows added, 0 ended."],
    )
    [total] = json.loads(run(log, "usage", "--cost", "--json").out)
    assert (total["cost_usd"], total["priced"]) == ("0.012205", 2)


@pytest.mark.long
def test_without_the_package_its_earlier_prices_stay(tmp_path: Path, file: Path) -> None:
    log = tmp_path / "log.db"
    assert run(log, "prices", "update").code == 0
    before = set(asked(log, ALL))
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "genai_prices", None)
        assert run(log, "prices", "update", "--file", file).code == 0
    assert before < set(asked(log, ALL))


@pytest.mark.long
def test_an_update_names_what_needs_a_list_and_no_subscription(tmp_path: Path, file: Path) -> None:
    log = tmp_path / "log.db"
    Conversations(log).session("one").exchange(GPT, asking("Hello?"), provider="gateway")
    [*_, last] = run(log, "prices", "update").err.splitlines()
    assert last.startswith("No list of prices for gateway: ")
    file.write_text('[providers]\ngateway = "opnai"\n')
    refused = run(log, "prices", "update", "--file", file)
    assert (refused.code, "`gateway`" in refused.err, "'opnai'" in refused.err) == (2, True, True)
    file.write_text('[providers]\ngateway = "openai"\n')
    assert run(log, "prices", "update", "--file", file).err.count("\n") == 2


@pytest.mark.long
def test_a_model_that_is_recorded_after_an_update_is_asked_for_with_its_cost(database: URL) -> None:
    made = Conversations(database)
    made.session("one").exchange(GPT, asking("Hello?"))
    command = ("usage", "--cost", "--by", "model", "--json")
    assert [row["cost_usd"] for row in json.loads(run(database, *command).out)] == [None], (
        "nobody wants prices yet"
    )
    assert run(database, "prices", "update").code == 0
    [first] = asked(database, "SELECT cost_picousd, price_model FROM costs")
    made.session("two", 10).exchange(
        response(*message("Hi."), model="gpt-5-mini"), asking("Hello?")
    )
    made.session("three", 20).exchange(
        response(*message("Hi."), model="nobody's"), asking("Hello?")
    )
    ran = run(database, *command)
    assert {row["model"]: row["cost_usd"] is None for row in json.loads(ran.out)} == {
        "gpt-5": False,
        "gpt-5-mini": False,
        "nobody's": True,
    }
    assert "1 exchange without a cost (no price): openai nobody's." in ran.err
    there = asked(database, ALL)
    assert run(database, *command).out == ran.out
    assert asked(database, ALL) == there
    assert first in asked(database, "SELECT cost_picousd, price_model FROM costs")
    assert (
        '"gpt-5.1"' in run(database, "prices", "list", "--model", "gpt-5.1", "--json").out.decode()
    )


@pytest.mark.usefixtures("_is_missing")
def test_an_update_twice_changes_nothing(database: URL, file: Path) -> None:
    recorded(database)
    assert run(database, "prices", "update", "--file", file).code == 0
    there = asked(database, ALL)
    again = run(database, "prices", "update", "--file", file)
    assert (again.code, "Nothing has changed." in again.err) == (0, True)
    assert asked(database, ALL) == there


@pytest.mark.usefixtures("_is_missing")
def test_two_updates_at_a_time_add_the_rows_once(database: URL, file: Path) -> None:
    def update_once(_: int) -> None:
        with Store(database) as store:
            update(store, own_prices(file), [], time.time_ns())

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(update_once, range(2)))
    twice = (
        "SELECT count(*) - count(DISTINCT model || unit) FROM prices WHERE source = 'prices.toml'"
    )
    assert asked(database, twice) == [(0,)]


@pytest.mark.usefixtures("_is_missing")
def test_a_writer_of_a_server_updates_prices_and_a_reader_reads_them(
    postgres_database: URL, file: Path
) -> None:
    recorded(postgres_database)
    with Store(postgres_database) as store:
        store.grant(GRANTS)
    writer = login(postgres_database, "pricing", "recorder_writer")
    assert run(writer, "prices", "update", "--file", file).code == 0
    file.write_text(OWN.replace("1.25", "2"))
    ran = run(writer, "prices", "update", "--file", file, "--valid-from", "2020-01-01")
    assert (ran.code, ran.err.splitlines()[1]) == (0, "4 rows added, 2 ended.")
    with connected(postgres_database) as reader:
        execute(reader, "SET ROLE recorder_reader")
        [(picousd, rows)] = execute(reader, TOTAL).fetchall()
    assert (picousd, rows) == (2 * (1234 * 2_000_000 + 456 * 10_000_000), 2)


@pytest.mark.usefixtures("_is_missing")
def test_a_purge_and_a_rebuild_leave_prices_as_they_are(tmp_path: Path, file: Path) -> None:
    log = tmp_path / "log.db"
    recorded(log)
    run(log, "prices", "update", "--file", file)
    there, [(picousd, _)] = asked(log, ALL), asked(log, TOTAL)
    assert run(log, "db", "purge", "one", "--yes").code == 0
    assert run(log, "db", "rebuild").code == 0
    assert asked(log, ALL) == there
    assert asked(log, TOTAL) == [(picousd / 2, 1)]


@pytest.mark.usefixtures("_is_missing")
def test_a_copy_has_no_prices_until_an_update(tmp_path: Path, file: Path) -> None:
    log = tmp_path / "log.db"
    recorded(log)
    run(log, "prices", "update", "--file", file)
    copy = tmp_path / "copy.db"
    assert run(tmp_path, "db", "copy", log, copy).code == 0
    assert asked(copy, ALL) == []
    assert run(copy, "prices", "update", "--file", file).code == 0
    assert asked(copy, TOTAL) == asked(log, TOTAL)
