"""A log of everything that an export may have to hold, and the datasets of an export as tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
from sqlalchemy import URL

from recorder.store.write.writer import Store
from tests.integration.store import test_bodies_rows
from tests.support.rows import a_conversation, written
from tests.support.server import address, run


def filled(url: URL, demo: Path, folder: Path) -> URL:
    """A log with the demo, a conversation with all that a view may show, and an agent that repeats
    its requests.
    """
    assert run(folder / "x", "db", "copy", demo, address(url)).code == 0
    with written(url) as connection:
        a_conversation(connection)
    with Store(url) as store:
        recorder = test_bodies_rows.Recorder(store, folder)
        for body in test_bodies_rows.history(8):
            recorder.record(body)
        assert test_bodies_rows.types(store).count("shared") > 4
    return url


@contextmanager
def tables(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The datasets of an export as views of their names."""
    with closing(duckdb.connect()) as connection:
        for dataset in sorted(path.name for path in folder.iterdir() if path.is_dir()):
            files = f"{folder / dataset}/**/*.parquet"
            connection.execute(f"CREATE VIEW {dataset} AS SELECT * FROM read_parquet('{files}')")
        yield connection
