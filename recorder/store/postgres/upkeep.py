"""The proof and the checks of a log on a server: a `recorder.store.maintain.upkeep.Upkeep`.

It loads no driver: `recorder doctor` says that there is none, and a recorder has its probe load it in another thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

from sqlalchemy import URL, Table

from recorder.errors import UsageError
from recorder.program import load
from recorder.store.engine import Progress
from recorder.store.maintain.checks import Check, CheckResult
from recorder.store.maintain.upkeep import VerifyConnection
from recorder.store.postgres import address, health
from recorder.store.postgres.log_probe import PostgresLogProbe


def verify_connection(url: URL) -> AbstractContextManager[VerifyConnection]:
    opened: AbstractContextManager[VerifyConnection] = load("recorder.store.postgres.verify:verify_connection")(url)
    return opened


def scratch_connection(url: URL, tables: Sequence[Table]) -> AbstractContextManager[VerifyConnection]:
    scratch = load("recorder.store.postgres.verify:scratch_connection")
    opened: AbstractContextManager[VerifyConnection] = scratch(url, tables)
    return opened


def log_probe(url: URL) -> PostgresLogProbe:
    return PostgresLogProbe(url)


def checks(url: URL, more: Mapping[str, Check]) -> Iterator[CheckResult]:
    return health.log(url, more)


def library_checks() -> Iterator[CheckResult]:
    return iter(())


def file_checks(_url: URL) -> Iterator[CheckResult]:
    return iter(())


def back_up(url: URL, target: Path, progress: Progress, *, force: bool) -> NoReturn:
    raise UsageError(f"{address.display_name(url)} is on a server: copy it with `pg_dump --schema recorder`.")
