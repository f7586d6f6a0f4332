"""What `tests.forked` forks from: every module of the program that a command may import, imported."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from recorder import commands
from recorder.commands import main

__all__ = ["main"]

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
