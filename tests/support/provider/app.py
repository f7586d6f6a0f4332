"""The routing of requests to the wire formats. A row of `ROUTES` is all that a path needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from tests.support.provider import (
    anthropic,
    bedrock,
    gemini,
    gemini_interactions,
    hosted_agents,
    models,
    ollama,
    openai_chat,
    openai_responses,
)
from tests.support.provider.background import BackgroundResponses
from tests.support.provider.continued import ContinuedResponses
from tests.support.provider.dice import Dice
from tests.support.provider.hosted_sessions import HostedSessions
from tests.support.provider.openai_errors import refuse
from tests.support.provider.play import Dialect, Json, Play
from tests.support.provider.prompt_cache import LIFETIME_S, PromptCache, PromptTokens
from tests.support.provider.reply import DemoReply, DemoRequest, whole
from tests.support.provider.scripts import choose, usage


class Route(NamedTuple):
    """One path of an API, and its answer.

    A group in `path`, if there is one, is the name that the path gives.
    """

    method: str
    path: re.Pattern[str]
    dialect: Dialect
    answer: Callable[[Play], DemoReply]


def _route(method: str, path: str, dialect: Dialect, answer: Callable[[Play], DemoReply]) -> Route:
    return Route(method, re.compile(path), dialect, answer)


ROUTES = (
    _route("POST", r"/v1/responses", openai_responses.DIALECT, openai_responses.create),
    _route("GET", r"/v1/responses/(\w+)", openai_responses.DIALECT, openai_responses.retrieve),
    _route("POST", r"/v1/chat/completions", openai_chat.DIALECT, openai_chat.create),
    _route("POST", r"/v1/messages", anthropic.DIALECT, anthropic.create),
    _route("POST", r"/v1/messages/count_tokens", anthropic.DIALECT, anthropic.count_tokens),
    _route("HEAD", r"/api/hello", anthropic.DIALECT, anthropic.greet),
    _route(
        "POST", r"/v1(?:beta)?/models/([^/:]+):countTokens", gemini.DIALECT, gemini.count_tokens
    ),
    _route(
        "POST", r"/v1(?:beta)?/models/([^/:]+):streamGenerateContent", gemini.DIALECT, gemini.stream
    ),
    _route(
        "POST", r"/v1(?:beta)?/models/([^/:]+):generateContent", gemini.DIALECT, gemini.generate
    ),
    _route(
        "POST",
        r"/v1(?:beta2?)?/interactions",
        gemini_interactions.DIALECT,
        gemini_interactions.create,
    ),
    _route("POST", r"/api/chat", ollama.DIALECT, ollama.create),
    _route("POST", r"/model/([^/]+)/converse-stream", bedrock.DIALECT, bedrock.stream),
    _route("POST", r"/model/([^/]+)/converse", bedrock.DIALECT, bedrock.converse),
    _route(
        "POST",
        r"/model/([^/]+)/invoke-with-response-stream",
        bedrock.INVOKE,
        bedrock.invoke_stream,
    ),
    _route("POST", r"/model/([^/]+)/invoke", bedrock.INVOKE, bedrock.invoke),
    _route("POST", r"/v1/agents/sessions", hosted_agents.OPENAI, hosted_agents.create_openai),
    _route(
        "POST", r"/v1/agents/sessions/(\w+)/events", hosted_agents.OPENAI, hosted_agents.add_openai
    ),
    _route(
        "GET",
        r"/v1/agents/sessions/(\w+)/events",
        hosted_agents.OPENAI,
        hosted_agents.stream_openai,
    ),
    _route("POST", r"/v1/sessions", hosted_agents.CLAUDE, hosted_agents.create_claude),
    _route("POST", r"/v1/sessions/(\w+)/events", hosted_agents.CLAUDE, hosted_agents.add_claude),
    _route(
        "GET",
        r"/v1/sessions/(\w+)/events/stream",
        hosted_agents.CLAUDE,
        hosted_agents.stream_claude,
    ),
    _route("GET", r"/v1/sessions/(\w+)/events", hosted_agents.CLAUDE, hosted_agents.list_claude),
    _route("GET", r"/v1(?:beta)?/models", openai_responses.DIALECT, models.answer),
)

_WRONG = "wrong"  # a key with that word in it is refused: all others are accepted
_KEYS = ("authorization", "x-api-key", "x-goog-api-key")


def _key(request: DemoRequest) -> str:
    """Return all that a request has of keys."""
    return " ".join(
        (*(request.header(name) for name in _KEYS), request.query.get("key", ""))
    ).lower()


GENERATES = (
    *(
        openai_responses.create,
        openai_chat.create,
        anthropic.create,
        gemini.stream,
        gemini.generate,
    ),
    *(gemini_interactions.create, ollama.create, bedrock.stream, bedrock.converse),
    *(bedrock.invoke_stream, bedrock.invoke),
)
"""The answers of a model: what they are asked with is kept in the prompt cache."""


class App:
    """The routes, and what they share.

    Requests are numbered, and the number is the seed of all chance in the reply.
    """

    def __init__(
        self, clock: Callable[[], float], pace: float, cache_lifetime_s: float = LIFETIME_S
    ) -> None:
        self._background = BackgroundResponses(clock, pace)
        self._continued = ContinuedResponses()
        self._hosted = HostedSessions()
        self._cache = PromptCache(clock, cache_lifetime_s)
        self._count = 0

    def reply(self, request: DemoRequest) -> DemoReply:
        self._count += 1
        dice = Dice(self._count)
        if request.header("upgrade").lower() == "websocket":
            return whole(b"", (), 426)
        for route in ROUTES:
            match = route.path.fullmatch(request.path)
            if match and route.method == request.method:
                return self._answer(route, request, match[1] if match.re.groups else "", dice)
        return refuse(dice, 404, f"Invalid URL ({request.method} {request.path})")

    def _answer(self, route: Route, request: DemoRequest, name: str, dice: Dice) -> DemoReply:
        if _WRONG in _key(request):
            return route.dialect.refuse(dice, 401, None)
        try:
            body = request.json() if request.body else {}
            script = choose(route.dialect.prompt_of(body))
            if script.status != 200:
                return route.dialect.refuse(dice, script.status, None)
            used = usage(script, self._count_prompt(route, body, name))
            play = Play(
                request,
                name,
                body,
                script,
                used,
                dice,
                self._background,
                self._continued,
                self._hosted,
            )
            return (
                replace(route.answer(play), pace=script.pace) if script.pace else route.answer(play)
            )
        except (ValueError, TypeError, AttributeError) as error:
            # a body that is not what its API takes
            return route.dialect.refuse(dice, 400, str(error))

    def _count_prompt(self, route: Route, body: Json, name: str) -> PromptTokens:
        """Count the tokens of a request, and keep its prompt if it is there to be answered by a
        model.
        """
        prompt = route.dialect.render({**body, "input": self._continued.whole_input(body)})
        scope = f"{prompt.scope} {body.get('model', name)}"
        return self._cache.count(prompt._replace(scope=scope), is_kept=route.answer in GENERATES)
