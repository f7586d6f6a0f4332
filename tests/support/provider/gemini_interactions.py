"""Google's Interactions API: `POST /v1beta/interactions`, streamed or not.

Every event is `event: <type>`, `data: <json>` and a blank line; the type is the last member of the
JSON. A stream ends with `event: done` and `[DONE]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from tests.support.provider.dice import Dice
from tests.support.provider.gemini import headers
from tests.support.provider.play import (
    Dialect,
    Json,
    Play,
    compact,
    last_text,
    listed,
    number,
    piece,
    texts,
)
from tests.support.provider.prompt_cache import RenderedPrompt
from tests.support.provider.reply import DemoReply, timed, whole
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

_REFUSALS = {  # status: its code, message
    400: ("invalid_request", "The request was refused because it asked to be."),
    401: ("authentication", "DemoRequest had invalid authentication credentials."),
    404: ("not_found", "There is nothing of that name here."),
    429: ("too_many_requests", "You exceeded your current quota. Please retry in 2s."),
    503: ("service_unavailable", "The model is overloaded. Please try again later."),
}
_TOKENS_A_DELTA = 12
_CHARACTERS_A_DELTA = 24  # of arguments


def refuse(dice: Dice, status: int, message: str | None = None) -> DemoReply:
    """Return an error answer; a 429 has the time to wait before a retry."""
    code, standard = _REFUSALS[status]
    body = compact({"error": {"message": message or standard, "code": code}}).encode()
    extra = (("retry-after", "2"),) if status == 429 else ()
    return whole(body, headers(dice, "application/json") + extra, status)


def prompt_of(body: Json) -> Prompt:
    """Read the prompt from `input`, a text, parts or steps; results are the steps after the user's
    last one.
    """
    given = body.get("input")
    if given is not None and not isinstance(given, list | str | dict):
        raise ValueError("Invalid type for 'input'.")
    steps = listed([given] if isinstance(given, dict) else given)
    said = [given] if isinstance(given, str) else []
    for step in steps:
        if step.get("type") in ("user_input", "text"):
            said = texts(step.get("content", [step]))
    results: list[str] = []
    for step in reversed(steps):
        if step.get("type") != "function_result":
            break
        results.insert(0, _text_of(step.get("result")))
    config = body.get("generation_config") or {}
    format = body.get("response_format")
    formats = listed(format if isinstance(format, list) else [format])
    return Prompt(
        said[-1] if said else "",
        results,
        tools={str(tool.get("name")) for tool in listed(body.get("tools"))},
        schema=next((each["schema"] for each in formats if "schema" in each), None),
        forced=_forced(body, config),
        most_tokens=number(config.get("max_output_tokens")),
    )


def _text_of(result: object) -> str:
    return result if isinstance(result, str) else last_text(result) or compact(result)


def _forced(body: Json, config: Json) -> FunctionCall | None:
    """Return the call that the mode `any` demands: of one of the allowed functions, if they are
    named.
    """
    choice = config.get("tool_choice")
    allowed = choice.get("allowed_tools") if isinstance(choice, dict) else {"mode": choice}
    allowed = allowed or {}
    functions = [each for each in listed(body.get("tools")) if each.get("type") == "function"]
    names = allowed.get("tools") or [each.get("name") for each in functions]
    found = [each for each in functions if each.get("name") in names]
    if allowed.get("mode") != "any" or not found:
        return None
    return forced(found[0].get("name"), found[0].get("parameters"))


def render(body: Json) -> RenderedPrompt:
    """Render tools, system instruction and input."""
    values = [
        *listed(body.get("tools")),
        body.get("system_instruction"),
        *listed(body.get("input")),
    ]
    return RenderedPrompt("gemini", [piece(value) for value in values if value])


DIALECT = Dialect(prompt_of, refuse, render)


def create(play: Play) -> DemoReply:
    """Answer with a new interaction: streamed, or in one piece."""
    play.required("model")
    turn = InteractionTurn(play)
    if play.body.get("stream"):
        return DemoReply(200, headers(play.dice, "text/event-stream"), timed(_sse(turn)))
    if turn.has_failed:
        return refuse(play.dice, 503)
    at_s = sum(pause_s for pause_s, _ in turn.events)
    document = {**turn.ended(), "steps": turn.steps}
    return whole(compact(document).encode(), headers(play.dice, "application/json"), at_s=at_s)


def _sse(turn: InteractionTurn) -> Iterator[tuple[float, bytes]]:
    for pause_s, event in turn.events:
        yield pause_s, f"event: {event['event_type']}\ndata: {compact(event)}\n\n".encode()
    yield 0.0, b"event: done\ndata: [DONE]\n\n"


class InteractionTurn:
    """One interaction while it is made: its events with the pauses before them, and its steps."""

    def __init__(self, play: Play) -> None:
        self.dice, self._play = play.dice, play
        self.events: list[tuple[float, Json]] = []
        self.steps: list[Json] = []
        self.has_failed = False
        self.refusal = False
        self._id = self.dice.name("v1_", 64)
        self._head = {"object": "interaction", "model": play.body["model"]}
        self.emit(
            "first",
            "interaction.created",
            interaction={"id": self._id, "status": "in_progress", **self._head},
        )
        self.emit(
            "none", "interaction.status_update", interaction_id=self._id, status="in_progress"
        )
        for part in play.script.parts:
            _PARTS[type(part)](self, part)
        if not self.has_failed:
            self.emit("none", "interaction.completed", interaction=self.ended())

    def emit(self, pause: str | float, type: str, **fields: Any) -> None:
        pause_s = self.dice.pause(pause) if isinstance(pause, str) else pause
        self.events.append((pause_s, {**fields, "event_type": type}))

    def open(self, begun: Json, **final: Any) -> int:
        """Begin a step; return its index. `final` is what it has in the end."""
        self.steps.append({**begun, **final})
        index = len(self.steps) - 1
        self.emit("think" if index else "token", "step.start", index=index, step=begun)
        return index

    def delta(self, pause: str | float, index: int, **delta: Any) -> None:
        self.emit(pause, "step.delta", index=index, delta=delta)

    def stop(self, index: int) -> None:
        self.emit("none", "step.stop", index=index)

    def ended(self) -> Json:
        """Return the interaction as its end states it."""
        now = datetime.fromtimestamp(self.dice.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        calls = any(step["type"] == "function_call" for step in self.steps)
        status = "requires_action" if calls else "completed"
        if self._play.script.is_cut or self.refusal:
            status = "incomplete"
        return {
            "id": self._id,
            "status": status,
            "usage": self._usage(),
            "created": now,
            "updated": now,
            "service_tier": "standard",
            **self._head,
        }

    def _usage(self) -> Json:
        used = self._play.usage
        return {
            "total_tokens": used.input + used.output,
            "total_input_tokens": used.input,
            "input_tokens_by_modality": [{"modality": "text", "tokens": used.input}],
            "total_cached_tokens": used.cached,
            "total_output_tokens": used.output - used.reasoning,
            "total_tool_use_tokens": 0,
            "total_thought_tokens": used.reasoning,
        }


def _think(turn: InteractionTurn, part: Think) -> None:
    summary = [{"type": "text", "text": f"{text}\n\n\n"} for text in part.summaries]
    signature = turn.dice.base64(240)
    index = turn.open({"type": "thought"}, summary=summary, signature=signature)
    for each in summary:
        turn.delta("think", index, content=each, type="thought_summary")
    turn.delta("token", index, signature=signature, type="thought_signature")
    turn.stop(index)


def _say(turn: InteractionTurn, part: Say) -> None:
    notes = [_citation(part.text, each.cited, each.url, each.title) for each in part.sources]
    content = {"type": "text", "text": part.text, **({"annotations": notes} if notes else {})}
    index = turn.open({"type": "model_output"}, content=[content])
    for pause_s, delta in turn.dice.deltas(part.text, most=_TOKENS_A_DELTA):
        turn.delta(pause_s, index, text=delta, type="text")
    if notes:
        turn.delta("none", index, annotations=notes, type="text_annotation_delta")
    turn.stop(index)


def _citation(text: str, cited: str, url: str, title: str) -> Json:
    start = len(text[: text.index(cited)].encode())
    end = start + len(cited.encode())
    return {
        "type": "url_citation",
        "url": url,
        "title": title,
        "start_index": start,
        "end_index": end,
    }


def _refuse(turn: InteractionTurn, part: Refuse) -> None:
    turn.refusal = True


def _call(turn: InteractionTurn, part: FunctionCall) -> None:
    called = {
        "type": "function_call",
        "id": turn.dice.name("", 8),
        "name": part.name,
        "arguments": {},
    }
    signed = {**called, "signature": turn.dice.base64(240)}
    index = turn.open(signed, arguments=part.arguments)
    arguments = compact(part.arguments)
    for start in range(0, len(arguments), _CHARACTERS_A_DELTA):
        turn.delta(
            "token",
            index,
            arguments=arguments[start:][:_CHARACTERS_A_DELTA],
            type="arguments_delta",
        )
    turn.stop(index)


def _search(turn: InteractionTurn, part: Search) -> None:
    id, asked = turn.dice.name("", 8), {"queries": [part.query]}
    index = turn.open({"type": "google_search_call", "id": id, "arguments": {}}, arguments=asked)
    turn.delta("none", index, arguments=asked, type="google_search_call")
    turn.stop(index)
    found = [{"search_suggestions": part.query}]
    index = turn.open({"type": "google_search_result", "call_id": id, "result": []}, result=found)
    turn.delta("search", index, result=found, type="google_search_result")
    turn.stop(index)


def _fail(turn: InteractionTurn, part: Fail) -> None:
    turn.has_failed = True
    turn.emit("think", "error", error={"message": part.message, "code": "service_unavailable"})


_PARTS: dict[type[Part], Callable[[InteractionTurn, Any], None]] = {
    Think: _think,
    Say: _say,
    Refuse: _refuse,
    FunctionCall: _call,
    Search: _search,
    Fail: _fail,
}
