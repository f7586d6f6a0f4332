"""Sessions of hosted agents, of OpenAI (`/v1/agents/sessions`) and of Claude (`/v1/sessions`).

A session is made, asked, and streams its events: each connection gives those that no other has
given, up to where the session rests. A turn goes on with the results of the calls that it waits
for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from tests.support.provider import anthropic, openai_errors
from tests.support.provider.dice import Dice
from tests.support.provider.hosted_sessions import Timed
from tests.support.provider.play import (
    Dialect,
    Json,
    Play,
    compact,
    conversation,
    last_text,
    listed,
    piece,
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
)

EVENT_STREAM, JSON = "text/event-stream", "application/json"
_TOKENS_A_DELTA = 12
_PREVIEWS = ("event_start", "event_delta")


def _sse(events: Iterable[Timed]) -> Iterator[tuple[float, bytes]]:
    for pause_s, event in events:
        yield pause_s, f"event: {event['type']}\ndata: {compact(event)}\n\n".encode()


class Turn:
    """One turn, or the rest of one, while it is made."""

    parts: ClassVar[Mapping[type[Part], Callable[[Any, Any], None]]]

    def __init__(self, play: Play, session: str) -> None:
        self.play, self.dice, self.session = play, play.dice, session
        self.events: list[Timed] = []
        self.calls: list[Any] = []  # that wait for the client
        self.failure: str | None = None

    def emit(self, pause: str | float, type: str, **fields: Any) -> None:
        pause_s = self.dice.pause(pause) if isinstance(pause, str) else pause
        self.events.append((pause_s, {"type": type, **fields}))


# -- OpenAI


def _openai_prompt(body: Json) -> Prompt:
    given = conversation(body, "input")
    events = listed(conversation(body, "events"))
    messages = listed(given)
    for event in events:
        messages += listed(event.get("input"))
    texts = (
        [given] if isinstance(given, str) else [last_text(each.get("content")) for each in messages]
    )
    results = [_text_of(each["output"]) for each in events if "output" in each]
    agent = body.get("agent") or {}
    return Prompt(
        next(reversed(texts), ""),
        results,
        tools={str(tool.get("name")) for tool in listed(agent.get("tools"))},
    )


def _text_of(output: Any) -> str:
    return output if isinstance(output, str) else last_text(output) or compact(output)


def _render(body: Json) -> RenderedPrompt:
    values = [
        body.get("agent"),
        body.get("input"),
        *listed(body.get("events")),
        *listed(body.get("initial_events")),
    ]
    return RenderedPrompt("hosted", [piece(value) for value in values if value])


OPENAI = Dialect(_openai_prompt, openai_errors.refuse, _render)


def create_openai(play: Play) -> DemoReply:
    """Make a session, and stream its first turn if it is asked to."""
    play.required("environment")
    id = play.hosted.begin(play.dice.name("asess_"))
    session = _openai_session(play, id, "in_progress")
    if play.body.get("input"):
        turn = OpenAITurn(play, id)
        turn.emit(
            "first", "agent.session.created", event_id=turn.dice.name("evt_"), session=session
        )
        play.hosted.add(id, [*turn.events, *turn.played()])
    if play.body.get("stream"):
        return _openai_stream(play, id)
    return whole(compact(session).encode(), openai_errors.headers(play.dice, JSON))


def add_openai(play: Play) -> DemoReply:
    """Take what a client adds to a session, a message or results."""
    play.hosted.require(play.name)
    play.hosted.add(play.name, OpenAITurn(play, play.name).played())
    return whole(b"", openai_errors.headers(play.dice, JSON), 202)


def stream_openai(play: Play) -> DemoReply:
    return _openai_stream(play, play.name)


def _openai_stream(play: Play, id: str) -> DemoReply:
    return DemoReply(
        200, openai_errors.headers(play.dice, EVENT_STREAM), timed(_sse(play.hosted.take(id)))
    )


def _openai_session(play: Play, id: str, status: str, **more: Any) -> Json:
    agent = play.body.get("agent") or {}
    return {
        "id": id,
        "object": "agent.session",
        "status": status,
        "agent": {
            "id": "agent_demo",
            "model": agent.get("model", "gpt-demo"),
            "multi_agent": {"enabled": False},
            "reasoning": {"effort": "low"},
            "service_tier": "default",
            "text": {"format": {"type": "text"}, "verbosity": "low"},
            "tools": agent.get("tools", []),
        },
        "created_at": play.dice.created,
        "last_active_at": play.dice.created,
        "environment": {"type": "none"},
        "metadata": {},
        "required_actions": [],
        "vault_ids": [],
        **more,
    }


class OpenAITurn(Turn):
    def __init__(self, play: Play, session: str) -> None:
        super().__init__(play, session)
        self.id = play.hosted.waiting.pop(session, "") or self.dice.name("turn_")
        self._index = 0

    def played(self) -> list[Timed]:
        """Return the events of the whole turn."""
        self.events = []
        prompt = _openai_prompt(self.play.body)
        if not prompt.results:
            self._changed("none", "created", "in_progress")
            content = [{"type": "input_text", "text": prompt.text}]
            asked = {
                "type": "message",
                "id": self.dice.name("msg_"),
                "role": "user",
                "content": content,
            }
            self.of_turn(
                "none", "item.added", item={**asked, "turn_id": self.id, "status": "completed"}
            )
        for part in self.play.script.parts:
            self.parts[type(part)](self, part)
        self._end()
        return self.events

    def of_turn(self, pause: str | float, name: str, **fields: Any) -> None:
        ids = {"event_id": self.dice.name("evt_"), "session_id": self.session, "turn_id": self.id}
        self.emit(pause, f"agent.session.turn.{name}", **ids, **fields)

    def item(self, pause: str | float, done: Json, **begun: Any) -> Json:
        """Begin an item, which is `done` in the end."""
        made = {"id": self.dice.name("item_"), "turn_id": self.id, "status": "completed", **done}
        started = {**made, "status": "in_progress", **begun}
        self.of_turn(pause, "item.added", item=started, output_index=self._index)
        return made

    def place(self, item: Json, numbered: str) -> Json:
        return {"item_id": item["id"], "output_index": self._index, numbered: 0}

    def done(self, item: Json) -> None:
        self.of_turn("none", "item.done", item=item, output_index=self._index)
        self._index += 1

    def _changed(self, pause: str, state: str, status: str, **more: Any) -> None:
        turn = {
            "id": self.id,
            "object": "agent.session.turn",
            "status": status,
            "session_id": self.session,
        }
        self.of_turn(
            pause,
            state,
            turn={**turn, "agent_id": "agent_demo", "created_at": self.dice.created, **more},
            **more,
        )

    def _end(self) -> None:
        status = "idle"
        more: Json = {}
        if self.failure is not None:
            status, more = "failed", {"error": self.failure}
            self._changed(
                "think", "failed", "failed", error={"code": "server_error", "message": self.failure}
            )
        elif self.calls:
            self.play.hosted.waiting[self.session] = self.id
            status, more = "requires_action", {"required_actions": self.calls}
        else:
            self._changed("none", "completed", "completed", usage=self._usage())
        session = _openai_session(self.play, self.session, status, **more)
        self.emit(
            "none", f"agent.session.{status}", event_id=self.dice.name("evt_"), session=session
        )

    def _usage(self) -> Json:
        used = self.play.usage
        return {
            "input_tokens": used.input,
            "input_tokens_details": {"cached_tokens": used.cached},
            "output_tokens": used.output,
            "output_tokens_details": {"reasoning_tokens": used.reasoning},
            "total_tokens": used.input + used.output,
        }

    def think(self, part: Think) -> None:
        summary: list[Json] = [{"type": "summary_text", "text": text} for text in part.summaries]
        item = self.item("think", {"type": "reasoning", "summary": summary}, summary=[])
        for number, each in enumerate(summary):
            place = {**self.place(item, "summary_index"), "summary_index": number}
            self.of_turn("think", "reasoning_summary_text.delta", **place, delta=each["text"])
            self.of_turn("none", "reasoning_summary_text.done", **place, text=each["text"])
        self.done(item)

    def say(self, part: Say | Refuse) -> None:
        content = [{"type": "output_text", "text": part.text}]
        item = self.item(
            "token", {"type": "message", "role": "assistant", "content": content}, content=[]
        )
        place = self.place(item, "content_index")
        for pause_s, delta in self.dice.deltas(part.text, most=_TOKENS_A_DELTA):
            self.of_turn(pause_s, "output_text.delta", **place, delta=delta)
        self.of_turn("none", "output_text.done", **place, text=part.text)
        self.done(item)

    def call(self, part: FunctionCall) -> None:
        called = {"type": "function_call", "call_id": self.dice.name("call_"), "name": part.name}
        item = self.item("token", {**called, "arguments": part.arguments})
        self.done(item)
        action = {name: item[name] for name in ("type", "turn_id", "call_id", "name", "arguments")}
        self.calls.append(action)

    def search(self, part: Search) -> None:
        action = {"type": "search", "query": part.query, "queries": [part.query]}
        self.done(self.item("search", {"type": "web_search_call", "action": action}))

    def fail(self, part: Fail) -> None:
        self.failure = part.message

    parts: ClassVar = {
        Think: think,
        Say: say,
        Refuse: say,
        FunctionCall: call,
        Search: search,
        Fail: fail,
    }


# -- Claude


def _claude_prompt(body: Json) -> Prompt:
    name = "initial_events" if "initial_events" in body else "events"
    if isinstance(body.get(name), str):
        raise ValueError(f"{name} must be a list.")
    text, results = "", []
    for event in listed(conversation(body, name)):
        if event.get("type") == "user.message":
            text = last_text(event.get("content"))
        elif event.get("type") == "user.custom_tool_result":
            results.append(last_text(event.get("content")))
    agent = body.get("agent")
    tools = agent.get("tools") if isinstance(agent, dict) else None
    return Prompt(text, results, tools={str(tool.get("name")) for tool in listed(tools)})


CLAUDE = Dialect(_claude_prompt, anthropic.refuse, _render)


def create_claude(play: Play) -> DemoReply:
    """Make a session, which runs if it is made with events."""
    agent = play.required("agent")
    play.required("environment_id")
    now = _moment(play.dice)
    id = play.hosted.begin(play.dice.name("sesn_"))
    if play.body.get("initial_events"):
        play.hosted.add(id, ClaudeTurn(play, id).played(play.body["initial_events"]))
    about = {
        "id": agent if isinstance(agent, str) else agent["id"],
        "type": "agent",
        "name": "Demo",
        "version": 1,
    }
    more: Json = {name: [] for name in ("mcp_servers", "skills", "tools")}
    session = {
        "id": id,
        "type": "session",
        "agent": {
            **about,
            **more,
            "model": {"id": "claude-demo", "speed": "standard"},
            "execution_identity": {"type": "service_account"},
        },
        "created_at": now,
        "updated_at": now,
        "environment_id": play.body["environment_id"],
        "metadata": {},
        "outcome_evaluations": [],
        "resources": [],
        "stats": {},
        "status": "idle",
        "usage": {},
        "vault_ids": [],
    }
    return whole(compact(session).encode(), anthropic.headers(play.dice, JSON))


def add_claude(play: Play) -> DemoReply:
    """Take what a client adds to a session, and give it its ids."""
    play.hosted.require(play.name)
    turn = ClaudeTurn(play, play.name)
    play.hosted.add(play.name, turn.played(listed(play.required("events"))))
    return whole(compact({"data": turn.given}).encode(), anthropic.headers(play.dice, JSON))


def stream_claude(play: Play) -> DemoReply:
    has_previews = "event_deltas" in play.request.target
    events = [
        each
        for each in play.hosted.take(play.name)
        if has_previews or each[1]["type"] not in _PREVIEWS
    ]
    return DemoReply(200, anthropic.headers(play.dice, EVENT_STREAM), timed(_sse(events)))


def list_claude(play: Play) -> DemoReply:
    events = [
        each for each in play.hosted.history.get(play.name, ()) if each["type"] not in _PREVIEWS
    ]
    return whole(
        compact({"data": events, "next_page": None}).encode(), anthropic.headers(play.dice, JSON)
    )


def _moment(dice: Dice) -> str:
    return datetime.fromtimestamp(dice.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ClaudeTurn(Turn):
    def __init__(self, play: Play, session: str) -> None:
        super().__init__(play, session)
        self.given: list[Json] = []
        self._is_refused = False

    def event(self, pause: str | float, type: str, id: str | None = None, **fields: Any) -> str:
        id = id or self.dice.name("sevt_")
        self.emit(pause, type, id=id, processed_at=_moment(self.dice), **fields)
        return id

    def played(self, given: Iterable[Json]) -> list[Timed]:
        """Return the events of a turn that begins with those that a client gave."""
        for each in given:
            more = {name: value for name, value in each.items() if name != "type"}
            self.event("none", each["type"], **more)
        self.given = [event for _, event in self.events]
        self.event("none", "session.status_running")
        start = self.event("first", "span.model_request_start")
        for part in self.play.script.parts:
            self.parts[type(part)](self, part)
        used = self.play.usage
        counts = {"input_tokens": used.input - used.cached, "output_tokens": used.output}
        cache = {"cache_read_input_tokens": used.cached, "cache_creation_input_tokens": 0}
        self.event(
            "none",
            "span.model_request_end",
            model_request_start_id=start,
            model_usage={**counts, **cache},
        )
        self.event("none", "session.status_idle", stop_reason=self._reason())
        return self.events

    def _reason(self) -> Json:
        if self.failure is not None:
            return {"type": "retries_exhausted"}
        if self.calls:
            return {"type": "requires_action", "event_ids": self.calls}
        return {"type": "refusal" if self._is_refused else "end_turn"}

    def think(self, part: Think) -> None:
        self.event("think", "agent.thinking")

    def say(self, part: Say | Refuse) -> None:
        id = self.dice.name("sevt_")
        self.emit("token", "event_start", event={"id": id, "type": "agent.message"})
        for pause_s, said in self.dice.deltas(part.text, most=_TOKENS_A_DELTA):
            delta = {"type": "content_delta", "index": 0, "content": {"type": "text", "text": said}}
            self.emit(pause_s, "event_delta", event_id=id, delta=delta)
        self.event("none", "agent.message", id, content=[{"type": "text", "text": part.text}])
        self._is_refused = isinstance(part, Refuse)

    def call(self, part: FunctionCall) -> None:
        self.calls.append(
            self.event("token", "agent.custom_tool_use", name=part.name, input=part.arguments)
        )

    def search(self, part: Search) -> None:
        asked: Json = {
            "name": "web_search",
            "input": {"query": part.query},
            "evaluated_permission": "allow",
        }
        id = self.event("token", "agent.tool_use", **asked)
        found = [{"type": "text", "text": source.title} for source in part.sources]
        self.event("search", "agent.tool_result", tool_use_id=id, content=found)

    def fail(self, part: Fail) -> None:
        self.failure = part.message
        retry_status = {"type": "exhausted"}
        error = {
            "type": "model_overloaded_error",
            "message": part.message,
            "retry_status": retry_status,
        }
        self.event("think", "session.error", error=error)

    parts: ClassVar = {
        Think: think,
        Say: say,
        Refuse: say,
        FunctionCall: call,
        Search: search,
        Fail: fail,
    }
