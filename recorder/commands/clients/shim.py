"""A `codex` of ours before the real one on the PATH, so that scripts which call it are recorded.

It reads what Codex would ask when it is called, with the arguments and the environment of that
call, adds what points that at the recorder, and becomes the real one. The folder that it is in
lasts as long as the command.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

import recorder
from recorder.commands.clients.child import NOT_FOUND
from recorder.commands.clients.codex import (
    Doors,
    Provider,
    codex_home,
    configured,
    effective,
    pointed,
)
from recorder.commands.clients.presets import assigned, codex_place
from recorder.commands.terminal.output import echo
from recorder.errors import UsageError
from recorder.model.text import safe_text

_PROGRAM = "codex"
_NPM_SHELL = "npm_config_script_shell"
_START = "import sys; sys.path.append(sys.argv.pop(1)); from recorder.commands.clients.shim import main; main()"


def read(path: Path) -> bytes | None:
    """Return the content of a file; `None` if there is none.

    Raises `UsageError` if it cannot be read.
    """
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"{path}, which Codex reads, cannot be read: {error.strerror}.") from None


def codex_provider(command: Sequence[str]) -> Provider | None:
    """Return what a command asks, if it is Codex.

    Raises `UsageError` if it is, and that cannot be known.
    """
    place = codex_place(command)
    return (
        None
        if place is None
        else effective(command[place:], assigned(command[:place], os.environ), read)
    )


def codex_providers(command: Sequence[str]) -> list[Provider]:
    """Return what Codex may ask that is this command, or that this command calls.

    Raises `UsageError`.
    """
    provider = codex_provider(command)
    suffix = ".config.toml"
    profiles = sorted(
        each.name.removesuffix(suffix) for each in codex_home(os.environ).glob(f"*{suffix}")
    )
    return [*([provider] if provider else ()), *configured(os.environ, read, profiles)]


@contextlib.contextmanager
def shim(doors: Doors, environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Give an environment in which `codex` goes through these doors.

    npm puts the programs of a project before all others on the PATH: its scripts are run by a shell
    that puts ours before them. Without Codex on the PATH it is in those scripts alone.
    """
    path = environment.get("PATH", os.defpath)
    # for the user alone: mkdtemp makes it 0700
    with tempfile.TemporaryDirectory(prefix="recorder-") as folder:
        words = (
            *(sys.executable, "-I", "-c", _START, str(Path(recorder.__file__).parents[1])),
            *(folder, msgspec.json.encode(doors).decode()),
        )
        _write(Path(folder) / _PROGRAM, f'exec {shlex.join(words)} "$@"')
        shell = _write(Path(folder) / "sh", f'PATH={shlex.quote(folder)}:$PATH exec /bin/sh "$@"')
        found = dict(environment)
        if shutil.which(_PROGRAM, path=path):
            found["PATH"] = f"{folder}{os.pathsep}{path}"
        # which it is not in a noexec /tmp
        if not _has_npm_shell(environment) and os.access(shell, os.X_OK):
            found[_NPM_SHELL] = str(shell)
        yield found


def _write(path: Path, line: str) -> Path:
    path.write_bytes(os.fsencode(f"#!/bin/sh\n{line}\n"))
    path.chmod(0o700)
    return path


def _has_npm_shell(environment: Mapping[str, str]) -> bool:
    """Return whether npm has a configured shell for its scripts, which must stay."""
    files = (
        environment.get("NPM_CONFIG_USERCONFIG") or Path(environment.get("HOME") or "/") / ".npmrc",
        ".npmrc",
    )
    if any(name.lower() == _NPM_SHELL for name in environment):
        return True
    try:
        return any(b"script-shell" in (read(Path(each)) or b"") for each in files)
    except UsageError:  # npm says so itself, if anybody calls it
        return False


def main() -> None:
    """Become the real Codex, pointed at the recorder."""
    folder, known, *arguments = sys.argv[1:]
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    real = shutil.which(
        _PROGRAM, path=os.pathsep.join(each for each in path if not _is(each, folder))
    )
    if real is None:
        _refuse("codex is not on the PATH.", NOT_FOUND)
    try:
        found = pointed(arguments, os.environ, msgspec.json.decode(known, type=Doors), read)
    except UsageError as error:
        _refuse(str(error), error.exit_code)
    os.execve(real, [real, *found.arguments], {**os.environ, **found.variables})


def _is(entry: str, folder: str) -> bool:
    try:
        return os.path.samefile(entry, folder)
    except OSError:
        return entry == folder


def _refuse(why: str, code: int) -> NoReturn:
    echo(f"Error: {safe_text(why)}")
    sys.exit(code)
