"""DuckDB in this process: its connections and extensions, and the logs that it reads.

Must not know: what an export, an archive or a command does with a connection.

The package `duckdb` and the wheels of its extensions are optional: nothing here is imported before
a command needs it.
"""
