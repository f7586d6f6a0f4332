"""A file with the last schema before the first release: its exchanges and events go into the compact tables.

It is done by SQLite alone, in the transaction of the upgrade: every column of every row is as before.
"""

from __future__ import annotations

from sqlalchemy import Connection

from recorder.store.schema import table_statements
from recorder.store.sql import dialect
from recorder.store.sqlite.connection import ENGINE
from recorder.store.sqlite.ddl import recreation
from recorder.store.sqlite.tables import compact

_OUT_OF_THE_WAY = (
    *(f"DROP INDEX {name}" for name in ("exchanges_exchange_id", "exchanges_resumes", "events_end")),
    *(f"ALTER TABLE {name} RENAME TO old_{name}" for name in ("exchanges", "events")),
)
_MOVED = (
    "INSERT INTO stored_exchanges SELECT NULL, * FROM old_exchanges ORDER BY session_id, exchange_id",
    "INSERT INTO event_types SELECT NULL, type FROM old_events WHERE type IS NOT NULL GROUP BY type",
    """
INSERT INTO event_items SELECT DISTINCT NULL, x.number, e.item_id
FROM old_events AS e JOIN stored_exchanges AS x USING (session_id, exchange_id) WHERE e.item_id IS NOT NULL
""",
    """
INSERT INTO stored_events
SELECT x.number, e.pos, e.kind, e.t_ns, t.number, e.sequence_number, i.number, e.output_index, e.raw, e.data_start,
    e.data_length, e.hash
FROM stored_exchanges AS x
CROSS JOIN old_events AS e ON e.session_id = x.session_id AND e.exchange_id = x.exchange_id
LEFT JOIN event_types AS t ON t.type = e.type
LEFT JOIN event_items AS i ON i.exchange = x.number AND i.item_id = e.item_id
ORDER BY x.number, e.pos
""",
    "DROP TABLE old_events",
    "DROP TABLE old_exchanges",
)


def bridge(connection: Connection) -> None:
    """Bring a file from the last schema before the first release to the first one."""
    for kind, name in connection.exec_driver_sql(
        "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger')"
    ).all():
        connection.exec_driver_sql(f"DROP {kind} {name}")
    tables = table_statements(compact.sorted_tables, dialect(ENGINE))
    for statement in (*_OUT_OF_THE_WAY, *tables, *_MOVED, *recreation()):
        connection.exec_driver_sql(statement)
