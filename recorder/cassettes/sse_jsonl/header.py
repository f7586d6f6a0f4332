"""The first line of a cassette: the version of the format, and the session. Pure.

    {"recorder_cassette":2,"session":{"name":"demo","created":"2026-09-21T14:13:20.000001Z","source":"path",…}}

A later version gets another number and a reader beside this one; what was committed once stays readable. Version 2
added WebSocket to version 1, so one reader reads both.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from recorder.cassettes.sse_jsonl.lines import line, object_, value
from recorder.model.events import Session
from recorder.model.ids import first_id
from recorder.model.jsonl import storable_row

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
    about |= {"origin": session.origin} | ({} if session.labels == "{}" else {"labels": session.labels})
    return line(object_(recorder_cassette=VERSION, session=about))


def read_header(written: bytes) -> Session:
    """Decode the session; the same header always gives the same id. Raises `ValueError`."""
    given = value(written) if b"recorder_cassette" in written else None
    if not isinstance(given, dict) or "recorder_cassette" not in given:
        raise ValueError('it does not begin with {"recorder_cassette": …}; `recorder import` reads other streams')
    version = given["recorder_cassette"]
    if isinstance(version, bool) or version not in READABLE:
        known = " and ".join(map(str, READABLE))
        raise ValueError(f"version {str(version)[:20]} of the format is not known here, only {known}: upgrade recorder")
    if given.keys() != {"recorder_cassette", "session"}:
        raise ValueError("it has the version and the session, and nothing else")
    about = msgspec.convert(given["session"], _Session)
    created_ns = nanoseconds(about.created)
    if not isinstance(value(about.labels), dict):
        raise ValueError("labels is not a JSON object")
    session = Session(first_id(created_ns), created_ns, about.name, about.source, about.labels, about.origin)
    return storable_row(session)


def instant(ns: int) -> str:
    """Format wall time to the microsecond, for people."""
    return (_EPOCH + timedelta(microseconds=ns // 1000)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def nanoseconds(written: object) -> int:
    """Parse an instant. Raises `ValueError` for text that is none, or that the log cannot hold."""
    try:
        read = datetime.fromisoformat(str(written))
        ns = (read - _EPOCH) // timedelta(microseconds=1) * 1000
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{str(written)[:40]} is not an instant like 2026-01-31T12:00:00.000000Z") from error
    if not -(2**63) <= ns < 2**63:
        raise ValueError(f"{str(written)[:40]} is too far from now for the log")
    return ns
