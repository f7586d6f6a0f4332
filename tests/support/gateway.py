"""A model and a gateway in front of it: it filters Markdown, holds words back, and passes a trace
on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import httpx

from tests.support.http_server import Handler, listening

ANSWER = "The **fast** train leaves Paris at noon, and the slow one an hour later."
HELD_S = 0.2  # that the gateway waits before it passes on what it holds
DROPPED = str.maketrans("", "", "*,")  # signs that the gateway leaves out
HELD = 6  # pieces that it holds


def pieces() -> list[str]:
    return [f"{word} " for word in ANSWER.split(" ")]


def delta(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return f"data: {json.dumps({'id': 'c-1', 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n".encode()


class Model(Handler):
    """A model that says the answer in pieces."""

    def do_POST(self) -> None:
        body = self.given()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for text in self.said(body):
            self.wfile.write(delta(text))
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def said(self, body: bytes) -> Iterable[str]:
        return pieces()


class _Gateway(Model):
    model = ""  # where it is asked

    def said(self, body: bytes) -> Iterator[str]:
        trace = self.headers.get("traceparent")
        headers = (
            {"traceparent": trace.replace("-aaaaaaaaaaaaaaaa-", "-bbbbbbbbbbbbbbbb-")}
            if trace
            else {}
        )
        held: list[str] = []
        with httpx.stream("POST", self.model, content=body, headers=headers) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    held.append(
                        json.loads(line[6:])["choices"][0]["delta"]["content"].translate(DROPPED)
                    )
                if len(held) == HELD:
                    time.sleep(HELD_S)
                    yield "".join(held)
                    held = []
        yield "".join(held)


class Gateway:
    """The addresses of both. The gateway asks the model at `ask_model_at`: through a recorder."""

    def __init__(self, model: str, gateway: str, handler: type[_Gateway]) -> None:
        self.model, self.gateway, self._handler = model, gateway, handler

    def ask_model_at(self, url: str) -> None:
        self._handler.model = url


@contextmanager
def gateway() -> Iterator[Gateway]:
    handler = type("Handler", (_Gateway,), {})
    with ExitStack() as stack:
        model, front = (
            stack.enter_context(listening(Model)),
            stack.enter_context(listening(handler)),
        )
        yield Gateway(model, front, handler)
