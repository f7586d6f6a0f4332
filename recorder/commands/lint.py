"""`recorder lint`: recorded streams judged by the rules of their protocol."""

from __future__ import annotations

import asyncio
import builtins
import sys
from collections.abc import Iterable, Sequence
from itertools import chain

import click

from recorder.commands.terminal.lenience import lenience_options
from recorder.commands.terminal.options import flag, format_option, log_options
from recorder.commands.terminal.output import (
    FOUND,
    echo,
    is_plain,
    terminal_width,
    write_json,
    write_line,
)
from recorder.commands.terminal.recordings import loader
from recorder.commands.terminal.table import Column, write_table
from recorder.errors import NotFoundError, UsageError
from recorder.lint.linter import PROFILES, RULES
from recorder.lint.report import (
    WIDTH,
    Judged,
    Lenience,
    is_faulty,
    judged,
    lines,
    rows,
    rule_row,
    summary,
    unjudged,
)
from recorder.lint.rule import Profile
from recorder.model.events import WEBSOCKET
from recorder.model.text import safe_text
from recorder.program import load
from recorder.wire.grouping.probes import is_probe

_COLORS = {"error": "red", "warning": "yellow", "note": "cyan"}
_COLUMNS = (
    Column("rule"),
    Column("severity"),
    Column("profiles", goes=1),
    Column("meaning", least=40),
)


@click.command()
@click.argument("subjects", metavar="SUBJECT...", nargs=-1)
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    metavar="PROFILE",
    help=f"Whose rules, of {', '.join(PROFILES)}: `openai` is the Responses API as OpenAI speaks it, `codex` and `sdk` "
    "what Codex CLI and the OpenAI SDKs need of it; `declared` what `recorder.toml` declares, and the others are those "
    "APIs. Without it, each exchange is judged by the profile of its own API.",
)
@flag(
    "--cassette",
    help="Check each SUBJECT as the file of a cassette instead: unreadable lines, contradictions, and text that looks "
    "like a secret.",
)
@flag("--list", help="Name the rules, of all profiles or of one.")
@format_option(
    *("json", "jsonl"),
    variants=("list",),
    json="an array of findings: session, exchange, exchange_id, profile, rule, severity, meaning, why, source, count "
    "and places (each with pos and said), with --list of rules",
)
@lenience_options
@log_options
def command(
    db: str | None,
    subjects: Sequence[str],
    profile: Profile | None,
    lenience: Lenience,
    cassette: bool,
    list: bool,
    format: str,
) -> None:
    """Judge recorded streams by the rules of their protocol: what is wrong, where, and which client
    it breaks.

    A SUBJECT is a session (its id, the beginning of one, its name, or `latest`), or a file: a
    cassette, or whatever `recorder import` reads. With `:N` at its end, only the exchange of that
    number or id.

    The exit code is 4 if there is an error or a warning (or what --fail-on names), 0 if there is
    none, 3 if there was nothing to judge. With --cassette it is 4 if there is any finding, 1 if a
    file cannot be opened, 3 if it does not exist. docs/lint.md has all rules.

    \b
    recorder lint latest
    recorder lint latest:2 --profile codex
    recorder lint body.sse run.sse.jsonl --json
    recorder lint latest --ignore CH005 --fail-on error
    recorder lint --list --profile sdk
    recorder lint --cassette *.sse.jsonl
    """
    if list == bool(subjects):
        if not list:
            raise UsageError("Which SUBJECT? `recorder lint latest`, or a file.")
        raise UsageError(
            f"--list names rules and judges nothing: leave {subjects[0]!r} away. --profile NAME gives those of one "
            "profile."
        )
    if list:
        _list_rules(profile, format)
        return
    if cassette:
        load("recorder.commands.terminal.cassette_check:check")(subjects, format)
        return
    found: builtins.list[Judged] = []
    for ref in subjects:
        found += asyncio.run(_judge(db, ref, profile, lenience))
    with_profile = [each for each in found if each.profile is not None]
    _name_skipped(found, profile)
    if not with_profile:
        raise NotFoundError("There was nothing to judge.")
    if format != "table":
        write_json(chain.from_iterable(map(rows, with_profile)), format)
    else:
        _write(with_profile)
    sys.exit(FOUND if is_faulty(with_profile, lenience) else 0)


async def _judge(
    db: str | None, ref: str, profile: Profile | None, lenience: Lenience
) -> list[Judged]:
    found = await loader(db).find(ref)
    return [judged(found.name, recording, profile, lenience) for recording in found.recordings]


def _name_skipped(found: Iterable[Judged], profile: Profile | None) -> None:
    """Name on stderr what was not judged, by session and API.

    Not a WebSocket connection, whose turns were; not a probe, which only asks what a server offers.
    """
    found = list(found)
    has_turns = any(each.exchange.method == WEBSOCKET for each in found)
    skipped: dict[tuple[str, str], list[str]] = {}
    for each in found:
        exchange = each.exchange
        is_connection = has_turns and exchange.method == "GET" and exchange.api == "other"
        if (
            each.profile is None
            and not is_connection
            and not is_probe(exchange.method, exchange.target)
        ):
            skipped.setdefault((each.name, unjudged(each, profile)), []).append(str(each.number))
    for (name, reason), numbers in skipped.items():
        is_one = len(numbers) == 1
        which = (
            f"exchange {numbers[0]} was"
            if is_one
            else f"{len(numbers)} exchanges, from {numbers[0]} on, were"
        )
        echo(safe_text(f"{name}: {which} not judged: {reason}."))


def _write(found: Sequence[Judged]) -> None:
    width = min(WIDTH, terminal_width() or WIDTH)
    for each in found:
        for line in lines(each, width):
            write_line(safe_text(line) if is_plain() else _styled(safe_text(line)))
    write_line(summary(found))


def _styled(line: str) -> str:
    """Return a line with colours: a heading begins at the left, a finding with its severity."""
    if line and not line.startswith(" "):
        return click.style(line, bold=True)
    severity = line[2:9].strip()
    if not line.startswith("   ") and severity in _COLORS:
        return f"  {click.style(line[2:9], fg=_COLORS[severity])}{line[9:]}"
    return line


def _list_rules(profile: Profile | None, format: str) -> None:
    chosen = [rule_row(rule) for rule in RULES if profile is None or profile in rule.profiles]
    if format != "table":
        write_json(chosen, format)
    else:
        cells = [
            (rule["id"], rule["severity"], " ".join(rule["profiles"]), rule["meaning"])
            for rule in chosen
        ]
        write_table(_COLUMNS, cells)
