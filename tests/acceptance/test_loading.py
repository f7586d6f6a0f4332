"""What a start loads: what takes long to load is for those who use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repository.test_layers import loaded_by
from tests.support.conversations import Conversations

COMMANDS = {
    "sessions": {
        "sqlalchemy.dialects.postgresql",
        "sqlalchemy.orm",
        "psycopg",
        "httpx",
        "rich.console",
        "recorder.proxy.app",
        "yaml",
        "difflib",
    },
    "schema sessions": {"sqlalchemy", "httpx", "rich.console"},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_loads_nothing_that_it_does_not_need(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Conversations(tmp_path / "recorder.db")
    made.session("empty")
    monkeypatch.setenv("RECORDER_DB", str(made.path))
    words = ["recorder", *command.split()]
    loaded = loaded_by(
        f"import contextlib; from recorder.__main__ import main; sys.argv = {words}\n"
        "with contextlib.suppress(SystemExit): main()\npass"
    )
    assert "recorder.commands" in loaded
    assert not COMMANDS[command] & loaded


def test_the_library_for_tests_loads_nothing_heavy() -> None:
    heavy = {"sqlalchemy", "alembic", "httpx", "httpx2", "click", "httptools"}
    assert not heavy & loaded_by("import recorder.testing")


def test_a_replay_loads_no_database() -> None:
    loaded = loaded_by("import recorder.testing; recorder.testing.replay_transport([])")
    assert "httpx2" in loaded
    assert not {"sqlalchemy", "click", "httpx"} & loaded


def test_who_imports_the_asyncio_of_sqlalchemy_after_a_reader_gets_all_of_it() -> None:
    loaded = loaded_by(
        "import recorder.store.async_engine as ours; import sqlalchemy.ext.asyncio as whole\n"
        "assert whole.AsyncEngine is ours.AsyncEngine and whole.AsyncSession"
    )
    assert "sqlalchemy.orm" in loaded
