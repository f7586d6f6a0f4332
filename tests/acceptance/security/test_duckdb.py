"""DuckDB reads what recorder opened, and nothing else: whatever a user or a model asks, whoever
made an archive.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

import duckdb
import psycopg
from sqlalchemy import URL

from recorder.archive import upkeep
from recorder.archive.lake import lake
from recorder.archive.place import database_url
from recorder.archive.query import open_query
from recorder.archive.schema import create
from recorder.archive.views import open_views
from recorder.errors import RecorderError, StoreError
from recorder.store.duckdb.connection import DuckdbOpening, connected
from recorder.store.duckdb.functions import FUNCTIONS, ROW_FUNCTIONS
from recorder.store.queries.query import Query
from tests.support.archives import archive
from tests.support.postgres import conninfo
from tests.support.server import run

SECRET = "only-in-this-table"


@pytest.fixture(scope="module")
def demo_archive(demo_recording: Path, tmp_path_factory: pytest.TempPathFactory) -> URL:
    folder = tmp_path_factory.mktemp("archive")
    return archive(demo_recording, f"ducklake:{folder / 'catalog'}", folder / "data")


@pytest.fixture(scope="module")
def asking(demo_archive: URL) -> Iterator[Query]:
    with open_query(demo_archive) as query:
        yield query


REFUSED = [
    # the catalog, in every writing of its name
    'SELECT * FROM "__DUCKLAKE_METADATA_log".ducklake_metadata',
    'SELECT * FROM "__ducklake_METADATA_LOG".main.ducklake_metadata',
    'SELECT * FROM "__ducklake_metadata_log"."ducklake_metadata"',
    "SELECT * FROM __ducklake_metadata_log.ducklake_data_file",
    'SELECT (SELECT count(*) FROM "__Ducklake_Metadata_log".ducklake_metadata)',
    "SELECT 1 WHERE EXISTS (FROM __ducklake_metadata_log.ducklake_metadata)",
    "SELECT * FROM log.sessions",
    "SELECT * FROM log.main.sessions",
    'SELECT * FROM "LOG"."MAIN"."archived"',
    # what DuckDB knows of itself
    "SELECT * FROM information_schema.tables",
    'SELECT * FROM "INFORMATION_SCHEMA".columns',
    "SELECT * FROM system.information_schema.tables",
    "SELECT * FROM pg_catalog.pg_class",
    "WITH RECURSIVE pg_settings AS (FROM pg_settings UNION ALL FROM pg_settings WHERE false) FROM pg_settings",
    "WITH RECURSIVE duckdb_databases AS (FROM duckdb_databases UNION FROM duckdb_databases) FROM duckdb_databases",
    "SELECT * FROM pg_tables",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM main.sqlite_master",
    "SELECT * FROM duckdb_databases",
    "SELECT * FROM main.duckdb_databases",
    "SELECT * FROM duckdb_secrets()",
    'SELECT * FROM "DUCKDB_SECRETS"()',
    "SELECT * FROM which_secret('s3://x', 's3')",
    "SELECT * FROM duckdb_logs()",
    "SHOW TABLES",
    "SHOW ALL TABLES",
    "SHOW DATABASES",
    "FROM (SHOW ALL TABLES)",
    "DESCRIBE duckdb_databases",
    "SUMMARIZE log.sessions",
    # a name of WITH is known where it stands, and nowhere else
    "SELECT (WITH duckdb_databases AS (SELECT 1) SELECT 1), (SELECT count(*) FROM duckdb_databases)",
    "WITH duckdb_databases AS (SELECT * FROM duckdb_databases) SELECT * FROM duckdb_databases",
    "WITH a AS (SELECT * FROM pg_tables), pg_tables AS (SELECT 1) SELECT * FROM a",
    "WITH duc\u212adb_databases AS (SELECT 1) SELECT * FROM duckdb_databases",
    "WITH sqlite_master AS (SELECT 1) SELECT * FROM main.sqlite_master",
    # files and other databases
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM \"Read_Text\"('/etc/passwd')",
    "SELECT * FROM main.read_csv('/etc/passwd')",
    "SELECT * FROM system.main.glob('/etc/*')",
    "SELECT * FROM '/etc/passwd'",
    'SELECT * FROM "/etc/passwd.csv"',
    "SELECT * FROM 's3://bucket/x.parquet'",
    "SELECT * FROM parquet_metadata('x.parquet')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM postgres_query('log', 'SELECT 1')",
    "SELECT * FROM postgres_scan('', 'public', 'x')",
    "SELECT * FROM sqlite_scan('x.db', 'y')",
    "SELECT * FROM ducklake_snapshots('log')",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('duckdb_databases')",
    "SELECT * FROM json_execute_serialized_sql('{}')",
    # functions that are not of values
    "SELECT getenv('HOME')",
    "SELECT current_setting('temp_directory')",
    "SELECT \"CURRENT_SETTING\"('temp_directory')",
    "SELECT main.current_setting('temp_directory')",
    "SELECT 'temp_directory'.current_setting()",
    "SELECT [current_setting(x) for x in ['temp_directory']]",
    "SELECT getvariable('x')",
    "SELECT count(*) FILTER (WHERE getenv('HOME') = '/') FROM sessions",
    "SELECT first_value(current_setting('threads')) OVER () FROM sessions",
    "SELECT sleep_ms(1)",
    "SELECT write_log('x')",
    "SELECT nextval('x')",
    "SELECT json_serialize_sql('SELECT 1')",
    # statements that do not select
    "ATTACH '/etc/passwd' AS x",
    "ATTACH ':memory:' AS x",
    "DETACH log",
    "USE log",
    "COPY (SELECT 1) TO 'x.csv'",
    "COPY FROM DATABASE log TO memory",
    "EXPORT DATABASE 'x'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET lock_configuration = false",
    "SET search_path = 'log'",
    "RESET allowed_directories",
    "SET VARIABLE x = 1",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "CALL duckdb_secrets()",
    "CREATE SECRET (TYPE s3)",
    "CREATE MACRO m() AS 1",
    "CREATE TEMP VIEW duckdb_databases AS SELECT 1",
    "PREPARE p AS SELECT * FROM duckdb_databases",
    "EXECUTE p",
    "EXPLAIN ANALYZE CREATE TABLE x (a INTEGER)",
    "EXPLAIN SELECT * FROM duckdb_databases",
    "EXPLAIN /**/ ANALYZE SELECT * FROM duckdb_databases",
    "CHECKPOINT log",
    "SELECT 1; SELECT * FROM duckdb_databases",
]


def test_a_value_that_python_does_not_have_is_said(asking: Query) -> None:
    with pytest.raises(RecorderError, match=r"^A value is too large for a row: write CAST"):
        list(asking.ask("SELECT to_days(2000000000)").rows)
    assert list(asking.ask("SELECT CAST(to_days(2000000000) AS TEXT)").rows) == [
        ("2000000000 days",)
    ]


def test_what_recorder_did_not_open_is_refused(asking: Query) -> None:
    answered = [sql for sql in REFUSED if is_answered(asking, sql)]
    assert answered == []


def is_answered(asking: Query, sql: str) -> bool:
    """Whether there are rows, and no refusal of one line."""
    try:
        list(asking.ask(sql).rows)
    except RecorderError as refusal:
        return "\n" in str(refusal)
    return True


TAKEN = [
    'SELECT count(*) FROM "SESSIONS" JOIN Messages USING (session_id)',
    "SELECT count(*) FROM main.sessions, memory.main.usage_by_model",
    "WITH a AS (SELECT 1 AS x), b AS MATERIALIZED (SELECT x FROM A) SELECT * FROM b, a",
    "WITH duckdb_databases AS (SELECT 1) SELECT * FROM (SELECT * FROM DUCKDB_DATABASES)",
    "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3) SELECT x FROM n",
    "SELECT name.upper()[1:2], {'a': 1}.a, [x * 2 for x in [1, 2]], list_transform([1], lambda x: x) FROM sessions",
    "SELECT extract(year FROM DATE '2026-01-01'), trim(BOTH 'x' FROM 'xa'), 'a' SIMILAR TO 'a', 'a' NOT ILIKE 'b'",
    "SELECT substring('abc' FROM 2), position('b' IN 'abc'), INTERVAL 2 DAY, current_date, now()::TEXT, 'a' GLOB 'a'",
    "SELECT row_number() OVER w, string_agg(name, ',') OVER w FROM sessions WINDOW w AS (ORDER BY name)",
    "SELECT count(*) FILTER (WHERE x), percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM range(3) AS r (x)",
    "SELECT j.value, u FROM json_each('{\"a\": 1}') AS j, unnest([1, 2]) AS t (u), generate_series(1, 2)",
    "FROM sessions TABLESAMPLE 1 ROWS",
    "DESCRIBE messages",
    "EXPLAIN SELECT * FROM sessions",
]  # fmt: skip


def test_what_reads_recorders_tables_is_answered(asking: Query) -> None:
    for sql in TAKEN:
        list(asking.ask(sql).rows)


def test_each_function_that_may_be_called_is_one_of_duckdb() -> None:
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT DISTINCT lower(function_name) FROM duckdb_functions()"
        ).fetchall()
    known = {name for (name,) in rows}
    assert known >= FUNCTIONS | ROW_FUNCTIONS


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Files which are not recorder's: a text, and a folder of such."""
    text = tmp_path / "private" / "secret.csv"
    text.parent.mkdir()
    text.write_text(f"id\n{SECRET}\n")
    return {"file": text, "folder": text.parent}


ELSEWHERE = [
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM '{file}'",
    "SELECT * FROM glob('{folder}/*')",
    "COPY (SELECT 1) TO '{folder}/x'",
    "ATTACH '{folder}/x.db' AS x",
    "SET enable_external_access = true",
    "SET allowed_directories = ['/']",
    "SELECT * FROM read_text('http://127.0.0.1:1/')",
]


def test_no_connection_reaches_another_file(
    demo_archive: URL, demo_recording: Path, files: dict[str, Path]
) -> None:
    """Recorder's own statements have no list: a view of somebody else may stand behind a name of
    theirs.
    """
    log = connected("x", "x", lambda opening: opening.attach_log(database_url(demo_recording)))
    reached = []
    for opened in (lake(demo_archive, "x"), log, open_views(demo_archive, "x")):
        with opened as connection:
            for sql in ELSEWHERE:
                try:
                    connection.execute(sql.format(**files)).fetchall()
                except duckdb.Error:
                    continue
                reached.append(sql)
    assert reached == []
    assert [path.name for path in files["folder"].iterdir()] == ["secret.csv"]


HOSTILE = [
    "DROP TABLE sessions; CREATE VIEW sessions AS SELECT content AS session_id, 'x' AS name, 0 AS created_ns, "
    "'x' AS recorder_id, '2026-01' AS month FROM read_text('{file}')",
    "CREATE VIEW more AS SELECT * FROM read_text('{file}')",
    "CREATE MACRO octet_length(x) AS (SELECT content FROM read_text('{file}'))",
    "CREATE MACRO rows_of() AS TABLE SELECT * FROM read_text('{file}')",
]


@pytest.fixture
def hostile(demo_archive: URL, tmp_path: Path) -> URL:
    """A copy of an archive's catalog, to be changed by DuckDB itself: its author is not bound by
    recorder.
    """
    path = shutil.copy(str(demo_archive.database), tmp_path / "catalog")
    return demo_archive.set(database=str(path))


def change(url: URL, sql: str) -> None:
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        DuckdbOpening(connection, "x", "x").load("sqlite-scanner", "ducklake")
        connection.execute(f"ATTACH 'ducklake:sqlite:{url.database}' AS lake")
        connection.execute("USE lake")
        connection.execute(sql)


@pytest.mark.parametrize("sql", HOSTILE)
def test_an_archive_with_views_or_macros_of_somebody_else_is_not_read(
    hostile: URL, files: dict[str, Path], sql: str
) -> None:
    change(hostile, sql.format(**files))
    log = Path(str(hostile.database)).parent / "x.db"
    verbs = (["sessions"], ["query", "SELECT 1"], ["usage"], ["verify"], ["doctor"])
    for verb in verbs if sql is HOSTILE[0] else verbs[:1]:
        ran = run(log, *verb, "--db", f"ducklake:{hostile.database}")
        assert ran.code != 0
        assert "views or macros which are not of recorder" in ran.err + ran.out.decode()
        assert SECRET not in ran.err + ran.out.decode()


def test_a_view_of_recorders_name_is_read_as_recorder_declares_it(
    hostile: URL, asking: Query, files: dict[str, Path]
) -> None:
    views = ("session_summary", "costs")
    theirs = "; ".join(
        f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM read_text('{files['file']}')"
        for view in views
    )
    change(hostile, theirs)
    with open_views(hostile, "x") as connection:
        for view in views:
            sql = f"SELECT * FROM {view} ORDER BY ALL"
            assert connection.execute(sql).fetchall() == list(asking.ask(sql).rows)
    assert (
        run(files["folder"] / "x.db", "sessions", "--db", f"ducklake:{hostile.database}").code == 0
    )


def test_nothing_is_deleted_in_a_folder_that_is_not_of_an_archive(
    hostile: URL, files: dict[str, Path]
) -> None:
    """The files that an archive does not know are deleted in its data path, which a catalog names."""
    with closing(sqlite3.connect(str(hostile.database))) as connection, connection:
        connection.execute(
            f"UPDATE ducklake_metadata SET value = '{files['folder']}/' WHERE key = 'data_path'"
        )
    with (
        lake(hostile, "x", writes=True) as opened,
        pytest.raises(StoreError, match="nothing is deleted there"),
    ):
        upkeep.clean(opened)
    assert [path.name for path in files["folder"].iterdir()] == ["secret.csv"]


def test_other_tables_of_a_catalogs_server_are_out_of_reach(
    postgres_database: URL, tmp_path: Path
) -> None:
    with psycopg.connect(conninfo(postgres_database)) as connection:
        connection.execute("CREATE SCHEMA private")
        connection.execute(f"CREATE TABLE private.secrets AS SELECT '{SECRET}' AS secret")
    url = postgres_database.set(drivername="ducklake+postgresql")
    with lake(url, "db archive", data=str(tmp_path / "data"), writes=True) as connection:
        create(connection)
    with open_query(url) as query:
        assert list(query.ask("SELECT * FROM sessions").rows) == []
        for name in (
            "__ducklake_metadata_log",
            "__DUCKLAKE_METADATA_LOG",
            "__Ducklake_Metadata_Log",
        ):
            with pytest.raises(RecorderError, match="not one of them"):
                query.ask(f'SELECT * FROM "{name}".private.secrets')
