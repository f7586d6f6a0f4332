"""The row of a request body may be a recipe: an event that comes again is known by its hash.

Revision ID: 0006
Revises: 0005

On PostgreSQL the writer compares. Frozen history: literal SQL, nothing imported from recorder.
"""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TRIGGER = """
CREATE TRIGGER events_insert BEFORE INSERT ON events
WHEN NEW.rowid >= 0 OR NEW.pos <> coalesce((SELECT max(pos) + 1 FROM events WHERE session_id = NEW.session_id
    AND exchange_id = NEW.exchange_id), 0) OR NEW.kind <> 'note' AND EXISTS (SELECT 1 FROM events
    WHERE session_id = NEW.session_id AND exchange_id = NEW.exchange_id AND kind = 'end')
    OR NEW.pos = 0 AND EXISTS (SELECT 1 FROM tombstones WHERE session_id = NEW.session_id)
BEGIN
    SELECT RAISE(ABORT, 'the session was purged: nothing of it is taken any more') FROM tombstones
        WHERE session_id = NEW.session_id;
    SELECT RAISE(IGNORE) FROM events WHERE session_id = NEW.session_id AND exchange_id = NEW.exchange_id
        AND pos = NEW.pos AND kind IS NEW.kind AND t_ns IS NEW.t_ns AND sequence_number IS NEW.sequence_number
        AND item_id IS NEW.item_id AND output_index IS NEW.output_index AND data_start IS NEW.data_start
        AND data_length IS NEW.data_length AND hash IS NEW.hash
        AND (type IS NEW.type AND raw IS NEW.raw OR kind = 'request' AND 'shared' IN (type, NEW.type));
    SELECT RAISE(ABORT, 'the log is append-only: other content stands at that key') FROM events
        WHERE session_id = NEW.session_id AND exchange_id = NEW.exchange_id AND pos = NEW.pos;
    SELECT RAISE(ABORT, 'the log numbers its own rows: a rowid cannot be chosen') WHERE NEW.rowid >= 0;
    SELECT RAISE(ABORT, 'the log has no holes: a position would be skipped') WHERE NEW.pos <> coalesce(
        (SELECT max(pos) + 1 FROM events WHERE session_id = NEW.session_id
        AND exchange_id = NEW.exchange_id), 0);
    SELECT RAISE(ABORT, 'the exchange has ended: only a note may follow');
END
"""

# That of 0003.
OLD_TRIGGER = """
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
"""

RECIPES = "SELECT 1 FROM events WHERE kind = 'request' AND type = 'shared' LIMIT 1"


def upgrade() -> None:
    replace(TRIGGER)


def downgrade() -> None:
    if op.get_bind().exec_driver_sql(RECIPES).first() is not None:
        raise NotImplementedError("Below this schema nobody can read the request bodies that share bytes: stay above.")
    replace(OLD_TRIGGER)


def replace(trigger: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.get_bind().exec_driver_sql("DROP TRIGGER events_insert")
        op.get_bind().exec_driver_sql(trigger)
