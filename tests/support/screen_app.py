"""An app that asks a model and streams its answer to the screen: as UI messages, AG-UI or A2A, by
the path.

Each asks with the client of its format, as small as it can be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx

from tests.support.http_server import Handler, listening
from tests.support.screen import AG_UI_ASKED, UI_ASKED, Json

MODEL_ASKED = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "When?"}]}
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "When?"}]}
A2A_ASKED = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "SendStreamingMessage",
    "params": {"message": MESSAGE},
}


def ui_messages(texts: Iterable[str]) -> Iterator[Json]:
    yield from ({"type": "start", "messageId": "m"}, {"type": "text-start", "id": "t"})
    for text in texts:
        yield {"type": "text-delta", "id": "t", "delta": text}
    yield from ({"type": "text-end", "id": "t"}, {"type": "finish"})


def ag_ui(texts: Iterable[str]) -> Iterator[Json]:
    run, of = {"threadId": "t-1", "runId": "r-1"}, {"messageId": "m-2"}
    yield from (
        {"type": "RUN_STARTED", **run},
        {"type": "TEXT_MESSAGE_START", **of, "role": "assistant"},
    )
    for text in texts:
        yield {"type": "TEXT_MESSAGE_CONTENT", **of, "delta": text}
    yield from ({"type": "TEXT_MESSAGE_END", **of}, {"type": "RUN_FINISHED", **run})


def a2a(texts: Iterable[str]) -> Iterator[Json]:
    ids = {"taskId": "t", "contextId": "c"}

    def told(**result: Any) -> Json:
        return {"jsonrpc": "2.0", "id": 1, "result": result}

    yield told(task={"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}})
    for number, text in enumerate(texts):
        artifact = {"artifactId": "a", "parts": [{"text": text}]}
        yield told(artifactUpdate={**ids, "artifact": artifact, "append": number > 0})
    yield told(statusUpdate={**ids, "status": {"state": "TASK_STATE_COMPLETED"}})


class Screen(NamedTuple):
    events: Callable[[Iterable[str]], Iterator[Json]]
    asked: Json


SCREENS = {
    "ui-messages": Screen(ui_messages, UI_ASKED),
    "ag-ui": Screen(ag_ui, AG_UI_ASKED),
    "a2a": Screen(a2a, A2A_ASKED),
}


@contextmanager
def screen_app(model: Callable[[str], str]) -> Iterator[str]:
    """Serve the app, whose paths are the names of formats; gives its address.

    `model` is where it asks, by format.
    """

    class App(Handler):
        def do_POST(self) -> None:
            self.given()
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            format = self.path.removeprefix("/")
            for event in SCREENS[format].events(asked(model(format))):
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
                self.wfile.flush()

    with listening(App) as url:
        yield url


def asked(model: str) -> Iterator[str]:
    with httpx.stream("POST", model, json=MODEL_ASKED) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                yield json.loads(line[6:])["choices"][0]["delta"]["content"]
