"""The proof, the checks and the copy of a log in a file: a `recorder.store.maintain.upkeep.Upkeep`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from sqlalchemy import URL, Table

from recorder.store.engine import Backup, Progress
from recorder.store.maintain.checks import Check, CheckResult
from recorder.store.sqlite import address, backup, health, verify
from recorder.store.sqlite.log_probe import SqliteLogProbe
from recorder.store.sqlite.verify import SqliteVerifyConnection


def verify_connection(url: URL) -> AbstractContextManager[SqliteVerifyConnection]:
    address.require(url)
    return verify.verify_connection(address.path(url))


def scratch_connection(url: URL, tables: Sequence[Table]) -> AbstractContextManager[SqliteVerifyConnection]:
    return verify.scratch_connection(address.path(url), tables)


def log_probe(url: URL) -> SqliteLogProbe:
    return SqliteLogProbe(address.path(url))


def checks(url: URL, more: Mapping[str, Check]) -> Iterator[CheckResult]:
    return health.log(address.path(url), more)


def library_checks() -> Iterator[CheckResult]:
    return health.library()


def file_checks(url: URL) -> Iterator[CheckResult]:
    return health.wal(address.path(url))


def back_up(url: URL, target: Path, progress: Progress, *, force: bool) -> Backup:
    address.require(url)
    return backup.back_up(address.path(url), target, progress, force=force)
