"""`GET /v1/models` as each vendor answers it. The path is the same for all three: the vendor is
recognized by the headers."""

from __future__ import annotations

from tests.support.provider import anthropic, gemini, openai_errors
from tests.support.provider.dice import EPOCH
from tests.support.provider.play import Json, Play, compact
from tests.support.provider.reply import DemoReply, Headers, whole

_JSON = "application/json"


def answer(play: Play) -> DemoReply:
    """Return the list in the shape of the vendor whose client sent the request."""
    if play.request.header("anthropic-version"):
        return _reply(_anthropic(), anthropic.headers(play.dice, _JSON))
    if play.request.header("x-goog-api-key") or play.request.path.startswith("/v1beta"):
        return _reply(_gemini(), gemini.headers(play.dice, _JSON))
    return _reply(_openai(), openai_errors.headers(play.dice, _JSON))


def _reply(value: Json, headers: Headers) -> DemoReply:
    return whole(compact(value).encode(), headers)


def _openai() -> Json:
    names = ("gpt-5.5", "gpt-5.4-mini", "demo-load")
    data = [
        {"id": name, "object": "model", "created": EPOCH, "owned_by": "system"} for name in names
    ]
    return {"object": "list", "data": data}


def _anthropic() -> Json:
    names = {"claude-opus-5": "Claude Opus 5", "claude-haiku-5-5": "Claude Haiku 5.5"}
    data = [
        {"type": "model", "id": name, "display_name": title, "created_at": "2026-11-20T00:00:00Z"}
        for name, title in names.items()
    ]
    return {"data": data, "has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]}


def _gemini() -> Json:
    names = {"gemini-3.5-flash": "Gemini 3.5 Flash", "gemini-3.5-pro": "Gemini 3.5 Pro"}
    limits = {"version": "001", "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536}
    methods = {"supportedGenerationMethods": ["generateContent", "streamGenerateContent"]}
    models = [
        {"name": f"models/{name}", "displayName": title, **limits, **methods}
        for name, title in names.items()
    ]
    return {"models": models}
