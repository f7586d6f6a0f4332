"""The verbs of the command line with their help texts, by what they are for; what replaced earlier
ones; and how any command is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from recorder.errors import UsageError
from recorder.program import load

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Record": {
        "serve": "Record: a proxy between clients and streaming APIs.",
        "run": "Run a command and record its requests, or answer them from a recording.",
        "tap": "Record the lines between a client and a program that it starts (MCP, ACP), or answer them.",
        "env": "Print the settings that point a client here.",
        "collect": "Take into the log what edges ship: recorders without a database.",
        "demo": "Record, show, count and replay against a built-in upstream: no key, no network.",
    },
    "Look": {
        "sessions": "List what was recorded.",
        "show": "Show a session as a conversation, now or at any moment of it.",
        "events": "Show the raw events of a session.",
        "tail": "Follow what is being recorded, in all sessions.",
        "query": "Query the log in SQL: one read-only statement.",
        "usage": "Sum the tokens: by model, day, session, client, tool.",
        "prices": "Manage the prices of tokens: take them from a package and a file, list them.",
        "ui": "Look at recordings in a browser.",
        "mcp": "Let an agent read the log: the tools sessions, show, events, query, lint, diff.",
    },
    "Judge": {
        "diff": "Compare two recordings: request, answer, tools, usage, timing, events.",
        "lint": "Check streams against their protocol: what is wrong, and which client it breaks.",
        "probe": "Prove that a gateway speaks an API: a table of what passed, and which client a fault breaks.",
        "bisect": "Find the recorded answer that makes a check fail: what comes after it is asked for again.",
        "resend": "Ask again: send the requests of a recording once more, and record the answers.",
    },
    "Tests": {
        "mock": "Serve recordings to clients.",
        "torture": "Prove a client: a fault at every boundary of its streams, and what it makes of each.",
        "replay": "Play a session to stdout at its original timing.",
    },
    "Move": {
        "import": "Add stored streams, and exports of other databases, to the log.",
        "export": "Write a session to stdout, or send the log to a collector of OpenTelemetry.",
    },
    "Keep": {
        "verify": "Prove that the log is unchanged and complete.",
        "doctor": "Find problems of this installation, and print how to solve them.",
        "db": "Manage the database: path, upgrade, rebuild, recover, backup, copy, archive, purge.",
        "token": "Manage the tokens of a shared recorder: add, list, revoke.",
        "trust": "Let the recorder.toml of a project set everything, until it changes.",
    },
}

VERBS: dict[str, str] = {}
for _group in GROUPS.values():
    VERBS.update(_group)

MOVED: Mapping[str, str] = {
    "cache": "`recorder show SESSION --cache`",
    "cassette": "`recorder lint --cassette FILE` (check) and `recorder export --rewrite FILE` (fmt)",
    "completion": "`_RECORDER_COMPLETE=bash_source recorder` (zsh_source, fish_source)",
    "otlp": "`recorder export --to URL`",
    "schema": "`recorder COMMAND --schema`",
}
"""What is written in place of a verb that is gone: who types that, or has a table of it in a file,
is told so.
"""


class LoadingGroup(click.Group):
    """A group that loads a command when it is called: `recorder sessions` imports no proxy.

    `places` has where each command is, as `MODULE:NAME`. Only help loads all of them, where it
    shows theirs. `moved` has what is written in place of commands that are gone.
    """

    def __init__(
        self, *, places: Mapping[str, str], moved: Mapping[str, str], **options: Any
    ) -> None:
        super().__init__(**options)
        self._places, self._moved = places, moved

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._moved and not ctx.resilient_parsing:
            raise UsageError(
                f"`{ctx.command_path} {cmd_name}` is now written {self._moved[cmd_name]}."
            )
        if cmd_name not in self._places:
            return None
        command: click.Command = load(self._places[cmd_name])
        return command
