"""The checks of `recorder doctor` on the database: those of its engine, and of who writes and who
verified it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial

from msgspec import structs
from sqlalchemy import URL

from recorder.archive.lake import LAKE, data_path, translated
from recorder.archive.place import database_name, database_of, database_url, is_archive, is_missing
from recorder.archive.unpack import open_archive
from recorder.commands.ops.journals import GONE_NS
from recorder.commands.ops.last_verify import last_verify
from recorder.commands.ops.recover import of_recorders
from recorder.commands.ops.writers import writer_of
from recorder.errors import RecorderError
from recorder.ingest.recovery import Unfinished, has_journal, unfinished_sql
from recorder.model.text import counted, span_text
from recorder.projections.rows import TABLES
from recorder.store.engine import address_of, engine_name
from recorder.store.location import journal_root
from recorder.store.maintain.declared import schema_differences, sentence
from recorder.store.maintain.upkeep import CHECKS, Ask, Check, CheckResult, run_checks, upkeep_of
from recorder.store.maintain.verify.log import Writer
from recorder.store.schema import HEAD
from recorder.store.sql import has_ended

OLD_NS = 30 * 86_400 * 10**9  # a month


def log(url: URL) -> Iterator[CheckResult]:
    """Yield the checks of a database, up to the first failure that prevents the others."""
    more: dict[str, Check] = {
        "open": partial(_open, writer_of(journal_root(database_of(url)))),
        "verify": partial(_verified, url),
    }
    if not is_archive(url):
        if not address_of(url).is_local:
            more = {"recorders": partial(_recorders, url)}
        more |= {"schema": partial(_schema, url), "archive": _archives, "budget": _budgets}
    yield from checks(url, more)


def _schema(url: URL, ask: Ask) -> Iterator[CheckResult]:
    """Yield whether tables, views and triggers of a log are those that recorder declares."""
    found = schema_differences(url, ask.rows if address_of(url).is_local else None)
    if found:
        yield CheckResult("bad", "schema", sentence(found))
    else:
        yield CheckResult("ok", "schema", "Its tables, views and guards are as recorder made them.")


def _budgets(ask: Ask) -> Iterator[CheckResult]:
    """Yield the budgets of which nothing is left this month (UTC)."""
    for (about,) in ask.rows(_SPENT):
        if about.endswith(f"{datetime.now(UTC):%Y-%m}"):
            yield CheckResult("warn", "budget", f"Nothing is left of the budget of {about}.")


_SPENT = f"SELECT DISTINCT detail FROM {TABLES['anomalies']} WHERE kind = 'budget_spent' ORDER BY 1"


def _archives(ask: Ask) -> Iterator[CheckResult]:
    """Yield whether each archive of a log can be read."""
    for (stored,) in ask.rows("SELECT url FROM archives ORDER BY attached_ns, url"):
        url = database_url(stored)
        for number, found in enumerate(checks(url, {})):
            if not number or found.state != "ok":
                yield structs.replace(found, check="archive")


def _open(writer: Callable[[str], Writer], ask: Ask) -> Iterator[CheckResult]:
    """Count the exchanges without an end that `recorder verify` would list."""
    counts: Counter[Writer] = Counter()
    for recorder_id, exchanges in ask.rows(_UNENDED):
        counts[writer(recorder_id)] += exchanges
    for state, remedy in _REMEDIES.items():
        if count := counts[state]:
            yield CheckResult(
                "warn", "open", f"{counted(count, 'exchange')} without an end: {remedy}."
            )
    if count := counts["alive"]:
        yield CheckResult(
            "ok",
            "open",
            f"{counted(count, 'exchange')} {'is' if count == 1 else 'are'} being recorded.",
        )
    if not counts:
        yield CheckResult("ok", "open", "No exchange is open.")


_UNENDED = f"""SELECT CAST(recorder_id AS TEXT), count(*) FROM exchanges AS x
    WHERE NOT {has_ended("x")} GROUP BY recorder_id"""
_REMEDIES: Mapping[Writer, str] = {
    "left": "their recorder is gone, run `recorder db recover`",
    "gone": "nobody records them, and no journal has the rest; `recorder verify` names them",
}


def _recorders(url: URL, ask: Ask) -> Iterator[CheckResult]:
    root, unended = journal_root(url), ask.rows(unfinished_sql(engine_name(url)))
    found = [each for row in unended if not has_journal(root, each := Unfinished(*row))]
    silent = [each for each in found if each.silent_ns > GONE_NS]
    if silent:
        last = span_text(min(each.silent_ns for each in silent))
        yield CheckResult(
            "warn",
            "recorders",
            f"{of_recorders(silent)} not heard of for {last} or more: run `recorder db recover`.",
        )
    elif found:
        yield CheckResult(
            "ok", "recorders", f"{of_recorders(found)} open, and heard of within the last hour."
        )
    else:
        yield CheckResult("ok", "recorders", "No recorder elsewhere has anything open.")


def _verified(url: URL, ask: Ask) -> Iterator[CheckResult]:
    try:
        last = last_verify(url)
    except (OSError, ValueError):
        yield CheckResult(
            "warn",
            "verify",
            "The time of the last verification cannot be read: run `recorder verify`.",
        )
        return
    if last is None:
        if ask("SELECT EXISTS (SELECT 1 FROM exchanges)"):
            yield CheckResult(
                "warn", "verify", "The log was never verified: run `recorder verify`."
            )
    elif last.findings:
        message = f"The last `recorder verify`, on {_day(last.ended_ns)}, had findings: run it again, and see."
        yield CheckResult("bad", "verify", message)
    elif time.time_ns() - last.ended_ns > OLD_NS:
        yield CheckResult(
            "warn",
            "verify",
            f"The log was last verified on {_day(last.ended_ns)}: run `recorder verify`.",
        )
    else:
        yield CheckResult(
            "ok",
            "verify",
            f"The log was last verified on {_day(last.ended_ns)}: all was as recorded.",
        )


def _day(ns: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(ns / 1e9))


_OF_ARCHIVE = ("dead_letters", "gaps")  # not: what a recorder still has to do
_SIZE = f"""SELECT count(*), CAST(coalesce(sum(file_size_bytes), 0) AS BIGINT)
FROM __ducklake_metadata_{LAKE}.ducklake_data_file WHERE end_snapshot IS NULL"""


def checks(url: URL, more: Mapping[str, Check]) -> Iterator[CheckResult]:
    """Yield the checks of a log or an archive, and `more`, up to the first failure that prevents
    the others.
    """
    if not is_archive(url):
        yield from upkeep_of(url).checks(url, more)
        return
    name = database_name(url)
    if is_missing(url):
        yield CheckResult(
            "ok", "database", f"There is no archive {name} yet: `recorder db archive` makes it."
        )
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
            yield from run_checks(
                {**{name: CHECKS[name] for name in _OF_ARCHIVE}, **more}, ask, lambda _: False
            )
    except RecorderError as error:
        yield CheckResult("bad", "database", str(error))
