"""`recorder replay`: plays a session's responses on stdout, at their recorded times."""

from __future__ import annotations

from typing import get_args

import click
import msgspec

from recorder.commands.terminal.completion import session_names
from recorder.commands.terminal.options import Decorator, Parsed, flag, log_options
from recorder.commands.terminal.output import echo, write_bytes, write_json, write_line
from recorder.commands.terminal.recordings import exchange_option, selected
from recorder.errors import NotFoundError, RecorderError
from recorder.model.events import (
    BODY_KINDS,
    LEFT_OUT,
    WHOLE,
    BrokenOff,
    Event,
    Exchange,
    payload_of,
)
from recorder.model.facts import Fact, Field, ItemKey, ItemStarted, ResponseItems, TextAdded
from recorder.model.text import storable
from recorder.projections.fact_reader import FactReader
from recorder.replay.pace import paced
from recorder.store.queries.reader import LogReader
from recorder.wire.conclusion import concluded
from recorder.wire.dialects import by_name
from recorder.wire.turns import StreamedBody

SPEED = "1|N|max"


def parse_speed(text: str) -> float | None:
    """Return a factor on the original speed, or None for no pause at all."""
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise ValueError(f"{text} is not a speed: give a number over 0, or max.")
    return speed


def speed_option(help: str, default: str = "1") -> Decorator:
    """Return the option `--speed`."""
    return click.option(
        "--speed", type=Parsed(SPEED, parse_speed), metavar=SPEED, default=default, help=help
    )


class _Request(msgspec.Struct, frozen=True):
    """The fields of a `request` event that a replay reads."""

    derived: str | None = None


class _End(msgspec.Struct, frozen=True):
    """The fields of an `end` event that a replay reads."""

    status: str = "unknown"


@click.command()
@click.argument("session", shell_complete=session_names)
@speed_option("A factor on the original speed.")
@click.option(
    "--format",
    type=click.Choice(["sse", "jsonl", "text"]),
    default="sse",
    help="sse: the bytes of the response body, messages over WebSocket as events. jsonl: one event a line, with its "
    "JSON payload as data, or its bytes as raw. text: what the model wrote.",
)
@exchange_option
@flag("--allow-gaps", help="Play a session even if some of its bytes were not kept.")
@log_options
async def command(
    db: str | None,
    session: str,
    speed: float | None,
    format: str,
    exchange: str | None,
    allow_gaps: bool,
) -> None:
    """Play the responses of SESSION (an id, the beginning of one, a name, or `latest`, or a file
    that `recorder import` reads) to stdout.

    Exchanges are played one after another, in order of their start; each event as long after its
    request as it came.

    \b
    recorder replay latest
    recorder replay latest --exchange 2 --speed max --format sse > body.sse
    recorder replay latest --speed 4 --format text
    """
    async with selected(db, session, exchange) as (log, found, chosen, _):
        await _refuse_derived(log, chosen)
        if not allow_gaps:
            await _refuse_gaps(log, chosen)
        played = 0
        for number, each in chosen:
            writer = _WRITERS[format](each)
            events = log.events(each.session_id, each.exchange_id, kinds=BODY_KINDS | {"response"})
            async for event in paced(events, speed):
                if event.kind == "response":
                    writer.head(event)
                    continue
                if event.type == LEFT_OUT:
                    continue
                writer.write(event)
                played += 1
            remarks = [remark for remark in (writer.close(), await _ending(log, each)) if remark]
            if remarks:
                echo(f"Exchange {number}: {', '.join(remarks)}.")
        if not played:
            raise NotFoundError(
                f"Session {found.name} has no response body: `recorder events` shows its events."
            )


async def _ending(log: LogReader, exchange: Exchange) -> str | None:
    """Return remarks about a stream that did not end normally."""
    async for event in log.events(exchange.session_id, exchange.exchange_id, kinds=("end",)):
        status: str = msgspec.json.decode(event.raw, type=_End).status
        is_cut = status in get_args(BrokenOff) and not await _is_whole(log, exchange)
        return f"it broke off ({status})" if is_cut else None
    return "it is not finished, this is the part recorded so far"


async def _is_whole(log: LogReader, exchange: Exchange) -> bool:
    """Return whether the client left after the last event: older recorders did not record that."""
    end = concluded(
        exchange, [event async for event in log.events(exchange.session_id, exchange.exchange_id)]
    )
    return end is not None and end.outcome in WHOLE


async def _refuse_derived(log: LogReader, chosen: list[tuple[int, Exchange]]) -> None:
    for number, each in chosen:
        async for event in log.events(each.session_id, each.exchange_id, kinds=("request",)):
            derived = msgspec.json.decode(event.raw, type=_Request).derived
            if derived is not None:
                raise RecorderError(
                    f"Exchange {number} is derived from {derived}: no byte of a response is known."
                )
            break


async def _refuse_gaps(log: LogReader, chosen: list[tuple[int, Exchange]]) -> None:
    for number, each in chosen:
        async for _ in log.events(each.session_id, each.exchange_id, kinds=("gap",)):
            raise RecorderError(
                f"Exchange {number} has a gap, bytes that were not kept: --allow-gaps plays the rest."
            )


class _Sse:
    """A writer of the received bytes; messages over WebSocket become the blocks of a stream."""

    def __init__(self, exchange: Exchange) -> None:
        self._body = StreamedBody()

    def head(self, event: Event) -> None:
        """Read the head of the response, which says what the events are."""
        self._body.feed(event)

    def write(self, event: Event) -> None:
        write_bytes(self._body.feed(event))

    def close(self) -> str | None:
        """End the exchange; returns a remark about it."""
        return None


class _Jsonl(_Sse):
    """A writer of events as objects: `data` is the JSON payload, or `raw` the bytes of an event
    without one.
    """

    def write(self, event: Event) -> None:
        row = msgspec.structs.asdict(event)
        row = {
            name: row[name]
            for name in ("exchange_id", "pos", "t_ns", "kind", "type", "sequence_number")
        }
        payload = payload_of(event)
        content = {"raw": event.raw} if payload is None else {"data": msgspec.Raw(payload)}
        write_json([{**row, **content}], "jsonl")


class _TextOutput(_Sse):
    """A writer of the model's text, which ends with a line feed; of several choices the first."""

    def __init__(self, exchange: Exchange) -> None:
        self._reading = FactReader(exchange)
        self._has_choices = by_name(exchange.api).has_choices
        self._others: set[ItemKey] = set()  # items of the other choices
        self._last = ""

    def head(self, event: Event) -> None:
        self._reading.facts(event)

    def write(self, event: Event) -> None:
        for fact in self._reading.facts(event):
            self._handle(fact)

    def close(self) -> str | None:
        for fact in self._reading.close():  # a body that is not a stream
            self._handle(fact)
        if not self._last:
            return "there is no text in it"
        if not self._last.endswith("\n"):
            write_line()
        return None

    def _handle(self, fact: Fact) -> None:
        if isinstance(fact, TextAdded) and fact.item not in self._others:
            self._say(fact.field, fact.text)
        elif isinstance(fact, ItemStarted) and self._has_choices and fact.output_index:
            self._others.add(fact.item)
        elif isinstance(fact, ResponseItems) and not self._last:
            for stated in fact.items:
                if self._has_choices and stated.output_index:
                    continue
                for field, _, text in stated.texts:
                    self._say(field, text)

    def _say(self, field: Field, text: str) -> None:
        if field in ("text", "refusal") and text:
            write_bytes(storable(text).encode())
            self._last = text


_WRITERS: dict[str, type[_Sse]] = {"sse": _Sse, "jsonl": _Jsonl, "text": _TextOutput}
