"""The SQL log on SQLite and PostgreSQL: schema, writer, reader, and the maintenance of a database.

Must not know: HTTP, journals' contents, the command line.

A third engine is a folder beside `sqlite/` and `postgres/` with a module for each part that
`engine` names, one line in the table of `engine`, and a migration that creates its tables. No other
module imports such a folder or its driver.

Outside of the folders engines differ in three places only, because there each text is about one
view, one column or one expression: the expressions of views
(`recorder.projections.views.parts.Either`), the types and options of columns in `schema`, where
SQLAlchemy has a general form for an engine that is not named, and `FORMS` in `sql`. All engines
share SQLAlchemy's `INSERT … ON CONFLICT` of its PostgreSQL dialect, which those of other engines
compile too.
"""
