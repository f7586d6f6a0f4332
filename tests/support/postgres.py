"""A PostgreSQL for the tests: the one that `RECORDER_TEST_POSTGRES` names, or one started here for
the session.

`RECORDER_TEST_POSTGRES` is the URL of a server on which databases may be created, such as
`postgresql://postgres@127.0.0.1/postgres`. Without it, `initdb` and `postgres` of an installed
server are run in a temporary folder, reached by a socket only; as root they run as the user
`postgres`, because they refuse to run as root.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, make_url

if TYPE_CHECKING:
    from psycopg import Connection

VARIABLE = "RECORDER_TEST_POSTGRES"
MISSING = (
    f"There is no PostgreSQL to test with: install one (Debian: postgresql), or set "
    f"{VARIABLE} to the URL of a server."
)
_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql*/bin",
)
STARTED_S = 240  # to start, on a machine that has other things to do
_WATCHDOG = Path(__file__).with_name("watchdog.py")
DROPS = 10  # attempts, of five seconds each
_NUMBERS = itertools.count(1)
_COPIES_FILES = 150_000  # the version since which a server has a choice
# What a test loses in a power cut it makes again.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "60",
    "listen_addresses": "",
}


def programs() -> Path | None:
    """The folder with `initdb` and `postgres`: the newest that is installed."""
    on_path = shutil.which("initdb")
    found = [
        path
        for pattern in _FOLDERS
        for path in Path("/").glob(pattern[1:])
        if (path / "initdb").exists()
    ]
    return (
        Path(on_path).parent
        if on_path
        else max(found, default=None, key=lambda path: path.parent.name)
    )


def is_there() -> bool:
    """Whether there is a server to be had."""
    return VARIABLE in os.environ or programs() is not None


class Server:
    """A server and the databases made on it."""

    def __init__(self, url: URL) -> None:
        """`url` is that of a database to connect to, as a user who may create others."""
        self.url = url

    def create(self, template: str | None = None, options: str = "") -> URL:
        """A new database."""
        name = f"recorder_test_{os.getpid()}_{next(_NUMBERS)}"
        with self._connected() as connection:
            if template and connection.info.server_version >= _COPIES_FILES:
                options += " STRATEGY file_copy"  # half of the time of a copy by way of the WAL
            of = f' TEMPLATE "{template}"' if template else ""
            connection.execute(f'CREATE DATABASE "{name}"{of}{options}')
        return self.url.set(database=name)

    def drop(self, url: URL) -> None:
        import psycopg

        for patience in reversed(range(DROPS)):
            try:
                self.execute(f'DROP DATABASE IF EXISTS "{url.database}" WITH (FORCE)')
                return
            except psycopg.errors.ObjectInUse:
                # a busy machine may take longer to end sessions than the server waits
                if not patience:
                    raise

    def execute(self, sql: str) -> None:
        with self._connected() as connection:
            connection.execute(sql)

    def _connected(self) -> Connection:
        import psycopg

        return psycopg.connect(conninfo(self.url), autocommit=True)


def conninfo(url: URL) -> str:
    """As the programs of PostgreSQL take it."""
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


@contextmanager
def server() -> Iterator[Server]:
    """The server for this session of tests. Raises `RuntimeError` if there is none to be had."""
    given = os.environ.get(VARIABLE)
    if given:
        yield Server(make_url(given))
        return
    folder = programs()
    if folder is None:
        raise RuntimeError(MISSING)
    with (
        tempfile.TemporaryDirectory(prefix="recorder-postgres-") as directory,
        Cluster(folder, Path(directory)),
    ):
        yield Server(
            URL.create(
                "postgresql", username="postgres", database="postgres", query={"host": directory}
            )
        )


class Cluster:
    """A server of our own, while the block lasts; if this process is killed in it, a watchdog ends
    it instead.
    """

    def __init__(self, programs: Path, directory: Path, **settings: str) -> None:
        self._programs, self.directory, self._data = programs, directory, directory / "data"
        self._settings = {**_SETTINGS, "unix_socket_directories": str(directory), **settings}

    def __enter__(self) -> Cluster:
        if os.geteuid() == 0:
            shutil.chown(self.directory, "postgres")
        self._watchdog = self._watched()
        self._run(
            "initdb",
            "-D",
            self._data,
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "-N",
        )
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._watchdog.kill()
            self._watchdog.wait()

    @property
    def url(self) -> URL:
        """A database on it that is there from the beginning."""
        return URL.create(
            "postgresql", "postgres", database="postgres", query={"host": str(self.directory)}
        )

    def start(self) -> None:
        options = " ".join(
            f"-c {name}={value or chr(39) * 2}" for name, value in self._settings.items()
        )
        waiting = ("-w", "-t", STARTED_S)
        self._run(
            "pg_ctl",
            "-D",
            self._data,
            "-l",
            self.directory / "log",
            *waiting,
            "-o",
            options,
            "start",
        )

    def stop(self, mode: str = "immediate") -> None:
        """`immediate` is a crash: what was not committed is gone."""
        self._run("pg_ctl", "-D", self._data, "-m", mode, "-w", "stop")

    def _watched(self) -> subprocess.Popen[bytes]:
        """Start the watchdog, in a session of its own: what kills or interrupts our process group
        does not reach it.
        """
        stop = self._command("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop")
        command = [
            sys.executable,
            "-I",
            "-S",
            str(_WATCHDOG),
            str(os.getpid()),
            str(self.directory),
            *stop,
        ]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def _run(self, program: str, *arguments: object) -> None:
        ran = subprocess.run(
            self._command(program, *arguments), capture_output=True, text=True, cwd=self.directory
        )
        if ran.returncode:
            raise RuntimeError(f"{program} failed: {ran.stderr or ran.stdout}")

    def _command(self, program: str, *arguments: object) -> list[str]:
        """A program of the server, as a user that may run it."""
        command = [str(self._programs / program), *map(str, arguments)]
        if os.geteuid() == 0:
            command = [
                "setpriv",
                "--reuid=postgres",
                "--regid=postgres",
                "--clear-groups",
                *command,
            ]
        return command
