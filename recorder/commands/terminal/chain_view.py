"""`recorder show --chain`: what an app or a gateway made of the stream of a model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import click
import msgspec

from recorder.commands.terminal.output import echo, is_plain, seconds, write_document, write_line
from recorder.commands.terminal.recordings import selected
from recorder.commands.terminal.table import Column, Number, write_table
from recorder.diff.chain import CLOCKS_APART_NS, Behind, ChainReader, ChainStream, Link, links
from recorder.diff.chain_texts import ChainText, Passage, followed
from recorder.diff.chain_words import Span
from recorder.errors import NotFoundError, RecorderError
from recorder.model.events import Exchange, Session
from recorder.model.text import counted, safe_text
from recorder.recordings.selection import Numbered
from recorder.store.queries.outlines import spans
from recorder.store.queries.overlapping import overlapping
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import session_named

EXCHANGES_LIMIT = 500  # that ran at the time of the session: each may be compared with each
PIECES_LIMIT = 2_000_000  # of the texts of all: half a gigabyte of memory

_TABLE = (
    Column("behind"),
    Column("front"),
    Number("delay_ms"),
    Column("what"),
    Column("text", least=24),
)
_TITLES = {"text": "Text", "reasoning": "Reasoning", "arguments": "Arguments of tools"}


class _Named(NamedTuple):
    """The number of an exchange in its session, and the name of that."""

    number: int
    session: str


class _Chain(NamedTuple):
    """What was found, and how the exchanges are called."""

    session: Session
    links: list[Link]
    names: dict[str, _Named]


def write_chain(db: str | None, ref: str, format: str) -> None:
    """Write the chains that a session or a file has a part in.

    Raise `NotFoundError` if there is none.
    """
    found = asyncio.run(_chain(db, ref))
    if format == "json":
        session = {"session_id": found.session.session_id, "name": found.session.name}
        write_document(
            {"session": session, "links": [_document(link, found.names) for link in found.links]}
        )
        return
    for number, link in enumerate(found.links):
        if number:
            write_line()
        _write(link, found.names)


async def _chain(db: str | None, ref: str) -> _Chain:
    async with selected(db, ref) as (log, session, exchanges, _):
        own = {exchange.exchange_id for _, exchange in exchanges}
        streams = await _streams(log, session, exchanges)
        chains = await asyncio.to_thread(links, streams)
        found = [
            link
            for link in chains
            if any(stream.exchange.exchange_id in own for stream in _all(link))
        ]
        if not found:
            raise NotFoundError(_nothing(session, streams, own))
        names: dict[str, _Named] = {}
        for session_id in {stream.exchange.session_id for stream in streams}:
            name = (await session_named(log, session_id)).name
            for number, exchange in enumerate(await log.exchanges(session_id), 1):
                names[exchange.exchange_id] = _Named(number, name)
        return _Chain(session, found, names)


async def _streams(
    log: LogReader, session: Session, exchanges: Sequence[Numbered]
) -> list[ChainStream]:
    """Return the exchanges of a session, and those of others that ran at the same time as one of
    them.
    """
    own = [exchange for _, exchange in exchanges]
    if not own:
        return []
    durations = await spans(log, session.session_id)
    times = [
        (each.started_ns, each.started_ns + durations.get(each.exchange_id, 0)) for each in own
    ]
    from_ns, until_ns = min(began for began, _ in times), max(ended for _, ended in times)
    others = await overlapping(
        log, from_ns - CLOCKS_APART_NS, until_ns + CLOCKS_APART_NS, EXCHANGES_LIMIT + 1
    )
    if len(others) > EXCHANGES_LIMIT:
        echo(f"Only the first {EXCHANGES_LIMIT} exchanges of that time are compared.")
    wanted = {each.exchange_id: each for each in [*own, *others[:EXCHANGES_LIMIT]]}
    streams: list[ChainStream] = []
    pieces = 0
    for exchange in wanted.values():
        reader = ChainReader(exchange)
        async for event in log.events(exchange.session_id, exchange.exchange_id):
            reader.add(event)
        pieces += reader.pieces
        if pieces > PIECES_LIMIT:
            raise RecorderError(
                f"The streams have more than {PIECES_LIMIT:,} pieces of text: record the two into a log of their own."
            )
        streams.append(reader.stream())
    return streams


def _all(link: Link) -> list[ChainStream]:
    return [link.front, *(behind.stream for behind in link.behind)]


def _nothing(session: Session, streams: Sequence[ChainStream], own: set[str]) -> str:
    """Say why there is nothing to join, and what would help."""
    name = safe_text(session.name)
    others = [each for each in streams if each.exchange.exchange_id not in own]
    if len(streams) < 2:
        return f"Nothing to join: only one side of {name} is in this log. Record the app and its model into one."
    silent = sorted({safe_text(each.exchange.provider) for each in streams if not each.texts})
    reason = f"Nothing to join: of {counted(len(own), 'exchange')} of {name} and {len(others)} at the same time, none "
    reason += "began while another ran, with its trace or its words."
    if silent:
        reason += f" No text is known of {', '.join(silent)}: declare its format in recorder.toml (docs/formats.md)."
    return reason


# -- JSON


def _document(link: Link, names: dict[str, _Named]) -> dict[str, Any]:
    found = followed(link)
    return {
        "front": _exchange(link.front.exchange, names),
        "behind": [
            {**_exchange(each.stream.exchange, names), "by": each.by} for each in link.behind
        ],
        "clock_ns": found.clock_ns,
        "asked_ns": link.asked_ns - found.clock_ns,
        "ended_ns": link.ended_ns + found.clock_ns,
        "texts": msgspec.to_builtins(found.texts),
    }


def _exchange(exchange: Exchange, names: dict[str, _Named]) -> dict[str, Any]:
    number, session = names[exchange.exchange_id]
    return {
        "exchange_id": exchange.exchange_id,
        "session": session,
        "number": number,
        "provider": exchange.provider,
        "method": exchange.method,
        "target": exchange.target,
    }


# -- for a person


def _write(link: Link, names: dict[str, _Named]) -> None:
    for line in (
        _line("front ", link.front, names),
        *(_behind_line(each, names) for each in link.behind),
    ):
        write_line(line if is_plain() else click.style(line, bold=True))
    found = followed(link)
    asked_ns, ended_ns = link.asked_ns - found.clock_ns, link.ended_ns + found.clock_ns
    when = "before" if ended_ns < 0 else "after"
    write_line(
        f"asked after {seconds(asked_ns)}, ended {seconds(abs(ended_ns))} {when} what is behind it"
    )
    if found.clock_ns:
        by, off = seconds(abs(found.clock_ns)), "slow" if found.clock_ns > 0 else "fast"
        write_line(f"the clock in front is {by} {off}, or more: corrected")
    if not found.texts:
        write_line("no text came from behind")
    for text in found.texts:
        write_line()
        _write_text(text, names, is_one=len(link.behind) == 1)


def _line(side: str, stream: ChainStream, names: dict[str, _Named]) -> str:
    exchange = stream.exchange
    number, session = names[exchange.exchange_id]
    target = exchange.target.partition("?")[0]
    return safe_text(
        f"{side}  {session} {number} · {exchange.provider} · {exchange.method} {target}"
    )


def _behind_line(behind: Behind, names: dict[str, _Named]) -> str:
    return f"{_line('behind', behind.stream, names)} · joined by {behind.by}"


def _write_text(text: ChainText, names: dict[str, _Named], *, is_one: bool) -> None:
    lost, added = text.behind_words - text.same_words, text.front_words - text.same_words
    said = f"{_TITLES[text.field]}: {text.same_words:,} of {counted(text.behind_words, 'word')} came through, "
    said += f"{lost:,} lost, {added:,} added"
    if text.first_delay_ns is not None:
        said += f"; the first after {_milliseconds(text.first_delay_ns)} ms"
    write_line(said)
    if text.longest_at is not None and text.arose_at is not None:
        longest, arose = text.passages[text.longest_at], text.passages[text.arose_at]
        place = f"event {_events(arose.behind, names, is_one=is_one)}"
        write_line(
            f"Longest delay: {_milliseconds(longest.delay_ns)} ms; it arose at {place} behind"
        )
    if not text.is_whole:
        write_line("Only the first million words are compared.")
    write_table(_TABLE, [_row(passage, names, is_one=is_one) for passage in text.passages])


def _row(passage: Passage, names: dict[str, _Named], *, is_one: bool) -> Sequence[object]:
    texts = [each for each in (passage.behind_text, passage.front_text) if each is not None]
    said = " → ".join(texts) if passage.change == "changed" else texts[-1]
    what = "" if passage.change == "same" else passage.change
    behind, front = (
        _events(passage.behind, names, is_one=is_one),
        _events(passage.front, names, is_one=True),
    )
    return behind, front, _milliseconds(passage.delay_ns), what, " ".join(said.split())


def _events(span: Span | None, names: dict[str, _Named], *, is_one: bool) -> str:
    """Return events as their positions, with the number of their exchange where there are several."""
    if span is None:
        return ""
    positions = str(span.first) if span.first == span.last else f"{span.first}-{span.last}"
    return positions if is_one else f"{names[span.exchange_id].number}:{positions}"


def _milliseconds(ns: int | None) -> str:
    return "" if ns is None else f"{ns / 1e6:.1f}"
