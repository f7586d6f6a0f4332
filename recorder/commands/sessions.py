"""`recorder sessions`: lists the sessions, the last used first."""

from __future__ import annotations

import asyncio
import datetime
import sys
from collections.abc import Sequence
from itertools import chain
from typing import Any, get_args

import click
import msgspec

from recorder.commands.terminal.options import (
    flag,
    format_option,
    log_options,
    nothing_yet,
    open_current,
)
from recorder.commands.terminal.output import dollars, echo, seconds, write_csv, write_json
from recorder.commands.terminal.table import Column, Number, short_ids, write_table
from recorder.commands.terminal.times import Period, between
from recorder.errors import NotFoundError, UsageError
from recorder.model.events import Status
from recorder.store.queries.session_list import (
    OPEN,
    UNKNOWN,
    SessionFilter,
    SessionRow,
    list_sessions,
)
from recorder.store.schema import STALE

_COLUMNS = (
    Column("session", goes=1),
    Column("name", least=36),
    Column("title", least=14),
    Column("last"),
    Column("model", least=10, goes=5),
    Number("tokens", goes=4),
    Number("cost", goes=4),
    Column("status"),
    Number("errors", goes=3, rare=True),
    Column("origin", goes=2, rare=True),
)
_MORE = (
    Column("started"),
    Number("lasted"),
    Number("exchanges"),
    Number("turns"),
    Number("input"),
    Number("output"),
    Number("tools"),
    Number("events"),
    Number("size"),
    Column("api"),
    Column("client"),
)
_BY_NAME = {column.name: column for column in (*_COLUMNS, *_MORE)}
_KEYS = SessionRow.__struct_fields__
_PARTS = [get_args(part) or (part,) for part in get_args(Status)]
_STATUSES = (OPEN, *chain.from_iterable(_PARTS), UNKNOWN)


@click.command()
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, help="Show at most this many, newest first."
)
@click.option(
    "--model",
    metavar="TEXT",
    help="Only sessions with an exchange whose model has this in its name.",
)
@click.option(
    "--client",
    metavar="TEXT",
    help="Only sessions with an exchange whose client has this in its name.",
)
@click.option(
    "--owner", metavar="NAME", help="Only sessions with an exchange of this owner of a token."
)
@click.option(
    "--status",
    type=click.Choice(_STATUSES),
    metavar="STATUS",
    help="Only sessions with an exchange of this status: completed, failed, truncated, …, open.",
)
@between
@click.option(
    "--query",
    "-q",
    metavar="WORDS",
    help="Only sessions with all these words in one prompt, one message, one piece of reasoning, or the arguments or "
    "the result of one call; `wea*` is any word that begins with wea.",
)
@flag(
    "--probes",
    help="Only the sessions of probes, one a day: HEAD requests, GET requests that list what a server offers, and "
    "Gemini CLI's requests that choose a model.",
)
@click.option(
    "--columns",
    metavar="NAMES",
    help=f"The columns of the table, in this order, separated by commas: {', '.join(_BY_NAME)}; or all.",
)
@format_option("json", "jsonl", "csv")
@log_options
def command(
    db: str | None,
    limit: int,
    model: str | None,
    client: str | None,
    owner: str | None,
    status: str | None,
    period: Period,
    query: str | None,
    probes: bool,
    columns: str | None,
    format: str,
) -> None:
    """List the sessions, the last used first. Sessions that are still streaming are included.

    A session must match all filters. --model, --owner and -q search exchanges that have ended. The
    table has the most useful columns that fit; --columns chooses others, and --csv, --json and
    --jsonl have all.

    \b
    recorder sessions
    recorder sessions --columns name,exchanges,input,output
    recorder sessions --jsonl | head -1
    recorder sessions --model gpt-5 --since 7d --status failed
    recorder sessions -q 'weather paris'
    """
    chosen = _chosen(columns, is_table=format == "table")
    wanted = SessionFilter(model, client, status, *period, query, probes, owner=owner)
    rows, missing = [], None
    try:
        rows = asyncio.run(_rows(db, limit, wanted))
    except NotFoundError as error:
        # there is no database: for a program, an empty list like another
        missing = error
    if format == "csv":
        write_csv([_KEYS, *([_joined(getattr(row, key)) for key in _KEYS] for row in rows)])
    elif format != "table":
        write_json((msgspec.structs.asdict(row) for row in rows), format)
    elif rows:
        if columns is None and not any(row.cost_usd for row in rows):
            chosen = [column for column in chosen if column.name != "cost"]
        _write(chosen, rows)
    if missing is not None:
        raise missing
    if not rows:
        if wanted == SessionFilter() and asyncio.run(_rows(db, 1, SessionFilter(probes=True))):
            raise NotFoundError(_ONLY_PROBES)
        raise NotFoundError(_nothing(wanted))
    if len(rows) == limit:
        echo(f"The newest {limit}; --limit shows more.")


def _chosen(columns: str | None, *, is_table: bool) -> Sequence[Column]:
    """Return the columns of `--columns`, of which the last are left out first; else the usual ones."""
    if columns is None:
        return _COLUMNS
    if not is_table:
        raise UsageError("--columns is for the table: --json, --jsonl, --csv have every column.")
    names = list(_BY_NAME) if columns == "all" else [name.strip() for name in columns.split(",")]
    if odd := [name for name in names if name not in _BY_NAME]:
        raise UsageError(
            f"There is no column {odd[0]!r}: choose from {', '.join(_BY_NAME)}, or all."
        )
    wanted = list(dict.fromkeys(names))
    chosen = [
        _BY_NAME[name]._replace(goes=len(wanted) - number, rare=False)
        for number, name in enumerate(wanted)
    ]
    return [chosen[0]._replace(goes=0), *chosen[1:]]


def _write(columns: Sequence[Column], rows: Sequence[SessionRow]) -> None:
    is_terminal = sys.stdout.isatty()
    ids = short_ids([row.session_id for row in rows])
    lines = []
    for row, session_id in zip(rows, ids, strict=True):
        cells = _cells(row, session_id, is_terminal)
        lines.append([cells[column.name] for column in columns])
    write_table(columns, lines, "--columns chooses, --csv and --json have all")


async def _rows(db: str | None, limit: int, wanted: SessionFilter) -> list[SessionRow]:
    async with await open_current(db) as log:
        if await log.rebuild_is_due():
            echo(STALE)
        return await list_sessions(log, limit, wanted)


_OPTIONS = {
    "model": "--model",
    "client": "--client",
    "owner": "--owner",
    "status": "--status",
    "since_ns": "--since",
    "until_ns": "--until",
    "words": "-q",
    "probes": "--probes",
}


_SEARCHED = (
    "-q finds whole words in prompts, in messages and reasoning of models, and in arguments and results of tools, not "
    "in system prompts or names of tools; `wea*` finds those that begin so."
)


_ONLY_PROBES = (
    "Only probes are recorded yet, requests that belong to no conversation: --probes shows them."
)


def _nothing(wanted: SessionFilter) -> str:
    conditions = []
    for name, value in msgspec.structs.asdict(wanted).items():
        if isinstance(value, str):
            conditions.append(f"{_OPTIONS[name]} {value!r}")
        elif value not in (None, False):
            conditions.append(_OPTIONS[name])
    if not conditions:
        return nothing_yet(
            "Nothing is recorded yet: start `recorder serve` and point a client at it."
        )
    searched = "" if wanted.words is None else f" {_SEARCHED}"
    return f"No session matches {' and '.join(conditions)}.{searched}"


def _cells(row: SessionRow, session: str, is_terminal: bool) -> dict[str, object]:
    """Return the cells by column name.

    Numbers are grouped, and times are short, only for people.
    """

    def number(count: int | None) -> int | str | None:
        return f"{count:,}" if is_terminal and count is not None else count

    def when(wall_ns: int) -> str:
        at = datetime.datetime.fromtimestamp(wall_ns / 1e9)
        return _short(at) if is_terminal else f"{at:%Y-%m-%d %H:%M:%S}"

    cost = row.cost_usd
    if cost is not None and is_terminal:
        cost = dollars(cost, is_partial=bool(row.cost_partial))
    return {
        "session": session,
        "name": row.name,
        "title": row.title,
        "last": when(row.used_ns),
        "model": ", ".join(row.models),
        "tokens": number(_tokens(row)),
        "cost": cost,
        "status": f"{row.status}, gaps" if row.gaps else row.status,
        "errors": number(row.errors or None),
        "origin": None if row.origin == "live" else row.origin,
        "started": when(row.started_ns),
        "lasted": seconds(row.duration_ns),
        "exchanges": number(row.exchanges),
        "turns": number(row.turns or None),
        "input": number(row.input_tokens),
        "output": number(row.output_tokens),
        "tools": number(row.tool_calls or None),
        "events": number(row.events),
        "size": number(row.bytes),
        "api": ", ".join(row.apis),
        "client": ", ".join(row.clients),
    }


def _tokens(row: SessionRow) -> int | None:
    """Return the total: as reported, else the sum of the known input and output."""
    known = [count for count in (row.input_tokens, row.output_tokens) if count is not None]
    if row.total_tokens is None and known:
        return sum(known)
    return row.total_tokens


def _short(at: datetime.datetime) -> str:
    """Return a time of today as clock time, of the last months without the year, any other as a
    date.
    """
    age = datetime.datetime.now() - at
    if at.date() == datetime.date.today():
        return f"{at:%H:%M:%S}"
    return f"{at:%m-%d %H:%M}" if age < datetime.timedelta(days=300) else f"{at:%Y-%m-%d}"


def _joined(value: Any) -> Any:
    """Return a list as the view has it."""
    return ", ".join(value) if isinstance(value, tuple) else value
