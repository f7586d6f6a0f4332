"""The engine of archives: sessions that no longer change, as Parquet files under a catalog of DuckLake.

Must not know: HTTP, journals' contents, the command line, how a session comes into an archive.

The catalog is a database of SQLite or PostgreSQL, the files are in a folder or a bucket of S3. An event has no hash
there: it is computed from the exchange's root, and the last one compared with the one that the log had.
"""
