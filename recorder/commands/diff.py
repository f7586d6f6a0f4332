"""`recorder diff`: two recordings compared."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import click
from rich.text import Text

from recorder.commands.terminal.conversation import as_written, wrapped
from recorder.commands.terminal.options import Parsed, flag, format_option, log_options
from recorder.commands.terminal.output import (
    FOUND,
    echo,
    is_plain,
    terminal_width,
    write_document,
    write_line,
)
from recorder.commands.terminal.recordings import loader
from recorder.commands.terminal.rules import match_rules
from recorder.diff import ALL, TOLERANCE, Level, Report, Terms, diff
from recorder.diff.report import SHOWN, Line, Rendering, document, levels_in, stat_lines
from recorder.errors import NotFoundError, UsageError
from recorder.model.text import safe_text
from recorder.recordings.session import RecordedSession


@click.command()
@click.argument("a")
@click.argument("b")
@click.option(
    "--only",
    type=Parsed("LEVEL", partial(levels_in, missing="there is")),
    multiple=True,
    metavar="LEVEL",
    help=f"Compare only there: {', '.join(ALL)}. Several with commas, or by giving it again. Bytes are compared only "
    "if this names them, or with --exact: ids alone make them differ. `shape` is what stays when a model answers once "
    "more, and compared only if this names it.",
)
@flag(
    "--exact",
    help="Nothing is noise: ids, times and padding count, and each level sees all there is.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=1),
    default=TOLERANCE,
    help="By what factor times may differ; below 50 ms no difference counts.",
)
@flag("--all", help=f"Show all differences, not the first {SHOWN} of each level.")
@flag("--stat", help="One line per level.")
@format_option("json", json="one object; its keys are in docs/diff.md")
@log_options
def command(
    db: str | None,
    a: str,
    b: str,
    only: tuple[tuple[Level, ...], ...],
    exact: bool,
    tolerance: float,
    all: bool,
    stat: bool,
    format: str,
) -> None:
    """Say how B differs from A, level by level: request, answer, tools, usage, timing, events,
    bytes, shape.

    Each is a session (its id, the beginning of one, its name, or `latest`), or a file: a cassette,
    a stored stream, or whatever `recorder import` reads. With `:N` at its end, only exchange N.
    Exchanges are paired by their requests. The exit code is 0 if they are equal, 4 if not.

    \b
    recorder diff before after
    recorder diff latest:1 latest:2 --only answer,tools
    recorder diff latest tests/cassettes/weather.sse.jsonl --stat
    """
    if (format == "json") + stat + all > 1:
        raise UsageError("--json, --stat and --all are three ways to show differences: choose one.")
    if a == b == "-":
        raise UsageError("Only one of the two can be read from stdin.")
    loaded: list[RecordedSession] = []
    asyncio.run(_load(db, (a, b), loaded))
    one, other = loaded
    chosen = tuple(chain.from_iterable(only))
    terms = Terms(exact, tolerance, match_rules())
    with without_collecting():
        continued = (one.continued, other.continued)
        report = diff(one.recordings, other.recordings, chosen, terms, continued)
    if format == "json":
        write_document(document(one.name, other.name, report))
    else:
        _show(report, chosen, shows_all=all, is_short=stat)
    sys.exit(0 if report.is_equal else FOUND)


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Turn the garbage collector off: all that is compared is held to the end, and to look through
    it takes a fifth of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


async def _load(db: str | None, refs: Iterable[str], into: list[RecordedSession]) -> None:
    """Load both sides.

    They are not a result: `asyncio.run` makes a text of its own, and a session is folded for that.
    """
    into += [await loader(db).find(ref) for ref in refs]
    for each in into:
        if not each.recordings:
            raise NotFoundError(f"{each.name} has no exchanges.")


def _show(report: Report, only: Sequence[Level], *, shows_all: bool, is_short: bool) -> None:
    width = terminal_width()
    has_colours = not is_plain() and not os.environ.get("NO_COLOR")
    rendering = Rendering(None if shows_all else SHOWN, signs=not has_colours, advice="--all")
    for text in as_written(
        _fitted(stat_lines(report) if is_short else rendering.lines(report), width), width
    ):
        write_line(text)
    if not is_short:
        _say_equal(report, is_limited=bool(only), is_terminal=width is not None)


def _say_equal(report: Report, *, is_limited: bool, is_terminal: bool) -> None:
    """Print on stderr the levels without a difference, and the requested levels that could not be
    compared.
    """
    lacking = [
        level
        for level in report.levels
        if report.pairs and report.uncompared(level) == len(report.pairs)
    ]
    if report.is_equal and is_terminal and len(lacking) < len(report.levels):
        echo(
            f"No difference in {', '.join(level for level in report.levels if level not in lacking)}."
        )
    if report.is_equal and (is_terminal or is_limited):
        notes = {each.level: each.note for each in report.pairs[0].levels} if report.pairs else {}
        for level in lacking:
            echo(f"{level}: {notes[level]}.")


def _fitted(lines: Iterable[Line], width: int | None) -> Iterable[Text]:
    """Yield lines as wide as the terminal: those of text are wrapped, others cut."""
    for line in lines:
        text = Text.assemble(*((safe_text(span.text), span.style) for span in line.spans))
        if width is None:
            yield text
        elif line.flows:
            yield from _wrapped(text, width)
        else:
            text.truncate(width, overflow="ellipsis")
            yield text


def _wrapped(text: Text, width: int) -> Iterable[Text]:
    """Yield a text in several lines, those after the first indented by two more."""
    indent = len(text.plain) - len(text.plain.lstrip(" "))
    for number, line in enumerate(wrapped(text[indent:], max(width - indent - 2, 20))):
        yield Text(" " * (indent + (2 if number else 0))) + line
