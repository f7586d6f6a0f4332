"""The demo asked in process, with the words of httpx: what it answers, without a server and without pauses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from recorder.demo.app import App
from recorder.demo.reply import DemoRequest


class Answer(NamedTuple):
    """What the demo answered, whole."""

    status_code: int
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


class Demo:
    """The demo, whose clock stands still unless another one is given."""

    def __init__(self, **options: Any) -> None:
        self._app = App(**{"clock": lambda: 0.0, "pace": 0.0, **options})

    def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Answer:
        """Send a value as JSON, or bytes as they are."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._answer(DemoRequest("POST", path, tuple((headers or {}).items()), content))

    def get(self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
        return self._answer(DemoRequest(method, path, tuple((headers or {}).items())))

    def _answer(self, request: DemoRequest) -> Answer:
        reply = self._app.reply(request)
        return Answer(reply.status, b"".join(step.take() for step in reply.steps))


def user(prompt: str, **more: Any) -> dict[str, Any]:
    """A body that Chat Completions, Messages and, for its `input`, Responses take."""
    return {"model": "m", "stream": True, "input": prompt, "messages": [{"role": "user", "content": prompt}], **more}


def events(body: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]
