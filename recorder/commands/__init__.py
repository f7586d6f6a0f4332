"""The command line: one file per verb. Commands wire the layers and own options and environment.

Data goes to stdout, everything else to stderr. Exit codes: 0 ok, 1 error, 2 usage, 3 nothing found, 4 a difference or
a finding, 5 replay mismatch, 130 interrupt.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from recorder import __version__
from recorder.commands.settings import by_parameter, defaults
from recorder.commands.verbs import VERBS
from recorder.errors import RecorderError


class Verbs(click.Group):
    """Loads a verb when it is called: `recorder sessions` need not wait for the proxy to be imported."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        return super().make_context(info_name, args, parent, default_map=defaults(), **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"recorder.commands.{cmd_name}")
        command: click.Command = module.command
        if ctx.default_map is not None and cmd_name in ctx.default_map:
            ctx.default_map[cmd_name] = by_parameter(cmd_name, command, ctx.default_map[cmd_name])
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "RECORDER"})
@click.version_option(__version__, prog_name="recorder")
def recorder() -> None:
    """Record stream sessions byte for byte, and replay them at their original timing.

    Put `recorder serve` between a client and a streaming API (OpenAI Responses and Chat Completions, Anthropic
    Messages, Gemini). Every event is kept in an append-only SQL log.

    \b
    recorder serve                       # then: OPENAI_BASE_URL=http://127.0.0.1:8787/v1
    recorder sessions
    recorder replay latest
    """


def main(args: list[str] | None = None) -> Any:
    """Run the command line and exit."""
    try:
        code = recorder.main(args, prog_name="recorder", standalone_mode=False)
    except RecorderError as error:
        click.echo(f"Error: {error}", err=True)
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `| head` has seen enough
        code = 0
    sys.exit(code)
