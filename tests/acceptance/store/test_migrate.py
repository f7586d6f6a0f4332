"""Schemas and the processes that bring them up to date: at once, killed on the way, from a checkout
and a wheel.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recorder.store.schema import HEAD
from recorder.store.sqlite.schema import current
from recorder.store.write.writer import Store
from tests.support.corpus import ROOT


def python(code: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = {**os.environ, **environment}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment
    )


def result(process: subprocess.Popen[str]) -> str:
    with process:  # it has ended even where what it says is not what was expected
        stdout, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, "")
    return stdout


def test_opening_the_newest_schema_does_not_import_alembic(tmp_path: Path) -> None:
    Store(tmp_path / "log.db").close()
    code = "import sys, recorder.store.write.writer as w; w.Store(sys.argv[1]).close(); print('alembic' in sys.modules)"
    assert result(python(code, tmp_path / "log.db")) == "False\n"


def test_many_processes_may_open_a_new_database_at_once(tmp_path: Path) -> None:
    code = "import sys\nfrom recorder.store.write.writer import Store; input(); Store(sys.argv[1], 60.0).close()"
    with contextlib.ExitStack() as started:
        processes = [started.enter_context(python(code, tmp_path / "log.db")) for _ in range(4)]
        for process in processes:  # all have imported what they need, and wait for this line
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        assert [result(process) for process in processes] == [""] * 4
    assert current(tmp_path / "log.db") == HEAD


def test_a_process_killed_in_mid_upgrade_leaves_a_database_that_opens(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from recorder.store.engine import schema_of
from recorder.store.location import database_url
url = database_url(sys.argv[1])
with schema_of(url).migration(url) as connection:
    connection.exec_driver_sql("PRAGMA cache_size = 1")  # so that pages go to the file before the commit
    connection.exec_driver_sql("CREATE TABLE sessions (x)")
    connection.exec_driver_sql("INSERT INTO sessions VALUES (zeroblob(1000000))")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    with python(code, tmp_path / "log.db") as process:
        process.communicate()
    assert (tmp_path / "log.db-journal").exists()
    Store(tmp_path / "log.db").close()


@pytest.mark.parametrize(
    "how",
    ["-x", *(pytest.param(each, marks=pytest.mark.slow) for each in ("RECORDER_DB", "default"))],
)
def test_alembic_works_from_a_checkout_and_is_quiet(tmp_path: Path, how: str) -> None:
    path = tmp_path / "recorder" / "recorder.db"
    options = ["-x", f"db={path}"] if how == "-x" else []
    environment = {
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
    }
    if how == "RECORDER_DB":
        environment["RECORDER_DB"] = f"sqlite:///{path}"
    said = []
    for verb in (["upgrade", "head"], ["check"]):
        command = [sys.executable, "-m", "alembic", *options, *verb]
        said.append(
            subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
            )
        )
    expected = [(0, "", ""), (0, "No new upgrade operations detected.\n", "")]
    assert [(run.returncode, run.stdout, run.stderr) for run in said] == expected
    assert current(path) == HEAD


def test_the_migrations_inside_an_installed_package_come_first(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "recorder", tmp_path / "recorder")
    code = "import sys; sys.path.remove(''); from recorder.store.maintain import migrate; print(migrate.migrations())"
    assert result(python(code, PYTHONPATH=str(tmp_path))) == f"{tmp_path / 'migrations'}\n"
    shutil.copytree(ROOT / "migrations", tmp_path / "recorder" / "migrations")
    assert (
        result(python(code, PYTHONPATH=str(tmp_path)))
        == f"{tmp_path / 'recorder' / 'migrations'}\n"
    )
    code = "import sys; sys.path.remove(''); from recorder.store.write.writer import Store\nStore(sys.argv[1]).close()"
    assert result(python(code, tmp_path / "log 100%.db", PYTHONPATH=str(tmp_path))) == ""
    assert current(tmp_path / "log 100%.db") == HEAD
