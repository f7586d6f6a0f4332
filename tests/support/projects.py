"""Users' projects, run by pytest with the plugin, and a provider on this machine."""

from __future__ import annotations

import importlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import entry_points
from typing import Any

import httpx
import httpx2
import msgspec
import openai
import pytest

from recorder.cassettes.sse_jsonl import read_cassette
from recorder.cassettes.sse_jsonl.writer import cassette_lines
from recorder.files import save
from recorder.model.events import Recording, Session
from tests.support.facts import captured

PLUGIN = "recorder.pytest_plugin"
_IS_INSTALLED = any(each.value == PLUGIN for each in entry_points(group="pytest11"))
LOADED = [] if _IS_INSTALLED else ["-p", PLUGIN]
# the last: a second each
UNLOADED = ("cacheprovider", "asyncio", "anyio", "hypothesispytest", "unraisableexception")

# What is loaded late is loaded now: pytester forgets what a run was the first to load, and two of
# one kind do not mix.
for _module in ("recorder.testing.fixture", "recorder.store.queries.reader"):
    importlib.import_module(_module)
for _client in (httpx.Client(), httpx2.Client(), openai.OpenAI(api_key="none")):
    hasattr(_client, "responses")
    _client.close()

ASKING = '''
import openai

def ask(base, prompt="hi", **how):
    """What the SDK says the model said."""
    with openai.OpenAI(base_url=base, api_key="sk-secret", max_retries=0, **how) as client:
        events = client.responses.create(model="m", input=prompt, stream=True)
        return "".join(event.delta for event in events if event.type == "response.output_text.delta")
'''
IMPORTS = "import asyncio, httpx, httpx2, openai, pytest\nfrom asking import ask\n"
ONE_TEST = (
    "def test_one(recorder_replay):\n    assert ask(recorder_replay.base_url()) == 'Zürich'\n"
)
ONE_CASSETTE = "cassettes/test_it/test_one.sse.jsonl"


def stream(*texts: str) -> bytes:
    """What a model says, a delta for each text; without one "Zürich"."""
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "look",
        "arguments": "{}",
    }
    usage = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
    delta = {
        "type": "response.output_text.delta",
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
    }
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "resp_1", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": message},
        *({**delta, "delta": text} for text in texts or ("Zürich",)),
        {"type": "response.output_item.done", "output_index": 1, "item": call},
        {"type": "response.completed", "response": {"id": "resp_1", "output": [], "usage": usage}},
    ]
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (e["type"].encode(), msgspec.json.encode(e)) for e in numbered
    )


class Upstream:
    """A provider on this machine, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer = stream()
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                upstream.asked.append(
                    msgspec.json.decode(self.rfile.read(int(self.headers["content-length"])))
                )
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                self.wfile.write(upstream.answer)

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.base = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Project:
    """A user's project with one test file."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        pytester.makepyfile(asking=ASKING)

    def test(self, text: str) -> Project:
        self.pytester.makepyfile(test_it=IMPORTS + text)
        return self

    def holds(
        self, *prompts: str, path: str = ONE_CASSETTE, body: bytes = b"", model: str = "m"
    ) -> Project:
        """A cassette with an answer to each prompt."""
        asked = [
            msgspec.json.encode({"input": prompt, "model": model, "stream": True})
            for prompt in prompts
        ]
        episodes = [
            captured(body or stream(), request=each, started_ns=number)
            for number, each in enumerate(asked)
        ]
        (self.pytester.path / path).parent.mkdir(parents=True, exist_ok=True)
        session = Session("s-1", 1_000, "demo", "path", "{}", "live")
        save(self.pytester.path / path, cassette_lines(session, episodes))
        return self

    def run(self, *options: str) -> pytest.RunResult:
        with pytest.MonkeyPatch.context() as patched:
            for variable in ("CI", "BUILD_NUMBER"):  # with them pytest says what is wrong twice
                patched.delenv(variable, raising=False)
            return self.pytester.runpytest_inprocess(
                *LOADED, *(f"-pno:{name}" for name in UNLOADED), *options
            )

    def said(self, *options: str, **outcomes: int) -> str:
        """What a run says, which must have these outcomes."""
        result = self.run(*options)
        result.assert_outcomes(**outcomes)
        return str(result.stdout)

    def recordings(self, path: str = ONE_CASSETTE) -> list[Recording]:
        return read_cassette(self.pytester.path / path)
