"""An upstream that breaks: WebSocket connections to the demo upstream of which the first turns of
each thread fail.

Rules of this file:

* A thread is what the handshake's `thread-id` says. Its turns fail one after another as in
  `FAULTS`, then none does.
* A prewarm (`generate: false`) is not a turn.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.connection import Connection
from websockets.sync.server import ServerConnection, serve

FAULTS = ("429", "close", "fin")
"""An error message; a Close in mid-stream; an end in mid-stream without one. Codex tries five
times.
"""

_LIMITED = json.dumps(
    {
        "type": "error",
        "status": 429,
        "error": {
            "type": "rate_limit_exceeded",
            "code": "rate_limit_exceeded",
            "message": "Try again in 1s.",
        },
        "headers": {"retry-after": "1"},  # without it Codex gives up
    }
)
_BEFORE = 6  # messages of a response that breaks: some text has come


class Relay:
    """The turns that have come, by their thread."""

    def __init__(self, demo: str) -> None:
        self._demo = demo
        self._turns: Counter[str] = Counter()
        self._lock = threading.Lock()

    def handle(self, client: ServerConnection) -> None:
        """Relay a connection until either side has ended it, or a fault has."""
        assert client.request is not None
        address = f"{self._demo.replace('http', 'ws', 1)}{client.request.path}"
        with contextlib.suppress(ConnectionClosed), connect(address, proxy=None) as demo:
            for message in client:
                fault = self._fault(client.request.headers["thread-id"], json.loads(message))
                if fault == "429":
                    client.send(_LIMITED)
                    continue
                demo.send(message)
                if not _answer(client, demo, fault):
                    return

    def _fault(self, thread: str, request: dict[str, object]) -> str | None:
        if request.get("generate") is False:
            return None
        with self._lock:
            self._turns[thread] += 1
            number = self._turns[thread]
        return FAULTS[number - 1] if number <= len(FAULTS) else None


def _answer(client: ServerConnection, demo: Connection, fault: str | None) -> bool:
    """Relay a response; return whether it is whole."""
    for number, event in enumerate(demo, 1):
        client.send(event)
        if fault == "close" and number == _BEFORE:
            client.close(1011, "broken")
            return False
        if fault == "fin" and number == _BEFORE:
            client.socket.shutdown(
                socket.SHUT_RDWR
            )  # a close alone sends nothing: the receiving thread holds the socket
            return False
        if json.loads(event)["type"] == "response.completed":
            return True
    return False


def relaying(demo: str) -> AbstractContextManager[str]:
    """Listen on loopback during the block; gives the address."""
    return listening(Relay(demo).handle)


@contextlib.contextmanager
def listening(handle: Callable[[ServerConnection], None]) -> Iterator[str]:
    """Serve WebSocket on loopback during the block; gives the address."""
    with serve(handle, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()
