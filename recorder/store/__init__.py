"""The SQL log on SQLite and PostgreSQL: schema, writer, reader, and everything that looks after a database.

Must not know: HTTP, journals' contents, the command line.
"""
