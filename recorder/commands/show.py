"""`recorder show`: shows a session as a conversation, now or at any moment of it, or what the model
was sent.

Rules of the requests:

* Each item stands below the exchange that it is from. What is missing is named where it would
  stand.
* Whatever was recorded goes through `safe_text`. On a terminal texts are wrapped, and other values
  are cut to a line.
* Items are shown by what most formats share, `role`, `type` and texts; what else they have is JSON.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
from rich.text import Text

from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.conversation import as_written, conversation, wrapped_lines
from recorder.commands.terminal.options import flag, format_option, log_options
from recorder.commands.terminal.output import (
    FOUND,
    echo,
    seconds,
    terminal_width,
    write_document,
    write_line,
)
from recorder.commands.terminal.recordings import say_if_stale, select, selected
from recorder.commands.terminal.table import LEAST_ID, cut
from recorder.commands.terminal.times import MOMENT, At
from recorder.errors import NotFoundError, RecorderError, UsageError
from recorder.model.events import Recording, Session
from recorder.model.text import counted, safe_text
from recorder.program import load
from recorder.recordings.requests import Shown, load_requests, request_document
from recorder.store.queries.session_document import document
from recorder.store.queries.session_state import Snapshot, cutoff, take_snapshot
from recorder.wire.dialects.json_values import as_json, decoded, text
from recorder.wire.logical_request import LogicalRequest, RequestPart

_INDENT = "  "
# of an item that is shown by its texts alone
_PLAIN = frozenset({"type", "role", "content", "id", "status", "phase"})


@click.command()
@click.argument("session", shell_complete=session_names)
@click.argument("exchange", required=False, metavar="[EXCHANGE]")
@click.option(
    "--at",
    type=MOMENT,
    metavar="1.5s|50%",
    help="Show it at this time after the first request, or at this share of the whole time; one exchange, "
    "at this time after it began.",
)
@click.option(
    "--at-event", type=click.IntRange(min=0), metavar="POS", help="Show it after this event."
)
@flag(
    "--request",
    help="Show the requests instead, each with all that it continues: the earlier input and the items that came back.",
)
@flag(
    "--cache",
    help="Show instead for each request what the provider's prompt cache could have given, what it gave, and why it "
    "was less.",
)
@flag(
    "--chain",
    help="Show instead which events of a model's stream became which of the app's or gateway's in front of it, which "
    "words were lost or added, and how late each came.",
)
@format_option(
    "json",
    variants=("request", "cache", "chain"),
    json="one object with the session and all of its exchanges",
)
@log_options
def command(
    db: str | None,
    session: str,
    exchange: str | None,
    at: At | None,
    at_event: int | None,
    request: bool,
    cache: bool,
    chain: bool,
    format: str,
) -> None:
    """Show SESSION (an id, the beginning of one, a name, or `latest`, or a file that
    `recorder import` reads) as a conversation, also while it streams.

    EXCHANGE is the number of one exchange (1 is the first), its id, or the beginning of its id.
    SESSION:EXCHANGE is the same.

    With --cache a request is compared with the earlier one of which it repeats the longest
    beginning; where a prompt changed, the first character that differs is shown in both. The exit
    code is 4 if a miss could have been avoided: `prefix_changed`, `other_parameters`, `not_marked`.
    docs/cost.md explains all classes.

    With --chain both sides may be in one session or in two: they are joined by the trace of
    `traceparent`, else by their words. The exit code is 3 if there is nothing to join.

    \b
    recorder show latest
    recorder show latest 2 --at 1.5s
    recorder show latest --at 50%
    recorder show latest --json | jq '.exchanges[].usage'
    recorder show latest 2 --request
    recorder show latest --cache
    recorder show latest --chain
    recorder show tests/cassettes/weather.sse.jsonl
    """
    if cache or chain:
        is_about_more = (
            (cache and chain) or request or (exchange, at, at_event) != (None, None, None)
        )
        sys.exit(_write_whole(db, session, format, is_cache=cache, is_about_more=is_about_more))
    if request and (at is not None or at_event is not None):
        raise UsageError(
            "A request does not change with time: give --request without --at and --at-event."
        )
    if request:
        asyncio.run(_show_requests(db, session, exchange, format))
        return
    if at is not None and at_event is not None:
        raise UsageError("--at and --at-event both name a moment: choose one.")
    snapshot = asyncio.run(_snapshot(db, session, exchange, at, at_event))
    if format == "json":
        write_document(document(snapshot))
    else:
        width = terminal_width()
        for line in as_written(conversation(snapshot, width), width):
            write_line(line)
    if snapshot.unfoldable:
        count = f"{len(snapshot.unfoldable)} of {len(snapshot.exchanges)} exchanges"
        raise RecorderError(f"recorder cannot decode {count}; the others are shown.")


def _write_whole(
    db: str | None, session: str, format: str, *, is_cache: bool, is_about_more: bool
) -> int:
    """Write what is about all requests of a session; return the exit code."""
    if is_about_more:
        option = "--cache" if is_cache else "--chain"
        raise UsageError(
            f"{option} is about all requests of a session: leave EXCHANGE and the other options out."
        )
    if is_cache:
        is_avoidable = load("recorder.commands.terminal.cache_view:write_cache")(
            db, session, format
        )
        return FOUND if is_avoidable else 0
    load("recorder.commands.terminal.chain_view:write_chain")(db, session, format)
    return 0


async def _show_requests(db: str | None, session: str, exchange: str | None, format: str) -> None:
    async with selected(db, session, exchange) as (log, found, chosen, exchange):
        await say_if_stale(log)
        shown = await load_requests(log, found, chosen)
    if not shown:
        which = "Session" if exchange is None else f"Exchange {safe_text(exchange)} of session"
        raise NotFoundError(f"{which} {safe_text(found.name)} has no request with a body.")
    if format == "json":
        write_document(request_document(found, shown))
        return
    width = terminal_width()
    for line in as_written(_request_lines(found, shown, width), width):
        write_line(line)


async def _snapshot(
    db: str | None, session: str, exchange: str | None, at: At | None, at_event: int | None
) -> Snapshot:
    async with selected(db, session, exchange) as (log, found, chosen, exchange):
        everything = chosen if exchange is None else (await select(log, found.session_id, None))[1]
        share, after_ns = (at.share, at.after_ns) if at is not None else (None, None)
        until = await cutoff(
            log, everything, chosen, after_ns=after_ns, share=share, at_event=at_event
        )
        if until.is_past_end:
            last = f"The last event came after {seconds(until.last_ns)}"
            echo(
                f"{last if at_event is None else f'There is no event {at_event}'}: this is the end."
            )
        return await take_snapshot(log, found, everything, chosen, until)


def _request_lines(session: Session, shown: Shown, width: int | None) -> Iterator[Text]:
    """Yield the lines for a person. `width` is that of the terminal, None in a pipe."""
    session_id = session.session_id if width is None else session.session_id[:LEAST_ID]
    yield Text(f"{_flat(session.name)} · {session_id}", "bold")
    for recording, request in shown:
        yield Text()
        yield from _of_request(recording, request, width)


def _of_request(recording: Recording, request: LogicalRequest, width: int | None) -> Iterator[Text]:
    exchange = recording.exchange
    head = f"{recording.number} · {exchange.method} {exchange.target.partition('?')[0]}"
    yield Text(_flat(head), "bold")
    if not request.fields and not request.parts:
        yield Text(
            f"The body is not a JSON object: {counted(len(recording.request_body), 'byte')}.", "dim"
        )
    for name, value in request.fields.items():
        if _is_conversation(value):
            yield Text(f"{_flat(name)}:", "dim")
            yield from _of_items(value, width)
        else:
            yield from _field(name, value, width)
    if request.reason is not None:
        yield Text(f"! {safe_text(request.reason)}: what came before is not shown.", "yellow")
    for part in request.parts:
        yield Text(_source(part, recording), "dim")
        yield from _of_items([decoded(bytes(item)) for item in part.items], width)


def _source(part: RequestPart, recording: Recording) -> str:
    if part.source == "output":
        return f"answer of exchange {part.number}:"
    is_own = part.exchange_id == recording.exchange.exchange_id
    return "input:" if is_own else f"input of exchange {part.number}:"


def _is_conversation(value: Any) -> bool:
    return isinstance(value, list) and any(
        isinstance(each, dict) and "role" in each for each in value
    )


def _field(name: str, value: Any, width: int | None) -> Iterator[Text]:
    """Yield a member of the request: on a terminal in one line."""
    shown = value if isinstance(value, str) else as_json(value)
    if width is None:
        yield from (Text(line) for line in safe_text(f"{name}: {shown}").split("\n"))
    else:
        yield Text(cut(_flat(f"{name}: {shown}"), width))


def _of_items(items: Iterable[Any], width: int | None) -> Iterator[Text]:
    for item in items:
        said = safe_text(_shown(item))
        for number, line in enumerate(wrapped_lines(said, width, 2 * len(_INDENT))):
            yield Text(f"{_INDENT}{'' if number == 0 else _INDENT}{line}".rstrip())


def _shown(item: Any) -> str:
    """Return an item as text: who says it and its words, or its type and what else it has as JSON."""
    if not isinstance(item, dict):
        return as_json(item)
    label = text(item.get("role")) or text(item.get("type")) or "item"
    words = _words(item.get("content"))
    if words is not None and item.keys() <= _PLAIN:
        return f"{label}: {words}"
    rest = {
        name: each for name, each in item.items() if name not in ("role", "type") or each != label
    }
    return f"{label}: {as_json(rest)}"


def _words(content: Any) -> str | None:
    """Return the texts of a message; None if it has anything else."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in content if isinstance(content, list) else [None]:
        said = text(part.get("text")) if isinstance(part, Mapping) else None
        if said is None:
            return None
        texts.append(said)
    return "\n".join(texts)


def _flat(said: str) -> str:
    return " ".join(safe_text(said).split())
