"""The push of a log to a collector: what is due is read, mapped, sent in batches, and recorded as
taken.

Rules of this file:

* An exchange is recorded as taken as soon as the collector has taken it, before anything else is
  sent. A crash between the two sends a batch again, with the same ids: OTLP has no way to know.
  Everything else is sent once.
* The span of a tool is sent with the exchange that has the call, or, if the result came later, with
  the one that brought the result. Requests of one session overlap, and another one may turn out to
  have brought a result first; so the cursor has the tools that are sent, by their calls.
* Spans and metrics of a batch are two requests, and are recorded one by one.
* Memory holds one batch, and the calls of one session without their texts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from recorder.errors import NotFoundError, RecorderError, StoreBusyError, StoreError
from recorder.exports.otlp.collector import Accepted, Collector, Refused, Say, Sleep
from recorder.exports.otlp.cursor import DueExchange, ExportCursor, Signal, ToolItems
from recorder.exports.otlp.source import (
    PAGE,
    ExportedExchange,
    ExportReader,
    ToolResult,
    load_content,
)
from recorder.exports.otlp.spans import Measurements, spans_of
from recorder.exports.otlp.telemetry import (
    Attributes,
    Convention,
    Json,
    metrics_request,
    trace_request,
)
from recorder.model.text import counted
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import session_named

BATCH_SPANS = 512  # as the batch processors of SDKs do; those of one exchange are never divided
# of JSON: a collector takes 20 MiB over HTTP, but may pass it on over gRPC, which takes 4 MiB
BATCH_BYTES = 4 * 2**20
TOO_LARGE = 413

POLL_S = 0.5  # between two looks of a push that goes on
# how much later than its request an exchange may appear in the log: a long upload, a busy database
LATE_S = 120
# how old an exchange may be that is open when the push begins: background responses take hours
BEFORE_S = 24 * 3600
# between two sweeps, which find imports and recovered journals; of 10^6 exchanges one takes seconds
SWEEP_S = 60.0
BUSY_S = 60.0  # how long a push that ends by itself waits for a database that is locked
BUSY_PAUSE_S = 0.5


class PushReport(msgspec.Struct):
    """The counts of a push: what the collector has taken."""

    spans: int = 0
    points: int = 0  # of metrics
    exchanges: int = 0
    sessions: int = 0
    bytes: int = 0  # compressed
    rejected: int = 0  # spans and points that it took, and did not keep


ToolSpan = tuple[ToolResult, Json]
"""The span of a tool, with the result that it is of."""

LoadContent = Callable[[ExportedExchange], Awaitable[Attributes]]


class ExchangePart(msgspec.Struct, frozen=True):
    """An exchange in a batch, with the spans that are sent with it."""

    due: DueExchange
    exported: ExportedExchange
    own: Json | None  # None: it was sent
    tools: Sequence[ToolSpan] = ()

    @property
    def spans(self) -> list[Json]:
        """Return the spans in the order in which they are sent."""
        own = [self.own] if self.own else []
        return own + [span for _, span in self.tools]


class SessionParts:
    """The parts of one session, made exchange by exchange.

    It knows the tools whose spans are sent, or in a batch.
    """

    def __init__(
        self,
        reader: ExportReader,
        cursor: ExportCursor,
        session_id: str,
        convention: Convention,
        content: LoadContent | None,
    ) -> None:
        """`content` loads the texts of an exchange; None: they are not to be sent."""
        self._reader, self._cursor, self._session_id = reader, cursor, session_id
        self._convention, self._content = convention, content
        # items by the exchange with the call, if its own span is sent
        self._sent: dict[str, set[int]] = {}

    async def of(self, found: Collection[DueExchange]) -> AsyncIterator[ExchangePart]:
        """Yield the parts of at most `PAGE` exchanges, in order of their ids, without those that
        were purged.
        """
        due = {each.exchange_id: each for each in found}
        exported = await self._reader.read(due)
        own: dict[str, Json] = {}
        tools: list[ToolSpan] = []
        for each in exported:
            content = await self._content(each) if self._content else None
            own[each.exchange.exchange_id], *of_tools = spans_of(each, self._convention, content)
            tools += zip(each.results, of_tools, strict=True)
        # their own spans were sent, or are due later
        others = sorted(self._reader.answering(due) - own.keys())
        size = 1 if self._content else PAGE
        for start in range(0, len(others), size):
            for each in await self._reader.read(others[start : start + size]):
                spans = spans_of(each, self._convention, {} if self._content else None)
                tools += zip(each.results, spans[1:], strict=True)
        callers = {result.exchange_id for result, _ in tools} - self._sent.keys()
        for id, items in (await self._cursor.tool_items(self._session_id, callers)).items():
            self._sent[id] = set(items)
        for each in exported:
            id = each.exchange.exchange_id
            if "traces" in due[id].signals:
                yield ExchangePart(due[id], each, own[id], self._tools_with(each, tools))
            else:
                yield ExchangePart(due[id], each, None)

    def _tools_with(self, exported: ExportedExchange, tools: Iterable[ToolSpan]) -> list[ToolSpan]:
        """Return the spans of tools that are sent with an exchange: see the rules of this file."""
        id = exported.exchange.exchange_id
        self._sent.setdefault(id, set())
        found: list[ToolSpan] = []
        for result, span in tools:
            sent = self._sent.get(result.exchange_id)
            concerns = result.exchange_id == id or result in exported.results
            if concerns and sent is not None and result.item not in sent:
                sent.add(result.item)
                found.append((result, span))
        return found


class Pusher:
    """A push of one log to one collector."""

    def __init__(
        self,
        log: LogReader,
        cursor: ExportCursor,
        collector: Collector,
        convention: Convention,
        *,
        has_content: bool,
        busy_s: float | None,
        say: Say,
        sleep: Sleep = asyncio.sleep,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`busy_s` is how long a locked database is waited for when the collector has taken
        something; None: as long as it takes.
        """
        self.report = PushReport()
        self._log, self._cursor, self._collector, self._convention = (
            log,
            cursor,
            collector,
            convention,
        )
        self._has_content, self._busy_s, self._say, self._sleep, self._now_ns = (
            has_content,
            busy_s,
            say,
            sleep,
            now_ns,
        )
        self._last_session_id = self._last_remark = ""

    async def push(self) -> None:
        """Send all that is due now."""
        async for page in self._cursor.sweep():
            await self._push(page)

    async def follow(self) -> None:
        """Send all that is due, and what becomes due, until it is cancelled.

        Raise `Refused` for a final answer.
        """
        since_s, sweep_at_s, was_busy = BEFORE_S, float("-inf"), False
        while True:
            try:
                await self._look(since_s)
                if time.monotonic() >= sweep_at_s:
                    async for page in self._cursor.sweep():
                        await self._push(page)
                        await self._look(LATE_S)
                    sweep_at_s = time.monotonic() + SWEEP_S
                since_s, was_busy = LATE_S, False
            except StoreBusyError as error:
                if not was_busy:
                    self._say(f"{error} It is tried again.")
                was_busy = True
            await self._sleep(POLL_S)

    async def _look(self, since_s: int) -> None:
        await self._push(await self._cursor.recent(self._now_ns() - since_s * 1_000_000_000))

    async def _push(self, due: Iterable[DueExchange]) -> None:
        batch: list[ExchangePart] = []
        spans = size_bytes = 0
        async for part in self._parts(due):
            count, part_bytes = (
                max(1, len(part.spans)),
                len(trace_request(part.spans, self._convention.schema_url)),
            )
            if batch and (spans + count > BATCH_SPANS or size_bytes + part_bytes > BATCH_BYTES):
                await self._send(batch)
                batch, spans, size_bytes = [], 0, 0
            batch.append(part)
            spans, size_bytes = spans + count, size_bytes + part_bytes
        if batch:
            await self._send(batch)

    async def _parts(self, due: Iterable[DueExchange]) -> AsyncIterator[ExchangePart]:
        size = 1 if self._has_content else PAGE  # an exchange may have megabytes of texts
        for session_id, group in groupby(due, attrgetter("session_id")):
            of_session = list(group)
            try:
                session = await session_named(self._log, session_id)
            except NotFoundError:  # it was purged meanwhile
                continue
            reader = await ExportReader.open(self._log, session, has_texts=self._has_content)
            content = self._content if self._has_content else None
            parts = SessionParts(reader, self._cursor, session_id, self._convention, content)
            for start in range(0, len(of_session), size):
                async for part in parts.of(of_session[start : start + size]):
                    yield part

    async def _content(self, exported: ExportedExchange) -> Attributes:
        try:
            return await load_content(self._log, exported)
        except StoreError:
            raise
        except RecorderError as error:  # it is too large to be held
            self._say(
                f"Exchange {exported.exchange.exchange_id} is sent without its texts: {error}"
            )
            return {}

    async def _send(self, batch: Sequence[ExchangePart]) -> None:
        """Send the spans of a batch, then its metrics; in halves if it is too large for the
        collector.
        """
        try:
            await self._send_traces([part for part in batch if "traces" in part.due.signals])
        except Refused as error:
            if error.status != TOO_LARGE or len(batch) == 1:
                raise
            half = len(batch) // 2
            await self._send(batch[:half])
            await self._send(batch[half:])
            return
        await self._send_metrics([part for part in batch if "metrics" in part.due.signals])
        self.report.exchanges += len(batch)
        for part in batch:
            if part.due.session_id != self._last_session_id:
                self.report.sessions += 1
                self._last_session_id = part.due.session_id

    async def _send_traces(self, parts: Sequence[ExchangePart]) -> None:
        spans: list[Json] = []
        tools: dict[tuple[str, str], set[int]] = {}
        for part in parts:
            spans += part.spans
            for result, _ in part.tools:
                tools.setdefault((part.due.session_id, result.exchange_id), set()).add(result.item)
        if spans:
            body = trace_request(spans, self._convention.schema_url)
            await self._deliver("traces", body, [part.due for part in parts], tools)
            self.report.spans += len(spans)

    async def _send_metrics(self, parts: Sequence[ExchangePart]) -> None:
        due, measurements = [part.due for part in parts], Measurements(self._convention)
        for part in parts:
            measurements.add(part.exported)
        found = measurements.metrics()
        if not found:  # nothing was generated
            await self._record("metrics", due, {})
            return
        try:
            body = metrics_request(found, self._convention.schema_url)
            await self._deliver("metrics", body, due, {})
        except Refused as error:
            raise Refused(f"{error} `--no-metrics` sends the spans alone.", error.status) from error
        self.report.points += sum(len(each["histogram"]["dataPoints"]) for each in found)

    async def _deliver(
        self, signal: Signal, body: bytes, due: Sequence[DueExchange], tools: ToolItems
    ) -> None:
        accepted = await self._collector.send(
            signal, body, lambda: self._record(signal, due, tools)
        )
        self.report.bytes += accepted.size_bytes
        self.report.rejected += accepted.rejected
        if accepted.rejected or accepted.message:
            self._remark(signal, accepted)

    def _remark(self, signal: Signal, accepted: Accepted) -> None:
        """Show what a collector rejected. It does not want that again."""
        noun = "span" if signal == "traces" else "point"
        what = counted(accepted.rejected, noun) if accepted.rejected else "nothing"
        why = f": {accepted.message}" if accepted.message else ""
        remark = f"The collector rejected {what}{why.rstrip('.')}."
        if remark != self._last_remark:
            self._say(remark)
        self._last_remark = remark

    async def _record(self, signal: Signal, due: Collection[DueExchange], tools: ToolItems) -> None:
        """Record what the collector has taken; wait for a database that is locked."""
        until_s = float("inf") if self._busy_s is None else time.monotonic() + self._busy_s
        while True:
            try:
                self._cursor.accepted(due, signal, self._now_ns(), tools)
                return
            except StoreBusyError:
                if time.monotonic() >= until_s:
                    raise
                await self._sleep(BUSY_PAUSE_S)
