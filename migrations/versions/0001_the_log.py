"""The log: sessions, exchanges, events, tombstones, and how far each journal is in it.

Revision ID: 0001
Revises:

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

APPLICATION_ID = "PRAGMA application_id = 1397966194"  # 0x53534572, "SSEr"

TABLES = (
    """
CREATE TABLE sessions (
    session_id TEXT NOT NULL,
    created_ns INTEGER NOT NULL,
    name TEXT NOT NULL,
    source TEXT NOT NULL,
    labels TEXT NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (session_id)
) STRICT
""",
    """
CREATE TABLE exchanges (
    session_id TEXT NOT NULL,
    exchange_id TEXT NOT NULL,
    started_ns INTEGER NOT NULL,
    recorder_id TEXT NOT NULL,
    provider TEXT NOT NULL,
    api TEXT NOT NULL,
    method TEXT NOT NULL,
    target TEXT NOT NULL,
    client TEXT,
    client_version TEXT,
    thread_id TEXT,
    turn_id TEXT,
    attempt INTEGER,
    resumes_response_id TEXT,
    resumes_after INTEGER,
    PRIMARY KEY (session_id, exchange_id),
    FOREIGN KEY(session_id) REFERENCES sessions (session_id)
) STRICT
""",
    """
CREATE TABLE events (
    session_id TEXT NOT NULL,
    exchange_id TEXT NOT NULL,
    pos INTEGER NOT NULL,
    kind TEXT NOT NULL,
    t_ns INTEGER NOT NULL,
    type TEXT,
    sequence_number INTEGER,
    item_id TEXT,
    output_index INTEGER,
    raw BLOB NOT NULL,
    data_start INTEGER,
    data_length INTEGER,
    hash BLOB NOT NULL,
    PRIMARY KEY (session_id, exchange_id, pos),
    FOREIGN KEY(session_id, exchange_id) REFERENCES exchanges (session_id, exchange_id)
) STRICT
""",
    """
CREATE TABLE tombstones (
    session_id TEXT NOT NULL,
    purged_ns INTEGER NOT NULL,
    reason TEXT NOT NULL,
    counts TEXT NOT NULL,
    last_hash BLOB,
    PRIMARY KEY (session_id)
) STRICT
""",
    """
CREATE TABLE ingest_offsets (
    recorder_id TEXT NOT NULL,
    segment INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    PRIMARY KEY (recorder_id)
) STRICT
""",
)

INDEXES = (
    "CREATE INDEX sessions_name ON sessions (name)",
    "CREATE INDEX exchanges_exchange_id ON exchanges (exchange_id)",
    "CREATE INDEX events_end ON events (session_id, exchange_id) WHERE kind = 'end'",
)

VIEWS = (
    """
CREATE VIEW event_payloads AS
SELECT session_id, exchange_id, pos, type,
    CAST(substr(raw, data_start + 1, data_length) AS TEXT) AS payload
FROM events WHERE data_start IS NOT NULL
""",
)

TRIGGERS = (
    """
CREATE TRIGGER sessions_no_update BEFORE UPDATE ON sessions
BEGIN
    SELECT RAISE(ABORT, 'the log is append-only: its rows are never changed and never deleted');
END
""",
    """
CREATE TRIGGER sessions_no_delete BEFORE DELETE ON sessions
BEGIN
    SELECT RAISE(ABORT, 'the log is append-only: its rows are never changed and never deleted');
END
""",
    """
CREATE TRIGGER exchanges_no_update BEFORE UPDATE ON exchanges
BEGIN
    SELECT RAISE(ABORT, 'the log is append-only: its rows are never changed and never deleted');
END
""",
    """
CREATE TRIGGER exchanges_no_delete BEFORE DELETE ON exchanges
BEGIN
    SELECT RAISE(ABORT, 'the log is append-only: its rows are never changed and never deleted');
END
""",
    """
CREATE TRIGGER events_no_update BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'the log is append-only: its rows are never changed and never deleted');
END
""",
    """
CREATE TRIGGER events_no_delete BEFORE DELETE ON events
BEGIN
    SELECT RAISE(ABORT, 'the log is append-only: its rows are never changed and never deleted');
END
""",
    """
CREATE TRIGGER tombstones_no_update BEFORE UPDATE ON tombstones
BEGIN
    SELECT RAISE(ABORT, 'the log is append-only: its rows are never changed and never deleted');
END
""",
    """
CREATE TRIGGER tombstones_no_delete BEFORE DELETE ON tombstones
BEGIN
    SELECT RAISE(ABORT, 'the log is append-only: its rows are never changed and never deleted');
END
""",
    """
CREATE TRIGGER sessions_insert BEFORE INSERT ON sessions
WHEN NEW.rowid >= 0 OR EXISTS (SELECT 1 FROM sessions WHERE session_id = NEW.session_id)
BEGIN
    SELECT RAISE(IGNORE) FROM sessions WHERE session_id = NEW.session_id AND created_ns IS NEW.created_ns
        AND name IS NEW.name AND source IS NEW.source AND labels IS NEW.labels AND origin IS NEW.origin;
    SELECT RAISE(ABORT, 'the log is append-only: other content stands at that key') FROM sessions
        WHERE session_id = NEW.session_id;
    SELECT RAISE(ABORT, 'the log numbers its own rows: a rowid cannot be chosen') WHERE NEW.rowid >= 0;
END
""",
    """
CREATE TRIGGER exchanges_insert BEFORE INSERT ON exchanges
WHEN NEW.rowid >= 0 OR EXISTS (SELECT 1 FROM exchanges WHERE session_id = NEW.session_id
    AND exchange_id = NEW.exchange_id)
BEGIN
    SELECT RAISE(IGNORE) FROM exchanges WHERE session_id = NEW.session_id AND exchange_id = NEW.exchange_id
        AND started_ns IS NEW.started_ns AND recorder_id IS NEW.recorder_id AND provider IS NEW.provider
        AND api IS NEW.api AND method IS NEW.method AND target IS NEW.target AND client IS NEW.client
        AND client_version IS NEW.client_version AND thread_id IS NEW.thread_id AND turn_id IS NEW.turn_id
        AND attempt IS NEW.attempt AND resumes_response_id IS NEW.resumes_response_id
        AND resumes_after IS NEW.resumes_after;
    SELECT RAISE(ABORT, 'the log is append-only: other content stands at that key') FROM exchanges
        WHERE session_id = NEW.session_id AND exchange_id = NEW.exchange_id;
    SELECT RAISE(ABORT, 'the log numbers its own rows: a rowid cannot be chosen') WHERE NEW.rowid >= 0;
END
""",
    """
CREATE TRIGGER tombstones_insert BEFORE INSERT ON tombstones
WHEN NEW.rowid >= 0 OR EXISTS (SELECT 1 FROM tombstones WHERE session_id = NEW.session_id)
BEGIN
    SELECT RAISE(IGNORE) FROM tombstones WHERE session_id = NEW.session_id AND purged_ns IS NEW.purged_ns
        AND reason IS NEW.reason AND counts IS NEW.counts AND last_hash IS NEW.last_hash;
    SELECT RAISE(ABORT, 'the log is append-only: other content stands at that key') FROM tombstones
        WHERE session_id = NEW.session_id;
    SELECT RAISE(ABORT, 'the log numbers its own rows: a rowid cannot be chosen') WHERE NEW.rowid >= 0;
END
""",
    """
CREATE TRIGGER events_insert BEFORE INSERT ON events
WHEN NEW.rowid >= 0 OR NEW.pos <> coalesce((SELECT max(pos) + 1 FROM events WHERE session_id = NEW.session_id
    AND exchange_id = NEW.exchange_id), 0) OR NEW.kind <> 'note' AND EXISTS (SELECT 1 FROM events
    WHERE session_id = NEW.session_id AND exchange_id = NEW.exchange_id AND kind = 'end')
BEGIN
    SELECT RAISE(IGNORE) FROM events WHERE session_id = NEW.session_id AND exchange_id = NEW.exchange_id
        AND pos = NEW.pos AND kind IS NEW.kind AND t_ns IS NEW.t_ns AND type IS NEW.type
        AND sequence_number IS NEW.sequence_number AND item_id IS NEW.item_id
        AND output_index IS NEW.output_index AND raw IS NEW.raw AND data_start IS NEW.data_start
        AND data_length IS NEW.data_length AND hash IS NEW.hash;
    SELECT RAISE(ABORT, 'the log is append-only: other content stands at that key') FROM events
        WHERE session_id = NEW.session_id AND exchange_id = NEW.exchange_id AND pos = NEW.pos;
    SELECT RAISE(ABORT, 'the log numbers its own rows: a rowid cannot be chosen') WHERE NEW.rowid >= 0;
    SELECT RAISE(ABORT, 'the log has no holes: a position would be skipped') WHERE NEW.pos <> coalesce(
        (SELECT max(pos) + 1 FROM events WHERE session_id = NEW.session_id
        AND exchange_id = NEW.exchange_id), 0);
    SELECT RAISE(ABORT, 'the exchange has ended: only a note may follow');
END
""",
)


def upgrade() -> None:
    if op.get_bind().dialect.name != "sqlite":
        return  # there the log begins with 0004
    for statement in (APPLICATION_ID, *TABLES, *INDEXES, *VIEWS, *TRIGGERS):
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    raise NotImplementedError("Below the first schema there is no log: to be rid of it, delete the file.")
