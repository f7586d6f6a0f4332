"""Purging: deleted rows (`delete`), the space that they took (`vacuum`), and the record of it (`tombstone`).

Must not know: journals and other files beside the database; the command takes care of those.
"""
