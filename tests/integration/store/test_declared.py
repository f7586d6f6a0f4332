"""What a log has in its schema, and what recorder declared: who changes a guard or a view is found."""

from __future__ import annotations

import logging
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import URL

from recorder.commands.serving.recording import recording
from recorder.errors import StoreError
from recorder.store.location import database_url
from recorder.store.maintain.declared import schema_differences
from recorder.store.postgres.ddl import PARTITIONS
from recorder.store.postgres.rights import GRANTS
from recorder.store.write.writer import Store
from tests.support import superuser
from tests.support.postgres import Server
from tests.support.rows import a_conversation, reindex, written
from tests.support.server import run

LIES = "SELECT session_id, 0 AS exchanges FROM sessions"
DROPS_ROWS = (
    "BEFORE INSERT ON stored_events WHEN NEW.kind = 'frame' BEGIN SELECT RAISE(IGNORE); END"
)

IN_FILE = {
    "DROP TRIGGER stored_events_no_update": "the trigger stored_events_no_update is missing",
    "DROP TRIGGER stored_events_insert; "
    "CREATE TRIGGER stored_events_insert BEFORE INSERT ON stored_events BEGIN SELECT 1; END": (
        "the trigger stored_events_insert was changed"
    ),
    f"CREATE TRIGGER more {DROPS_ROWS}": "the trigger more was added",
    "CREATE TRIGGER more AFTER INSERT ON p_usage_v1 BEGIN DELETE FROM p_usage_v1; END": "the trigger more was added",
    "CREATE UNIQUE INDEX more ON stored_exchanges (api)": "the unique index more was added",
    "CREATE TRIGGER sqlitemore BEFORE INSERT ON stored_events BEGIN SELECT raise(IGNORE); END": (
        "the trigger sqlitemore was added"
    ),
    "CREATE TRIGGER more INSTEAD OF INSERT ON messages BEGIN SELECT 1; END": "the trigger more was added",
    f"DROP VIEW session_summary; CREATE VIEW session_summary AS {LIES}": "the view session_summary was changed",
    f"DROP VIEW session_summary; CREATE TABLE session_summary AS {LIES}": "the view session_summary is missing",
    "DROP VIEW usage_by_model": "the view usage_by_model is missing",
    "DROP INDEX events_end": "the index events_end is missing",
    "DROP TABLE dead_letters; CREATE TABLE dead_letters (session_id, exchange_id, reason)": (
        "the table dead_letters was changed"
    ),
    "DROP TABLE p_search_v1": "the table p_search_v1 is missing",
}
ON_SERVER = {
    "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL;END'; "
    "CREATE TRIGGER more BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION no()": (
        "the trigger events.more was added"
    ),
    "CREATE RULE more AS ON INSERT TO sessions DO INSTEAD NOTHING": "the rule sessions.more was added",
    "ALTER TABLE p_usage_v1 ENABLE ROW LEVEL SECURITY": "the policy p_usage_v1 (row security) was added",
    "CREATE OR REPLACE FUNCTION recorder_text(data bytea) RETURNS text LANGUAGE sql AS 'SELECT NULL'": (
        "the function recorder_text was changed"
    ),
    "CREATE OR REPLACE VIEW usage_by_model AS SELECT * FROM ({usage_by_model}) AS u WHERE input_tokens < 9": (
        "the view usage_by_model was changed"
    ),
    "DROP VIEW usage_by_model": "the view usage_by_model is missing",
    "ALTER TABLE dead_letters ALTER COLUMN reason TYPE varchar(9)": "the column dead_letters.reason was changed",
}
OF_THE_USER = (
    "CREATE VIEW mine AS SELECT * FROM messages; CREATE TABLE kept AS SELECT * FROM usage; ANALYZE"
)


def talk(database: URL) -> None:
    with written(database) as connection:
        a_conversation(connection)
        reindex(connection)


def change(database: URL, script: str) -> None:
    if superuser.engine(database) == "sqlite":
        with closing(sqlite3.connect(str(database.database))) as connection:
            connection.executescript(script)
        return
    if "{usage_by_model}" in script:
        [(text,)] = superuser.asked(database, "SELECT pg_get_viewdef('usage_by_model'::regclass)")
        script = script.replace("{usage_by_model}", text.strip().rstrip(";"))
    for statement in script.split("; "):
        superuser.asked(database, statement)


def test_a_log_of_recorder_is_as_declared(database: URL) -> None:
    talk(database)
    assert schema_differences(database) == []
    change(database, OF_THE_USER)
    assert schema_differences(database) == []


def test_partitions_and_roles_are_as_declared(postgres_database: URL) -> None:
    for statements in (GRANTS, *PARTITIONS.values()):
        with Store(postgres_database) as store:
            store.grant(statements)
        assert schema_differences(postgres_database) == []


@pytest.mark.parametrize("script", IN_FILE)
def test_each_change_of_a_file_is_named(sqlite_database: URL, script: str) -> None:
    change(sqlite_database, script)
    found = [str(each) for each in schema_differences(sqlite_database)]
    assert IN_FILE[script] in found
    assert all(
        each.startswith("the table p_search_v1") for each in found if each != IN_FILE[script]
    )


@pytest.mark.long
def test_each_change_of_a_server_is_named(postgres_server: Server, postgres_database: URL) -> None:
    talk(postgres_database)
    found = {}
    for script in ON_SERVER:
        changed = database_url(postgres_server.create(postgres_database.database))
        change(changed, script)
        found[script] = [str(each) for each in schema_differences(changed)]
        postgres_server.drop(changed)
    assert found == {script: [difference] for script, difference in ON_SERVER.items()}


def test_verify_and_doctor_say_it(database: URL) -> None:
    talk(database)
    change(database, "DROP VIEW usage_by_model")
    ran = run(database, "verify")
    assert ran.code == 4
    assert (
        "bad     the view usage_by_model is missing: the schema is not as recorder made it"
        in ran.out.decode()
    )
    ran = run(database, "doctor")
    assert "the view usage_by_model is missing" in ran.out.decode()


@pytest.mark.long
async def test_a_recorder_says_that_a_guard_is_missing_and_records(
    sqlite_database: URL, caplog: pytest.LogCaptureFixture
) -> None:
    change(sqlite_database, "DROP TRIGGER stored_events_no_update; DROP VIEW usage_by_model")
    with caplog.at_level(logging.WARNING):
        async with recording(sqlite_database):
            pass
    [said] = [record.getMessage() for record in caplog.records if "schema" in record.getMessage()]
    assert said.startswith(
        "The schema is not as recorder made it: the trigger stored_events_no_update is missing, "
        "the view usage_by_model is missing. `recorder db copy`"
    )


async def test_nothing_is_recorded_where_a_trigger_may_drop_it(
    sqlite_database: URL, tmp_path: Path
) -> None:
    change(sqlite_database, f"CREATE TRIGGER more {DROPS_ROWS}")
    with pytest.raises(
        StoreError, match=r"^Nothing is recorded into .*: the trigger more was added\."
    ):
        async with recording(sqlite_database):
            pass
    assert not any((tmp_path / "log.db.journal").glob("*")), "no journal that nobody would ingest"


EMPTIED = {
    "sqlite": "INSERT INTO p_search_v1 (p_search_v1) VALUES ('delete-all')",
    "postgresql": "DELETE FROM p_search_v1",
}
LACKS_A_ROW = {
    "sqlite": "DELETE FROM p_search_v1_docsize WHERE id = (SELECT max(id) FROM p_search_v1_docsize)",
    "postgresql": "DELETE FROM p_search_v1 WHERE ctid = (SELECT max(ctid) FROM p_search_v1)",
}
OTHER_WORDS = {
    "sqlite": "UPDATE p_search_v1_data SET block = zeroblob(length(block)) WHERE id > 100",
    "postgresql": "UPDATE p_search_v1 SET words = 'other'",
}


@pytest.mark.long
@pytest.mark.parametrize(
    "damage", [EMPTIED, LACKS_A_ROW, OTHER_WORDS], ids=["emptied", "a row", "words"]
)
def test_a_full_text_index_without_its_words_is_found(
    database: URL, damage: dict[str, str]
) -> None:
    talk(database)
    assert "full-text" not in run(database, "verify").out.decode()
    change(database, damage[superuser.engine(database)])
    ran = run(database, "verify")
    assert ran.code == 4
    own = "the full-text index p_search_v1 does not have the words of p_items_v1"
    # since 3.44, of damaged blocks
    of_sqlite = 'fts5: corruption found reading blob .* from table "p_search_v1"'
    assert re.search(f"bad     ({own}|{of_sqlite})", ran.out.decode())
