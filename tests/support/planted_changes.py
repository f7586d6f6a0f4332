"""The sessions whose prompt cache is known: agents, each with one change planted into its session.

`PLANTED["chat-date"].play(base)` plays that session over an SDK against `base`, the address of a
recorder with the session's prefix. Answers come from the demo upstream, or from the upstream
`forgetful`, whose cache keeps nothing.

The sessions of Codex and Claude Code were recorded by `python -m tools.real_clients.cached`; its
scripts say what was planted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from google.genai import types

from tests.support.corpus import DATA
from tests.support.sdks import anthropic_client, gemini_client, openai_client

SYSTEM = (
    "Everything that is streamed is kept: each byte with its time, each event with its place. " * 60
)
QUESTION = "What is a stream, and what would one of them say of itself if it could speak? " * 6
DOCUMENT = (
    "On this page it is written what was measured, when, by whom, and how often it was repeated. "
    * 40
)
NAMES = ("look", "listen", "read", "write")
MODELS = {
    "responses": "gpt-5.5",
    "chat": "gpt-5.5",
    "messages": "claude-opus-5",
    "gemini": "gemini-3.5-flash",
}

Json = dict[str, Any]
Turns = tuple[str, ...]  # `class`, or `class path`
MARK: Json = {"cache_control": {"type": "ephemeral"}}


def _parameters(name: str) -> Json:
    described = {
        "type": "string",
        "description": f"The thing to {name} at, as the person has named it.",
    }
    return {"type": "object", "properties": {"thing": described}}


class Agent:
    """An agent that sends its whole history with each question.

    `options` go into the request as they are.
    """

    def __init__(self, api: str, base: str) -> None:
        self.base = base
        # in the first tool: sessions share no beginning of a prompt
        self.name = base.partition("/s/")[2]
        self.system = SYSTEM
        self.tools: list[Any] = [self.tool(name) for name in NAMES]
        self.history: list[Any] = []
        self.options: Json = {"model": MODELS[api]}

    def ask(self, question: str = QUESTION) -> None:
        """Put a question, and add it and its answer to the history."""
        self.history.append(self.user(question))
        self.history.append(self.answer())

    def tool(self, name: str) -> Json:
        return {
            "type": "function",
            "name": name,
            "description": self.described(name),
            "parameters": _parameters(name),
        }

    def described(self, tool: str) -> str:
        return f"To {tool}, for {self.name}."

    def user(self, text: str) -> Json:
        return {"role": "user", "content": text}

    def answer(self) -> Json:
        raise NotImplementedError


class ResponsesAgent(Agent):
    """An agent on openai's `responses`."""

    def answer(self) -> Json:
        with openai_client(self.base) as client:
            options = {"instructions": self.system, "tools": self.tools, **self.options}
            response = client.responses.create(input=self.history, **options)
        return {"role": "assistant", "content": response.output_text}


class ChatAgent(Agent):
    """An agent on openai's `chat.completions`."""

    def tool(self, name: str) -> Json:
        function = {
            "name": name,
            "description": self.described(name),
            "parameters": _parameters(name),
        }
        return {"type": "function", "function": function}

    def answer(self) -> Json:
        messages: list[Any] = [{"role": "system", "content": self.system}, *self.history]
        with openai_client(self.base) as client:
            completion = client.chat.completions.create(
                messages=messages, tools=self.tools, **self.options
            )
        return {"role": "assistant", "content": completion.choices[0].message.content}


class MessagesAgent(Agent):
    """An agent on anthropic's `messages`, which marks the end of its system prompt and of its
    history.
    """

    marks: tuple[str, ...] = ("system", "history")

    def tool(self, name: str) -> Json:
        return {
            "name": name,
            "description": self.described(name),
            "input_schema": _parameters(name),
        }

    def user(self, text: str) -> Json:
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def _mark(self, place: str) -> Json:
        return MARK if place in self.marks else {}

    def answer(self) -> Json:
        system = [{"type": "text", "text": self.system, **self._mark("system")}]
        last = self.history[-1]
        history: list[Any] = [
            *self.history[:-1],
            {**last, "content": [{**block, **self._mark("history")} for block in last["content"]]},
        ]
        tools = [*self.tools[:-1], {**self.tools[-1], **self._mark("tools")}]
        options = {"max_tokens": 2_048, "system": system, "tools": tools, **self.options}
        with anthropic_client(self.base) as client:
            message = client.messages.create(messages=history, **options)
        return {
            "role": "assistant",
            "content": [block for block in message.model_dump()["content"] if "text" in block],
        }


class GeminiAgent(Agent):
    """An agent on google-genai's `generate_content`."""

    def tool(self, name: str) -> Json:
        return {
            "name": name,
            "description": self.described(name),
            "parameters_json_schema": _parameters(name),
        }

    def user(self, text: str) -> Json:
        return {"role": "user", "parts": [{"text": text}]}

    def answer(self) -> Json:
        config = types.GenerateContentConfig(
            system_instruction=self.system, tools=[types.Tool(function_declarations=self.tools)]
        )
        with gemini_client(self.base, "v1beta") as client:
            answer = client.models.generate_content(
                contents=self.history, config=config, **self.options
            )
        return {"role": "model", "parts": [{"text": answer.text}]}


AGENTS: Mapping[str, Callable[[str, str], Agent]] = {
    "responses": ResponsesAgent,
    "chat": ChatAgent,
    "messages": MessagesAgent,
    "gemini": GeminiAgent,
}


def _nothing(agent: Agent) -> None:
    """Change nothing."""


def _tool_reordered(agent: Agent) -> None:
    agent.tools.insert(1, agent.tools.pop(2))


def _tool_described(agent: Agent) -> None:
    tool = agent.tools[1]
    described = tool.get("function", tool)
    described["description"] += " Be careful."


def _date(agent: Agent) -> None:
    agent.system = f"{SYSTEM}Today is Tuesday."


def _shortened(agent: Agent) -> None:
    del agent.history[:2]


def _edited(agent: Agent) -> None:
    agent.history[0] = agent.user(QUESTION.replace("stream", "river", 1))


def _compacted(agent: Agent) -> None:
    agent.history[:2] = [agent.user("So far it was asked what a stream is.")]


def _option(**options: Any) -> Callable[[Agent], None]:
    return lambda agent: agent.options.update(options)


def _marked(*places: str) -> Callable[[Agent], None]:
    def plant(agent: Agent) -> None:
        assert isinstance(agent, MessagesAgent)
        agent.marks = places

    return plant


def _session(
    api: str, plant: Callable[[Agent], None] = _nothing, **options: Any
) -> Callable[[str], None]:
    """Return a session: two questions, the change, two more.

    `options` are there from the beginning.

    Most of the history is in the second question, so that a change before it leaves more than it
    takes.
    """

    def play(base: str) -> None:
        agent = AGENTS[api](api, base)
        agent.options.update(options)
        agent.ask()
        agent.ask(DOCUMENT)
        plant(agent)
        agent.ask()
        agent.ask()

    return play


def _small(base: str) -> None:
    agent = ChatAgent("chat", base)
    agent.system = "Be brief."
    agent.ask("Hello.")
    agent.ask("And now?")


def _unmarked(base: str) -> None:
    agent = MessagesAgent("messages", base)
    agent.marks = ()
    agent.ask(DOCUMENT)
    agent.ask()


def _forgetful(base: str) -> None:
    agent = ResponsesAgent("responses", f"{base}/forgetful")
    agent.ask(DOCUMENT)
    agent.ask()


def _two_agents(base: str) -> None:
    """Play a second agent beside the first one, with rules of its own, which shares nothing with
    it.
    """
    first, second = (ResponsesAgent("responses", base) for _ in range(2))
    second.system = f"You look after others. {SYSTEM}"
    second.tools = [second.tool(name) for name in ("stop", "go", "wait")]
    for question in (DOCUMENT, QUESTION):
        first.ask(question)
        second.ask(f"Look after this. {question}")


def _chain(base: str) -> None:
    """Send only what is new, then other instructions with it."""
    system = f"{base.partition('/s/')[2]}: {SYSTEM}"
    with openai_client(base) as client:
        previous = None
        for text, more in ((DOCUMENT, ""), (QUESTION, ""), (QUESTION, "Be brief.")):
            response = client.responses.create(
                model=MODELS["responses"],
                instructions=system + more,
                input=text,
                previous_response_id=previous,
            )
            previous = response.id


def _retried(base: str) -> None:
    agent = ChatAgent("chat", base)
    agent.history.append(agent.user(DOCUMENT))
    agent.answer()
    agent.answer()


class Session(NamedTuple):
    """A session of an SDK: how it is played against a recorder, and the class of each turn, with
    what has changed.
    """

    play: Callable[[str], None]
    turns: Turns


PLANTED: Mapping[str, Session] = {
    "responses-none": Session(_session("responses"), ("first", "hit", "hit", "hit")),
    "responses-tool-reordered": Session(
        _session("responses", _tool_reordered),
        ("first", "hit", "prefix_changed tools[1].name", "hit"),
    ),
    "responses-model": Session(
        _session("responses", _option(model="gpt-5.4-mini")),
        ("first", "hit", "other_model model", "hit"),
    ),
    "responses-effort": Session(
        _session("responses", _option(reasoning={"effort": "high"}), reasoning={"effort": "low"}),
        ("first", "hit", "other_parameters reasoning.effort", "hit"),
    ),
    "responses-tool-choice": Session(
        _session("responses", _option(tool_choice="required")), ("first", "hit", "hit", "hit")
    ),
    "responses-forgetful": Session(_forgetful, ("first", "provider_miss")),
    "responses-two-agents": Session(_two_agents, ("first", "first", "hit", "hit")),
    "responses-chain": Session(_chain, ("first", "hit", "prefix_changed instructions")),
    "chat-tool-described": Session(
        _session("chat", _tool_described),
        ("first", "hit", "prefix_changed tools[1].function.description", "hit"),
    ),
    "chat-date": Session(
        _session("chat", _date), ("first", "hit", "prefix_changed messages[0].content", "hit")
    ),
    "chat-temperature": Session(
        _session("chat", _option(temperature=0.9), temperature=0.1), ("first", "hit", "hit", "hit")
    ),
    "chat-shortened": Session(
        _session("chat", _shortened),
        ("first", "hit", "history_shortened messages[1].content", "hit"),
    ),
    "chat-small": Session(_small, ("first", "below_minimum")),
    "chat-retried": Session(_retried, ("first", "hit")),
    "messages-none": Session(_session("messages"), ("first", "hit", "hit", "hit")),
    "messages-tool-described": Session(
        _session("messages", _tool_described),
        ("first", "hit", "prefix_changed tools[1].description", "hit"),
    ),
    "messages-compacted": Session(
        _session("messages", _compacted),
        ("first", "hit", "history_shortened messages[0].content[0].text", "hit"),
    ),
    "messages-other-mark": Session(
        _session("messages", _marked("tools")),
        ("first", "hit", "not_marked messages[2].content[0].cache_control", "below_minimum"),
    ),
    "messages-no-marks": Session(_unmarked, ("first", "not_marked")),
    "messages-temperature": Session(
        _session(
            "messages", _option(extra_body={"temperature": 0.9}), extra_body={"temperature": 0.1}
        ),
        ("first", "hit", "hit", "hit"),
    ),
    "messages-tool-choice": Session(
        _session("messages", _option(tool_choice={"type": "any"})),
        ("first", "hit", "other_parameters tool_choice", "hit"),
    ),
    "gemini-none": Session(_session("gemini"), ("first", "hit", "hit", "hit")),
    "gemini-edited": Session(
        _session("gemini", _edited),
        ("first", "hit", "prefix_changed contents[0].parts[0].text", "hit"),
    ),
    "gemini-date": Session(
        _session("gemini", _date),
        ("first", "hit", "prefix_changed systemInstruction.parts[0].text", "hit"),
    ),
}

RECORDED = DATA / "cached_sessions"
OF_AGENTS: Mapping[str, Turns] = {
    "claude-none": ("first", "hit", "hit", "hit"),
    # it adds the new text behind the history, and so the one below
    "claude-claude-md": ("first", "hit", "hit"),
    "claude-system": ("first", "hit", "hit"),
    "claude-model": ("first", "hit", "other_model model"),
    "claude-effort": ("first", "hit", "other_parameters output_config.effort"),
    "claude-no-marks": ("first", "not_marked", "not_marked"),
    # tools and system, all that the summary has left
    "claude-compact": ("first", "hit", "hit", "hit", "hit"),
    "claude-lapse": ("first", "hit", "lapsed"),
    "codex-none": ("first", "hit", "hit", "hit"),
    "codex-agents-md": ("first", "hit", "hit"),  # it adds the new text behind the history
    "codex-compact": ("first", "hit", "hit", "hit"),
    "codex-model": ("first", "hit", "other_model model"),
    "codex-effort": ("first", "hit", "other_parameters reasoning.effort"),
    "codex-mcp": ("first", "hit", "prefix_changed tools[2].name"),
    # After five minutes; the model's prefixes live for 30. The demo upstream has one life time for
    # all.
    "codex-lapse": ("first", "hit", "provider_miss"),
}
"""The turns of the sessions of Codex and Claude Code in `RECORDED`."""
