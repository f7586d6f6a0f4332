"""Archives for tests: the sessions of a log, as they are, in a lake.

DuckDB brings another library of SQLite, and two of them must not have one file open in one process: nobody else may
have the log open meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from duckdb import DuckDBPyConnection
from sqlalchemy import URL

from recorder.model.events import Event, Exchange
from recorder.store.duckdb.connection import attach_log, connected
from recorder.store.ducklake.chain import root_kind
from recorder.store.ducklake.connection import EXTRA, LAKE, attach_lake
from recorder.store.ducklake.schema import ARCHIVED, COPIED, create, month_of
from recorder.store.location import database_url


def archive(log: Path, catalog: str | URL, data: Path) -> URL:
    """Copy all sessions of a log into an archive, which is made if there is none."""
    url = database_url(catalog)

    def attach(connection: DuckDBPyConnection) -> Sequence[str]:
        folder = attach_lake(connection, url, "db archive", data=str(data), writes=True)
        attach_log(connection, database_url(log), "db archive", EXTRA, "log")
        return [folder]

    with connected("db archive", EXTRA, attach) as connection:
        connection.execute(f"USE {LAKE}")
        create(connection)
        ids = [row[0] for row in connection.execute("SELECT session_id FROM log.sessions").fetchall()]
        ids += [row[0] for row in connection.execute("SELECT session_id FROM log.tombstones").fetchall()]
        connection.execute("CREATE TEMP TABLE months (session_id VARCHAR, month VARCHAR)")
        connection.executemany("INSERT INTO months VALUES (?, ?)", [(id, month_of(id)) for id in ids])
        connection.execute("CREATE TEMP TABLE chains (exchange_id VARCHAR, last_hash BLOB, root_kind VARCHAR)")
        firsts = {row[1]: Event(*row) for row in connection.execute(_FIRST).fetchall()}
        exchanges = [Exchange(*row) for row in connection.execute("SELECT * FROM log.exchanges").fetchall()]
        lasts = dict(connection.execute(_LAST).fetchall())
        chains = [(x.exchange_id, lasts[x.exchange_id], root_kind(x, firsts[x.exchange_id])) for x in exchanges]
        connection.executemany("INSERT INTO chains VALUES (?, ?, ?)", chains)
        connection.execute("BEGIN")
        for table in COPIED:
            of_chain = "LEFT JOIN chains AS c USING (exchange_id)" if table.name == "exchanges" else ""
            columns = ", ".join(f'"{name}"' for name in table.columns)
            connection.execute(
                f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM log.{table.name} "
                f"JOIN months AS m USING (session_id) {of_chain}"
            )
        connection.execute(f"INSERT INTO {ARCHIVED.name} SELECT session_id, 0, month FROM months")
        connection.execute("COMMIT")
    return url


_FIRST = "SELECT * FROM log.events WHERE pos = 0"
_LAST = "SELECT exchange_id, arg_max(hash, pos) FROM log.events GROUP BY exchange_id"
