"""The redaction of recordings before they are written: without what a project calls private, or not
written at all.

Rules of this file:

* A private value is taken out of a request. A response that repeats it as a text of its JSON has
  `REDACTED` there, too.
* What a pattern matches is taken out of the texts of both, also if it came in several events or
  reads.
* Then no value that was taken out of any of the exchanges is left in what is to be written, in no
  spelling, nor in the texts that its deltas make together. If that cannot be made sure of, nothing
  is written.

Private values, which must be nowhere in a cassette, and the search for them, however a text spells
them.

A value of fewer than four characters, and a number of fewer than six digits, may be anywhere by
chance: it is replaced where the settings name it, and looked for nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any
from urllib.parse import unquote_plus

import msgspec
from msgspec.structs import replace

from recorder.cassettes.sse_jsonl.lines import header_line
from recorder.cassettes.sse_jsonl.writer import exchange_lines, form_of, usual_keys, without_spans
from recorder.errors import RecorderError
from recorder.model.events import (
    BODY_KINDS,
    EndRecord,
    Event,
    Exchange,
    Recording,
    RequestRecord,
    ResponseHead,
    Session,
)
from recorder.recordings.session import projected
from recorder.replay.matching import MatchRequest
from recorder.replay.matching.client_ids import joined_texts, text_edits
from recorder.testing.redactions import Redactions, UnreadableError, seems_json
from recorder.wire.framing.sse import FRAME_LIMIT
from recorder.wire.redaction.headers import REDACTED
from recorder.wire.redaction.unescape import Splice

LETTERS = 4
DIGITS = 6

_COMMON = frozenset({"true", "false", "null"})
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
# of JSON; the second group says that it is a name
_TEXT = re.compile(rb'("(?:[^"\\\r\n]|\\.)*")(\s*:)?')
_IN_PLACE = f'"{REDACTED}"'.encode()


class PrivateValues:
    """Values, each with the line of the settings that calls it private."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}
        self._numbers: dict[str, re.Pattern[str]] = {}

    @property
    def is_empty(self) -> bool:
        """Return True if there is no value to look for."""
        return not self._lines

    def add(self, line: str, value: Any) -> None:
        """Add a value, or all that are in it."""
        for text in _leaves(value):
            if text.isdecimal():
                if len(text) >= DIGITS:
                    self._lines[text] = line
                    self._numbers[text] = re.compile(rf"(?<![\w.]){text}(?!\w|\.\d)")
            elif (
                len(text.strip()) >= LETTERS
                and text not in _COMMON
                and not text.startswith(REDACTED)
            ):
                self._lines[_paired(text)] = line

    def line_of(self, *texts: bytes) -> str | None:
        """Return the line of the settings whose private value is in one of these texts, or None."""
        for reading in _readings(texts) if self._lines else ():
            for value, line in self._lines.items():
                pattern = self._numbers.get(value)
                if value in reading and (pattern is None or pattern.search(reading)):
                    return line
        return None

    def is_part(self, text: str) -> bool:
        """Return True if a text has a private value in it, or is a part of one."""
        return len(text) >= LETTERS and any(text in value or value in text for value in self._lines)

    def echoes(self, body: bytes) -> list[Splice]:
        """Return where a text of JSON is a private value."""
        if not self._lines:
            return []
        texts = (
            text for text in _TEXT.finditer(body) if not text[2] and _meant(text[1]) in self._lines
        )
        return [Splice(*text.span(1), _IN_PLACE) for text in texts]


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    elif isinstance(value, str):
        yield value
    elif value is not None and not isinstance(value, bool):
        yield json.dumps(value)


def _readings(texts: Iterable[bytes]) -> Iterator[str]:
    """Yield each text as it is, without the escapes of JSON, of JSON in JSON and of a URL, and as
    UTF-16 or UTF-32.
    """
    for text in texts:
        plain = text.decode("utf-8", "replace")
        yield plain
        if "\\" in plain:
            once = _unescaped(plain)
            yield once
            yield _unescaped(once)
        if "%" in plain or "+" in plain:
            yield unquote_plus(plain)
        if b"\0" in text:
            yield text.replace(b"\0", b"").decode("utf-8", "replace")


def _unescaped(text: str) -> str:
    return _paired(_ESCAPE.sub(_character, text))


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _ESCAPED.get(escape[2], escape[2])


def _paired(text: str) -> str:
    """Return a text with pairs of surrogates as the characters that they are."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _meant(token: bytes) -> str | None:
    try:
        text: str = json.loads(token)
    except ValueError:
        return None
    return _paired(text)


Rows = tuple[Exchange, Sequence[Event]]  # of one exchange, as the log has them

SEND = "Send JSON or a form, as it is or in one coding, or leave that out of the test"
RECEIVE = "Ask for a response in no coding, or leave that out of the test"

_COLUMNS = (
    "client",
    "client_version",
    "thread_id",
    "turn_id",
    "resumes_response_id",
)  # of an exchange: from its request


def redacted_rows(
    session: Session, recordings: Sequence[Recording], redactions: Redactions
) -> list[Rows]:
    """Return the rows of recordings as they may be written.

    Raises `RecorderError` if they cannot be redacted.
    """
    rows: list[Rows] = [(each.exchange, each.events) for each in recordings]
    if redactions.are_none:
        return rows
    private = PrivateValues()
    with_request = [
        _redact_request(number, *each, redactions, private) for number, each in enumerate(rows, 1)
    ]
    if line := private.line_of(header_line(session)):
        raise RecorderError(
            f"What recorder_redact takes out by {line} is in the name of the test: give it another one."
        )
    redacted = [_redact_response(*each, redactions, private) for each in with_request]
    for number, each in enumerate(redacted, 1):
        _check(number, *each, private)
        _check_texts(number, *each, redactions)
    return redacted


def _redact_request(
    number: int,
    exchange: Exchange,
    events: Sequence[Event],
    redactions: Redactions,
    private: PrivateValues,
) -> Rows:
    """Redact the heads and the request of an exchange; collect the private values."""
    of_request = [event for event in events if event.kind == "request"]
    record = msgspec.json.decode(of_request[0].raw, type=RequestRecord)
    body = b"".join(event.raw for event in of_request[1:])
    if record.undecoded and redactions.are_of_bodies:
        raise _refused(
            number, exchange, f"its request body cannot be decoded ({record.undecoded})", SEND
        )
    try:
        cleared, found = redactions.cleared(
            MatchRequest(record.method, record.target, record.upstream, record.headers, body)
        )
    except UnreadableError as error:
        raise _refused(number, exchange, f"its request body {error}", SEND) from None
    rest = [_response_head(each, redactions, private) for each in events if each.kind != "request"]
    for line, value in found:
        private.add(line, value)
    if found or cleared.body != body:
        of_request = _request_events(of_request, record, cleared, as_sent=cleared.body == body)
    return replace(exchange, target=cleared.target), [*of_request, *rest]


def _request_events(
    events: Sequence[Event], record: RequestRecord, cleared: MatchRequest, *, as_sent: bool
) -> list[Event]:
    """Return the events of a redacted request. A body that was changed is not coded."""
    record = replace(record, target=cleared.target, headers=cleared.headers)
    if as_sent:
        return [_with(events[0], record), *events[1:]]
    size, digest = len(cleared.body), sha256(cleared.body).hexdigest()
    headers = [each for each in cleared.headers if each[0].lower() != "content-encoding"]
    sums = {"wire_bytes": size, "body_bytes": size, "wire_sha256": digest}
    parts = [cleared.body[at : at + FRAME_LIMIT] for at in range(0, size, FRAME_LIMIT)]
    body = [replace(events[1], raw=part) for part in parts]
    return [_with(events[0], replace(record, headers=headers, **sums)), *body]


def _response_head(event: Event, redactions: Redactions, private: PrivateValues) -> Event:
    if event.kind != "response":
        return event
    head = msgspec.json.decode(event.raw, type=ResponseHead)
    headers, found = redactions.values(head.headers)
    for line, value in found:
        private.add(line, value)
    return _with(event, replace(head, headers=headers)) if found else event


def _redact_response(
    exchange: Exchange, events: Sequence[Event], redactions: Redactions, private: PrivateValues
) -> Rows:
    """Replace what is private in a response, and leave out the columns that have it."""
    for name in _COLUMNS:
        text = getattr(exchange, name)
        if text and (private.is_part(text) or redactions.has_text(text)):
            exchange = replace(exchange, **{name: None})
    events = _without(exchange, events, private.echoes(_body(events)))
    for pattern in redactions.patterns:
        events = _without(exchange, events, _matches(_body(events), pattern))
    return exchange, [replace(event, pos=pos) for pos, event in enumerate(events)]


def _body(events: Iterable[Event]) -> bytes:
    return b"".join(event.raw for event in events if event.kind in BODY_KINDS)


def _without(
    exchange: Exchange, events: Sequence[Event], spans: Sequence[Splice]
) -> Sequence[Event]:
    return (
        without_spans(events, spans, partial(usual_keys, exchange, form_of(exchange, events)))
        if spans
        else events
    )


def _matches(body: bytes, pattern: re.Pattern[str]) -> list[Splice]:
    """Return where a pattern matches in the texts of a response's JSON; of one that is a text, in
    all of it.
    """
    if joined_texts(body) or seems_json(body):
        return sorted(text_edits(body, pattern, lambda _: REDACTED))
    try:
        text = body.decode()
    except UnicodeDecodeError:  # frames with checksums, a picture: a part of it cannot be replaced
        return []
    found = []
    for match in pattern.finditer(text):
        start = len(text[: match.start()].encode())
        found.append(Splice(start, start + len(match[0].encode()), REDACTED.encode()))
    return found


def _check_texts(
    number: int, exchange: Exchange, events: Sequence[Event], redactions: Redactions
) -> None:
    """Raise `RecorderError` if a pattern matches a text that the response makes, but could not be
    taken out of it.
    """
    if not redactions.patterns:
        return
    texts = joined_texts(_body(events))
    for item in projected(exchange, events)["items"]:
        for said in (item.text, item.arguments):
            if said:
                texts += _readings([said.encode()])
    if any(map(redactions.has_text, texts)):
        why = "its response still has what a line text: of recorder_redact matches"
        raise _refused(
            number, exchange, why, "Leave that out of the test, or have another expression"
        )


def _check(
    number: int, exchange: Exchange, events: Sequence[Event], private: PrivateValues
) -> None:
    """Raise `RecorderError` if a private value is left, or could be where it cannot be looked for."""
    if private.is_empty:
        return
    request = [event.raw for event in events if event.kind == "request"]
    response = [event.raw for event in events if event.kind in BODY_KINDS]
    ends = [
        msgspec.json.decode(event.raw, type=EndRecord) for event in events if event.kind == "end"
    ]
    for undecoded in (each.undecoded for each in ends if each.undecoded):
        raise _refused(number, exchange, f"its response cannot be decoded ({undecoded})", RECEIVE)
    record = msgspec.json.decode(events[0].raw, type=RequestRecord)
    if record.undecoded:
        raise _refused(
            number, exchange, f"its request body cannot be decoded ({record.undecoded})", SEND
        )
    items = projected(exchange, events)["items"]
    texts_of_items = msgspec.json.encode([[item.text, item.arguments, item.name] for item in items])
    places = {
        "its request": (b"".join(request),),
        "its response": (b"".join(response), texts_of_items),
        "what is said about it": tuple(exchange_lines(number, exchange, events, {})),
    }
    for place, texts in places.items():
        if line := private.line_of(*texts):
            why = f"{place} still has what {line} takes out elsewhere"
            raise _refused(
                number,
                exchange,
                why,
                "Name that place in recorder_redact too, or have something else there",
            )


def _refused(number: int, exchange: Exchange, why: str, what_to_do: str) -> RecorderError:
    name = f"Exchange {number} ({exchange.method} to {exchange.provider})"
    return RecorderError(f"{name} cannot be redacted, so nothing was written: {why}. {what_to_do}.")


def _with(event: Event, record: msgspec.Struct) -> Event:
    return replace(event, raw=msgspec.json.encode(record))
