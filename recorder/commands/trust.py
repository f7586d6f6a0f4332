"""`recorder trust`: what a project's file sets is the user's own choice from then on."""

from __future__ import annotations

from pathlib import Path

import click

from recorder.commands.terminal.output import echo
from recorder.commands.terminal.project import trust
from recorder.commands.terminal.settings import FILE_NAME, SettingsFile, project_path, settings_file
from recorder.commands.verbs import VERBS
from recorder.errors import NotFoundError, UsageError
from recorder.model.text import safe_text


@click.command()
@click.argument("file", required=False, metavar="[FILE]", type=click.Path(path_type=Path))
def command(file: Path | None) -> None:
    """Let the recorder.toml of a project set everything, until it changes.

    FILE is ./recorder.toml if none is given. Read it first: it may name the upstreams that your
    keys are sent to. It prints the settings that needed this. Once the file changes, they are
    refused again.

    Without it a project's file may set only what neither sends, listens nor writes outside of its
    folder.

    \b
    recorder trust
    """
    path = project_path() if file is None else _named(file)
    found = settings_file(path, is_own=False)
    if found is None:
        raise NotFoundError(f"There is no file {path} that can be read.")
    names = _beyond(found._replace(is_trusted=False))
    record = trust(path, found.content)
    echo(safe_text(f"Trusted until it changes: {path}"))
    echo(safe_text(f"  {', '.join(names) or 'It sets nothing that needs this.'}"))
    echo(safe_text(f"Delete {record} to take it back."))


def _named(file: Path) -> Path:
    """Return the path of a project's file as commands call it that run in its folder."""
    if file.name != FILE_NAME:
        raise UsageError(f"{file} is never read for settings: their file is called {FILE_NAME}.")
    return file.parent.resolve() / FILE_NAME


def _beyond(file: SettingsFile) -> list[str]:
    """Return the settings that need trust, with their tables."""
    names = []
    for verb in VERBS:
        if verb == "db":
            names += file.refused(verb, {"db": file.given["db"]} if "db" in file.given else {})
        else:
            names += [f"[{verb}] {name}" for name in file.refused(verb, file.given.get(verb, {}))]
    return names
