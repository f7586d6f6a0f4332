"""Connections of DuckDB: which extensions they have, what they may use, and how they open a log.

Rules of this file:

* All connections come from `connected`. What one reads is attached first; then it is closed to
  every other file, on disk or in a network, whatever a statement, or a view in a file of somebody
  else, names. It cannot be opened again.
* Extensions come from installed wheels, and secrets from nowhere: those that a user keeps for
  DuckDB are not read.
* A process that reads a database file through DuckDB does not have it open by the module `sqlite3`
  at the same time. Each of the two has a library of SQLite of its own, and a lock of POSIX belongs
  to the process: the first that closes the file drops the locks of the other. So what writes to a
  log in a file reads it through DuckDB in another process.
* Memory has a limit, past which DuckDB writes to a temporary folder that is removed with the
  connection.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL

from recorder.errors import RecorderError, StoreError, missing_extra
from recorder.store.engine import DuckdbSource, querying_of
from recorder.store.location import database_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY = "192MB"  # the process has DuckDB's own code and Python's besides: below 300 MB in all
LOG = "log"  # the name of a log in a connection

_EXTENSIONS = ("ducklake", "httpfs", "postgres-scanner", "sqlite-scanner")

SETTINGS = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # It takes two parts of a plan for the same one if only the file of SQLite differs that they
    # read: of a log and of another one that is attached as its archive, it would read the first
    # twice.
    "disabled_optimizers": "common_subplan",
    "memory_limit": MEMORY,
    "threads": "2",  # each holds rows of its own: more take memory before they save time
}


class DuckdbOpening:
    """A connection while databases are attached to it, for a command, which needs an extra of the
    program.
    """

    def __init__(self, connection: DuckDBPyConnection, command: str, extra: str) -> None:
        self.connection, self._command, self._extra = connection, command, extra
        # that are read, and written, afterwards: paths, or places on S3
        self.folders: list[str] = []

    def load(self, *extensions: str) -> None:
        """Load extensions. Raise `RecorderError` if the wheel of one is not installed."""
        for name in extensions:
            path = _extension(name)
            if path is None:
                raise missing_extra(f"`recorder {self._command}`", self._extra)
            self.connection.execute(f"LOAD {quoted(str(path))}")

    def attach(self, source: DuckdbSource, name: str, *options: str) -> None:
        """Attach a database of tables as `name`. Raise the errors of DuckDB."""
        self.load(*source.extensions)
        how = ", ".join([f"TYPE {source.type}", *options])
        self.connection.execute(f"ATTACH {quoted(source.target)} AS {name} ({how})")

    def attach_log(self, url: URL, name: str = LOG) -> None:
        """Attach a log for reading as the database `name`."""
        import duckdb

        source = querying_of(url).duckdb_source(url)
        schema = [f"SCHEMA {quoted(source.schema)}"] if source.schema else []
        try:
            self.attach(source, name, "READ_ONLY", *schema)
        except duckdb.Error as error:
            raise StoreError(
                f"DuckDB could not open {database_name(url)}: {first_line(error)}."
            ) from error


@contextmanager
def connected(
    command: str, extra: str, attach: Callable[[DuckdbOpening], None] = lambda _opening: None
) -> Iterator[DuckDBPyConnection]:
    """Open a database in memory with what `attach` attaches, and close it to everything else.

    `command` and `extra` are for the error, a `RecorderError`, if the package or a wheel is not
    installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise missing_extra(f"`recorder {command}`", extra) from error
    if mismatch := extension_mismatch():
        raise RecorderError(mismatch)
    with tempfile.TemporaryDirectory(prefix="recorder-duckdb-") as folder:
        folders = {"temp_directory": folder, "secret_directory": f"{folder}/no-secrets"}
        connection = duckdb.connect(config={**SETTINGS, **folders})
        try:
            connection.execute("SET TimeZone = 'UTC'")
            opening = DuckdbOpening(connection, command, extra)
            attach(opening)
            _close_to_others(connection, opening.folders)
            yield connection
        except duckdb.IOException as error:
            raise StoreError(f"DuckDB could not read or write: {first_line(error)}.") from error
        except duckdb.OutOfMemoryException as error:
            raise RecorderError(
                f"This takes more memory than DuckDB has here ({MEMORY}): take a shorter time."
            ) from error
        finally:
            connection.close()


def _close_to_others(connection: DuckDBPyConnection, folders: Sequence[str]) -> None:
    """Let a connection read what it has attached, and these folders.

    The last of these settings fixes the one before.

    The folder for what does not fit into memory is added by DuckDB itself.
    """
    connection.execute("SET python_enable_replacements = false")
    connection.execute(f"SET allowed_directories = [{', '.join(map(quoted, folders))}]")
    connection.execute("SET enable_external_access = false")


def quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def extension_mismatch() -> str | None:
    """Say what to do if an extension is installed which was built for another version of DuckDB
    than the one here.
    """
    installed = _version("duckdb")
    for name in _EXTENSIONS:
        needed = _version(f"duckdb-extension-{name}")
        if installed and needed not in (None, installed):
            return (
                f"DuckDB is {installed} here, and its extension {name} was built for {needed}: run "
                f"`pip install duckdb=={needed}`. The extensions of a new DuckDB come some weeks after it."
            )
    return None


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _extension(name: str) -> Path | None:
    """Return the library of an extension in its wheel, or None if that is not installed."""
    try:
        found = files(f"duckdb-extension-{name}") or ()
    except PackageNotFoundError:
        return None
    return next(
        (Path(str(file.locate())) for file in found if file.suffix == ".duckdb_extension"), None
    )


def first_line(error: BaseException) -> str:
    """Return what an error of DuckDB says, without a connection string, which may have a password,
    and without the place in the statement and the last period.
    """
    text = _CONNECTION_STRING.sub("PostgreSQL: ", str(error))
    return text.partition("\n")[0].rstrip(".")


_CONNECTION_STRING = re.compile(r'Postgres at ".*": ', re.DOTALL)
