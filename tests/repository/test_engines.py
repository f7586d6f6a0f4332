"""What depends on the engine of a log is in one table: `recorder.store.engine`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from recorder.store import engine as table
from recorder.store import sql
from tests.repository.test_layers import loaded_by, modules
from tests.support.corpus import ROOT

ENTRIES = (
    "recorder/store/engine.py",
    "recorder/store/sqlite/",
    "recorder/store/postgres/",
    "recorder/archive/place.py",
)
ASKS = re.compile(
    r"get_backend_name|drivername|is_server\b|store\S* import .*\bis_file\b|dialect\.name [!=]="
)


def test_nobody_else_asks_which_engine_a_database_is_of() -> None:
    asking = {
        f"{name}: {found[0]}"
        for name, text in ((str(path.relative_to(ROOT)), path.read_text()) for path in modules())
        if not name.startswith(ENTRIES) and (found := ASKS.search(text))
    }
    assert asking == set()


def test_no_mapping_has_an_entry_for_each_engine() -> None:
    """But the tables themselves, of parts and of forms of SQL: a third engine would be missing
    there.
    """
    names, tables = set(table._FOLDERS), {Path(table.__file__), Path(sql.__file__)}
    for path in modules():
        if path not in tables:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Dict):
                    keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
                    assert not keys or not keys <= names, f"{path}:{node.lineno}: ask the engine"


def test_what_is_said_of_a_server_without_its_driver() -> None:
    statement = (
        "from recorder.store.location import *; url = database_url('postgresql://me@db/log'); "
        "assert (database_name(url), journal_root(url).name) == ('postgresql://db/log', 'db-log')"
    )
    assert "psycopg" not in loaded_by(statement)
