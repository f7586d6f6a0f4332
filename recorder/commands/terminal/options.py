"""Options that commands share: the database, in which form they write, and those that are only set.

A command that reads a log which is behind the journals on this machine waits a moment, and reports
what is missing.

Rules of this file:

* A command gets one form. What is typed wins over a variable, and that over a file, in whichever
  spelling.
* Two forms from one of these places contradict each other, and are refused.
* Where nothing waits, it costs a look at the folder of the journals:
  `recorder.commands.terminal.behind` has the rest.
* `--schema` is answered before anything else is looked at: no argument is missing then.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec
from click.core import ParameterSource
from sqlalchemy import URL

from recorder.archive.place import chosen_url, database_of, is_missing
from recorder.commands.terminal.output import echo, write_bytes
from recorder.errors import NotFoundError, UsageError
from recorder.program import load
from recorder.store.location import VARIABLE, journal_root

if TYPE_CHECKING:
    from recorder.commands.terminal.behind import Behind
    from recorder.store.queries.reader import LogReader

WAIT_S = 2.0  # an ingester that is well takes a quarter of a second, on a busy machine some of them
ALL_BEHIND = "The log is empty: the recording is still in a journal."
KEY = "recorder.behind"  # of what the context of a command knows

MEANINGS = {
    "json": "one array, whose keys are the SQL column names",
    "jsonl": "one object a line",
    "csv": "with the SQL column names in its first line",
    "raw": "the response bodies as they were received, decoded, and no more",
}
_PLACES = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT, ParameterSource.DEFAULT_MAP)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
T = TypeVar("T")

FILE = click.Path(path_type=Path, dir_okay=False)

flag = partial(click.option, is_flag=True)
"""An option that is given or not."""


def database_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--db` to a command that opens the database, which may be a coroutine."""

    @wraps(function)
    def decorated(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        return asyncio.run(result) if inspect.iscoroutine(result) else result

    return click.option(
        "--db",
        metavar="URL|PATH",
        envvar=VARIABLE,
        help="The database: a path or a SQLAlchemy URL. [default: a file in the user's data directory]",
    )(decorated)


def log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--wait` and `--db` to a command that reads the log; `current_url` uses them."""

    @wraps(function)
    def decorated(*arguments: Any, wait: float, **options: Any) -> Any:
        click.get_current_context().meta.setdefault(KEY, _Waited(wait))
        return function(*arguments, **options)

    wait_option = click.option(
        "--wait",
        type=click.FloatRange(min=0),
        default=WAIT_S,
        metavar="SECONDS",
        help="Wait up to this long for earlier recordings if the log is behind; 0 does not wait.",
    )
    return wait_option(database_option(decorated))


def joined_options(
    argument: str, make: Callable[..., Any], *options: Any, parameters: Collection[str] = ()
) -> Decorator:
    """Return a decorator that adds options to a command, which gets one argument for them: what
    `make` makes of them.

    The options have these `parameters`; without any, those of `make`.
    """
    names = parameters or inspect.signature(make).parameters

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def command(*arguments: Any, **given: Any) -> Any:
            chosen = {name: given.pop(name) for name in names}
            return function(*arguments, **given, **{argument: make(**chosen)})

        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def format_option(*names: str, variants: Sequence[str] = (), **meanings: str) -> Decorator:
    """Add `--format` with `table` and these forms, which the command gets as `format`; and
    `--schema`.

    `meanings` says what a form is where that differs; `variants` are the options that have a schema
    of their own.
    """
    forms = "; ".join(f"{name}: {meanings.get(name, MEANINGS[name])}" for name in names)
    short = ", ".join(f"--{name}" for name in names)
    option = click.option(
        "--format",
        type=click.Choice(["table", *names]),
        default="table",
        help=f"table: for people; {forms}. {short} {'is' if len(names) == 1 else 'are'} short for it.",
    )
    flags = [flag(f"--{name}", hidden=True) for name in names]
    return joined_options(
        "format", _chosen, option, _schema_option(variants), *flags, parameters=("format", *names)
    )


def json_options(json: str, jsonl: str) -> Decorator:
    """Add `--json` and `--jsonl` to a command whose `--format` is about something else, and
    `--schema`.

    The command gets `output`.
    """

    options = (flag("--json", help=json), _schema_option(()), flag("--jsonl", help=jsonl))
    return joined_options("output", _chosen, *options, parameters=("json", "jsonl"))


class Parsed(click.ParamType[T]):
    """The type of a value that a function reads from a text.

    Its `ValueError` or `UsageError` says what is wrong.
    """

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        try:
            found: T = self._parse(value) if isinstance(value, str) else value
        except (ValueError, UsageError) as error:
            self.fail(str(error), param, ctx)
        return found


class Setting(click.Option):
    """An option that is set in a file or by a variable, and not typed: docs/settings.md says what
    each does.
    """

    def __init__(self, *names: Any, **options: Any) -> None:
        super().__init__(*names, **{**options, "hidden": True})

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        if self.name in opts:
            name, verb = self.opts[0].removeprefix("--"), ctx.info_name or ""
            variable = f"{ctx.auto_envvar_prefix}_{self.name}".upper()
            raise UsageError(
                f"{self.opts[0]} is a setting: write `{name} = …` below [{verb}] in your recorder.toml, or set the "
                f"variable {variable}."
            )
        return super().handle_parse_result(ctx, opts, args)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        return f"'{self.opts[0].removeprefix('--')}'"


setting = partial(click.option, cls=Setting)


def _chosen(format: str | None = None, **short: bool) -> str:
    """Return the form that was asked for."""
    context = click.get_current_context()
    for place in _PLACES:
        asked = {
            f"--{name}": name
            for name, is_set in short.items()
            if is_set and context.get_parameter_source(name) is place
        }
        if format is not None and context.get_parameter_source("format") is place:
            asked[f"--format {format}"] = format
        if len(set(asked.values())) > 1:
            raise UsageError(f"{' and '.join(asked)} are different formats: choose one.")
        if asked:
            return asked.popitem()[1]
    return "table"


class _SchemaOption(click.Option):
    """`--schema`, which prints the JSON Schema of what the command writes with `--json`, and ends."""

    def __init__(self, *names: Any, variants: Sequence[str], **options: Any) -> None:
        super().__init__(*names, **options)
        self._variants = variants

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        if opts.get("schema") and not ctx.resilient_parsing:
            words = ctx.command_path.split()[1:]
            words += [name for name in self._variants if opts.get(name)]
            schema = load("recorder.commands.schemas.catalog:schema")("-".join(words))
            write_bytes(msgspec.json.format(msgspec.json.encode(schema)) + b"\n")
            ctx.exit()
        return super().handle_parse_result(ctx, opts, args)


def _schema_option(variants: Sequence[str]) -> Decorator:
    return flag(
        "--schema",
        cls=_SchemaOption,
        variants=variants,
        is_eager=True,
        expose_value=False,
        help="Only print the JSON Schema of what --json writes.",
    )


class _Waited:
    """The state of the wait in one command: it waits once, however often it opens the log."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s, self.until_s = wait_s, time.monotonic() + wait_s
        self.behind: list[Behind] | None = None


def current_url(db: str | None) -> URL:
    """Return the URL that `--db` names, after a wait for everything that was in a journal before.

    Raises `NotFoundError` if there is no log yet, and a journal has what is to be in it.
    """
    url = chosen_url(db)
    waited = _waited()
    if waited.behind is None:
        waited.behind = []
        if _may_have_journals(url):
            journals = load("recorder.commands.terminal.behind")
            waited.behind = journals.caught_up(url, waited.until_s)
            for each in waited.behind:
                echo(journals.sentence(each))
    if waited.behind and is_missing(url):
        raise NotFoundError(nothing_yet(""))
    return url


async def open_current(db: str | None) -> LogReader:
    """Open the log that `--db` names after that wait."""
    log: LogReader = await load("recorder.archive.opening:open_log")(current_url(db))
    return log


def chosen_wait_s() -> float:
    """Return the seconds of `--wait`, for a command that reads the log again and again and waits
    each time.
    """
    return _waited().wait_s


def nothing_yet(otherwise: str) -> str:
    """Return the message about an empty log; another one if the log is only behind."""
    return ALL_BEHIND if _waited().behind else otherwise


def other_killed(url: URL) -> list[str]:
    """Return sentences about journals of killed recorders that were not reported as missing in the
    log.
    """
    named = {each.directory for each in _waited().behind or ()}
    sentences: list[str] = load("recorder.commands.terminal.behind:killed_recorders")(url, named)
    return sentences


def _may_have_journals(url: URL) -> bool:
    try:
        return any(journal_root(database_of(url)).iterdir())
    except OSError:
        # there is no folder, or one of somebody else: what cannot be seen cannot be waited for
        return False


def _waited() -> _Waited:
    context = click.get_current_context(silent=True)
    if context is None:
        return _Waited(WAIT_S)
    waited: _Waited = context.meta.setdefault(KEY, _Waited(WAIT_S))
    return waited
