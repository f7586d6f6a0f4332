"""Options that commands share: the database, in which form they write, and those that are only set.

Rules of this file:

* A command gets one form. What is typed wins over a variable, and that over a file, in whichever spelling.
* Two forms from one of these places contradict each other, and are refused.
* `--schema` is answered before anything else is looked at: no argument is missing then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from click.core import ParameterSource

from recorder.commands.terminal.output import write_bytes
from recorder.errors import UsageError
from recorder.program import load
from recorder.store.location import VARIABLE

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

database_option = click.option(
    "--db",
    metavar="URL|PATH",
    envvar=VARIABLE,
    help="The database: a path or a SQLAlchemy URL. [default: a file in the user's data directory]",
)
"""`--db`, for a command that opens the database."""


def joined_options(argument: str, make: Callable[..., Any], *options: Any) -> Decorator:
    """Return a decorator that adds options to a command, which gets one argument for them: what `make` makes of them.

    The parameters of `make` are those of the options.
    """
    names = inspect.signature(make).parameters

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
    """Add `--format` with `table` and these forms, which the command gets as `format`; and `--schema`.

    `meanings` says what a form is where that differs; `variants` are the options that have a schema of their own.
    """
    forms = "; ".join(f"{name}: {meanings.get(name, MEANINGS[name])}" for name in names)
    short = ", ".join(f"--{name}" for name in names)
    option = click.option(
        "--format",
        type=click.Choice(["table", *names]),
        default="table",
        help=f"table: for people; {forms}. {short} {'is' if len(names) == 1 else 'are'} short for it.",
    )

    def decorate(function: Any) -> Any:
        @wraps(function)
        def command(*arguments: Any, format: str, **options: Any) -> Any:
            short = {name: options.pop(name) for name in names}
            return function(*arguments, format=_chosen(short, format), **options)

        decorated: Any = command
        for name in reversed(names):
            decorated = flag(f"--{name}", hidden=True)(decorated)
        return option(_schema_option(variants)(decorated))

    return decorate


def json_options(json: str, jsonl: str) -> Decorator:
    """Add `--json` and `--jsonl` to a command whose `--format` is about something else, and `--schema`.

    The command gets `output`.
    """

    return joined_options(
        "output",
        lambda json, jsonl: _chosen({"json": json, "jsonl": jsonl}),
        flag("--json", help=json),
        _schema_option(()),
        flag("--jsonl", help=jsonl),
    )


class Parsed(click.ParamType[T]):
    """The type of a value that a function reads from a text. Its `ValueError` says what is wrong with that."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        try:
            found: T = self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return found


class Setting(click.Option):
    """An option that is set in a file or by a variable, and not typed: docs/settings.md says what each does."""

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


def _chosen(short: Mapping[str, bool], format: str | None = None) -> str:
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
