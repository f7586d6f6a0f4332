"""A line of a cassette: one JSON value, on which nothing else depends but its value.

Any JSON tool may write the line again. It is UTF-8, and what a reviewer could not see, or what
would turn the line around on the screen, is escaped. Pure.

The first one has the version of the format, and the session:

    {"recorder_cassette":2,"session":{"name":"demo","created":"2026-09-21T14:13:20.000001Z","source":"path",…}}

A later version gets another number and a reader beside this one; what was committed once stays
readable. Version 2 added WebSocket to version 1, so one reader reads both.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Literal, NoReturn

import msgspec

from recorder.model.events import Session
from recorder.model.ids import first_id
from recorder.model.jsonl import storable_row

LINE_LIMIT = 128 * 2**20
"""Bytes: a request body has at most 64 MiB, and never takes more than twice that, as text or in
base64.
"""

CONTENT_LIMIT = 2**20  # bytes of a piece: what a row of the log may have

_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


class Written(str):
    """JSON in the form for a line: a number with its zeros."""


def text(value: Any) -> str:
    """Encode a value as JSON. Raises `ValueError` for a value that JSON cannot hold."""
    if isinstance(value, Written):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def array(*cells: Any) -> Written:
    return Written(f"[{','.join(map(text, cells))}]")


def object_(**fields: Any) -> Written:
    return Written(
        "{" + ",".join(f"{text(name)}:{text(value)}" for name, value in fields.items()) + "}"
    )


def line(written: str) -> bytes:
    """End a JSON text as a line, with invisible characters escaped."""
    return _UNSEEN.sub(lambda unseen: f"\\u{ord(unseen[0]):04x}", written).encode() + b"\n"


_HOW = "; mend it, or write the cassette again with `recorder export SESSION --format cassette`"

# of nesting: ten times what APIs send, and a fifth of what Python's own reader can do
DEPTH_LIMIT = 200
PAYLOAD_DEPTH = DEPTH_LIMIT - 8  # of what stands in a line, as a part of its value


def value(written: bytes | str, depth: int = DEPTH_LIMIT) -> Any:
    """Decode JSON.

    Raises `ValueError` for malformed JSON, for NaN and infinities, and for deeper nesting.
    """
    try:
        read = json.loads(written, parse_constant=_refuse)
    except RecursionError:
        read = None
    except json.JSONDecodeError as error:  # of the standard library, which counts lines of its own
        raise ValueError(f"it is not JSON from character {error.pos + 1} on{_HOW}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 from byte {error.start + 1} on{_HOW}") from error
    else:
        opened = (
            written.count(b"[") + written.count(b"{") if isinstance(written, bytes) else depth + 1
        )
        if opened <= depth or not _is_deeper(read, depth):
            return read
    raise ValueError(f"it is nested too deep, over {depth} times")


def _is_deeper(given: Any, depth: int) -> bool:
    level = [given]
    for _ in range(depth + 1):
        level = list(chain.from_iterable(map(_inside, level)))
        if not level:
            return False
    return True


def _inside(given: Any) -> Iterable[Any]:
    if isinstance(given, dict):
        return given.values()
    return given if isinstance(given, list) else ()


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# -- bytes


def content(raw: bytes) -> str | dict[str, str]:
    """Return bytes as text; in base64 if they are not text, or would be longer as text."""
    try:
        decoded = raw.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(raw).decode()}
    return (
        decoded if len(text(decoded)) <= 2 * len(raw) + 2 else {"base64": b64encode(raw).decode()}
    )


def content_bytes(given: Any) -> bytes:
    """Decode `content`. Raises `ValueError`."""
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, dict) and list(given) == ["base64"] and isinstance(given["base64"], str):
        try:
            return b64decode(given["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"its base64 is none: {error}") from error
    raise ValueError('its bytes are neither text nor {"base64": "…"}')


# -- times: microseconds, written as seconds


def seconds(us: int) -> Written:
    """Format microseconds as seconds with six digits: numbers of one length are read down a column."""
    whole, rest = divmod(abs(us), 1_000_000)
    return Written(f"{'-' if us < 0 else ''}{whole}.{rest:06d}")


# 136 years: so many microseconds are exact in a float, and fit a bigint as nanoseconds
SECONDS_LIMIT = 2**32


def microseconds(given: Any) -> int:
    """Parse a number of seconds. Raises `ValueError`."""
    if (
        isinstance(given, bool)
        or not isinstance(given, int | float)
        or not abs(given) < SECONDS_LIMIT
    ):
        raise ValueError(f"{str(given)[:40]} is not a number of seconds")
    return round(given * 1_000_000)


VERSION = 2
READABLE = (1, 2)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Session(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    created: str
    source: str = "import"
    origin: Literal["live", "import", "synthetic"] = "import"
    labels: str = "{}"


def header_line(session: Session) -> bytes:
    about = {"name": session.name, "created": instant(session.created_ns), "source": session.source}
    about |= {"origin": session.origin} | (
        {} if session.labels == "{}" else {"labels": session.labels}
    )
    return line(object_(recorder_cassette=VERSION, session=about))


def read_header(written: bytes) -> Session:
    """Decode the session; the same header always gives the same id. Raises `ValueError`."""
    given = value(written) if b"recorder_cassette" in written else None
    if not isinstance(given, dict) or "recorder_cassette" not in given:
        raise ValueError(
            'it does not begin with {"recorder_cassette": …}; `recorder import` reads other streams'
        )
    version = given["recorder_cassette"]
    if isinstance(version, bool) or version not in READABLE:
        known = " and ".join(map(str, READABLE))
        raise ValueError(
            f"version {str(version)[:20]} of the format is not known here, only {known}: upgrade recorder"
        )
    if given.keys() != {"recorder_cassette", "session"}:
        raise ValueError("it has the version and the session, and nothing else")
    about = msgspec.convert(given["session"], _Session)
    created_ns = nanoseconds(about.created)
    if not isinstance(value(about.labels), dict):
        raise ValueError("labels is not a JSON object")
    session = Session(
        first_id(created_ns), created_ns, about.name, about.source, about.labels, about.origin
    )
    return storable_row(session)


def instant(ns: int) -> str:
    """Format wall time to the microsecond, for people."""
    return (
        (_EPOCH + timedelta(microseconds=ns // 1000))
        .isoformat(timespec="microseconds")
        .replace("+00:00", "Z")
    )


def nanoseconds(written: object) -> int:
    """Parse an instant. Raises `ValueError` for text that is none, or that the log cannot hold."""
    try:
        read = datetime.fromisoformat(str(written))
        ns = (read - _EPOCH) // timedelta(microseconds=1) * 1000
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(
            f"{str(written)[:40]} is not an instant like 2026-01-31T12:00:00.000000Z"
        ) from error
    if not -(2**63) <= ns < 2**63:
        raise ValueError(f"{str(written)[:40]} is too far from now for the log")
    return ns
