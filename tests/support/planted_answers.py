"""Recordings with one wrong answer: agents of so many steps, and the upstream that they ask, over
real sockets.

The upstream knows one answer to each question. While a session is recorded it gives another one to
the question that a case has planted; asked live later it gives the right one. An agent prints what
it has come to.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.support.provider.reply import DemoReply, DemoRequest, Step
from tests.support.provider.server import DemoServer

SSE_HEADERS = (("content-type", "text/event-stream"),)
WRONG = "7777"

# What an agent does: ask(question, history) is a request, and its text. It needs no library: it
# starts in no time.
AGENT = r"""
import http.client, json, os, re, sys, urllib.parse
from concurrent.futures import ThreadPoolExecutor

api, kind, name, count = sys.argv[1:5]
variable, path = {
    "openai-responses": ("OPENAI_BASE_URL", "/responses"),
    "openai-chat": ("OPENAI_BASE_URL", "/chat/completions"),
    "anthropic": ("ANTHROPIC_BASE_URL", "/v1/messages"),
    "gemini": ("GOOGLE_GEMINI_BASE_URL", "/v1beta/models/m:streamGenerateContent?alt=sse"),
}[api]
base = urllib.parse.urlsplit(os.environ[variable])


def body(turns):
    said = [{"role": role, "content": text} for role, text in turns]
    if api == "openai-responses":
        return {"model": "m", "stream": True, "input": said}
    if api == "gemini":
        roles = {"user": "user", "assistant": "model"}
        return {"contents": [{"role": roles[role], "parts": [{"text": text}]} for role, text in turns]}
    return {"model": "m", "stream": True, "max_tokens": 99, "messages": said}


def ask(question, history=()):
    connection = http.client.HTTPConnection(base.netloc)
    asked = json.dumps(body([*history, ("user", question)]))
    connection.request("POST", base.path + path, asked, {"content-type": "application/json"})
    response = connection.getresponse()
    read = response.read().decode()
    if response.status != 200:
        sys.exit(f"status {response.status}: {read}")
    return re.findall(r"<(\d+)>", read)[0]


def step(number):
    return f"{name}: step {number}"


def chain():
    history = []
    for number in range(int(count)):
        answer = ask(step(number), history)
        history += [("user", step(number)), ("assistant", answer)]
        yield answer


def alone():
    for number in range(int(count)):
        yield ask(step(number))


def stops():
    history = []
    for number in range(int(count)):
        answer = ask(step(number), history)
        history += [("user", step(number)), ("assistant", answer)]
        yield answer
        if answer == "7777":
            return


def workers():
    rounds = [range(start, min(start + 5, int(count) - 1)) for start in range(0, int(count) - 1, 5)]
    answers = []
    for numbers in rounds:
        with ThreadPoolExecutor() as pool:
            answers += pool.map(ask, map(step, numbers))
    yield from answers
    yield ask(step("last"), [("user", " ".join(answers)), ("assistant", "Well.")])


answers = {"chain": chain, "alone": alone, "stops": stops, "workers": workers, "carried": chain}[kind]()
print(*answers, *sys.argv[5:])
"""

APIS = {
    "openai-responses": "openai",
    "openai-chat": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
KINDS = ("chain", "alone", "stops", "workers", "carried")


class Case(NamedTuple):
    """An agent, and the question that gets a wrong answer while it is recorded, if one does."""

    api: str
    kind: str
    name: str
    steps: int
    planted: str | None

    def words(self, *more: str) -> list[str]:
        """The command line; with more words, which it prints at its end whatever is answered."""
        return [
            sys.executable,
            "-I",
            "-S",
            "-c",
            AGENT,
            self.api,
            self.kind,
            self.name,
            str(self.steps),
            *more,
        ]

    def questions(self) -> list[str]:
        last = "last" if self.kind == "workers" else self.steps - 1
        return [f"{self.name}: step {each}" for each in (*range(self.steps - 1), last)]

    def expected(self) -> str:
        """What the agent prints if all answers are right."""
        answers: list[str] = []
        for question in self.questions():
            before = answers[-1] if answers else None
            answers.append(right(question, before if self.kind == "carried" else None))
        return " ".join(answers)


def case_of(seed: int, *, is_planted: bool = True) -> Case:
    """A case of 3 to 40 steps, another one for each seed."""
    dice = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    name = f"{kind} {seed}"
    case = Case(list(APIS)[seed // len(KINDS) % len(APIS)], kind, name, dice.randint(3, 40), None)
    planted = dice.choice(case.questions()) if is_planted else None
    return case._replace(planted=planted)


def right(question: str, before: str | None = None) -> str:
    """The right answer: a number of the question, added to what was answered before if the agent
    carries that on.
    """
    number = random.Random(question).randint(100, 999)
    return str(number if before is None else number + int(before))


class PlantedServer(DemoServer):
    """An upstream that gives one wrong answer to a planted question."""

    planted: str | None = None

    def _reply(self, request: DemoRequest) -> DemoReply:
        turns = list(_turns(request.json()))
        question = turns[-1]
        carried = question.startswith("carried") and len(turns) > 1
        answer = right(question, turns[-2] if carried else None)
        if question == self.planted:
            answer = WRONG
        events = _EVENTS[_api_of(request.path)](f"<{answer}>")
        return DemoReply(200, SSE_HEADERS, [Step(0.0, b"".join(events))])


@contextlib.asynccontextmanager
async def planted_upstream() -> AsyncIterator[PlantedServer]:
    server = PlantedServer("127.0.0.1", port=0, pace=0, linger_s=0, cache_lifetime_s=0)
    await server.listen()
    async with server:
        yield server


def _turns(body: Mapping[str, Any]) -> Iterator[str]:
    """What was said, the answers without their marks."""
    for each in body.get("contents", body.get("messages", body.get("input", []))):
        yield each["content"] if "content" in each else each["parts"][0]["text"]


def _api_of(path: str) -> str:
    ends = {
        "/responses": "openai-responses",
        "/completions": "openai-chat",
        "/messages": "anthropic",
    }
    return next((api for end, api in ends.items() if path.endswith(end)), "gemini")


def _event(value: Mapping[str, Any], *, is_named: bool = False) -> bytes:
    name = f"event: {value['type']}\n" if is_named else ""
    return f"{name}data: {json.dumps(value)}\n\n".encode()


def _responses(text: str) -> Iterator[bytes]:
    response: dict[str, Any] = {"id": "resp_1", "object": "response", "model": "m", "created_at": 1}
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    yield _event(
        {
            "type": "response.created",
            "response": {**response, "status": "in_progress", "output": []},
        }
    )
    yield _event(
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}}
    )
    yield _event({"type": "response.content_part.added", **where, "part": {**part, "text": ""}})
    yield _event({"type": "response.output_text.delta", **where, "delta": text})
    yield _event({"type": "response.output_item.done", "output_index": 0, "item": item})
    ended = {**response, "status": "completed", "output": [item], "usage": usage}
    yield _event({"type": "response.completed", "response": ended})


def _chat(text: str) -> Iterator[bytes]:
    chunk = {"id": "c_1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    delta = {"role": "assistant", "content": text}
    yield _event({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    yield _event(
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    )
    yield b"data: [DONE]\n\n"


def _anthropic(text: str) -> Iterator[bytes]:
    usage = {"input_tokens": 100, "output_tokens": 1}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": usage,
    }
    events: Sequence[Mapping[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 10},
        },
        {"type": "message_stop"},
    ]
    for event in events:
        yield _event(event, is_named=True)


def _gemini(text: str) -> Iterator[bytes]:
    content = {"role": "model", "parts": [{"text": text}]}
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    yield _event({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"})


_EVENTS: Mapping[str, Callable[[str], Iterator[bytes]]] = {
    "openai-responses": _responses,
    "openai-chat": _chat,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
