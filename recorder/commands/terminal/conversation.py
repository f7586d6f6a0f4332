"""A snapshot as text for a person: requests, reasoning, calls and answers, with their numbers.

Rules of this file:

* Whatever was recorded goes through `safe_text`, and into `rich.text.Text`, where no markup is
  read.
* On a terminal lines are wrapped to its width, and calls and their results are cut to one line
  each. In a pipe nothing is cut, and reasoning can be distinguished from messages without colour.
* An exchange of a sub-agent is indented below those of the thread that began it, and one that the
  client makes on its own (a title, a summary) is dimmed: both say what they are for.
* A carriage return at the end of a line is a part of that end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING, Any

import msgspec
from rich.cells import cell_len
from rich.text import Text

from recorder.commands.terminal.output import dollars, is_dumb, seconds
from recorder.commands.terminal.table import LEAST_ID, cut
from recorder.model.events import TRANSCRIPT, CloseRecord, Exchange
from recorder.model.fork import parent_of, resent_from
from recorder.model.text import counted, safe_text
from recorder.projections.connection import ConnectionSummary
from recorder.projections.rows import AnomalyRow, ItemRow
from recorder.store.queries.session_list import OPEN, last_status
from recorder.store.queries.session_state import (
    CallResult,
    ExchangeState,
    Snapshot,
    UnfoldableExchange,
)
from recorder.wire.dialects import DIALECTS, by_name

if TYPE_CHECKING:
    from rich.console import Console

LEAST_WIDTH = 20  # of what is said, however narrow the terminal

# of a status; the others are red
_COLOURS = {"completed": "green", "incomplete": "green", OPEN: "yellow"}
_USUAL_ENDS = frozenset().union(*(dialect.whole_reasons for dialect in DIALECTS))
_CONVERSED = (None, "turn", "subagent")  # what an exchange is for, if it is of a conversation
_MARGIN = "  "  # of a thread that another one began
_DEEPEST = 8  # margins: clients say whose thread began theirs, and a line needs room
_RETURN = re.compile(r"\r+(?=\n|\Z)")
_MARK = {
    "user": "› ",
    "reasoning": "┊ ",
    "call": "⚙ ",
    "output": "  → ",
    "failed": "  ✗ ",
    "source": "  ↗ ",
    "wrong": "! ",
}


def conversation(snapshot: Snapshot, width: int | None) -> Iterator[Text]:
    """Yield the lines. `width` is that of the terminal, None in a pipe."""
    yield from _Lines(width).of_session(snapshot)


def as_written(lines: Iterable[Text], width: int | None) -> Iterator[str]:
    """Return the lines as text, with colours on a terminal that supports them, unless `NO_COLOR` is
    set.
    """
    if width is None or is_dumb():
        yield from (line.plain for line in lines)
        return
    from rich.console import Console

    console = Console(file=StringIO(), force_terminal=True, width=width)
    for line in lines:
        with console.capture() as capture:
            console.print(
                line, end="", highlight=False, no_wrap=True, overflow="ignore", crop=False
            )
        yield capture.get()


def wrapped(text: Text, width: int) -> Iterable[Text]:
    """Return a text in lines of a terminal.

    In a pipe none is wrapped, and nothing of the terminal is loaded.
    """
    return text.wrap(_console(), width)


def wrapped_lines(text: str, width: int | None, indent: int) -> Iterator[str]:
    """Yield a text in lines of a terminal of this width, for a place that is indented; in a pipe
    (None) as it is.
    """
    for line in text.split("\n"):
        if width is None:
            yield line
        else:
            room = max(LEAST_WIDTH, width - indent)
            yield from (part.plain for part in wrapped(Text(line.expandtabs(4)), room))


@cache
def _console() -> Console:
    from rich.console import Console

    return Console(file=StringIO())


class _Lines:
    def __init__(self, width: int | None) -> None:
        self._width = width
        self._threads = _Threads(())

    def of_session(self, snapshot: Snapshot) -> Iterator[Text]:
        taken = [exchange for exchange in snapshot.exchanges if isinstance(exchange, ExchangeState)]
        self._threads = _Threads(taken)
        yield from self._line(self._about(snapshot, taken), "bold")
        if snapshot.title:
            yield from self._line((snapshot.title,), "dim")
        if (parent := parent_of(snapshot.session)) is not None:
            edits = [f"turn {each.turn} edited ({each.what})" for each in parent.edited]
            origin = ", ".join([f"forked from {parent.name}", f"up to turn {parent.until}", *edits])
            yield from self._line((origin,), "dim")
        if (first := resent_from(snapshot.session)) is not None:
            yield from self._line((f"resent from {first.name}",), "dim")
        for exchange in snapshot.exchanges:
            yield Text()
            if isinstance(exchange, UnfoldableExchange):
                yield from self._unfoldable(exchange)
            else:
                yield from self._nested(exchange)

    def _about(self, snapshot: Snapshot, taken: Sequence[ExchangeState]) -> Iterator[str | None]:
        """Yield what is known of the session: its status only if the last exchange is among those
        that are shown.
        """
        session = snapshot.session
        yield session.name
        yield session.session_id if self._width is None else session.session_id[:LEAST_ID]
        if snapshot.is_whole and taken and snapshot.exchanges[-1] is taken[-1]:
            yield last_status(
                [(exchange.row.purpose, exchange.row.status or OPEN) for exchange in taken]
            )
        if snapshot.at_ns is not None:
            yield f"at {_seconds(snapshot.at_ns)}"
        if snapshot.cost.usd is not None:
            yield dollars(snapshot.cost.usd, is_partial=bool(snapshot.cost.partial))
        if any(exchange.row.content for exchange in taken):
            yield "with filler in place of texts"
        if session.source == TRANSCRIPT:
            yield "derived from a transcript"
        elif session.origin == "import":
            yield "imported, times may be made up"

    def _unfoldable(self, taken: UnfoldableExchange) -> Iterator[Text]:
        yield from self._line((str(taken.number), _request_line(taken.exchange)), "bold")
        yield from self._block("failed", taken.reason, "red")

    def _nested(self, taken: ExchangeState) -> Iterator[Text]:
        """Yield the lines of an exchange, indented by the depth of its thread."""
        margin = _MARGIN * self._threads.depth(taken)
        lines = _Lines(self._width and self._width - len(margin))
        lines._threads = self._threads
        for line in lines._of_exchange(taken):
            yield Text.assemble(margin, line) if line and margin else line

    def _of_exchange(self, taken: ExchangeState) -> Iterator[Text]:
        yield from self._head(taken)
        if taken.superseded_by is not None:
            return
        row = taken.row
        # by the session of a hosted agent
        is_repeated = any(item.role == "user" for item in taken.items)
        if row.is_turn and not is_repeated:
            yield from self._block(
                "user", row.user_text, "cyan" if row.purpose in _CONVERSED else "dim"
            )
        yield from self._answer(taken)
        if row.status is None:
            yield Text("… still streaming", "dim italic")
        yield from self._block(
            "failed", ": ".join(filter(None, (row.error_type, row.error))), "red"
        )
        yield from self._line(_numbers(taken), "dim")
        for anomaly in taken.anomalies:
            yield from self._block("wrong", _anomaly(anomaly), "yellow")

    def _head(self, taken: ExchangeState) -> Iterator[Text]:
        """Yield the heading: the exchange and its end."""
        row, superseded_by = taken.row, taken.superseded_by
        model = row.response_model or row.request_model
        began = (
            str(taken.number),
            self._threads.label(taken),
            _request_line(taken.exchange),
            model,
        )
        style = "bold" if row.purpose in _CONVERSED else "dim"
        if superseded_by is not None:
            return self._line(
                (*began, f"see exchange {superseded_by[0]}, which has all of it"), style
            )
        duration_ns = taken.timing.duration_ns
        duration = None if duration_ns is None else _seconds(duration_ns)
        ended = status = row.status or OPEN
        if row.finish_reason not in (*_USUAL_ENDS, None, status):
            ended = f"{status} ({row.finish_reason})"
        return self._line((*began, ended, duration), style, ended, _COLOURS.get(status, "red"))

    def _answer(self, taken: ExchangeState) -> Iterator[Text]:
        """Yield the items, with the index of their choice if there are several."""
        choice = 0
        for item in taken.items:
            if choice != _choice(taken, item):
                choice = _choice(taken, item)
                yield Text(f"choice {choice + 1}:", "dim")
            answer = taken.answers.get(item.item)
            yield from (
                self._of_agent(item, answer) if item.thread_id else self._of_item(item, answer)
            )
        if taken.connection is not None:
            yield from self._of_connection(taken.connection)
        elif not taken.items and taken.exchange.api == "other" and taken.row.error is None:
            yield from self._block("", _not_understood(taken), "dim")

    def _of_connection(self, connection: ConnectionSummary) -> Iterator[Text]:
        """Yield what a WebSocket connection has besides its turns, and who closed it."""
        frames = (connection.client_frames, "client"), (connection.server_frames, "server")
        said = [f"{counted(count, 'frame')} of the {side}" for count, side in frames if count]
        yield from self._line(("WebSocket", *said), "dim")
        for mark, counts in (
            ("› ", connection.sent),
            ("‹ ", connection.received),
            ("", connection.control),
        ):
            if counts:
                yield from self._line((f"{mark}{_times(counts)}",), "dim")
        if connection.undecoded is not None:
            yield from self._block("wrong", connection.undecoded, "yellow")
        if connection.close is not None:
            yield from self._line((_closed(connection.close),), "dim")

    def _of_agent(self, item: ItemRow, answer: CallResult | None) -> Iterator[Text]:
        """Yield an item of a sub-agent, indented below those of the agent that began it."""
        for line in _Lines(self._width and self._width - len(_MARGIN))._of_item(item, answer):
            yield Text.assemble(_MARGIN, line)

    def _of_item(self, item: ItemRow, answer: CallResult | None) -> Iterator[Text]:
        yield from _ITEMS[item.kind](self, item)
        if answer is not None:
            took = "" if answer.latency_ns is None else f" ({_seconds(answer.latency_ns)})"
            mark, style = ("failed", "red") if answer.failed else ("output", "")
            yield from self._one_line(mark, _pictures(answer.output) or answer.output, took, style)
        for url in _urls(item.annotations):
            yield from self._one_line("source", url, "", "dim underline")

    def _message(self, item: ItemRow) -> Iterator[Text]:
        is_users = item.role == "user"
        yield from self._block("user" if is_users else "", item.text, "cyan" if is_users else "")
        yield from self._block("failed", item.refusal and f"refused: {item.refusal}", "red")

    def _reasoning(self, item: ItemRow) -> Iterator[Text]:
        text = "\n\n".join(filter(None, (item.summary_text, item.text)))
        yield from self._block(
            "reasoning", text or ("encrypted reasoning" if item.encrypted else None), "dim"
        )

    def _call(self, item: ItemRow) -> Iterator[Text]:
        yield from self._one_line(
            "call", f"{item.name or item.type} {item.arguments or ''}".rstrip(), "", "magenta"
        )

    def _other(self, item: ItemRow) -> Iterator[Text]:
        parts = filter(None, (item.type, item.name, item.arguments, item.text))
        yield from self._one_line("call", " ".join(parts), "", "dim")
        if item.output is not None:
            yield from self._one_line("output", _pictures(item.output) or item.output, "", "dim")

    def _line(
        self, parts: Iterable[str | None], style: str, stressed: str = "", colour: str = ""
    ) -> Iterator[Text]:
        """Yield short texts in one line, one of them perhaps in a colour."""
        line = Text("", style)
        for part in filter(None, parts):
            line.append(" · " if line else "").append(
                _flat(part), colour if part == stressed else None
            )
        if self._width is None:
            yield from [line] if line else []
        else:
            yield from wrapped(line, max(LEAST_WIDTH, self._width))

    def _one_line(self, mark: str, text: str, after: str, style: str) -> Iterator[Text]:
        """Yield a text: on a terminal cut to one line, in a pipe complete."""
        if self._width is None:
            yield from self._block(mark, f"{text.rstrip()}{after}", style)
        else:
            room = max(LEAST_WIDTH, self._width - cell_len(_MARK[mark]) - cell_len(after))
            yield Text(f"{_MARK[mark]}{cut(_flat(text), room)}{after}", style)

    def _block(self, mark: str, text: str | None, style: str) -> Iterator[Text]:
        """Yield a text, if there is one, wrapped on its own lines; reasoning has its mark before
        each.
        """
        first = _MARK.get(mark, "")
        rest = first if mark == "reasoning" else " " * cell_len(first)
        lines = wrapped_lines(_safe(text).strip("\n"), self._width, cell_len(first)) if text else ()
        for number, line in enumerate(lines):
            yield Text(f"{rest if number else first}{line}".rstrip(), style)


class _Threads:
    """The threads of a conversation: the agent of each exchange, and its depth below the first."""

    def __init__(self, taken: Sequence[ExchangeState]) -> None:
        self._parents: dict[str | None, str | None] = {}
        for each in taken:
            self._parents.setdefault(each.exchange.thread_id, each.row.parent_thread_id)
        first = {each.exchange.thread_id for each in taken if not self._is_below(each)}
        self._has_several = len(first - {None}) > 1

    def depth(self, taken: ExchangeState) -> int:
        """Return the depth of a thread, 0 without a parent; a cycle ends, and the depth has a
        limit.
        """
        above = self._above(taken.row.parent_thread_id)
        return len(above) or int(self._is_below(taken))

    def label(self, taken: ExchangeState) -> str | None:
        """Return the purpose and thread of an exchange; nothing for turns of a conversation with
        one thread.
        """
        words: list[str | None] = [taken.row.purpose if taken.row.purpose != "turn" else None]
        thread_id = taken.exchange.thread_id
        if self._is_below(taken):
            words.append(thread_id)
        elif thread_id and self._has_several:
            words.append(f"thread {thread_id}")
        return " ".join(filter(None, words)) or None

    def _above(self, thread_id: str | None) -> list[str]:
        found: list[str] = []
        while thread_id is not None and thread_id not in found and len(found) < _DEEPEST:
            found.append(thread_id)
            thread_id = self._parents.get(thread_id)
        return found

    @staticmethod
    def _is_below(taken: ExchangeState) -> bool:
        return taken.row.purpose == "subagent" or taken.row.parent_thread_id is not None


_ITEMS: Mapping[str, Any] = {
    "message": _Lines._message,
    "reasoning": _Lines._reasoning,
    "tool_call": _Lines._call,
    "other": _Lines._other,
}


class _Picture(msgspec.Struct):
    size_bytes: int
    mime_type: str = "image"


class _Pictures(msgspec.Struct, forbid_unknown_fields=True):
    """The digests that recorder stores in place of the images of an output."""

    images: list[_Picture]


_pictures_of = msgspec.json.Decoder(_Pictures).decode


def _pictures(output: str) -> str | None:
    """Return images as text for a person; None if the value has anything else."""
    try:
        return ", ".join(
            f"{each.mime_type}, {each.size_bytes:,} bytes" for each in _pictures_of(output).images
        )
    except (ValueError, RecursionError):  # a lone surrogate is not JSON either
        return None


def _safe(text: str) -> str:
    return safe_text(_RETURN.sub("", text))


def _flat(text: str) -> str:
    return " ".join(_safe(text).split())


def _request_line(exchange: Exchange) -> str:
    return f"{exchange.method} {exchange.target.partition('?')[0]}"


def _choice(taken: ExchangeState, item: ItemRow) -> int:
    """Return the index of an item's choice among several of a stream.

    In a document the numbers are those of items.
    """
    is_streamed = taken.timing.ttft_ns is not None
    return item.output_index or 0 if is_streamed and by_name(taken.exchange.api).has_choices else 0


def _not_understood(taken: ExchangeState) -> str | None:
    exchange, count = taken.exchange, taken.timing.events
    if not count:
        return None
    command = f"`recorder events {exchange.session_id[:LEAST_ID]} --exchange {taken.number}`"
    return f"not understood here: {counted(count, 'event')}, {command} shows {'them' if count > 1 else 'it'}"


def _times(counts: Mapping[str, int]) -> str:
    return ", ".join(map(_count, counts, counts.values()))


def _count(name: str, count: int) -> str:
    return name if count == 1 else f"{name} ×{count}"


def _closed(close: CloseRecord) -> str:
    """Return who ended a connection, and with which code."""
    if close.by is None:
        return "closed by neither side"
    if close.code is None:
        return f"ended by the {close.by} without a Close frame (1006)"
    return " ".join(filter(None, (f"closed by the {close.by}: {close.code}", close.reason)))


def _anomaly(anomaly: AnomalyRow) -> str:
    times = f"×{anomaly.count}" if anomaly.count > 1 else ""
    return " ".join(filter(None, (anomaly.kind, anomaly.detail, times, f"(event {anomaly.pos})")))


def _numbers(taken: ExchangeState) -> list[str]:
    """Return the known tokens and times."""
    usage, timing = taken.usage, taken.timing
    tokens = (
        _tokens(
            "in",
            usage.input_tokens,
            cached=usage.cache_read_input_tokens,
            written=usage.cache_write_input_tokens,
        ),
        _tokens("out", usage.output_tokens, reasoning=usage.reasoning_output_tokens),
    )
    numbers = []
    if shown := " · ".join(filter(None, tokens)):
        numbers.append(f"{shown} so far" if usage.partial else shown)
    if taken.cost is not None and taken.cost.usd is not None:
        numbers.append(dollars(taken.cost.usd, is_partial=taken.cost.partial))
    if timing.ttft_ns is not None:
        numbers.append(f"first token {_seconds(timing.ttft_ns, 2)}")
    if timing.duration_ns is not None:
        numbers.append(_seconds(timing.duration_ns, 2))
    if timing.events_per_s is not None:
        numbers.append(f"{timing.events_per_s:,.0f} events/s")
    return numbers


def _tokens(name: str, count: int | None, **parts: int | None) -> str | None:
    if count is None:
        return None
    known = [f"{part} {value:,}" for part, value in parts.items() if value]
    return f"{name} {count:,}" + (f" ({', '.join(known)})" if known else "")


def _seconds(ns: int, digits: int = 1) -> str:
    """Return a shorter form than `seconds`; a value that would become zero keeps its digits."""
    if ns >= 60_000_000_000 or (ns < 100_000_000 and digits < 2):
        return seconds(ns)
    return f"{ns / 1e9:.{digits}f} s"


def _urls(annotations: str | None) -> list[str]:
    """Return the pages that a text cites, each once, at most one level down."""
    try:
        cited = msgspec.json.decode(annotations or "[]", type=list[dict[str, Any]])
    except (msgspec.DecodeError, RecursionError):
        # so long that it was cut, so deep that nobody reads it
        return []
    urls: dict[str, None] = {}
    for annotation in cited:
        for part in (annotation, *annotation.values()):
            url = isinstance(part, dict) and (part.get("url") or part.get("uri"))
            if isinstance(url, str):
                urls[url] = None
    return list(urls)
