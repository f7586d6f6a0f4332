"""`recorder.program`: processes that the recorder starts run its own modules, wherever it was
started.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import URL

from recorder.archive.query import open_query
from recorder.commands.serving.viewer import viewing
from recorder.ingest.supervisor import IngesterSupervisor
from recorder.journal.writer import Journal
from recorder.store.location import database_url, journal_root
from recorder.store.write.writer import Store
from tests.support.empty_log import empty

STARTED_S = 120.0  # for a process to start and end, on a busy machine
NAMES = ("recorder/__init__.py", "asyncio.py", "logging.py", "pickle.py", "sqlalchemy.py")


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the modules of a cloned repository write. It is the working directory."""
    cloned = tmp_path / "cloned"
    (cloned / "recorder").mkdir(parents=True)
    for name in NAMES:
        (cloned / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(cloned)
    return tmp_path / "ran"


@pytest.fixture
def url(tmp_path: Path) -> URL:
    return database_url(empty(tmp_path / "log.db"))


def test_an_ingester_runs_no_module_of_the_working_directory(ran: Path, url: URL) -> None:
    Store(url).close()
    journal = Journal(journal_root(url), "r1")
    journal.close()
    supervisor = IngesterSupervisor(url, journal.directory)
    supervisor.finish(retry=False)
    supervisor.start()
    assert supervisor.wait(STARTED_S)
    assert (journal.directory.exists(), ran.exists()) == (False, False)


async def test_a_viewer_runs_no_module_of_the_working_directory(ran: Path, url: URL) -> None:
    async with viewing(url, 0) as entrance:
        assert entrance.startswith("http://127.0.0.1:")
    assert not ran.exists()


def test_a_statement_runs_no_module_of_the_working_directory(ran: Path, url: URL) -> None:
    with open_query(url) as query:
        assert list(query.ask("SELECT 1 AS one").rows) == [(1,)]
    assert not ran.exists()
