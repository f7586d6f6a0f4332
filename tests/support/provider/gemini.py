"""Gemini: `models/{model}:streamGenerateContent` and `:generateContent`, under `/v1` and `/v1beta`.

With `alt=sse` a stream is `data: <json>` and a blank line, both ended by CRLF, without an event
name and without a mark at its end; otherwise it is one JSON array. Every chunk has the usage so
far. (WIRE_FORMATS section 4.)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.support.provider.dice import Dice, tokens
from tests.support.provider.play import (
    Dialect,
    Json,
    Play,
    compact,
    conversation,
    last_text,
    listed,
    number,
    piece,
)
from tests.support.provider.prompt_cache import RenderedPrompt
from tests.support.provider.reply import DemoReply, Headers, timed, whole
from tests.support.provider.scripts import (
    Fail,
    FunctionCall,
    Part,
    Prompt,
    Refuse,
    Say,
    Search,
    Think,
    forced,
)

_REFUSALS = {  # status: its name, message
    400: ("INVALID_ARGUMENT", "The request was refused because it asked to be."),
    401: ("UNAUTHENTICATED", "DemoRequest had invalid authentication credentials."),
    404: ("NOT_FOUND", "There is nothing of that name here."),
    429: ("RESOURCE_EXHAUSTED", "You exceeded your current quota. Please retry in 2s."),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
}
_TOKENS_A_CHUNK = 12
_WITHOUT_IDS = "gemini-2"  # models of which calls have no id


def headers(dice: Dice, content_type: str) -> Headers:
    """Return the headers of every answer; `vary` comes three times."""
    return (
        ("content-type", content_type),
        ("vary", "Origin"),
        ("vary", "X-Origin"),
        ("vary", "Referer"),
        ("server", "scaffolding on HTTPServer2"),
        ("x-xss-protection", "0"),
        ("x-frame-options", "SAMEORIGIN"),
        ("x-content-type-options", "nosniff"),
        ("server-timing", f"gfet4t7; dur={int(1_000 * dice.pause('first'))}"),
    )


def _error(status: int, message: str | None = None) -> Json:
    name, standard = _REFUSALS[status]
    return {"error": {"code": status, "message": message or standard, "status": name}}


def refuse(dice: Dice, status: int, message: str | None = None) -> DemoReply:
    """Return an error answer; a 429 has the time to wait before a retry, in the header and, as with
    Google, in the details."""
    value = _error(status, message)
    extra: Headers = ()
    if status == 429:
        value["error"]["details"] = [
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"}
        ]
        extra = (("retry-after", "2"),)
    return whole(
        _pretty(value).encode(), headers(dice, "application/json; charset=UTF-8") + extra, status
    )


def prompt_of(body: Json) -> Prompt:
    """Read the prompt from `contents`; results are the `functionResponse` parts of the last one."""
    contents = listed(conversation(body, "contents"))
    users = [content for content in contents if content.get("role", "user") != "model"]
    parts = listed(users[-1].get("parts")) if users else []
    results = [
        part["functionResponse"].get("response") for part in parts if "functionResponse" in part
    ]
    config = body.get("generationConfig") or {}
    return Prompt(
        last_text(parts),
        [compact(result) for result in results],
        tools={
            str(function.get("name"))
            for tool in listed(body.get("tools"))
            for function in listed(tool.get("functionDeclarations"))
        },
        schema=config.get("responseJsonSchema", config.get("responseSchema")),
        forced=_forced(body),
        most_tokens=number(config.get("maxOutputTokens")),
    )


def _forced(body: Json) -> FunctionCall | None:
    """Return the call that the mode `ANY` demands: of one of the allowed functions, if they are
    named.
    """
    choice = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    functions = [
        each
        for tool in listed(body.get("tools"))
        for each in listed(tool.get("functionDeclarations"))
    ]
    allowed = choice.get("allowedFunctionNames") or [each.get("name") for each in functions]
    found = [each for each in functions if each.get("name") in allowed]
    if str(choice.get("mode")).upper() != "ANY" or not found:
        return None
    return forced(
        found[0].get("name"), found[0].get("parametersJsonSchema", found[0].get("parameters"))
    )


def render(body: Json) -> RenderedPrompt:
    """Render tools, system instruction and contents."""
    system = body.get("systemInstruction", body.get("system_instruction"))
    values = [*listed(body.get("tools")), system, *listed(body.get("contents"))]
    return RenderedPrompt("gemini", [piece(value) for value in values if value])


DIALECT = Dialect(prompt_of, refuse, render)


def stream(play: Play) -> DemoReply:
    """Answer with a stream of chunks: SSE or a JSON array."""
    turn = GeminiTurn(play)
    if play.request.query.get("alt") == "sse":
        above = headers(play.dice, "text/event-stream")
        return DemoReply(200, above, timed(_sse(turn)))
    return DemoReply(
        200, headers(play.dice, "application/json; charset=UTF-8"), timed(_array(turn.chunks))
    )


def generate(play: Play) -> DemoReply:
    """Answer with one object: the last chunk, with the parts of all of them."""
    turn = GeminiTurn(play)
    if turn.failed:
        return refuse(play.dice, 503)
    *_, (_, response) = turn.chunks
    if "candidates" in response:
        parts = [
            part for _, chunk in turn.chunks for part in chunk["candidates"][0]["content"]["parts"]
        ]
        response["candidates"][0]["content"]["parts"] = _joined(parts)
    at_s = sum(pause for pause, _ in turn.chunks)
    return whole(
        _pretty(response).encode(), headers(play.dice, "application/json; charset=UTF-8"), at_s=at_s
    )


def count_tokens(play: Play) -> DemoReply:
    """Answer with the number of tokens of the request."""
    count = play.usage.input
    value = {
        "totalTokens": count,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": count}],
    }
    return whole(_pretty(value).encode(), headers(play.dice, "application/json; charset=UTF-8"))


def _pretty(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _sse(turn: GeminiTurn) -> Iterator[tuple[float, bytes]]:
    for pause_s, chunk in turn.chunks:
        data = json.dumps(chunk, separators=(",", ": "), ensure_ascii=False)
        yield pause_s, f"data: {data}\r\n\r\n".encode()
    if turn.failed:  # over many lines and without `data:`, as the real one breaks off
        yield turn.dice.pause("think"), _pretty(_error(503)).encode()


def _array(chunks: Iterable[tuple[float, Json]]) -> Iterator[tuple[float, bytes]]:
    before = "["
    for pause_s, chunk in chunks:
        yield pause_s, (before + _pretty(chunk)).encode()
        before = ",\r\n"
    yield 0.0, b"]\n"


def _joined(parts: list[Json]) -> list[Json]:
    """Join neighbouring texts of one kind into one part."""
    joined: list[Json] = []
    for part in parts:
        kind = part.keys() - {"thoughtSignature"}
        if joined and "text" in part and joined[-1].keys() == kind:
            joined[-1] = {**part, "text": joined[-1]["text"] + part["text"]}
        else:
            joined.append(part)
    return joined


class GeminiTurn:
    """One answer while it is generated: its chunks with the pauses before them."""

    def __init__(self, play: Play) -> None:
        self.dice = play.dice
        self.usage = play.usage
        self.has_ids = not play.name.startswith(_WITHOUT_IDS)
        self.failed = False
        self.grounding: Json = {}
        self.chunks: list[tuple[float, Json]] = []
        self._foot = {"modelVersion": play.name, "responseId": self.dice.name("", 22)}
        self._written = 0
        for part in play.script.parts:
            _PARTS[type(part)](self, part)
        if not self.failed and not (self.chunks and "promptFeedback" in self.chunks[-1][1]):
            signed = {"text": "", "thoughtSignature": self.dice.base64(240)}
            reason = "MAX_TOKENS" if play.script.is_cut else "STOP"
            self.part("token", signed, finishReason=reason, **self.grounding)

    def part(self, pause: str | float, part: Json, written: str = "", **more: Any) -> None:
        """Emit a chunk of one part; `written` is what of it counts as output."""
        self._written += len(tokens(written))
        content = {"parts": [part], "role": "model"}
        self.chunk(pause, candidates=[{"content": content, **more, "index": 0}])

    def chunk(self, pause: str | float, **fields: Any) -> None:
        pause = pause if self.chunks else "first"
        pause_s = self.dice.pause(pause) if isinstance(pause, str) else pause
        self.chunks.append((pause_s, {**fields, "usageMetadata": self._usage(), **self._foot}))

    def _usage(self) -> Json:
        """Return the counts so far, without those that are zero."""
        thoughts, prompt = self.usage.reasoning, self.usage.input
        counts = {
            "promptTokenCount": prompt,
            "cachedContentTokenCount": self.usage.cached,
            "candidatesTokenCount": self._written,
            "thoughtsTokenCount": thoughts,
            "totalTokenCount": prompt + thoughts + self._written,
        }
        details = {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}]}
        return {name: count for name, count in counts.items() if count} | details


def _think(turn: GeminiTurn, part: Think) -> None:
    for summary in part.summaries:
        turn.part("think", {"text": f"{summary}\n\n\n", "thought": True})


def _say(turn: GeminiTurn, part: Say) -> None:
    for pause_s, delta in turn.dice.deltas(part.text, most=_TOKENS_A_CHUNK):
        turn.part(pause_s, {"text": delta}, delta)


def _refuse(turn: GeminiTurn, part: Refuse) -> None:
    turn.chunk("first", promptFeedback={"blockReason": "PROHIBITED_CONTENT"})


def _call(turn: GeminiTurn, part: FunctionCall) -> None:
    call = {"name": part.name, "args": part.arguments}
    if turn.has_ids:
        call["id"] = turn.dice.name("", 8)
    turn.part(
        "think", {"functionCall": call, "thoughtSignature": turn.dice.base64(240)}, compact(call)
    )


def _search(turn: GeminiTurn, part: Search) -> None:
    sources = [{"web": {"uri": source.url, "title": source.title}} for source in part.sources]
    turn.grounding = {
        "groundingMetadata": {"webSearchQueries": [part.query], "groundingChunks": sources}
    }


def _fail(turn: GeminiTurn, part: Fail) -> None:
    turn.failed = True


_PARTS: dict[type[Part], Callable[[GeminiTurn, Any], None]] = {
    Think: _think,
    Say: _say,
    Refuse: _refuse,
    FunctionCall: _call,
    Search: _search,
    Fail: _fail,
}
