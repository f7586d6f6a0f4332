"""Archives: sessions that no longer change, as Parquet files under a catalog of DuckLake.

Must not know: HTTP, journals' contents, the command line.

`place` says where an archive is, `open_log` opens a log together with those that are attached to
it. A session is in the log, in the archive, or for a moment in both: never in neither. One in an
archive is unpacked into a temporary log (`unpack`), and read, verified and compared there; sums
over all sessions are asked of DuckDB (`views`).

The catalog is a database of SQLite or PostgreSQL, the files are in a folder or a bucket of S3. An
event has no hash there: it is computed from the exchange's root, and the last one compared with the
one that the log had.
"""
