"""`recorder doctor`: problems of this installation, and their remedies."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import click
import platformdirs
from sqlalchemy import URL

from recorder.commands.ops import health
from recorder.commands.ops.health import CheckResult
from recorder.commands.ops.health_log import log
from recorder.commands.ops.health_server import server
from recorder.commands.ui.database import database_option
from recorder.commands.ui.output import with_json, write_json, write_line
from recorder.commands.ui.settings import FILE_NAME, defaults, match_rules
from recorder.commands.verbs import VERBS
from recorder.errors import RecorderError
from recorder.model.text import safe_text
from recorder.store.engine import engine_of
from recorder.store.location import chosen_url, database_path, database_url, journal_root

BAD = 4  # the exit code, as of a finding


@click.command()
@with_json()
@database_option
@click.pass_context
def command(ctx: click.Context, db: str | None, json: bool, jsonl: bool) -> None:
    """Find problems of this installation, and print how to solve them.

    Checks the database, the files beside it, the disk, the clock, the settings and this Python; for a database on a
    server its rights, partitions and dead recorders. It is quick, it changes nothing, and recorders may run. The exit
    code is 4 if something is bad.

    \b
    recorder doctor
    recorder doctor --json | jq '.[] | select(.state != "ok")'
    """
    lines = list(diagnosis(chosen_url(db)))
    if json or jsonl:
        write_json((line._asdict() for line in lines), lines=jsonl)
    else:
        width = max(len(line.check) for line in lines)
        for line in lines:
            write_line(safe_text(f"{line.state:<4}  {line.check:<{width}}  {line.message}"))
    ctx.exit(BAD if any(line.state == "bad" for line in lines) else 0)


def diagnosis(database: Path | URL) -> Iterator[CheckResult]:
    """Yield the lines of all checks. A check that fails yields its error, and the others continue."""
    url = database_url(database)
    libraries, of_database = _BY_ENGINE[engine_of(url).name]
    general = [health.python, *libraries, health.clock, health.descriptors, health.port, settings]
    for check in (*general, *of_database(url)):
        try:
            yield from check()
        except (OSError, ValueError) as error:
            named = check.func if isinstance(check, partial) else check
            yield CheckResult("bad", named.__name__, f"This cannot be checked: {error}.")


Check = Callable[[], Iterator[CheckResult]]


def _of_file(url: URL) -> list[Check]:
    path, root = database_path(url), journal_root(url)
    return [
        *(partial(log, path), partial(health.modes, health.files_of(path), root)),
        *(partial(check, path) for check in (health.filesystem, health.space, health.wal)),
        partial(health.journal, root),
    ]


def _of_server(url: URL) -> list[Check]:
    """Yield the checks of a database on a server: not its files, but the journals, which are here."""
    root = journal_root(url)
    return [
        *(partial(server, url), partial(health.modes, (), root)),
        *(partial(health.space, root, "the journals"), partial(health.journal, root)),
    ]


_BY_ENGINE: Mapping[str, tuple[Sequence[Check], Callable[[URL], list[Check]]]] = {
    "sqlite": ([health.sqlite], _of_file),
    "postgresql": ([], _of_server),
}


def settings() -> Iterator[CheckResult]:
    """Yield whether the files with settings can be read, and whether each verb accepts its table."""
    paths = [path for path in (platformdirs.user_config_path("recorder") / FILE_NAME, Path(FILE_NAME)) if path.exists()]
    good = True
    for path in paths:
        try:
            verbs = [name for name in tomllib.loads(path.read_text()) if name in VERBS and name != "db"]
            for verb in verbs or ["sessions"]:
                defaults(verb, importlib.import_module(f"recorder.commands.{verb}").command)
            match_rules()
        except OSError as error:
            good = False
            yield CheckResult("warn", "settings", f"{path} cannot be read and is ignored: {error.strerror}.")
        except ValueError as error:
            good = False
            yield CheckResult("bad", "settings", f"{path} is not valid TOML ({error}): fix it or move it away.")
        except RecorderError as error:
            good = False
            yield CheckResult("bad", "settings", str(error))
    if good:
        named = " and ".join(str(path) for path in paths) or "None are set in a file"
        yield CheckResult("ok", "settings", f"{named}{' hold settings' if paths else ''}.")
