"""The real upstream: a transport over connections of our own (`recorder.proxy.http`).

Nothing is added, followed, decoded or tried again, no cookie is kept, and nothing times out but connecting. Headers go
out and come back as bytes in the order they had; the target goes out as it is. What ends a body other than HTTP's own
end of it is an `UpstreamError`, never an end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from recorder.errors import UpstreamError, UsageError
from recorder.proxy.http.client_pool import Pool
from recorder.proxy.http.client_response import Headers
from recorder.proxy.http.messages import Request, Response, Upload
from recorder.proxy.http.network import DIRECT, PORTS, Endpoint, Network
from recorder.wire.redaction.headers import NEVER

REST_S = 5.0  # for the rest of a body, on its way while the upstream was found to be away; the client waits as long

_NOT_SENT = frozenset({b"transfer-encoding"})  # the body is framed again


class UpstreamTransport:
    """Sends requests to the address in their URL, over connections as `network` wants them. Raises `UpstreamError`;
    `UsageError` if a request cannot be sent at all.

    `extensions["target"]`, if present, is sent as the request target in place of the URL's.
    """

    def __init__(self, network: Network = DIRECT) -> None:
        self._pool = Pool(is_credential, network)

    async def handle_async_request(self, request: Request) -> Response:
        url = request.url
        endpoint = Endpoint(url.scheme, url.host, url.port or PORTS[url.scheme])
        chunked = "transfer-encoding" in request.headers
        upgrade = request.extensions.get("upgrade")
        body = request.stream if upgrade is None and (chunked or "content-length" in request.headers) else None
        target = request.extensions.get("target", url.raw_path)
        head = _head(request, target, chunked=chunked)
        try:
            connection = await self._pool.connection(endpoint, request.headers.raw, target)
        except UpstreamError:
            await _read_rest(body)
            raise
        behind = None if upgrade is None else request.stream
        response = connection.begin(head, body, chunked=chunked, is_head=request.method == "HEAD", behind=behind)
        try:
            await response.head()
        except UpstreamError:
            response.close()
            await response.upload_stopped()
            await _read_rest(body)
            raise
        except BaseException:
            response.close()
            raise
        return Response(response.status, response.reason, response.headers, response, response.version)

    async def aclose(self) -> None:
        self._pool.close()


async def _read_rest(body: Upload | None) -> None:
    """Read a request body that no upstream takes: whoever records it has it then, and clients send it in any case.

    Its size has the limit of every body (`recorder.proxy.app`).
    """
    if body is None:
        return
    with suppress(Exception):  # the upstream's error is the one that counts
        async with asyncio.timeout(REST_S):
            async for _ in body:
                pass


def _head(request: Request, target: bytes, *, chunked: bool) -> bytes:
    """Return the head of the request as it goes out. Raises `UsageError` if it would be read as something else."""
    headers: Headers = [header for header in request.headers.raw if header[0].lower() not in _NOT_SENT]
    if chunked:
        headers.append((b"transfer-encoding", b"chunked"))
    if "upgrade" in request.extensions:
        headers += [(b"connection", b"Upgrade"), (b"upgrade", request.extensions["upgrade"])]
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), target), *map(b": ".join, headers), b"", b""]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1 or b"\0" in head or b" " in target:
        raise UsageError("The request has a line break or a space where none can be, and cannot be forwarded.")
    return head


@lru_cache(maxsize=256)
def is_credential(name: bytes) -> bool:
    """Return whether a header or a query parameter of that name may identify the sender of a request."""
    text = unquote_to_bytes(name).decode("latin-1").lower()
    return text == "key" or NEVER.search(text) is not None
