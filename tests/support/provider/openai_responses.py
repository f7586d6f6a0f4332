"""The OpenAI Responses API: `POST /v1/responses`, streamed or not, and background responses by id.

`tests.support.provider.websocket` speaks it over WebSocket, too: then `generate: false` prepares
the next request.

Every event is `event: <type>`, `data: <json>` and a blank line. After its `type` the fields of an
event are in alphabetical order; deltas carry `obfuscation`; `sequence_number` counts from 0.
(WIRE_FORMATS section 1.)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

from tests.support.provider import load
from tests.support.provider.background import TimedEvent
from tests.support.provider.openai_errors import headers, refuse
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
    texts,
)
from tests.support.provider.prompt_cache import DAY, PromptTokens, RenderedPrompt
from tests.support.provider.reply import DemoReply, timed, whole
from tests.support.provider.scripts import (
    CustomCall,
    Fail,
    FunctionCall,
    Part,
    Prompt,
    Refuse,
    Say,
    Script,
    Search,
    Source,
    Think,
    Usage,
    forced,
)

_ECHOED: Json = {  # fields of the request that the response repeats, with the values of absent ones
    "instructions": None, "max_output_tokens": None, "max_tool_calls": None, "parallel_tool_calls": True,
    "previous_response_id": None, "prompt_cache_key": None, "safety_identifier": None, "service_tier": "default",
    "store": True, "temperature": 1.0, "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled", "user": None,
    "metadata": {},
}  # fmt: skip


def prompt_of(body: Json) -> Prompt:
    """Read the prompt from `input`, text or items; results are the `*_output` items after the last
    message.
    """
    given = conversation(body, "input")
    if isinstance(given, str):
        return Prompt(given, **_context(body, []))
    items = listed(given)
    results: list[Json] = []
    for item in reversed(items):
        if _is_message(item):
            break
        if str(item.get("type")).endswith("_output"):
            results.insert(0, item)
    users = [
        item for item in items if item.get("role") == "user" or item.get("type") == "agent_message"
    ]
    return Prompt(
        last_text(users[-1].get("content")) if users else "",
        ["\n".join(texts(result.get("output"))) for result in results],
        _caller(items, results[-1].get("call_id")) if results else "",
        **_context(body, items),
    )


def _is_message(item: Json) -> bool:
    """Return whether an item is a message; Codex has its own kinds for messages between agents."""
    return "role" in item or item.get("type") == "agent_message"


def _context(body: Json, items: list[Json]) -> Json:
    """Return the fields of a prompt beside the conversation.

    Newer Codex has its tools in `input`.
    """
    tools = [
        *listed(body.get("tools")),
        *(tool for item in items for tool in listed(item.get("tools"))),
    ]
    leading = [item for item in items[:1] if item.get("role") in ("system", "developer")]
    return {
        "tools": {name for tool in tools for name in _names(tool)},
        "schema": ((body.get("text") or {}).get("format") or {}).get("schema"),
        "instructions": "\n".join(text for item in leading for text in texts(item.get("content"))),
        "forced": _forced(body),
        "most_tokens": number(body.get("max_output_tokens")),
    }


def _forced(body: Json) -> FunctionCall | None:
    """Return the call that `tool_choice` demands: of a function by its name, or of any one."""
    choice, tools = body.get("tool_choice"), listed(body.get("tools"))
    wanted = (
        choice.get("name")
        if isinstance(choice, dict) and choice.get("type") == "function"
        else None
    )
    functions = [
        each
        for each in tools
        if each.get("type") == "function" and wanted in (None, each.get("name"))
    ]
    if not functions or (wanted is None and choice != "required"):
        return None
    return forced(functions[0].get("name"), functions[0].get("parameters"))


def _names(tool: Json) -> list[str]:
    """Return the names of a tool; those in a namespace have its name before them."""
    name = str(tool.get("name"))
    return [f"{name}.{each.get('name')}" for each in listed(tool.get("tools"))] or [name]


def _caller(items: list[Json], call_id: object) -> str:
    """Return the name of the tool that gave a result."""
    calls = [item for item in items if item.get("call_id") == call_id and "name" in item]
    name, namespace = (str(calls[0]["name"]), calls[0].get("namespace")) if calls else ("", None)
    return f"{namespace}.{name}" if namespace else name


def render(body: Json) -> RenderedPrompt:
    """Render the effort, the tools, the schema of the answer, the instructions and the input, in
    this order.

    Ids and states of items are left out: a client may send an item of an answer with them or
    without.
    """
    effort = (body.get("reasoning") or {}).get("effort")
    values = [
        effort,
        *listed(body.get("tools")),
        (body.get("text") or {}).get("format"),
        body.get("instructions"),
    ]
    values += [
        {name: item[name] for name in item if name not in ("id", "status")}
        for item in listed(body["input"])
    ]
    lifetimes = DAY if body.get("prompt_cache_retention") == "24h" else 1
    return RenderedPrompt(
        "openai-responses", [piece(value) for value in values if value], lifetimes=lifetimes
    )


DIALECT = Dialect(prompt_of, refuse, render)


def create(play: Play) -> DemoReply:
    """Answer with a new response: streamed, in one piece, or in the background."""
    stream = bool(play.body.get("stream"))
    if play.required("model") == load.MODEL:
        return load.reply(play.body.get("metadata") or {}, play.dice, headers(play.dice, _SSE))
    turn = ResponseTurn(play)
    play.continued.add(turn.head["id"], [*play.continued.whole_input(play.body), *turn.output])
    if play.body.get("background"):
        response = play.background.start(turn.head["id"], turn.timed_events())
        return (
            _stream_of(play, response.steps(), response.started)
            if stream
            else _json(play, response.latest())
        )
    if stream:
        return _stream_of(play, timed((pause, frame(event)) for pause, event in turn.events))
    if turn.events[-1][1]["type"] == "response.failed":
        return refuse(play.dice, 500)
    return _json(play, turn.events[-1][1]["response"], sum(pause for pause, _ in turn.events))


def retrieve(play: Play) -> DemoReply:
    """Answer with a background response of this moment, or with its stream from `starting_after`
    on.
    """
    response = play.background.find(play.name)
    if response is None:
        return refuse(play.dice, 404, f"Response with id '{play.name}' not found.")
    if play.request.query.get("stream") != "true":
        return _json(play, response.latest())
    return _stream_of(
        play, response.steps(int(play.request.query.get("starting_after", -1))), response.started
    )


_SSE = "text/event-stream; charset=utf-8"


def _stream_of(play: Play, steps: Any, started: float | None = None) -> DemoReply:
    return DemoReply(200, headers(play.dice, _SSE), steps, started=started)


def _json(play: Play, value: Json, at_s: float = 0.0) -> DemoReply:
    return whole(compact(value).encode(), headers(play.dice, "application/json"), at_s=at_s)


def frame(event: Json) -> bytes:
    """Encode one event."""
    return f"event: {event['type']}\ndata: {compact(event)}\n\n".encode()


class ResponseTurn:
    """One response while it is generated: its events with the pauses before them, and its output
    items.
    """

    def __init__(self, play: Play) -> None:
        self.dice = play.dice
        self.body = play.body
        self.events: list[tuple[float, Json]] = []
        self.output: list[Json] = []
        self.head = _head(play)
        self.is_cut, self.last_part = play.script.is_cut, next(reversed(play.script.parts), None)
        self._obfuscated = (play.body.get("stream_options") or {}).get("include_obfuscation", True)
        self._perform(play)

    def _perform(self, play: Play) -> None:
        queued = "queued" if self.head["background"] else "in_progress"
        self.emit("first", "response.created", response={**self.head, "status": queued})
        if self.head["background"]:
            self.emit("none", "response.queued", response={**self.head, "status": queued})
        self.emit("none", "response.in_progress", response=self.head)
        failure = next((part for part in play.script.parts if isinstance(part, Fail)), None)
        if failure:
            self._fail(failure)
            return
        is_prewarm = play.body.get("generate") is False
        for part in () if is_prewarm else play.script.parts:
            _PARTS[type(part)](self, part)
        usage = _NOTHING_USED if is_prewarm else play.usage
        self._finish(play.script, _usage(usage))

    def _finish(self, script: Script, usage: Json) -> None:
        ended: Json = {"status": "completed", "completed_at": self.dice.created + 3, "usage": usage}
        if script.is_cut:
            ended = {
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
                "usage": usage,
            }
        self.emit(
            "none",
            f"response.{ended['status']}",
            response={**self.head, **ended, "output": self.output},
        )

    def _fail(self, part: Fail) -> None:
        error = {
            "type": "server_error",
            "code": "server_error",
            "message": part.message,
            "param": None,
        }
        self.emit("think", "error", error=error)
        failed = {"status": "failed", "error": {"code": "server_error", "message": part.message}}
        self.emit("none", "response.failed", response={**self.head, **failed})

    def emit(self, pause: str | float, type: str, **fields: Any) -> None:
        pause_s = self.dice.pause(pause) if isinstance(pause, str) else pause
        ordered = sorted({**fields, "sequence_number": len(self.events)}.items())
        self.events.append((pause_s, {"type": type, **dict(ordered)}))

    def open(self, item: Json) -> Json:
        """Announce an item; return the fields that its events have in common."""
        index = len(self.output)
        self.output.append(item)
        self.emit(
            "think" if index else "token",
            "response.output_item.added",
            item=item,
            output_index=index,
        )
        return {"item_id": item["id"], "output_index": index}

    def close(self, **changes: Any) -> None:
        """Emit that the last item is done."""
        self.output[-1] = {**self.output[-1], **changes}
        index = len(self.output) - 1
        self.emit("none", "response.output_item.done", item=self.output[-1], output_index=index)

    def deltas(self, family: str, text: str, done: str, **where: Any) -> None:
        """Emit `text` as deltas, then whole in the field `done`."""
        for pause_s, delta in self.dice.deltas(text):
            hidden = {"obfuscation": self.dice.obfuscation(delta)} if self._obfuscated else {}
            self.emit(pause_s, f"{family}.delta", delta=delta, **hidden, **where)
        self.emit("none", f"{family}.done", **{done: text}, **where)

    def timed_events(self) -> list[TimedEvent]:
        """Return the events with their times, for a background response."""
        times = accumulate(pause for pause, _ in self.events)
        return [
            TimedEvent(at_s, event, frame(event))
            for at_s, (_, event) in zip(times, self.events, strict=True)
        ]


def _think(turn: ResponseTurn, part: Think) -> None:
    secret = "reasoning.encrypted_content" in (turn.body.get("include") or ())

    def hidden() -> Json:  # another one in `added` than in `done`: only the last is final
        return {"encrypted_content": turn.dice.base64(360)} if secret else {}

    where = turn.open({"id": turn.dice.hex("rs_"), "type": "reasoning", **hidden(), "summary": []})
    summaries = [{"type": "summary_text", "text": text} for text in part.summaries]
    for index, summary in enumerate(summaries):
        here = {**where, "summary_index": index}
        turn.emit(
            "none", "response.reasoning_summary_part.added", part={**summary, "text": ""}, **here
        )
        turn.deltas("response.reasoning_summary_text", summary["text"], "text", **here)
        turn.emit("none", "response.reasoning_summary_part.done", part=summary, **here)
    turn.close(summary=summaries, **hidden())


def _message(
    turn: ResponseTurn, empty: Json, speak: Callable[[Json], Json], *, is_cut: bool = False
) -> None:
    """Emit a message of one part, which begins `empty` and becomes what `speak` makes of it."""
    item = {"id": turn.dice.hex("msg_"), "type": "message", "status": "in_progress", "content": []}
    where = {
        **turn.open({**item, "phase": "final_answer", "role": "assistant"}),
        "content_index": 0,
    }
    turn.emit("none", "response.content_part.added", part=empty, **where)
    part = {**empty, **speak(where)}
    turn.emit("none", "response.content_part.done", part=part, **where)
    turn.close(status="incomplete" if is_cut else "completed", content=[part])


def _say(turn: ResponseTurn, part: Say) -> None:
    def speak(where: Json) -> Json:
        turn.deltas("response.output_text", part.text, "text", logprobs=[], **where)
        notes = [_citation(part.text, source) for source in part.sources]
        for index, note in enumerate(notes):
            turn.emit(
                "none",
                "response.output_text.annotation.added",
                annotation=note,
                annotation_index=index,
                **where,
            )
        return {"annotations": notes, "text": part.text}

    is_cut = turn.is_cut and part is turn.last_part
    _message(
        turn,
        {"type": "output_text", "annotations": [], "logprobs": [], "text": ""},
        speak,
        is_cut=is_cut,
    )


def _citation(text: str, source: Source) -> Json:
    start = text.index(source.cited)
    end = start + len(source.cited)
    return {
        "type": "url_citation",
        "end_index": end,
        "start_index": start,
        "title": source.title,
        "url": source.url,
    }


def _refuse(turn: ResponseTurn, part: Refuse) -> None:
    def speak(where: Json) -> Json:
        turn.deltas("response.refusal", part.text, "refusal", **where)
        return {"refusal": part.text}

    _message(turn, {"type": "refusal", "refusal": ""}, speak)


def _call(turn: ResponseTurn, part: FunctionCall) -> None:
    item = {
        "id": turn.dice.hex("fc_"),
        "type": "function_call",
        "status": "in_progress",
        "arguments": "",
    }
    where = turn.open({**item, "call_id": turn.dice.name("call_"), **_named(part)})
    arguments = compact(part.arguments)
    turn.deltas("response.function_call_arguments", arguments, "arguments", **where)
    turn.close(status="completed", arguments=arguments)


def _call_with_text(turn: ResponseTurn, part: CustomCall) -> None:
    item = {
        "id": turn.dice.hex("ctc_"),
        "type": "custom_tool_call",
        "status": "in_progress",
        "input": "",
    }
    where = turn.open({**item, "call_id": turn.dice.name("call_"), **_named(part)})
    turn.deltas("response.custom_tool_call_input", part.input, "input", **where)
    turn.close(status="completed", input=part.input)


def _named(part: FunctionCall | CustomCall) -> Json:
    return (
        {"name": part.name, "namespace": part.namespace} if part.namespace else {"name": part.name}
    )


def _search(turn: ResponseTurn, part: Search) -> None:
    action = {"type": "search"}
    item = {
        "id": turn.dice.hex("ws_"),
        "type": "web_search_call",
        "status": "in_progress",
        "action": action,
    }
    where = turn.open(item)
    for pause, state in (("none", "in_progress"), ("none", "searching"), ("search", "completed")):
        turn.emit(pause, f"response.web_search_call.{state}", **where)
    turn.close(status="completed", action={**action, "queries": [part.query], "query": part.query})


_PARTS: dict[type[Part], Callable[[ResponseTurn, Any], None]] = {
    Think: _think,
    Say: _say,
    Refuse: _refuse,
    FunctionCall: _call,
    CustomCall: _call_with_text,
    Search: _search,
}


def _head(play: Play) -> Json:
    reasoning = {"effort": "medium", "summary": "auto", **(play.body.get("reasoning") or {})}
    return {
        "id": play.dice.hex("resp_"),
        "object": "response",
        "created_at": play.dice.created,
        "status": "in_progress",
        "background": bool(play.body.get("background")),
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": play.body["model"],
        "output": [],
        "reasoning": reasoning,
        "usage": None,
        **{name: play.body.get(name, default) for name, default in _ECHOED.items()},
    }


_NOTHING_USED = Usage(PromptTokens(0), 0, 0)  # of a prewarm


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }
