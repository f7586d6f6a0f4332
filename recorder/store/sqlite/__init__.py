"""The engine SQLite: connections, locks, errors, and statements that only it understands.

Must not know: the other engine. `recorder.store.engine` chooses between them. Only the modules that
are parts of an engine are used from outside: `address`, `schema`, `reading`, `query`, `writer`,
`verify`, `upkeep`.
"""
