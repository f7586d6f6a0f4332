"""The purge of sessions: `delete` deletes rows and frees their space, `tombstone` records the
purge.

Must not know: journals and other files beside the database; the command purges those.
"""
