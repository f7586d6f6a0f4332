"""The checks of `recorder doctor` on an archive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import URL

from recorder.errors import RecorderError
from recorder.model.text import counted
from recorder.store.ducklake.connection import LAKE, data_path, lake, translated
from recorder.store.ducklake.schema import require_revision
from recorder.store.engine import engine_of
from recorder.store.location import database_name
from recorder.store.maintain.health import CHECKS, Ask, Check, CheckResult, run_checks
from recorder.store.maintain.migrate import HEAD

_OF_ARCHIVE = ("dead_letters", "gaps")  # not: what a recorder still has to do
_SIZE = f"""SELECT count(*), CAST(coalesce(sum(file_size_bytes), 0) AS BIGINT)
FROM __ducklake_metadata_{LAKE}.ducklake_data_file WHERE end_snapshot IS NULL"""


def archive(url: URL, more: Mapping[str, Check]) -> Iterator[CheckResult]:
    """Yield the checks of an archive and `more`, up to the first failure that prevents the others."""
    name = database_name(url)
    if engine_of(url).is_missing(url):
        yield CheckResult("ok", "database", f"There is no archive {name} yet: `recorder db archive` makes it.")
        return
    try:
        with lake(url, "doctor") as connection, translated(url):
            require_revision(url, connection)
            ask = Ask(lambda sql: connection.execute(sql).fetchall())
            [(files, size_bytes)] = ask.rows(_SIZE)
            sessions = counted(ask("SELECT count(*) FROM sessions"), "session")
            yield CheckResult(
                "ok",
                "database",
                f"{name} has {sessions} in {counted(files, 'file')} of {size_bytes / 2**20:.1f} MiB in "
                f"{data_path(connection)}, and schema {HEAD}.",
            )
            yield from run_checks({**{name: CHECKS[name] for name in _OF_ARCHIVE}, **more}, ask, lambda _: False)
    except RecorderError as error:
        yield CheckResult("bad", "database", str(error))
