"""The checks of `recorder doctor` on an archive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import URL

from recorder.archive.lake import LAKE, data_path, translated
from recorder.archive.place import database_name, is_archive, is_missing
from recorder.archive.unpack import open_archive
from recorder.errors import RecorderError
from recorder.model.text import counted
from recorder.store.maintain.checks import Ask, Check, CheckResult, run_checks
from recorder.store.maintain.health import CHECKS
from recorder.store.maintain.migrate import HEAD
from recorder.store.maintain.upkeep import upkeep_of

_OF_ARCHIVE = ("dead_letters", "gaps")  # not: what a recorder still has to do
_SIZE = f"""SELECT count(*), CAST(coalesce(sum(file_size_bytes), 0) AS BIGINT)
FROM __ducklake_metadata_{LAKE}.ducklake_data_file WHERE end_snapshot IS NULL"""


def checks(url: URL, more: Mapping[str, Check]) -> Iterator[CheckResult]:
    """Yield the checks of a log or an archive, and `more`, up to the first failure that prevents the others."""
    if not is_archive(url):
        yield from upkeep_of(url).checks(url, more)
        return
    name = database_name(url)
    if is_missing(url):
        yield CheckResult("ok", "database", f"There is no archive {name} yet: `recorder db archive` makes it.")
        return
    try:
        with open_archive(url, "doctor") as archive, translated(url):
            ask = Ask(lambda sql: archive.connection.execute(sql).fetchall())
            [(files, size_bytes)] = ask.rows(_SIZE)
            sessions = counted(ask("SELECT count(*) FROM sessions"), "session")
            yield CheckResult(
                "ok",
                "database",
                f"{name} has {sessions} in {counted(files, 'file')} of {size_bytes / 2**20:.1f} MiB in "
                f"{data_path(archive.connection)}, and schema {HEAD}.",
            )
            yield from run_checks({**{name: CHECKS[name] for name in _OF_ARCHIVE}, **more}, ask, lambda _: False)
    except RecorderError as error:
        yield CheckResult("bad", "database", str(error))
