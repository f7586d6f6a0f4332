"""Settings in order of precedence: flags, `RECORDER_*`, `./recorder.toml`, the user's own `recorder.toml`.

A setting has one name everywhere: that of its long option. `--max-body` of `recorder serve` is `max-body` in the table
`[serve]` of a file and the variable `RECORDER_SERVE_MAX_BODY`. So parameters of commands are named like their options.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import platformdirs

from recorder.commands.verbs import VERBS
from recorder.errors import RecorderError, UsageError

if TYPE_CHECKING:
    from recorder.proxy.routing import SessionPlaces
    from recorder.replay.matching.noise import Rules
    from recorder.wire.redaction.bodies import Redactor

FILE_NAME = "recorder.toml"
MATCH = "match"  # the table of `recorder.replay.matching.noise`: of no verb
REDACT = "redact"  # that of `recorder.wire.redaction.bodies`
SESSIONS = "sessions"  # that of a verb, and of `session_places`
PLACES = ("headers", "fields")  # its settings that are no options

_PLACE = re.compile(r"[\w!#$%&'*+.^`|~-]{1,100}", re.ASCII)  # the characters of a header's name; dots go into a field
_FILE = re.compile(r"(sqlite(?:\+\w+)?:///)?(?!:memory:)((?!\w+(?:\+\w+)?://).+)")


def defaults(verb: str, command: click.Command) -> dict[str, Any]:
    """Return the settings of the files for a command, as click needs them: by parameter, for a group by command and
    parameter.

    `db = "…"` outside of any table is for all commands that have that option.
    """
    files = [(path, given) for path in _files() if (given := _read(path))]
    options = _options(command) if files else {}  # those of a group load all its commands
    found: dict[str, Any] = {}
    for path, given in files:
        shared = {"db": given["db"]} if "db" in given and "db" in options else {}
        own = given.get(verb, {}) if verb != "db" else {}  # the name is taken by the setting
        if verb == SESSIONS:
            own = {name: value for name, value in own.items() if name not in PLACES}
        for name, value in {**shared, **own}.items():
            option = options.get(name.replace("-", "_"))
            if option is None or option.name is None:
                raise UsageError(f"{path}: `recorder {verb}` has no option --{name}.")
            found[option.name] = _value(path, name, option, value)
    return dict.fromkeys(_names(command), found) if isinstance(command, click.Group) else found


def match_rules() -> Rules:
    """Return the noise rules: the `[match]` table of the first file that has one, else the defaults; and `redactor`."""
    from recorder.replay.matching.noise import DEFAULT_RULES, Rules, rules_from

    rules = DEFAULT_RULES
    for path in _files():
        if (table := _read(path).get(MATCH)) is not None:
            try:
                rules = rules_from(table)
            except ValueError as error:
                raise UsageError(f"{path}: {error}") from None
    return Rules(rules.rules, rules.until, redactor())


def redactor() -> Redactor:
    """Return the redactor of request bodies, from the `[redact]` tables of both files."""
    from recorder.wire.redaction.bodies import Redactor, redactor_from

    made = Redactor()
    tables: list[dict[str, Any]] = []
    for path in _files():
        tables.append(_read(path).get(REDACT, {}))
        try:
            made = redactor_from(tables, os.environ)
        except ValueError as error:
            raise UsageError(f"{path}: {error}") from None
    return made


def session_places() -> SessionPlaces:
    """Return where clients of the user name their sessions, from the `[sessions]` tables of both files."""
    from recorder.proxy.routing import SessionPlaces

    found: dict[str, list[str]] = {name: [] for name in PLACES}
    for path in reversed(_files()):
        table = _read(path).get(SESSIONS, {})
        for name in PLACES:
            found[name] += _place_names(path, name, table.get(name, []))
    headers = tuple(header.lower().encode() for header in found["headers"])
    return SessionPlaces(headers, tuple(found["fields"]))


def _place_names(path: Path, name: str, given: Any) -> list[str]:
    names = given if isinstance(given, list) else [given]
    for each in names:
        if not isinstance(each, str) or _PLACE.fullmatch(each) is None:
            example = '["X-Run-Id"]' if name == "headers" else '["metadata.run"]'
            raise UsageError(f"{path}: `{name}` in [{SESSIONS}] is a list of names: {name} = {example}.")
    return names


def _options(command: click.Command) -> dict[str, click.Option]:
    if isinstance(command, click.Group):
        below = [command.get_command(click.Context(command), name) for name in _names(command)]
        return {name: option for sub in below if sub for name, option in _options(sub).items()}
    return {option.name: option for option in command.params if isinstance(option, click.Option) and option.name}


def _names(group: click.Group) -> list[str]:
    return group.list_commands(click.Context(group))


def _files() -> tuple[Path, Path]:
    """Return the existing files with settings, the one with precedence last."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise RecorderError("The working directory does not exist any more: change to one that does.") from None
    return platformdirs.user_config_path("recorder") / FILE_NAME, here / FILE_NAME


def _read(path: Path) -> dict[str, Any]:
    try:
        given = tomllib.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML ({error}): fix it or move it away.") from error
    for name, value in given.items():
        _check(path, name, value)
    return given


def _check(path: Path, name: str, value: Any) -> None:
    """Raise for an unknown name at the top level of a file."""
    if name not in (*VERBS, MATCH, REDACT):
        tables = ", ".join(f"[{verb}]" for verb in (*VERBS, MATCH, REDACT) if verb != "db")
        raise UsageError(f"{path}: there is no setting {name!r}; there are `db` and the tables {tables}.")
    if name == "db" and not isinstance(value, str):
        raise UsageError(f'{path}: `db` is a path or a URL in quotes: db = "recordings.db".')
    if name != "db" and not isinstance(value, dict):
        raise UsageError(f"{path}: `{name}` is a table: [{name}], with its settings below it.")


def _value(path: Path, name: str, option: click.Option, value: Any) -> Any:
    """Return the value of an option from a file, in the option's type."""
    if option.multiple:
        return [_one(path, name, option, each) for each in (value if isinstance(value, list) else [value])]
    value = _one(path, name, option, value)
    return _beside(path, value) if option.name == "db" else value


def _one(path: Path, name: str, option: click.Option, value: Any) -> Any:
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{path}: `{name}` is true or false.")
        return value
    allowed = (str,) if option.type is click.STRING else (str, int, float)
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise UsageError(f"{path}: `{name}` is {'a text in quotes' if allowed == (str,) else 'one value'}.")
    try:
        option.type.convert(str(value), option, None)
    except click.BadParameter as error:
        raise UsageError(f"{path}: `{name}`: {error.message}") from error
    return str(value)


def _beside(path: Path, value: str) -> str:
    """Return a database path, relative to the file that names it."""
    match = _FILE.fullmatch(value)
    return f"{match[1] or ''}{path.parent / Path(match[2]).expanduser()}" if match else value
