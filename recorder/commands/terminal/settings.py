"""Settings in order of precedence: flags, `RECORDER_*`, `./recorder.toml`, the user's own
`recorder.toml`.

A setting has one name everywhere: that of its long option. `--port` of `recorder serve` is `port`
in the table `[serve]` of a file and the variable `RECORDER_SERVE_PORT`. So parameters of commands
are named like their options.

`./recorder.toml` is the file of a project, which others may have written:
`recorder.commands.terminal.project` has what it may set. One that sets more is refused, not obeyed
in part: a command that runs without its upstream, its token or its database does something else
than its user expects.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import platformdirs

from recorder.commands.verbs import MOVED, VERBS
from recorder.errors import RecorderError, UsageError
from recorder.program import load

FILE_NAME = "recorder.toml"
MATCH = "match"  # the table of `recorder.replay.matching.noise`: of no verb
REDACT = "redact"  # that of `recorder.wire.redaction.bodies`
DIALECT = "dialect"  # that of `recorder.wire.dialects.declared`
BUDGET = "budget"  # that of `recorder.commands.serving.budgets`
SESSIONS = "sessions"  # that of a verb, and of `recorder.commands.serving.recording`
_OF_NO_VERB = (MATCH, REDACT, DIALECT, BUDGET)
PLACES = ("headers", "fields")  # its settings that are not options
# bytes: thousands of settings, and a file of a stranger is read at every command
SIZE_LIMIT = 2**20

_SERVERS = r"ducklake:|postgres(?:ql)?:|\w+(?:\+\w+)?://"  # what a database is that is not a path
_FILE = re.compile(rf"(ducklake:(?:sqlite:)?|sqlite(?:\+\w+)?:///)?((?!:memory:|{_SERVERS}).+)")


class SettingsFile(NamedTuple):
    """A file with settings, and whether it may set all that there is."""

    path: Path
    content: bytes
    given: Mapping[str, Any]
    is_ours: bool  # it belongs to the user who runs this
    is_trusted: bool  # it is the user's own one, or `recorder trust` was run on it

    def refused(self, verb: str, settings: Mapping[str, Any]) -> list[str]:
        """Return which settings for a verb the file may not set."""
        return [name for name, value in settings.items() if not self._may_set(verb, name, value)]

    def _may_set(self, verb: str, name: str, value: Any) -> bool:
        if self.is_trusted or load("recorder.commands.terminal.project:is_allowed")(verb, name):
            return True
        if name != "db" or not isinstance(value, str):
            return False
        # In a folder of somebody else a database is for their eyes, wherever below it.
        # few projects name a database
        is_below = load("recorder.commands.terminal.project_database:is_below")
        return self.is_ours and bool(is_below(_beside(self.path, value), self.path.parent))


def defaults(verb: str, command: click.Command) -> dict[str, Any]:
    """Return the settings of the files for a command, as click needs them: by parameter, for a
    group by command and parameter.

    `db = "…"` outside of any table is for all commands that have that option.
    """
    files = [file for file in settings_files() if file.given]
    options = _options(command) if files else {}  # those of a group load all its commands
    found: dict[str, Any] = {}
    for file in files:
        shared = {"db": file.given["db"]} if "db" in file.given and "db" in options else {}
        own = file.given.get(verb, {}) if verb != "db" else {}  # the name is taken by the setting
        if verb == SESSIONS:
            own = {name: value for name, value in own.items() if name not in PLACES}
        settings = {**shared, **own}
        values: dict[str, Any] = {}
        for name, value in settings.items():
            option = options.get(name.replace("-", "_"))
            if option is None or option.name is None:
                raise UsageError(f"{file.path}: `recorder {verb}` has no option --{name}.")
            values[option.name] = _value(file.path, name, option, value)
        if names := file.refused(verb, settings):
            raise UsageError(refusal(file.path, f"for `recorder {verb}`", names))
        found.update(values)
    return dict.fromkeys(_names(command), found) if isinstance(command, click.Group) else found


def refusal(path: Path, where: str, names: list[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in names)
    return (
        f"{path} sets {listed} {where}: a project's file may set only what neither sends, listens nor "
        "writes outside of its folder. Read the file, then run `recorder trust`, or remove that from it."
    )


def _options(command: click.Command) -> dict[str, click.Option]:
    if isinstance(command, click.Group):
        found: dict[str, click.Option] = {}
        for name in _names(command):
            if below := command.get_command(click.Context(command), name):
                found |= _options(below)
        return found
    return {
        option.name: option
        for option in command.params
        if isinstance(option, click.Option) and option.name and option.expose_value
    }


def _names(group: click.Group) -> list[str]:
    return group.list_commands(click.Context(group))


def own_path() -> Path:
    """Return the place of the user's own file."""
    return platformdirs.user_config_path("recorder") / FILE_NAME


def project_path() -> Path:
    """Return the place of the project's file: in the working directory, without links on the way to
    it.
    """
    try:
        return Path.cwd() / FILE_NAME
    except FileNotFoundError:
        raise RecorderError(
            "The working directory does not exist any more: change to one that does."
        ) from None


def settings_files() -> Iterator[SettingsFile]:
    """Yield the files with settings that can be read, the one with precedence last."""
    own, project = own_path(), project_path()
    places = [own]
    if own.parent.resolve() != project.parent:
        places.append(project)
    for path in places:
        if (file := settings_file(path, is_own=path is own)) is not None:
            yield file


def declares_dialects() -> bool:
    """Return whether a file has a format of one's own; few have, and to take it loads all formats."""
    return any(DIALECT in file.given for file in settings_files())


def settings_file(path: Path, *, is_own: bool) -> SettingsFile | None:
    """Return a file with settings, None if there is none that can be read.

    Raise `UsageError` for what is not a file of settings: a pipe would never end, and a device
    would fill the memory.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            content = file.read(SIZE_LIMIT + 1) if stat.S_ISREG(status.st_mode) else None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): move it away.") from error
    if content is None or len(content) > SIZE_LIMIT:
        raise UsageError(
            f"{path} is not a file of settings, of at most {SIZE_LIMIT:,} bytes: move it away."
        )
    is_ours = status.st_uid == os.geteuid()
    return SettingsFile(
        path,
        content,
        _parsed(path, content),
        is_ours,
        is_own or load("recorder.commands.terminal.project:is_trusted")(path, content),
    )


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; a pipe without waiting for its other end."""
    return os.open(path, flags | os.O_NONBLOCK)


def _parsed(path: Path, data: bytes) -> dict[str, Any]:
    try:
        given = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML ({error}): fix it or move it away.") from error
    except RecursionError:
        raise UsageError(f"{path} is not valid TOML (too deep): fix it or move it away.") from None
    for name, value in given.items():
        _check(path, name, value)
    return given


def _check(path: Path, name: str, value: Any) -> None:
    """Raise for an unknown name at the top level of a file."""
    if name in MOVED:
        raise UsageError(
            f"{path}: there is no table [{name}] any more: `recorder {name}` is now {MOVED[name]}."
        )
    if name not in (*VERBS, *_OF_NO_VERB):
        names = (*VERBS, MATCH, REDACT, BUDGET, f"{DIALECT}.NAME")
        tables = ", ".join(f"[{verb}]" for verb in names if verb != "db")
        raise UsageError(
            f"{path}: there is no setting {name!r}; there are `db` and the tables {tables}."
        )
    if name == "db" and not isinstance(value, str):
        raise UsageError(f'{path}: `db` is a path or a URL in quotes: db = "recordings.db".')
    if name != "db" and not isinstance(value, dict):
        raise UsageError(f"{path}: `{name}` is a table: [{name}], with its settings below it.")


def _value(path: Path, name: str, option: click.Option, value: Any) -> Any:
    """Return the value of an option from a file, in the option's type."""
    if option.multiple:
        values = value if isinstance(value, list) else [value]
        return [_one(path, name, option, each) for each in values]
    value = _one(path, name, option, value)
    return _beside(path, value) if option.name == "db" else value


def _one(path: Path, name: str, option: click.Option, value: Any) -> Any:
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{path}: `{name}` is true or false.")
        return value
    if option.type is click.STRING and not isinstance(value, str):
        raise UsageError(f"{path}: `{name}` is a text in quotes.")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{path}: `{name}` is one value.")
    try:
        option.type.convert(str(value), option, None)
    except click.BadParameter as error:
        raise UsageError(f"{path}: `{name}`: {error.message}") from error
    return str(value)


def _beside(path: Path, value: str) -> str:
    """Return a database path, relative to the file that names it."""
    match = _FILE.fullmatch(value)
    return f"{match[1] or ''}{path.parent / Path(match[2]).expanduser()}" if match else value
