"""Gemini's Interactions by the SDKs of Google, over sockets, through `recorder serve` and then from
`recorder mock`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from google.genai._interactions import APIConnectionError

from recorder.cassettes.sse_jsonl import read_cassette
from recorder.wire.dialects import by_name
from recorder.wire.dialects.gemini_interactions.decoder import COMPLETED
from recorder.wire.framing.sse import Splitter
from recorder.wire.recording import is_stream
from tests.acceptance.commands.test_mock import mocking
from tests.support.corpus import CORPUS, corpus_index
from tests.support.empty_log import empty
from tests.support.http_server import Handler, listening
from tests.support.node import answers
from tests.support.sdks import INTERACTION, gemini_client, interaction_of
from tests.support.server import run, serving
from tests.unit.wire.dialects.test_gemini_interactions import ALL, API, ID, STREAMS, stream

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
# blocks after which the connection breaks: within the code, and between the arguments of a call
CUTS = (7, 11)


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
    """Every event that google-genai yields of an interaction that is resumed whenever its
    connection breaks.
    """
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


PACKAGES = ("@google/genai@3.3.0",)
DEMO = Path(by_name.__code__.co_filename).parent / "gemini_interactions" / "demo.sse.jsonl"


def streams() -> Iterator[tuple[Json, bytes]]:
    """Requests, and the streams that answer them: of the demo, of the corpus, and those that are
    made by hand.
    """
    for recorded in read_cassette(DEMO):
        if is_stream(recorded) and COMPLETED.encode() in recorded.body:
            yield json.loads(recorded.request_body), recorded.body
    bodies = [
        (CORPUS / entry["file"]).read_bytes()
        for entry in corpus_index()
        if entry["provider"] == API
    ]
    bodies += [stream(*events) for events in STREAMS.values()]
    for number, body in enumerate(bodies):
        yield {**INTERACTION, "input": f"stream {number}"}, body


@pytest.mark.slow
def test_the_sdk_for_javascript_reads_what_we_read_through_the_proxy_and_from_the_mock(
    tmp_path: Path,
) -> None:
    db, made = empty(tmp_path / "recorder.db"), [*streams()]
    bodies = {json.dumps(request["input"]): body for request, body in made}

    class App(Handler):
        def do_POST(self) -> None:
            self.answer("text/event-stream", bodies[json.dumps(json.loads(self.given())["input"])])

    with listening(App) as url, serving(db, "--upstream", f"gemini={url}") as serve:
        questions = [
            (f"{serve.base}/s/js{number}", request) for number, (request, _) in enumerate(made)
        ]
        told = answers("interactions_sdk.cjs", PACKAGES, questions)
    for number, said in enumerate(told):
        [exchange] = json.loads(run(db, "show", f"js{number}", "--json").out)["exchanges"]
        assert said == read_from(exchange, said)
    with mocking(db, *(f"js{number}" for number in range(len(made))), "--strict") as mock:
        assert (
            answers("interactions_sdk.cjs", PACKAGES, [(mock.base, request) for request, _ in made])
            == told
        )


@pytest.mark.slow
def test_the_sdk_for_javascript_resumes_a_stream_too(tmp_path: Path) -> None:
    db, request = empty(tmp_path / "recorder.db"), {**INTERACTION, "input": "x"}
    with listening(Interactions) as url, serving(db, "--upstream", f"gemini={url}") as serve:
        [said] = answers("interactions_sdk.cjs", PACKAGES, [(f"{serve.base}/s/cut", request)])
    shown = json.loads(run(db, "show", "cut", "--json").out)["exchanges"]
    assert [each["status"] for each in shown] == ["truncated", "truncated", "completed"]
    assert said == read_from(shown[-1], said)
    with mocking(db, "cut", "--strict") as mock:
        assert answers("interactions_sdk.cjs", PACKAGES, [(mock.base, request)]) == [said]


def read_from(exchange: Json, said: Json) -> Json:
    """What the SDK should say by what is recorded.

    It counts thoughts, and what tools read, beside the rest.
    """
    items, usage = exchange["items"], exchange["usage"]
    calls = [item for item in items if item["kind"] == "tool_call"]
    outputs = [call["output"] for call in calls if "output" in call]
    counts = said["usage"]
    thoughts = counts.get("total_thought_tokens", 0)
    assert usage["input_tokens"] == counts["total_input_tokens"] + counts.get(
        "total_tool_use_tokens", 0
    )
    assert usage["output_tokens"] == counts["total_output_tokens"] + thoughts
    assert usage.get("reasoning_output_tokens", 0) == thoughts
    return {
        "text": "".join(item["text"] for item in items if item["kind"] == "message"),
        "summaries": "".join(
            "".join(item.get("summary", ())) for item in items if item["kind"] == "reasoning"
        ),
        "calls": [[call["name"], json.loads(call["arguments"])] for call in calls],
        "outputs": [json.loads(each) if each[:1] == "[" else each for each in outputs],
        "status": exchange["finish_reason"],
        "usage": counts,
    }
