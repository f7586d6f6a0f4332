"""A session as one HTML file: the player and its data, for a double click, without a server or a
network.

Rules of this file:

* The data is what the API answers, so the player cannot tell the difference.
* A long text that events repeat is in it once: the bytes of events are templates, which have its
  number.
* All of it is redacted again (`recorder.ui.redaction`), also what a log holds as it came:
  responses, names, findings. What was taken out, and what is not in the file, is said in it.
* Hashes are those of the recorded bytes, checked here: a reader of the file cannot check them if
  bytes were taken out.
"""

from __future__ import annotations

import base64
import json
import re
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from recorder import __version__
from recorder.errors import RecorderError, StoreError
from recorder.model.events import BODY_KINDS, Event, Exchange, Header, MemoryBudget, Session
from recorder.model.text import counted
from recorder.recordings.preview import Previews
from recorder.recordings.selection import Numbered
from recorder.store.queries.reader import LogReader
from recorder.ui.api import session_outline
from recorder.ui.asked import Asked, asked_of
from recorder.ui.bundle import bundle
from recorder.ui.lanes import timeline
from recorder.ui.marks import marks
from recorder.ui.raw import BodyRead, body_reads, chain_roots, holds, reads_of
from recorder.ui.redaction import RedactedTrack, redacted_rows, redacted_value
from recorder.ui.track import TrackCache, segment_among
from recorder.wire.redaction.bodies import Redactor
from recorder.wire.redaction.headers import REDACTED

Template = str | list[str | int] | dict[str, str]
"""The bytes of an event: a text, or the pieces of one, of which numbers are those of shared texts;
or base64.
"""

LONG = 64
"""Characters of a text that is shared: instructions, tools and what events repeat are far longer.
"""

_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
_LONE = re.compile("[\ud800-\udfff]")


class Templates:
    """The templates of the events of a file, and the texts that they share."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def of(self, raw: bytes) -> Template:
        """Return the template of an event. It is exact."""
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(raw).decode()}
        pieces: list[str | int] = []
        end = 0  # of what is in the pieces
        for match in _STRING.finditer(text):
            if len(match[1]) >= LONG:
                pieces += [text[end : match.start(1)], self._shared(match[1])]
                end = match.end(1)
        rest = text[end:]
        return [*pieces, rest] if pieces else rest

    def _shared(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


def without_halves(written: str) -> str:
    """Return JSON with an escape for each half of a character that stands alone."""
    return _LONE.sub(lambda match: f"\\u{ord(match[0]):04x}", written)


class Shared:
    """The values that requests repeat, each once, as templates of their JSON."""

    def __init__(self, templates: Templates, budget: MemoryBudget) -> None:
        self.values: list[Template] = []
        self._templates, self._budget = templates, budget
        self._numbers: dict[str, int] = {}

    def number(self, value: Any) -> int:
        """Return the number of a value. Raises `RecorderError` if all together are too large."""
        written = without_halves(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        if written not in self._numbers:
            self._budget.add(len(written))
            self._numbers[written] = len(self.values)
            self.values.append(self._templates.of(written.encode()))
        return self._numbers[written]


Json = dict[str, Any]

# -- the file


LIMIT_BYTES = 128 * 2**20
"""Bytes of all events, and of what each takes besides: a browser still opens a page of that size in
seconds.
"""

REQUESTS_BYTES = 32 * 2**20
"""Bytes of what requests say, each part once: those of the longest sessions of agents have some
MiB.
"""

DEFLATED_FROM = 2**20
"""Characters of data from which it is deflated: a smaller file can be searched with any tool."""

NONE = -1  # in a column of numbers

_CHANGED = (
    "Hashes and sizes are those of the recorded bytes. An event that brought a part of "
    "a secret has no bytes here."
)


async def html_file(
    log: LogReader, session: Session, chosen: Sequence[Numbered], redactor: Redactor
) -> bytes:
    """Return the file. `chosen` are all exchanges of the session, or the one to be in the file.

    Raises `RecorderError` if they are too large.
    """
    data = await FileData(log, session, chosen, redactor).gathered()
    return bundle().page(_element(data)).encode("utf-8", "replace")


def _element(data: Json) -> str:
    """Return the element of the page that holds the data. Nothing in it can end it."""
    written = without_halves(json.dumps(data, ensure_ascii=False, separators=(",", ":")))
    if len(written) < DEFLATED_FROM:
        escaped = (
            written.replace("<", "\\u003c")
            .replace("\u2028", "\\u2028")
            .replace("\u2029", "\\u2029")
        )
        return f'<script type="application/json" id="data">{escaped}</script>\n'
    deflated = base64.b64encode(zlib.compress(written.encode(), 9)).decode()
    return f'<script type="application/octet-stream" id="data" data-coding="deflate">{deflated}</script>\n'


class FileData:
    """The data of a file while it is gathered."""

    def __init__(
        self, log: LogReader, session: Session, chosen: Sequence[Numbered], redactor: Redactor
    ) -> None:
        self._log, self._session, self._chosen, self._redactor = log, session, chosen, redactor
        self._counts: Counter[str] = Counter()
        self._recorded: Counter[str] = Counter()  # what was taken out when it was recorded
        self._changed_events = 0
        self._templates = Templates()
        self._notes: list[str] = []
        remedy = "name one exchange with --exchange, or --format jsonl writes it row by row"
        self._budget = MemoryBudget("As one page this takes", remedy, LIMIT_BYTES)
        self._tracks = TrackCache()
        self._asked: dict[str, Json] = {}
        asked = MemoryBudget(
            "All that was asked takes", "recorder ui shows the rest", REQUESTS_BYTES
        )
        self._parts = Shared(self._templates, asked)
        self._clean_requests = set[int]()  # exchanges from whose requests nothing was taken out

    async def gathered(self) -> Json:
        """Return the data. Raises `RecorderError` if it is too large."""
        log, session_id = self._log, self._session.session_id
        header = await session_outline(log, session_id)
        marked: Json = msgspec.to_builtins(await marks(log, session_id))
        is_one = self._chosen and len(self._chosen) < len(header["exchanges"])
        one = self._chosen[0][1].exchange_id if is_one else None
        drawn: Json = msgspec.to_builtins(await timeline(log, session_id, one))
        everything = list(enumerate(await log.exchanges(session_id), 1))
        numbers = {number for number, _ in self._chosen}
        header["exchanges"] = [each for each in header["exchanges"] if each["number"] in numbers]
        marked["marks"] = [each for each in marked["marks"] if each["exchange"] in numbers]
        ticks = {each["number"]: each for each in drawn["exchanges"]}
        exchanges = {
            str(numbered[0]): await self._exchange(everything, numbered, ticks[numbered[0]])
            for numbered in self._chosen
            if numbered[0] in ticks
        }
        await self._ask(everything)
        return {
            "recorder_html": 1,
            "about": {
                "version": __version__,
                "database": "",
                "engine": "file",
                "is_stale": False,
                "now_ns": time.time_ns(),
            },
            "session": self._redacted(msgspec.to_builtins(header)),
            "timeline": self._redacted(drawn),
            "marks": self._redacted(marked),
            "exchanges": exchanges,
            "asked": self._asked,
            "asked_parts": self._parts.values,
            "texts": self._templates.texts,
            "summary": self._summary(),
            "notes": self._all_notes(),
        }

    def _redacted(self, value: Any) -> Any:
        return redacted_value(value, self._redactor, self._counts)

    # -- what was asked

    async def _ask(self, everything: Sequence[Numbered]) -> None:
        """Put in the requests as the player shows them, as far as they are not too large."""
        clean = cache(self._without_secrets)  # requests repeat their texts
        try:
            async for each in asked_of(self._log, self._session, everything, self._chosen, clean):
                self._asked[str(each.number)] = self._request(each)
        except StoreError:
            raise
        except RecorderError as error:
            self._notes.append(f"Not all requests can be unfolded. {self._redacted(str(error))}")

    def _request(self, asked: Asked) -> Json:
        document = asked.document()
        read, missed = document["read"], document["cache"]
        if (
            missed is not None
            and not {asked.number, missed["previous_number"]} <= self._clean_requests
        ):
            missed |= {"before": None, "after": None}  # they may begin or end within a secret
        if read is not None:
            read["system"] = self._part(read["system"])
            read["tool_list"] = [self._part(each) for each in read["tool_list"]]
            read["message_list"] = [self._part(each) for each in read["message_list"]]
        shown: Json = self._without_secrets(document)
        return shown

    def _part(self, value: Json) -> int:
        return self._parts.number(self._without_secrets(value))

    def _without_secrets(self, value: Any) -> Any:
        """Return what repeats texts of events, where secrets are counted."""
        return redacted_value(value, self._redactor, Counter())

    # -- an exchange

    async def _exchange(
        self, everything: Sequence[Numbered], numbered: Numbered, ticks: Json
    ) -> Json:
        _, exchange = numbered
        last = len(ticks["t"]) - 1
        events: list[Event] = []
        async for event in self._log.events(exchange.session_id, exchange.exchange_id):
            if event.pos > last:  # it came after the timeline was made
                break
            self._budget.add(len(event.raw))
            events.append(event)
        self._recorded.update(_taken_before(events))
        steps = await self._steps(everything, numbered)
        track = RedactedTrack([step for step in steps if step[0] <= last], self._redactor)
        self._counts.update(track.counts)
        changed = redacted_rows(events, track.pieces, self._redactor)
        self._changed_events += len(changed)
        if not any(event.kind == "request" and event.pos in changed for event in events):
            self._clean_requests.add(numbered[0])
        shown = self._shown(exchange, [_with(event, changed) for event in events])
        reads = body_reads(events)
        return {
            "exchange_id": exchange.exchange_id,
            "last": last,
            "has_ended": ticks["has_ended"],
            "steps": track.steps,
            "reads": reads,
            "events": {
                **_columns(exchange, events),
                **shown,
                **_read_columns(events, reads),
                "redacted": sorted(changed),
            },
        }

    async def _steps(self, everything: Sequence[Numbered], numbered: Numbered) -> list[Any]:
        """Return all steps of an exchange; none if it cannot be decoded."""
        steps: list[Any] = []
        at = 0
        try:
            while True:
                part = await segment_among(self._log, everything, numbered, at, self._tracks)
                steps += part["steps"]
                if part["to"] >= part["last"]:
                    return steps
                at = part["to"] + 1
        except StoreError:
            raise
        except RecorderError as error:
            self._notes.append(
                f"Exchange {numbered[0]} has no conversation: {self._redacted(str(error))}"
            )
            return []

    def _shown(self, exchange: Exchange, events: Sequence[Event]) -> Json:
        """Return the bytes of events as templates, and their previews."""
        previews = Previews()
        return {
            "raw": [self._templates.of(event.raw) for event in events],
            "data_start": [_number(event.data_start) for event in events],
            "data_length": [_number(event.data_length) for event in events],
            "preview": [self._redacted(previews.of(exchange.api, event)) for event in events],
        }

    # -- what the file says of itself

    def _summary(self) -> str:
        secrets = sum(self._counts.values())
        taken = (
            f"{counted(secrets, 'secret')} taken out" if secrets else "no secret was found in it"
        )
        if self._changed_events and not secrets:  # only in bytes that no text is made of
            taken = f"secrets taken out of {counted(self._changed_events, 'event')}"
        return f"Recorded session, exported by recorder {__version__}: {taken}."

    def _all_notes(self) -> list[str]:
        changed = self._changed_events
        lacking = (
            [f"The bytes of {counted(changed, 'event')} lack secrets. {_CHANGED}"]
            if changed
            else []
        )
        return [
            f"Taken out when it was recorded: {_listed(self._recorded)}.",
            f"Taken out of texts by the export: {_listed(self._counts)}.",
            "What is not shaped like a secret is still there.",
            *lacking,
            "Not in this file: other sessions, bodies to download, and all that came after the export. recorder ui "
            "shows them.",
            *self._notes,
        ]


class _Head(msgspec.Struct, frozen=True):
    """The fields of a head, of a request or a response, that are read here."""

    headers: list[Header] = []
    redactions: dict[str, int] = {}


def _taken_before(events: Iterable[Event]) -> Iterator[str]:
    """Yield what was taken out when an exchange was recorded: `header NAME`, and kinds of secrets
    in its request.
    """
    for event in events:
        if event.kind != "response" and (event.kind != "request" or event.pos):
            continue
        try:
            head = msgspec.json.decode(event.raw, type=_Head)
        except msgspec.DecodeError:
            continue
        yield from (
            f"header {name.lower()}" for name, value in head.headers if value.startswith(REDACTED)
        )
        yield from Counter(head.redactions).elements()


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "nothing"


def _number(value: int | None) -> int:
    return NONE if value is None else value


def _columns(exchange: Exchange, events: Sequence[Event]) -> Json:
    """Return what is known of events, each a list by position."""
    ids = list(dict.fromkeys(event.item_id for event in events if event.item_id is not None))
    numbers = {item_id: number for number, item_id in enumerate(ids)}
    return {
        "size": [len(event.raw) for event in events],
        "sequence_number": [event.sequence_number for event in events],
        "output_index": [event.output_index for event in events],
        "item_ids": ids,
        "item_id": [numbers.get(event.item_id or "", NONE) for event in events],
        "body_offset": list(map(_number, _body_offsets(events))),
        "hash": base64.b64encode(b"".join(event.hash for event in events)).decode(),
        "broken": _broken(exchange, events),
    }


def _body_offsets(events: Iterable[Event]) -> Iterator[int | None]:
    """Yield where each event begins in the body; None if it is not of the body."""
    offset = 0
    for event in events:
        is_body = event.kind in BODY_KINDS
        yield offset if is_body else None
        offset += len(event.raw) if is_body else 0


def _read_columns(events: Sequence[Event], reads: Sequence[BodyRead]) -> Json:
    """Return of each event the number of the first read that it came in, and how many there are."""
    first, count = list[int](), list[int]()
    for event, offset in zip(events, _body_offsets(events), strict=True):
        span = None if offset is None else reads_of(reads, offset, offset + len(event.raw))
        first.append(NONE if span is None else span.start)
        count.append(0 if span is None else len(span))
    return {"read_first": first, "read_count": count}


def _broken(exchange: Exchange, events: Sequence[Event]) -> list[int]:
    """Return the positions at which the chain of hashes does not hold."""
    befores, broken = chain_roots(exchange), []
    for event in events:
        if not holds(event, befores):
            broken.append(event.pos)
        befores = [event.hash]
    return broken


def _with(event: Event, changed: dict[int, bytes]) -> Event:
    """Return an event as it is shown.

    Its payload has its place in those bytes, if nothing around it was changed.
    """
    raw = changed.get(event.pos)
    if raw is None:
        return event
    start, length = event.data_start, event.data_length
    if start is not None and length is not None:
        rest = len(event.raw) - start - length
        is_there = raw.startswith(event.raw[:start]) and raw.endswith(event.raw[start + length :])
        length = len(raw) - start - rest if is_there else None
        start = start if is_there else None
    return msgspec.structs.replace(event, raw=raw, data_start=start, data_length=length)
