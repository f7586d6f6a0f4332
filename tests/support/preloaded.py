"""What `tests.support.processes` forks from: every module of the program that a command may import, imported.

Here, and in each process of tests, DuckDB does not look whether its extensions are signed: they are the files of
installed wheels, and a digest of 35 MB for each `LOAD` was most of the time of a test of an archive. Processes that
tests start as users do, and tests/acceptance/store/test_duckdb.py, look.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from recorder import commands
from recorder.commands import main
from recorder.store.duckdb import connection

__all__ = ["UNSIGNED", "main"]

UNSIGNED = "allow_unsigned_extensions"

for module in pkgutil.walk_packages(commands.__path__, f"{commands.__name__}."):
    import_module(module.name)
for name in (
    "alembic.command",
    "alembic.config",
    "sqlalchemy.dialects.sqlite",
    "psycopg",
    "recorder.exports.otlp.push",
    "rich.progress",
    "rich.table",
    "yaml",
):
    import_module(name)

assert UNSIGNED not in connection.SETTINGS
connection.SETTINGS[UNSIGNED] = "true"
