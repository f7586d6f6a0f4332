"""A session as one HTML file: the player and its data, for a double click, without a server or a network.

Rules of this file:

* The data is what the API answers, so the player cannot tell the difference. Each text that a delta wrote is in it
  once: in the step of its event. The bytes of events refer to steps and documents (`recorder.ui.event_templates`).
* All of it is redacted again (`recorder.ui.redaction`), also what a log holds as it came: responses, names, findings.
  What was taken out, and what is not in the file, is said in it.
* Hashes are those of the recorded bytes, checked here: a reader of the file cannot check them if bytes were taken out.
"""

from __future__ import annotations

import base64
import json
import re
import time
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from recorder import __version__
from recorder.errors import RecorderError, StoreError
from recorder.model.chain import hash_after, root, row_root
from recorder.model.events import BODY_KINDS, Event, Exchange, Session
from recorder.model.payloads import EndRecord
from recorder.model.recording import MemoryBudget
from recorder.model.text import counted
from recorder.recordings.preview import PREVIEW, Previews
from recorder.recordings.selection import Numbered
from recorder.store.queries.reader import LogReader
from recorder.ui import api
from recorder.ui.bundle import bundle
from recorder.ui.event_templates import Templates, documents
from recorder.ui.redaction import redacted_rows, redacted_track, redacted_value
from recorder.ui.sql import Questions
from recorder.wire.redaction.bodies import Redactor

Json = dict[str, Any]

LIMIT_BYTES = 128 * 2**20
"""Bytes of all events, and of what each takes besides: a browser still opens a page of that size in seconds."""

DEFLATED_FROM = 2**20
"""Characters of data from which it is deflated: a smaller file can be searched with any tool."""

NONE = -1  # in a column of numbers

_CHANGED = (
    "Hashes and sizes are those of the recorded bytes. An event that brought a part of a secret has no bytes here."
)

_LONE = re.compile("[\ud800-\udfff]")
_ROUTES = api.routes(api.ROUTES)


async def html_file(log: LogReader, session: Session, chosen: Sequence[Numbered], redactor: Redactor) -> bytes:
    """Return the file. `chosen` are all exchanges of the session, or the one to be in the file.

    Raises `RecorderError` if they are too large.
    """
    data = await FileData(log, session, chosen, redactor).gathered()
    return bundle().page(_element(data)).encode("utf-8", "replace")


def _element(data: Json) -> str:
    """Return the element of the page that holds the data. Nothing in it can end it."""
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    written = _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)
    if len(written) < DEFLATED_FROM:
        escaped = written.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
        return f'<script type="application/json" id="data">{escaped}</script>\n'
    deflated = base64.b64encode(zlib.compress(written.encode(), 9)).decode()
    return f'<script type="application/octet-stream" id="data" data-coding="deflate">{deflated}</script>\n'


class FileData:
    """The data of a file while it is gathered."""

    def __init__(self, log: LogReader, session: Session, chosen: Sequence[Numbered], redactor: Redactor) -> None:
        self._log, self._session, self._chosen, self._redactor = log, session, chosen, redactor
        self._counts: Counter[str] = Counter()
        self._changed_events = 0
        self._templates = Templates()
        self._notes: list[str] = []
        remedy = "name one exchange with --exchange, or --format jsonl writes it row by row"
        self._budget = MemoryBudget("As one page this takes", remedy, LIMIT_BYTES)
        self._context = api.Context(log, log.url, Questions(log.url))

    async def gathered(self) -> Json:
        """Return the data. Raises `RecorderError` if it is too large."""
        path = f"/api/sessions/{self._session.session_id}"
        header, marks = await self._get(path), await self._get(f"{path}/marks")
        everything = len(self._chosen) == len(header["exchanges"])
        one = {} if everything or not self._chosen else {"exchange": self._chosen[0][1].exchange_id}
        timeline = await self._get(f"{path}/lanes", **one)
        numbers = {number for number, _ in self._chosen}
        header["exchanges"] = [each for each in header["exchanges"] if each["number"] in numbers]
        marks["marks"] = [each for each in marks["marks"] if each["exchange"] in numbers]
        ticks = {each["number"]: each for each in timeline["exchanges"]}
        exchanges = {
            str(number): await self._exchange(number, each, ticks[number])
            for number, each in self._chosen
            if number in ticks
        }
        return {
            "recorder_html": 1,
            "about": {
                "version": __version__,
                "database": "",
                "engine": "file",
                "is_stale": False,
                "now_ns": time.time_ns(),
            },
            "session": self._redacted(header),
            "timeline": self._redacted(timeline),
            "marks": self._redacted(marks),
            "exchanges": exchanges,
            "texts": self._templates.texts,
            "summary": self._summary(),
            "notes": self._all_notes(),
        }

    async def _get(self, path: str, **query: str) -> Any:
        """Return an answer of the API, as JSON has it."""
        found = api.find(_ROUTES, path.encode())
        assert found is not None, path
        endpoint, values = found
        return msgspec.to_builtins(await endpoint.handler(self._context, api.Parameters(values, query)))

    def _redacted(self, value: Any) -> Any:
        return redacted_value(value, self._redactor, self._counts)

    # -- an exchange

    async def _exchange(self, number: int, exchange: Exchange, ticks: Json) -> Json:
        last = len(ticks["t"]) - 1
        events: list[Event] = []
        async for event in self._log.events(exchange.session_id, exchange.exchange_id):
            if event.pos > last:  # it came after the timeline was made
                break
            self._budget.add(len(event.raw))
            events.append(event)
        track = redacted_track([step for step in await self._steps(number) if step[0] <= last], self._redactor)
        self._counts.update(track.counts)
        changed = redacted_rows(events, track.pieces, self._redactor)
        self._changed_events += len(changed)
        reads, read_first, read_count = _reads(events)
        columns = _columns(exchange, events)
        columns |= self._shown(exchange, [_with(event, changed) for event in events], track.steps)
        columns |= {"read_first": read_first, "read_count": read_count, "redacted": sorted(changed)}
        return {
            "exchange_id": exchange.exchange_id,
            "last": last,
            "has_ended": ticks["has_ended"],
            "steps": track.steps,
            "reads": reads,
            "events": columns,
        }

    async def _steps(self, number: int) -> list[Any]:
        """Return all steps of an exchange; none if it cannot be decoded."""
        path = f"/api/sessions/{self._session.session_id}/exchanges/{number}/track"
        steps: list[Any] = []
        at = 0
        try:
            while True:
                segment = await self._get(path, at=str(at))
                steps += segment["steps"]
                if segment["to"] >= segment["last"]:
                    return steps
                at = segment["to"] + 1
        except StoreError:
            raise
        except RecorderError as error:
            self._notes.append(f"Exchange {number} has no conversation: {self._redacted(str(error))}")
            return []

    def _shown(self, exchange: Exchange, events: Iterable[Event], steps: Sequence[Any]) -> Json:
        """Return the bytes of events as templates, and their previews where these are not the text that they add."""
        previews = Previews()
        raws, starts, lengths, texts = [], list[int](), list[int](), dict[str, str]()
        for event, (ops, document) in zip(events, documents(steps), strict=False):
            starts.append(NONE if event.data_start is None else event.data_start)
            lengths.append(NONE if event.data_length is None else event.data_length)
            added = [op[2] if op[0] == "add" else None for op in ops]
            raws.append(self._templates.of(event.raw, added, document))
            preview = previews.of(exchange.api, event)
            if preview != json.dumps("".join(filter(None, added)), ensure_ascii=False)[:PREVIEW] or not any(added):
                texts[str(event.pos)] = self._redacted(preview)
        return {"raw": raws, "data_start": starts, "data_length": lengths, "preview": texts}

    # -- what the file says of itself

    def _summary(self) -> str:
        secrets = sum(self._counts.values())
        taken = f"{counted(secrets, 'secret')} taken out" if secrets else "no secret was found in it"
        if self._changed_events and not secrets:  # only in bytes that no text is made of
            taken = f"secrets taken out of {counted(self._changed_events, 'event')}"
        return f"Recorded session, exported by recorder {__version__}: {taken}."

    def _all_notes(self) -> list[str]:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self._counts.items()))
        changed = self._changed_events
        return [
            "Headers, URLs and request bodies are as they were recorded, redacted at that time.",
            f"Taken out of texts by the export: {kinds or 'nothing'}. What is not shaped like a secret is still there.",
            *([f"The bytes of {counted(changed, 'event')} lack secrets. {_CHANGED}"] if changed else []),
            "Not in this file: other sessions, bodies to download, requests as the model saw them, and all that came "
            "after the export. recorder ui shows them.",
            *self._notes,
        ]


def _columns(exchange: Exchange, events: Sequence[Event]) -> Json:
    """Return what is known of events, each a list by position."""
    ids = list(dict.fromkeys(event.item_id for event in events if event.item_id is not None))
    numbers = {item_id: number for number, item_id in enumerate(ids)}
    sizes = (len(event.raw) if event.kind in BODY_KINDS else 0 for event in events)
    offsets = accumulate(sizes, initial=0)
    return {
        "sequence_number": [event.sequence_number for event in events],
        "output_index": [event.output_index for event in events],
        "item_ids": ids,
        "item_id": [numbers.get(event.item_id or "", NONE) for event in events],
        "body_offset": [at if event.kind in BODY_KINDS else NONE for event, at in zip(events, offsets, strict=False)],
        "hash": base64.b64encode(b"".join(event.hash for event in events)).decode(),
        "broken": _broken(exchange, events),
    }


def _broken(exchange: Exchange, events: Sequence[Event]) -> list[int]:
    """Return the positions at which the chain of hashes does not hold."""
    befores = [root(exchange.session_id, exchange.exchange_id), row_root(exchange)]
    broken = []
    for event in events:
        if not any(hash_after(before, event, event.pos) == event.hash for before in befores):
            broken.append(event.pos)
        befores = [event.hash]
    return broken


def _reads(events: Sequence[Event]) -> tuple[list[tuple[int, int, int]], list[int], list[int]]:
    """Return all reads of a body, each with its offsets, and of each event the first that it came in and their count.

    Of a body that is not recorded as it was received, no event has any.
    """
    reads: list[tuple[int, int]] = []
    is_known = True
    for event in events:
        if event.kind == "reads" and event.type != "client":
            reads += msgspec.json.decode(event.raw, type=list[tuple[int, int]])
        is_known = is_known and event.kind != "gap" and not (event.kind == "end" and _is_decoded(event))
    ends = list(accumulate(size for _, size in reads))
    begins = [0, *ends]
    first, count = [], []
    stop = 0
    for event in events:
        start = stop
        stop += len(event.raw) if event.kind in BODY_KINDS else 0
        if event.kind not in BODY_KINDS or not is_known or not ends or ends[-1] < stop:
            first.append(NONE)
            count.append(0)
            continue
        first.append(bisect_right(ends, start))
        count.append(max(0, bisect_left(begins, stop, hi=len(reads)) - first[-1]))
    known = [(t_ns, begins[number], ends[number]) for number, (t_ns, _) in enumerate(reads)]
    return known if is_known else [], first, count


def _is_decoded(end: Event) -> bool:
    record = msgspec.json.decode(end.raw, type=EndRecord)
    return record.coding is not None or record.undecoded is not None


def _with(event: Event, changed: dict[int, bytes]) -> Event:
    """Return an event as it is shown. Its payload has its place in those bytes, if nothing around it was changed."""
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
