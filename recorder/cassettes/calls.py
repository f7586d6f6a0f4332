"""HTTP calls as other tools store them: which headers are true, where they went. Pure.

All of these formats keep a body without its content coding, under the headers that it was sent with.
"""

from __future__ import annotations

import re
from typing import AnyStr

from recorder.model.payloads import RequestRecord
from recorder.wire.upstreams import UPSTREAMS, join

_CODING = "content-encoding"
_OF_THE_TRANSFER = frozenset({_CODING, "content-length", "transfer-encoding"})
_LOOPBACK = re.compile(r"(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?", re.IGNORECASE)


def true_headers(given: list[tuple[AnyStr, AnyStr]], *, is_coded: bool = False) -> list[tuple[AnyStr, AnyStr]]:
    """Those that are true for a body as it is stored: decoded, unless it is still coded."""
    untrue = _OF_THE_TRANSFER - {_CODING} if is_coded else _OF_THE_TRANSFER
    return [(name, said) for name, said in given if _lower(name) not in untrue]


def _lower(name: str | bytes) -> str:
    return (name.decode("latin-1") if isinstance(name, bytes) else name).lower()


def url(request: RequestRecord, *, was_imported: bool = False) -> str:
    """Where a client asks without a recorder: the host that it named; of this machine only if that is no recorder."""
    host = next((said for name, said in request.headers if name.lower() == "host"), "")
    is_here = _LOOPBACK.fullmatch(host) is not None
    if host and (was_imported or not is_here):
        return f"{'http' if is_here else 'https'}://{host}{request.target}"
    if request.upstream in UPSTREAMS:
        named = f"/{request.upstream}/"
        rest = request.target[len(named) - 1 :] if request.target.startswith(named) else request.target
        return join(UPSTREAMS[request.upstream], rest)
    return f"http://{host}{request.target}" if host else f"https://{request.upstream}.invalid{request.target}"
