"""The command line: one file per verb. Commands wire the layers and own options and environment.

Must not know: how events are decoded and projected.

Data goes to stdout, everything else to stderr. Exit codes: 0 ok, 1 error, 2 usage, 3 nothing found,
4 a difference or a finding, 5 replay mismatch, 130 interrupt.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from recorder import __version__
from recorder.commands.terminal.output import open_closed_stdout, stdout_refusal
from recorder.commands.terminal.settings import declares_dialects, defaults
from recorder.commands.verbs import GROUPS, MOVED, VERBS, LoadingGroup
from recorder.errors import RecorderError, UsageError
from recorder.model.text import safe_text
from recorder.program import load

# how Python has the bytes of an argument that are not UTF-8 (PEP 383)
_UNDECODABLE = re.compile("[\udc80-\udcff]")


class Verbs(LoadingGroup):
    """The group of all verbs."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the verbs with their help texts, without loading any of them."""
        verbs = [
            CompletionItem(verb, help=help)
            for verb, help in VERBS.items()
            if verb.startswith(incomplete)
        ]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, and read its settings from files unless only its help is wanted."""
        if args[0] not in (*VERBS, *MOVED) and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], VERBS, n=1)
            ctx.fail(
                f"No such command {args[0]!r}." + (f" Did you mean {near[0]!r}?" if near else "")
            )
        name, command, rest = super().resolve_command(ctx, args)
        _let_interrupts_end_commands()
        gc.freeze()  # all that is loaded now stays
        gc.enable()
        if name is not None and command is not None and not set(ctx.help_option_names) & set(rest):
            # while a shell completes
            with contextlib.suppress(*((RecorderError,) if ctx.resilient_parsing else ())):
                ctx.default_map = {name: defaults(name, command)}
                if declares_dialects():
                    load("recorder.commands.terminal.rules:declare_dialects")()
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, VERBS))
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(widest), help) for verb, help in verbs.items()])


@click.group(
    cls=Verbs,
    places={verb: f"recorder.commands.{verb}:command" for verb in VERBS},
    moved=MOVED,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "RECORDER",
        "show_default": True,
    },
)
@click.version_option(__version__, prog_name="recorder", allow_from_autoenv=False)
def recorder() -> None:
    """Record stream sessions byte for byte, and replay them at their original timing.

    Put `recorder serve` between a client and a streaming API (OpenAI Responses and Chat
    Completions, Anthropic Messages, Gemini). Every event is kept in an append-only SQL log.

    \b
    recorder serve       # then: OPENAI_BASE_URL=http://127.0.0.1:8787/v1
    recorder sessions
    recorder replay latest
    """


def _let_interrupts_end_commands() -> None:
    """Make Ctrl-C an exception from here on, so that a command can clean up; before,
    `recorder.__main__` ends it at once.
    """
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) != signal.SIG_IGN
    ):
        signal.signal(signal.SIGINT, signal.default_int_handler)


def main(args: list[str] | None = None) -> Any:
    """Run the command line and exit."""
    open_closed_stdout()
    try:
        code = recorder.main(args, prog_name="recorder", standalone_mode=False)
    except RecorderError as error:
        code = _failed(error)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except OSError as error:
        refusal = _file_refusal(error) or stdout_refusal()
        if refusal is None:
            raise
        code = _failed(refusal)
    except UnicodeEncodeError:
        code = _failed(_argument_refusal(sys.argv[1:] if args is None else args))
    sys.exit(code)


def _file_refusal(error: OSError) -> RecorderError | None:
    """Return the error for a path that the system refuses; None for what is not of a path, as of
    stdout, to which click itself prints help and version.
    """
    if error.filename is None:
        return None
    return RecorderError(f"{os.fsdecode(error.filename)}: {error.strerror}.")


def _argument_refusal(arguments: Sequence[str]) -> UsageError:
    """Return the error for a text that is not UTF-8; raise if there is none among the arguments.

    A path may have any bytes, so arguments are not judged before they are used.
    """
    for argument in arguments:
        if _UNDECODABLE.search(argument):
            return UsageError(f"The argument {argument!a} is not UTF-8.")
    raise


def _failed(error: RecorderError) -> int:
    click.echo(f"Error: {safe_text(str(error))}", err=True)  # names of sessions may stand in it
    return error.exit_code
