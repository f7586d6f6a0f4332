"""`recorder replay`: a session's responses on stdout, at the times they came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import click
import msgspec

from recorder.commands.database import chosen_url, database_option
from recorder.commands.output import echo, write_bytes, write_json
from recorder.commands.selection import EXCHANGE_HELP, select
from recorder.dialects import by_name
from recorder.errors import RecorderError
from recorder.events import BODY_KINDS, Event, Exchange
from recorder.log import Log
from recorder.playback import Clock, paced


class Speed(click.ParamType[float | None]):
    """A factor on the original speed, or `max` for no pause at all."""

    name = "1|N|max"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        if value == "max":
            return None
        try:
            speed = float(str(value))
        except ValueError:
            speed = 0.0
        if not 0 < speed < float("inf"):
            self.fail(f"{value} is no speed: give a number over 0, or max.", param, ctx)
        return speed


@click.command()
@click.argument("session")
@click.option("--speed", type=Speed(), default="1", show_default=True, help="Times the original speed.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["sse", "jsonl", "text"]),
    default="sse",
    show_default=True,
    help="sse: the bytes of the response body. jsonl: one event a line, with its payload. text: what the model wrote.",
)
@click.option("--exchange", metavar="N|ID", help=EXCHANGE_HELP)
@click.option("--allow-gaps", is_flag=True, help="Play a session although some of its bytes were not kept.")
@database_option
def command(
    database: str | None, session: str, speed: float | None, form: str, exchange: str | None, allow_gaps: bool
) -> None:
    """Play the responses of SESSION (an id, the beginning of one, a name, or `latest`) to stdout.

    Exchanges are played one after another, in order of their start.

    \b
    recorder replay latest
    recorder replay latest --exchange 2 --speed max --format sse > body.sse
    recorder replay latest --speed 4 --format text
    """
    asyncio.run(_replay(database, session, speed, form, exchange, allow_gaps))


async def _replay(
    database: str | None, session: str, speed: float | None, form: str, exchange: str | None, allow_gaps: bool
) -> None:
    async with await Log.open(chosen_url(database)) as log:
        _, chosen = await select(log, session, exchange)
        if not allow_gaps:
            await _refuse_gaps(log, chosen)
        played = 0
        for _, each in chosen:
            write = _WRITERS[form](each)
            events = log.events(each.session_id, each.exchange_id, kinds=BODY_KINDS)
            async for event in paced(events, speed, Clock()):
                write(event)
                played += 1
        if not played:
            echo("There is no response body in it.")


async def _refuse_gaps(log: Log, chosen: list[tuple[int, Exchange]]) -> None:
    for number, each in chosen:
        async for _ in log.events(each.session_id, each.exchange_id, kinds=("gap",)):
            raise RecorderError(f"Exchange {number} has a gap, bytes that were not kept: --allow-gaps plays the rest.")


def _sse(exchange: Exchange) -> Callable[[Event], None]:
    return lambda event: write_bytes(event.raw)


def _jsonl(exchange: Exchange) -> Callable[[Event], None]:
    def write(event: Event) -> None:
        row = msgspec.structs.asdict(event)
        row = {name: row[name] for name in ("exchange_id", "pos", "t_ns", "kind", "type", "sequence_number")}
        payload = _payload(event)
        write_json([{**row, "data": event.raw if payload is None else msgspec.Raw(payload)}], lines=True)

    return write


def _text(exchange: Exchange) -> Callable[[Event], None]:
    text = by_name(exchange.api).text

    def write(event: Event) -> None:
        payload = _payload(event)
        if payload is not None:
            write_bytes(text(payload).encode("utf-8", "replace"))

    return write


_WRITERS = {"sse": _sse, "jsonl": _jsonl, "text": _text}


def _payload(event: Event) -> bytes | None:
    """The JSON payload of a frame, if that is what it has."""
    if event.data_start is None or event.data_length is None:
        return None
    return event.raw[event.data_start : event.data_start + event.data_length]
