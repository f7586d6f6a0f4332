"""The SQL log on SQLite and PostgreSQL: schema, writer, reader, and the maintenance of a database.

Must not know: HTTP, journals' contents, the command line.

`engine` has the table of engines and lists the needs of a further one: a folder like `sqlite/` and `postgres/`, a line
in that table, and texts of SQL by its name.
"""
