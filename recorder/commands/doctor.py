"""`recorder doctor`: problems of this installation, and their remedies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import click
from msgspec.structs import asdict
from sqlalchemy import URL

from recorder.archive.place import chosen_url, database_of, database_url, is_archive
from recorder.commands.ops import health
from recorder.commands.ops.health_log import log
from recorder.commands.serving.budgets import read_budgets
from recorder.commands.serving.network import CONNECTING, VARIABLES, settled
from recorder.commands.terminal.options import database_option, format_option
from recorder.commands.terminal.output import FOUND, write_json, write_line
from recorder.commands.terminal.rules import match_rules
from recorder.commands.terminal.settings import defaults, own_path, project_path, settings_file
from recorder.commands.verbs import VERBS
from recorder.errors import RecorderError
from recorder.model.text import safe_text
from recorder.program import load
from recorder.shipping.status import collected_root
from recorder.store.engine import address_of
from recorder.store.location import journal_root
from recorder.store.maintain.upkeep import CheckResult, upkeep_of


@click.command()
@format_option("json", "jsonl")
@database_option
@click.pass_context
def command(ctx: click.Context, db: str | None, format: str) -> None:
    """Find problems of this installation, and print how to solve them.

    Checks the database, the files beside it, the disk, the clock, the settings, the way to
    upstreams and this Python; for a database on a server its rights, partitions and dead recorders.
    It is quick, it changes nothing and asks no upstream, and recorders may run. The exit code is 4
    if something is bad.

    \b
    recorder doctor
    recorder doctor --json | jq '.[] | select(.state != "ok")'
    """
    lines = list(diagnosis(chosen_url(db)))
    if format != "table":
        write_json(map(asdict, lines), format)
    else:
        width = max(len(line.check) for line in lines)
        for line in lines:
            write_line(safe_text(f"{line.state:<4}  {line.check:<{width}}  {line.message}"))
    ctx.exit(FOUND if any(line.state == "bad" for line in lines) else 0)


def diagnosis(database: Path | URL) -> Iterator[CheckResult]:
    """Yield the lines of all checks.

    A check that fails yields its error, and the others continue.
    """
    url = database_url(database)
    library = () if is_archive(url) else (upkeep_of(url).library_checks,)
    machine = [health.python, *library, health.clock, health.descriptors, health.port]
    checks = [*machine, settings, network]
    for check in (*checks, *_of_database(url)):
        try:
            yield from check()
        except (OSError, ValueError) as error:
            named = check.func if isinstance(check, partial) else check
            yield CheckResult("bad", named.__name__, f"This cannot be checked: {error}.")


def _of_database(url: URL) -> Iterator[Callable[[], Iterator[CheckResult]]]:
    """Yield the checks of a database, and of its files and journals as far as they are on this
    machine.
    """
    database = database_of(url)
    address, root = address_of(database), journal_root(database)
    files = address.files(database)
    yield partial(log, url)
    yield partial(health.modes, [*files, address.verified_path(database)] if files else (), root)
    if files:
        yield partial(health.filesystem, files[0])
        yield partial(health.space, files[0])
    else:
        yield partial(health.space, root, "the journals")
    if not is_archive(url):
        yield partial(upkeep_of(url).file_checks, url)
    yield partial(health.journal, root)
    yield health.edges
    yield partial(health.collector, collected_root(root))


def settings() -> Iterator[CheckResult]:
    """Yield whether the files with settings can be read, and whether each verb accepts its table."""
    paths = [path for path in dict.fromkeys((own_path(), project_path())) if path.exists()]
    good = True
    for path in paths:
        try:
            file = settings_file(path, is_own=path == own_path())
            if file is None:
                good = False
                yield CheckResult("warn", "settings", f"{path} cannot be read and is ignored.")
                continue
            verbs = [name for name in file.given if name in VERBS and name != "db"]
            for verb in verbs or ["sessions"]:
                defaults(verb, load(f"recorder.commands.{verb}:command"))
            match_rules()
            read_budgets()
        except RecorderError as error:
            good = False
            yield CheckResult("bad", "settings", str(error))
    if good:
        named = " and ".join(str(path) for path in paths) or "None are set in a file"
        yield CheckResult("ok", "settings", f"{named}{' hold settings' if paths else ''}.")


def network() -> Iterator[CheckResult]:
    """Yield how commands reach their upstreams, by variables and files, without a password; nothing
    is connected to.
    """
    ways: dict[str, list[str]] = {}
    uses_proxy = False
    for verb in CONNECTING:
        command = load(f"recorder.commands.{verb}:command")
        try:
            chosen = settled(verb, command, defaults(verb, command))
            if chosen.has_files:
                chosen.tls()
        except (RecorderError, click.BadParameter) as error:
            message = error.message if isinstance(error, click.BadParameter) else str(error)
            yield CheckResult("bad", "network", f"`recorder {verb}`: {message}")
        else:
            uses_proxy = uses_proxy or bool(chosen.proxies)
            ways.setdefault(chosen.describe(), []).append(verb)
    for way, verbs in ways.items():
        yield CheckResult(
            "ok", "network", f"`recorder {', '.join(verbs)}`: upstreams are reached {way}."
        )
    if (names := [name for name in VARIABLES if os.environ.get(name)]) and not uses_proxy:
        message = (
            f'{", ".join(names)} is not looked at: the setting `upstream-proxy = "env"` uses it.'
        )
        yield CheckResult("ok", "network", message)
