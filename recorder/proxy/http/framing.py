"""Message framing: where a request ends, for everybody who reads its headers (RFC 9112 section 6.3). Pure."""

from __future__ import annotations

from collections.abc import Iterable

_DISGUISED = frozenset({b"transfer_encoding", b"content_length"})


def is_framed(headers: Iterable[tuple[bytes, bytes]], version: str) -> bool:
    """Whether everybody who reads these headers finds the same end of the request (RFC 9112 section 6.3).

    What httptools lets through: versions that have no headers, codings that not every server undoes or that HTTP/1.0
    has not, and names that a server with variables for headers takes for others.
    """
    codings = []
    for name, value in headers:
        if name == b"transfer-encoding":
            codings.append(value.lower())
        elif name in _DISGUISED:
            return False
    if version not in ("1.0", "1.1"):
        return False
    return not codings or (codings == [b"chunked"] and version == "1.1")
