"""The provider of `recorder demo`: bundled recordings, the one that answers a request chosen by
what it asks.

Rules of this file:

* A request that was recorded gets its recorded answer, as from `recorder mock`.
* Any other gets the answer of the recorded request that is most like it: of the same path, streamed
  or not, with the same keyword in its question, with results of tools or without. A call goes only
  to a tool that the client offers.
* A key with the word wrong in it is refused; all others are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from recorder.cassettes.sse_jsonl import read_cassette
from recorder.model.events import Recording
from recorder.proxy.app import Proxy
from recorder.proxy.http.messages import Request, Response
from recorder.proxy.routing import Routes, recorded_upstreams
from recorder.replay.fork import in_path
from recorder.replay.matching import Matcher, MatchRequest, Miss, request_of
from recorder.replay.matching.client_ids import with_client_ids
from recorder.replay.matching.fingerprint import SPOKEN, Place, place
from recorder.replay.matching.noise import DEFAULT_RULES, Rules
from recorder.replay.transport import ReplayTransport, match_request, origin_of, whole
from recorder.replay.websocket.transport import WebSocketTransport
from recorder.wire import dialects
from recorder.wire.dialects.canonical import canonical
from recorder.wire.dialects.json_values import request_object
from recorder.wire.turns import is_connection, is_turn

CASSETTE = "demo.sse.jsonl"
"""Of each wire format, in the folder of its dialect. `python -m tools.demo_cassettes` records them
again.
"""

KEYWORDS = (
    "shell", "delegate", "rate limit", "unauthorized", "bad request", "fail", "refuse", "weather", "search", "slow",
)  # fmt: skip
"""Words of a question that choose the answer, the first that has one; the first two are for agents.
"""

_KEYWORD = re.compile(rf"\b(?:{'|'.join(KEYWORDS)})\b", re.IGNORECASE)
_TOOL = re.compile(rb'"name"\s*:\s*"([^"]+)"')
_KEYS = ("authorization", "x-api-key", "x-goog-api-key")
_ANY_MODEL = "demo"
_NO_PARAMETERS = frozenset({*SPOKEN, "model"})


class Question(NamedTuple):
    """What decides the answer of a request."""

    place: Place  # whatever the model that its path names
    is_streamed: bool
    has_results: bool
    keywords: Sequence[str]
    model: str | None
    tools: frozenset[bytes]  # names of those that the client offers
    parameters: frozenset[tuple[str, bytes]]


class Answerable(NamedTuple):
    """A bundled recording, and the question that it answers."""

    question: Question
    recorded: Recording


class DemoTransport(ReplayTransport):
    """A replay that answers what was not recorded, too."""

    def __init__(self, recordings: Sequence[Recording], speed: float | None) -> None:
        super().__init__(Matcher(recordings, Rules(until="position"), strict=False), speed=speed)
        over_http = [each for each in recordings if not (is_connection(each) or is_turn(each))]
        self._answers = [Answerable(question_of(request_of(each)), each) for each in over_http]

    async def handle_async_request(self, request: Request) -> Response:
        if _has_wrong_key(request):
            return await self._answer(request, match_request(request, b""), ["unauthorized"])
        return await super().handle_async_request(request)

    async def missed(self, request: Request, miss: Miss) -> Response:
        return await self._answer(request, miss.request, question_of(miss.request).keywords)

    async def _answer(
        self, request: Request, query: MatchRequest, keywords: Sequence[str]
    ) -> Response:
        question = question_of(query)
        answer = self._most_alike(question, keywords)
        if answer is None:
            message = f"The demo provider has no answer for {query.method} {query.target}."
            return whole(
                404, dialects.error_body(query.method, query.target, query.upstream, 404, message)
            )
        recorded, model = answer.recorded, answer.question.model
        if model is not None and question.model is not None:
            recorded = with_client_ids(recorded, {model: question.model})
        return await self.replay(request, recorded)

    def _most_alike(self, question: Question, keywords: Sequence[str]) -> Answerable | None:
        """Return the recorded answer for the first keyword that has one, else for a question
        without any.
        """
        fitting = [each for each in self._answers if _fits(each.question, question)]
        for keyword in (*keywords, None):
            alike = [
                each for each in fitting if next(iter(each.question.keywords), None) == keyword
            ]
            if alike:
                return min(alike, key=lambda each: _distance(each.question, question))
        return None


def question_of(request: MatchRequest) -> Question:
    """Read what decides the answer. A body that is not a JSON object is a bad request."""
    target = in_path(request.target, _ANY_MODEL).replace("/v1beta/", "/v1/", 1)
    own_path = request.target.partition("?")[0]
    facts = dialects.by_path(request.method, own_path).request_facts(own_path, request.body)
    body = request_object(request.body)
    keywords = _KEYWORD.findall((facts.text or "").lower())
    if request.body and not body:
        keywords = ["bad request"]
    return Question(
        place=place(msgspec.structs.replace(request, target=target), DEFAULT_RULES),
        is_streamed=facts.stream is True,
        has_results=bool(facts.results) and not facts.is_turn,
        keywords=sorted(keywords, key=KEYWORDS.index),
        model=facts.model,
        tools=frozenset(_TOOL.findall(canonical(body.get("tools")))),
        parameters=frozenset(
            (name, canonical(value)) for name, value in body.items() if name not in _NO_PARAMETERS
        ),
    )


def _fits(recorded: Question, asked: Question) -> bool:
    return (
        recorded.place == asked.place
        and recorded.is_streamed == asked.is_streamed
        and recorded.has_results == asked.has_results
        and recorded.tools <= asked.tools
    )


def _distance(recorded: Question, asked: Question) -> tuple[int, int]:
    """Return what a recorded request has beside what is asked, which shows in its answer, and what
    it lacks.
    """
    return len(recorded.parameters - asked.parameters), len(asked.parameters - recorded.parameters)


def _has_wrong_key(request: Request) -> bool:
    origin = origin_of(request)
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in origin.headers]
    keys = [value for name, value in headers if name.lower() in _KEYS]
    keys += re.findall(r"[?&]key=([^&]*)", origin.target)
    return any("wrong" in key.lower() for key in keys)


def bundled() -> list[Recording]:
    """Return the recordings of all wire formats."""
    recordings: list[Recording] = []
    for path in sorted(Path(dialects.__path__[0]).glob(f"*/{CASSETTE}")):
        recordings += read_cassette(path)
    return recordings


def provider(speed: float | None = 1.0) -> Proxy:
    """Return the app of the provider, at `speed` times the original pace; for `None` nothing waits."""
    recordings = bundled()
    transport = DemoTransport(recordings, speed)
    upstreams = recorded_upstreams(each.request.upstream for each in recordings)
    return Proxy(WebSocketTransport(transport, transport), Routes(upstreams, any_path=True))
