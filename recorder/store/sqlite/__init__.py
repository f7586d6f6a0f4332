"""The engine SQLite: connections, locks, errors, and statements that only it understands.

Must not know: the other engine. `recorder.store.engine` chooses between them; the module `engine` here is the entry
that it finds, and only that entry is used from outside.
"""
