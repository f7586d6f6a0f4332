"""A server on loopback that answers each method of JSON-RPC with a reply made by hand."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from tests.support.http_server import Handler, listening
from tests.support.recordings import Reply


@contextlib.contextmanager
def answering(replies: dict[str, Reply]) -> Iterator[str]:
    """Answer each method with its reply, and take notices; gives the address."""

    class Server(Handler):
        def do_POST(self) -> None:
            asked = json.loads(self.given())
            reply = replies.get(asked["method"]) if "id" in asked else None
            self.send_response(reply.status if reply else 202)
            for name, value in reply.headers if reply else ():
                self.send_header(name, value)
            self.end_headers()
            for block in reply.blocks() if reply else ():
                self.wfile.write(block)

        def do_GET(self) -> None:
            self.send_error(405)

    with listening(Server) as url:
        yield f"{url}/mcp"
