"""Gemini's Interactions by the SDKs of Google, over sockets, through `recorder serve` and then from `recorder mock`."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from google.genai._interactions import APIConnectionError

from recorder.wire.framing.sse import Splitter
from tests.acceptance.commands.test_mock import mocking
from tests.support.empty_log import empty
from tests.support.http_server import Handler, listening
from tests.support.sdks import INTERACTION, gemini_client, interaction_of
from tests.support.server import run, serving
from tests.unit.wire.dialects.test_gemini_interactions import ALL, ID

Json = dict[str, Any]


def with_ids(body: bytes) -> list[bytes]:
    """The blocks of a stream, each with the id by which it is resumed."""
    blocks = []
    for number, piece in enumerate(Splitter().feed(body)):
        line, data = piece.raw.rstrip().split(b"\n")
        if data != b"data: [DONE]":
            event = json.loads(data.removeprefix(b"data: "))
            data = b"data: " + json.dumps({**event, "event_id": f"e{number}"}).encode()
        blocks.append(line + b"\n" + data + b"\n\n")
    return blocks


BLOCKS = with_ids(ALL)
CUTS = (7, 11)  # blocks after which the connection breaks: within the code, and between the arguments of a call


class Interactions(Handler):
    """A provider whose connections break, and that goes on after the event of an id."""

    def do_POST(self) -> None:
        self.given()
        self.tell(0)

    def do_GET(self) -> None:
        [last] = parse_qs(urlsplit(self.path).query)["last_event_id"]
        self.tell(int(last.removeprefix("e")) + 1)

    def tell(self, first: int) -> None:
        cut = next((cut for cut in CUTS if cut > first), len(BLOCKS))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(sum(map(len, BLOCKS[first:]))))
        self.end_headers()
        self.wfile.write(b"".join(BLOCKS[first:cut]))
        self.close_connection = True


def asked(base: str) -> list[Any]:
    """Every event that google-genai yields of an interaction that is resumed whenever its connection breaks."""
    events: list[Any] = []
    with gemini_client(base, "v1beta") as client:
        stream = client.interactions.create(**INTERACTION, input="x", stream=True)
        while True:
            with contextlib.suppress(APIConnectionError):
                for event in stream:
                    events.append(event)
            if events[-1].event_type == "interaction.completed":
                return events
            stream = client.interactions.get(ID, stream=True, last_event_id=events[-1].event_id)


def test_google_genai_resumes_a_stream_and_the_last_exchange_has_all_of_it(tmp_path: Path) -> None:
    db = empty(tmp_path / "recorder.db")
    with listening(Interactions) as url:
        with serving(db, "--upstream", f"gemini={url}") as serve:
            events = asked(f"{serve.base}/s/cut")
    said = interaction_of(events)
    shown = json.loads(run(db, "show", "cut", "--json").out)["exchanges"]
    assert [each["status"] for each in shown] == ["truncated", "truncated", "completed"]
    assert {each["superseded_by"] for each in shown[:-1]} == {shown[-1]["exchange_id"]}
    items = shown[-1]["items"]
    calls = [item for item in items if item["kind"] == "tool_call"]
    assert "".join(item["text"] for item in items if item["kind"] == "message") == said.text
    assert [item["summary"] for item in items if item["kind"] == "reasoning"] == [[said.summaries]]
    assert [(call["name"], json.loads(call["arguments"])) for call in calls] == said.calls
    assert [call["output"] for call in calls if "output" in call] == said.outputs
    assert said.usage is not None
    assert shown[-1]["usage"]["output_tokens"] == said.usage[2]
    with mocking(db, "cut", "--strict") as mock:
        again = asked(mock.base)
    assert again == events
