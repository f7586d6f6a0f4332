"""`recorder export --format parquet`: the rows of each view, whole events, whole days, and nothing
by halves.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")
pytest.importorskip("pandas", reason="no pandas: pip install '.[frames]'")
pytest.importorskip("polars", reason="no polars: pip install '.[frames]'")

import duckdb
import msgspec
import pandas
import polars
import pyarrow.dataset
from sqlalchemy import URL

from recorder.archive.query import open_query
from recorder.exports.parquet.export import BY_EXCHANGE, OF_EVENTS, SUMS
from recorder.exports.parquet.manifest import ExportedFolder, read_manifest, write_manifest
from recorder.model.events import Event
from recorder.projections.views.contract import VIEWS
from recorder.store.location import database_url
from recorder.store.write.writer import Store
from tests.integration.store.test_bodies_rows import read
from tests.support.conversations import Conversations, asking, message, response
from tests.support.exports import filled, tables
from tests.support.rows import START_NS, add, make_end, make_events, make_exchange, make_session
from tests.support.server import Ran, address, run

DAY_NS = 86_400_000_000_000


def export(log: Path | URL, folder: Path, *options: object) -> Ran:
    return run(log, "export", folder, "--format", "parquet", "--db", address(log), *options)


def rows_of(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    return sorted(connection.execute(sql).fetchall(), key=repr)


def files(folder: Path) -> dict[str, str]:
    return read_manifest(folder).all_files


@pytest.fixture(scope="module")
def log(
    shared_database: URL, demo_recording: Path, tmp_path_factory: pytest.TempPathFactory
) -> URL:
    return filled(shared_database, demo_recording, tmp_path_factory.mktemp("journal"))


@pytest.fixture(scope="module")
def exported(log: URL, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("analysis") / "of all"
    assert export(log, folder, "--events").code == 0
    yield folder
    shutil.rmtree(folder)


# -- rows


def test_a_dataset_has_the_rows_of_its_view(log: URL, exported: Path) -> None:
    with open_query(log) as query, tables(exported) as connection:
        for view in VIEWS:
            expected = sorted(query.ask(f"SELECT * FROM {view.name}", {}).rows, key=repr)
            found = rows_of(connection, f"SELECT {', '.join(view.columns)} FROM {view.name}")
            assert expected, view.name
            assert found == expected, view.name
            assert kinds_of(found) == kinds_of(expected), view.name
            types = {kind for _, kind, *_ in connection.execute(f"DESCRIBE {view.name}").fetchall()}
            assert types <= {"VARCHAR", "BIGINT", "DOUBLE", "DATE"}, "DATE is the day of the path"


def kinds_of(rows: list[tuple[Any, ...]]) -> set[type]:
    """The types of the values, which `==` does not tell apart."""
    return {type(value) for row in rows for value in row}


def test_each_view_is_in_one_group_of_datasets() -> None:
    assert sorted((*BY_EXCHANGE, *OF_EVENTS, *SUMS)) == sorted(view.name for view in VIEWS)


def test_events_are_whole_although_their_rows_are_recipes(log: URL, exported: Path) -> None:
    expected = [event for _, events in asyncio.run(read(log)) for event in events]
    columns = ", ".join(Event.__struct_fields__)
    with tables(exported) as connection:
        found = [
            Event(*row) for row in connection.execute(f"SELECT {columns} FROM events").fetchall()
        ]
        (kind,) = connection.execute("SELECT typeof(raw) FROM events LIMIT 1").fetchone() or ()

    def order(event: Event) -> tuple[Any, ...]:
        return event.session_id, event.exchange_id, event.pos

    assert sorted(found, key=order) == sorted(expected, key=order)
    assert kind == "BLOB"
    assert list(exported.rglob("bodies-0.parquet")), "long bodies are apart"


def test_a_row_is_in_the_day_on_which_its_exchange_began(exported: Path) -> None:
    with tables(exported) as connection:
        days = connection.execute(
            "SELECT DISTINCT day, started_ns FROM exchange_summary"
        ).fetchall()
        of_events = connection.execute(
            "SELECT count(*) FROM events JOIN exchange_summary AS x USING (session_id, exchange_id) WHERE events.day "
            "<> x.day"
        ).fetchone()
    assert of_events == (0,)
    for day, started_ns in days:
        assert day == datetime.datetime.fromtimestamp(started_ns / 1e9, datetime.UTC).date()


def test_every_dataset_opens_in_other_programs(exported: Path) -> None:
    count = len(read_manifest(exported).days)
    for view in VIEWS:
        frame = pandas.read_parquet(exported / view.name, dtype_backend="pyarrow")
        dataset = pyarrow.dataset.dataset(exported / view.name, partitioning="hive")
        lazy = polars.scan_parquet(
            exported / view.name / "**/*.parquet", hive_partitioning=view.name not in SUMS
        )
        assert len(frame) == dataset.count_rows() == len(lazy.collect())
        assert set(view.columns) <= set(frame.columns)
        assert len(list((exported / view.name).rglob("*.parquet"))) == (
            1 if view.name in SUMS else count
        )


# -- one session, some days


def test_an_export_of_a_session_has_nothing_of_others(log: URL, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    assert export(log, folder, "--session", "run-1", "--events").code == 0
    with tables(folder) as connection:
        for dataset in (*BY_EXCHANGE, *OF_EVENTS, "events", "session_summary"):
            found = {
                name
                for (name,) in connection.execute(
                    f"SELECT DISTINCT session_id FROM {dataset}"
                ).fetchall()
            }
            assert found <= {make_session(1).session_id}
        sums = connection.execute("SELECT sum(exchanges) FROM usage_by_model").fetchone()
        assert sums == connection.execute("SELECT count(*) FROM usage").fetchone() == (2,)


def of_days(db: Path, days: dict[int, int]) -> None:
    """A log with an exchange of that number on each of these days, in a session of its own."""
    with Store(db) as store:
        for number, day in days.items():
            started_ns = START_NS + day * DAY_NS
            session = make_session(number, created_ns=started_ns)
            exchange = make_exchange(session, number, started_ns=started_ns)
            with store.transaction():
                store.add_session(session)
                store.add_exchange(exchange)
            add(
                store,
                make_events(
                    exchange,
                    [b"{}", b"data: {}\n\n", make_end("completed")],
                    ["request", "frame", "end"],
                ),
            )


def test_a_second_export_writes_the_same_files(exported: Path, log: URL) -> None:
    before = files(exported)
    assert export(log, exported, "--events").code == 0
    assert files(exported) == before


def test_days_before_since_remain_and_those_that_are_gone_go(tmp_path: Path) -> None:
    db, folder = tmp_path / "log.db", tmp_path / "days"
    of_days(db, {1: 0, 2: 1, 3: 2})
    assert export(db, folder).code == 0
    first, second, third = read_manifest(folder).days
    before = files(folder)
    of_days(db, {4: 1, 5: 2})
    assert export(db, folder, "--since", f"{second}T12:00:00Z").code == 0
    after = read_manifest(folder)
    assert [len(day.exchanges) for day in after.days.values()] == [1, 2, 2]
    assert after.days[first].files.items() <= before.items()
    assert run(db, "db", "purge", "run-3", "run-5", "--db", db, "--yes").code == 0
    assert export(db, folder, "--since", second).code == 0
    assert list(read_manifest(folder).days) == [first, second]
    assert not list(folder.rglob(f"day={third}"))
    assert not list(ExportedFolder(folder).changed_files())


def test_a_day_is_complete_when_it_is_over_and_all_has_ended(tmp_path: Path) -> None:
    db, folder = tmp_path / "log.db", tmp_path / "days"
    of_days(db, {1: 0})
    with Store(db) as store:
        for number, started_ns in ((2, START_NS + DAY_NS), (3, time.time_ns())):
            session = make_session(number)
            exchange = make_exchange(session, number, started_ns=started_ns)
            with store.transaction():
                store.add_session(session)
                store.add_exchange(exchange)
            ends = [b"{}", make_end("completed")] if number == 3 else [b"{}"]
            add(store, make_events(exchange, ends, ["request", "end"]))
    ran = export(db, folder)
    assert "1 exchange had not ended" in ran.err
    assert [day.is_complete for day in read_manifest(folder).days.values()] == [True, False, False]


# -- a crash, another export, another folder


def test_an_export_that_is_killed_leaves_no_half_file(demo_db: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    command = [
        sys.executable,
        "-m",
        "recorder",
        "export",
        str(folder),
        "--format",
        "parquet",
        "--db",
        str(demo_db),
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while not list(folder.glob(".export/*/day=*")):
            assert process.poll() is None
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
    assert not files(folder)
    assert not [path for path in folder.rglob("*.parquet") if ".export" not in path.parts]
    assert export(demo_db, folder).code == 0
    assert not (folder / ".export").exists()
    assert run(demo_db, "verify", "--against", folder, "--db", demo_db).code == 0


def test_files_of_an_export_that_broke_off_go_although_no_manifest_has_them(tmp_path: Path) -> None:
    """It had put files into their places, and its manifest not yet; then the session was purged."""
    db, folder = tmp_path / "log.db", tmp_path / "days"
    of_days(db, {1: 0})
    assert export(db, folder).code == 0
    (first,) = read_manifest(folder).days
    left = folder / "usage" / "day=2020-01-01" / "part.parquet"
    left.parent.mkdir()
    shutil.copy(folder / "usage" / f"day={first}" / "part.parquet", left)
    own = Path(shutil.copy(left, folder / "usage" / "mine.parquet"))
    assert export(db, folder).code == 0
    assert (left.parent.exists(), own.exists()) == (False, True)


def test_a_manifest_that_names_a_file_elsewhere_removes_nothing_there(tmp_path: Path) -> None:
    db, folder = tmp_path / "log.db", tmp_path / "days"
    of_days(db, {1: 0})
    assert export(db, folder).code == 0
    other = tmp_path / "thesis.txt"
    other.touch()
    manifest = read_manifest(folder)
    write_manifest(
        folder, msgspec.structs.replace(manifest, files={**manifest.files, "../thesis.txt": ""})
    )
    assert export(db, folder).code == 0
    assert other.exists()


def test_no_link_in_the_folder_is_followed(demo_recording: Path, tmp_path: Path) -> None:
    """A folder of a repository may have links: to a file that an export would empty, to a folder
    that it would fill.
    """
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "part.parquet").write_text("keep")
    for number, name in enumerate((".lock", ".manifest.json", "usage", "usage/day=2026-01-01")):
        folder = tmp_path / str(number)
        link = folder / name
        link.parent.mkdir(parents=True)
        link.symlink_to(theirs / "part.parquet" if name.startswith(".") else theirs)
        ran = export(demo_recording, folder)
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert f"{link} is a link" in ran.err
    assert [path.read_text() for path in theirs.iterdir()] == ["keep"]


def test_a_folder_of_something_else_is_left_alone(demo_recording: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    ran = export(demo_recording, tmp_path / "other")
    expected = (
        2,
        f"Error: {tmp_path}/other has other files in it: give a new or an empty folder.\n",
    )
    assert (ran.code, ran.err) == expected
    assert export(demo_recording, tmp_path / "all").code == 0
    ran = export(demo_recording, tmp_path / "all", "--session", "latest")
    assert ran.code == 2
    assert (
        "has an export of all sessions without --events: repeat that, or give another folder"
        in ran.err
    )


REFUSED = [
    (["latest", "--since", "7d"], "--since is not for --format jsonl"),
    (["latest", "--session", "x"], "--session is not for --format jsonl"),
    (["latest", "--events", "--format", "har"], "--events is not for --format har"),
    (["x", "--format", "parquet", "--exchange", "1"], "--exchange is not for --format parquet"),
    (
        ["latest", "--format", "parquet"],
        "--format parquet writes files into a folder: give it behind latest",
    ),
    (
        ["latest", "x", "--format", "har"],
        "--format har writes to stdout: leave x out, or write `> x`.",
    ),
    (
        ["latest", "x", "--format", "parquet", "--session", "y"],
        "latest and --session y both name a session",
    ),
    (["x", "--format", "parquet", "--allow-gaps"], "--allow-gaps is not for --format parquet"),
]


def test_options_of_other_formats_are_refused(demo_recording: Path) -> None:
    for options, sentence in REFUSED:
        ran = run(demo_recording, "export", *options)
        assert ran.code == 2
        assert ran.err.startswith(f"Error: {sentence}"), ran.err


def test_a_session_before_the_folder_is_the_only_one_in_it(tmp_path: Path) -> None:
    log = Conversations(tmp_path / "log.db")
    for name in ("one", "two"):
        log.session(name).exchange(response(*message("Hi")), asking("Go"))
    ran = run(log.path, "export", "one", tmp_path / "out", "--format", "parquet", "--db", log.path)
    assert ran.code == 0, ran.err
    files = f"{tmp_path}/out/exchange_summary/**/*.parquet"
    sessions = duckdb.sql(f"select distinct session_name from '{files}'").fetchall()
    assert sessions == [("one",)]


def test_without_the_extra_one_sentence_names_it(
    demo_db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    ran = run(demo_db, "export", tmp_path / "x", "--format", "parquet", "--db", demo_db)
    assert ran.code == 1
    assert ran.err == (
        "Error: `recorder export --format parquet` needs the extra analytics: run `pip install '.[analytics]'` in a "
        "checkout of recorder, or `pip install 'PATH[analytics]'` with the path of its wheel.\n"
    )
    assert not (tmp_path / "x").exists()


def test_the_manifest_is_json_that_others_read(exported: Path, log: URL) -> None:
    manifest = msgspec.json.decode((exported / "manifest.json").read_bytes())
    assert manifest["format"] == "recorder parquet 1"
    hashes = {
        exchange_id: last
        for day in manifest["days"].values()
        for exchanges in day["exchanges"].values()
        for exchange_id, last in exchanges.items()
    }
    ended = {
        exchange.exchange_id: next(
            (event.hash.hex() for event in events if event.kind == "end"), None
        )
        for exchange, events in asyncio.run(read(database_url(log)))
    }
    assert hashes == ended
