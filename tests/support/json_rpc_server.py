"""A server on loopback that answers each method of JSON-RPC with a reply made by hand."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.recordings import Reply


@contextlib.contextmanager
def answering(replies: dict[str, Reply]) -> Iterator[str]:
    """Answer each method with its reply, and take notices; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            reply = replies.get(asked["method"]) if "id" in asked else None
            self.send_response(reply.status if reply else 202)
            for name, value in reply.headers if reply else ():
                self.send_header(name, value)
            self.end_headers()
            for block in reply.blocks() if reply else ():
                self.wfile.write(block)

        def do_GET(self) -> None:
            self.send_error(405)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()
