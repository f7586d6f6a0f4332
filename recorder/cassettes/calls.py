"""HTTP calls as other tools store them: their target and true headers, and their records of a journal. Pure.

All of these formats keep a body without its content coding, under the headers that it was sent with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import AnyStr
from urllib.parse import urlsplit

import msgspec

from recorder.cassettes import Entry
from recorder.journal.format import Gap, Mark
from recorder.model.payloads import ExchangeEnd, RequestEnd, RequestHead, RequestRecord, ResponseHead
from recorder.wire.redaction.headers import redact_record
from recorder.wire.upstreams import KNOWN, join

NO_BODY = "the file does not have the body of the response"
BODILESS = frozenset({204, 205, 304})  # statuses of responses that have none

_CODING = "content-encoding"
_OF_THE_TRANSFER = frozenset({_CODING, "content-length", "transfer-encoding"})
_LOOPBACK = re.compile(r"(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?", re.IGNORECASE)


def true_headers(given: list[tuple[AnyStr, AnyStr]], *, is_coded: bool = False) -> list[tuple[AnyStr, AnyStr]]:
    """Return the headers that are true for a body as it is stored: decoded, unless it is still coded."""
    untrue = _OF_THE_TRANSFER - {_CODING} if is_coded else _OF_THE_TRANSFER
    return [(name, value) for name, value in given if _lower(name) not in untrue]


def _lower(name: str | bytes) -> str:
    return (name.decode("latin-1") if isinstance(name, bytes) else name).lower()


def url(request: RequestRecord, *, was_imported: bool = False) -> str:
    """Return the URL that a client uses without a recorder: the host that it named; of this machine only if that is no
    recorder."""
    host = next((value for name, value in request.headers if name.lower() == "host"), "")
    is_here = _LOOPBACK.fullmatch(host) is not None
    if host and (was_imported or not is_here):
        return f"{'http' if is_here else 'https'}://{host}{request.target}"
    if request.upstream in KNOWN:
        named = f"/{request.upstream}/"
        rest = request.target[len(named) - 1 :] if request.target.startswith(named) else request.target
        return join(KNOWN[request.upstream], rest)
    return f"http://{host}{request.target}" if host else f"https://{request.upstream}.invalid{request.target}"


def target_of(url: str) -> str:
    """Return the target of a request for a URL. Raises `ValueError` if it is none."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def exchange_entries(
    head: RequestHead,
    body: bytes,
    response: ResponseHead | None,
    chunks: Iterable[tuple[int, bytes]],
    end: ExchangeEnd,
    *,
    head_ns: int = 0,
    end_ns: int = 0,
    missing_response: str | None = None,
) -> Iterator[Entry]:
    """Yield the records of one exchange. It ends at `end_ns`, but not before its last chunk.

    `missing_response` is the reason why the file does not have the body of the response.
    """
    yield Entry(Mark.REQUEST, 0, redact_record(head))
    if body:
        yield Entry(Mark.REQUEST_BODY, 0, body)
    yield Entry(Mark.REQUEST_END, 0, msgspec.json.encode(RequestEnd(complete=True)))
    if response is not None:
        yield Entry(Mark.RESPONSE, head_ns, redact_record(response))
    if missing_response is not None:
        yield Entry(Mark.GAP, head_ns, gap_of(Mark.CHUNK, head_ns, missing_response))
    for t_ns, chunk in chunks:
        end_ns = max(end_ns, t_ns)
        yield Entry(Mark.CHUNK, t_ns, chunk)
    yield Entry(Mark.END, end_ns, redact_record(end))


def gap_of(mark: Mark, t_ns: int, reason: str) -> bytes:
    """Return a gap of an unknown number of bytes."""
    return msgspec.json.encode(Gap(mark, 1, 0, "", t_ns, t_ns, reason))
