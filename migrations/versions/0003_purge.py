"""A tombstone permits to delete its session from the log, and keeps whatever else of it comes out.

Revision ID: 0003
Revises: 0002

Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TRIGGERS = (
    """
CREATE TRIGGER sessions_no_delete BEFORE DELETE ON sessions
WHEN NOT EXISTS (SELECT 1 FROM tombstones WHERE session_id = OLD.session_id)
BEGIN
    SELECT RAISE(ABORT, 'the log is append-only: its rows are never changed and never deleted');
END
""",
    """
CREATE TRIGGER exchanges_no_delete BEFORE DELETE ON exchanges
WHEN NOT EXISTS (SELECT 1 FROM tombstones WHERE session_id = OLD.session_id)
BEGIN
    SELECT RAISE(ABORT, 'the log is append-only: its rows are never changed and never deleted');
END
""",
    """
CREATE TRIGGER events_no_delete BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM tombstones WHERE session_id = OLD.session_id)
BEGIN
    SELECT RAISE(ABORT, 'the log is append-only: its rows are never changed and never deleted');
END
""",
    """
CREATE TRIGGER sessions_insert BEFORE INSERT ON sessions
WHEN NEW.rowid >= 0 OR EXISTS (SELECT 1 FROM sessions WHERE session_id = NEW.session_id)
    OR EXISTS (SELECT 1 FROM tombstones WHERE session_id = NEW.session_id)
BEGIN
    SELECT RAISE(ABORT, 'the session was purged: nothing of it is taken any more') FROM tombstones
        WHERE session_id = NEW.session_id;
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
    OR EXISTS (SELECT 1 FROM tombstones WHERE session_id = NEW.session_id)
BEGIN
    SELECT RAISE(ABORT, 'the session was purged: nothing of it is taken any more') FROM tombstones
        WHERE session_id = NEW.session_id;
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
CREATE TRIGGER events_insert BEFORE INSERT ON events
WHEN NEW.rowid >= 0 OR NEW.pos <> coalesce((SELECT max(pos) + 1 FROM events WHERE session_id = NEW.session_id
    AND exchange_id = NEW.exchange_id), 0) OR NEW.kind <> 'note' AND EXISTS (SELECT 1 FROM events
    WHERE session_id = NEW.session_id AND exchange_id = NEW.exchange_id AND kind = 'end')
    OR NEW.pos = 0 AND EXISTS (SELECT 1 FROM tombstones WHERE session_id = NEW.session_id)
BEGIN
    SELECT RAISE(ABORT, 'the session was purged: nothing of it is taken any more') FROM tombstones
        WHERE session_id = NEW.session_id;
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

# Those of 0001 that are replaced here.
OLD_TRIGGERS = (
    """
CREATE TRIGGER sessions_no_delete BEFORE DELETE ON sessions
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
CREATE TRIGGER events_no_delete BEFORE DELETE ON events
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
    replace(TRIGGERS)


def downgrade() -> None:
    """What was purged stays so, and its tombstone stands; the log forbids its return no longer."""
    replace(OLD_TRIGGERS)


def replace(triggers: tuple[str, ...]) -> None:
    for statement in triggers:
        op.get_bind().exec_driver_sql(f"DROP TRIGGER {statement.split()[2]}")
        op.get_bind().exec_driver_sql(statement)
