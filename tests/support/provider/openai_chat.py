"""Chat Completions: `POST /v1/chat/completions`, streamed or not.

A stream is `data: <chunk>` and a blank line, and `data: [DONE]` at its end; usage is sent in a
separate chunk if it was requested. Models that are not OpenAI's own show their reasoning as
`reasoning_content`. (WIRE_FORMATS section 2.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

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
from tests.support.provider.prompt_cache import DAY, RenderedPrompt
from tests.support.provider.reply import DemoReply, timed, whole
from tests.support.provider.scripts import (
    Fail,
    FunctionCall,
    Part,
    Prompt,
    Refuse,
    Say,
    Search,
    Source,
    Think,
    Usage,
    forced,
)

CHOICES_LIMIT = 128  # as OpenAI has it
_HIDES_REASONING = ("gpt", "o1", "o3", "o4")  # how the names of OpenAI's own models begin


def prompt_of(body: Json) -> Prompt:
    """Read the prompt from `messages`; results are the messages of the role `tool` at their end."""
    messages = listed(conversation(body, "messages"))
    results: list[str] = []
    while messages and messages[-1].get("role") == "tool":
        results.insert(0, "\n".join(texts(messages.pop().get("content"))))
    users = [message for message in messages if message.get("role") == "user"]
    leading = [
        message for message in messages[:1] if message.get("role") in ("system", "developer")
    ]
    wanted = body.get("response_format") or {}
    return Prompt(
        last_text(users[-1].get("content")) if users else "",
        results,
        tools={str((tool.get("function") or {}).get("name")) for tool in listed(body.get("tools"))},
        schema=(wanted.get("json_schema") or {}).get("schema"),
        instructions="\n".join(
            text for message in leading for text in texts(message.get("content"))
        ),
        forced=_forced(body),
        most_tokens=number(body.get("max_completion_tokens", body.get("max_tokens"))),
    )


def _forced(body: Json) -> FunctionCall | None:
    """Return the call that `tool_choice` demands: of a function by its name, or of any one."""
    choice = body.get("tool_choice")
    wanted = (choice.get("function") or {}).get("name") if isinstance(choice, dict) else None
    functions = [tool.get("function") or {} for tool in listed(body.get("tools"))]
    functions = [each for each in functions if wanted in (None, each.get("name"))]
    if not functions or (wanted is None and choice != "required"):
        return None
    return forced(functions[0].get("name"), functions[0].get("parameters"))


def render(body: Json) -> RenderedPrompt:
    """Render the effort, the tools, the schema of the answer, the messages: OpenAI tells the model
    in this order.
    """
    values = [body.get("reasoning_effort"), *listed(body.get("tools")), body.get("response_format")]
    values += listed(body.get("messages"))
    lifetimes = DAY if body.get("prompt_cache_retention") == "24h" else 1
    return RenderedPrompt(
        "openai-chat", [piece(value) for value in values if value], lifetimes=lifetimes
    )


DIALECT = Dialect(prompt_of, refuse, render)


def create(play: Play) -> DemoReply:
    """Answer with a completion of as many choices as `n` says, which are all alike."""
    turn = ChatTurn(play)
    if play.body.get("stream"):
        frames = ((pause, f"data: {data}\n\n".encode()) for pause, data in turn.frames())
        return DemoReply(200, headers(play.dice, "text/event-stream; charset=utf-8"), timed(frames))
    if turn.failure:
        return refuse(play.dice, 500)
    body = compact(turn.completion()).encode()
    return whole(
        body, headers(play.dice, "application/json"), at_s=sum(pause for pause, _ in turn.deltas)
    )


class ChatTurn:
    """One completion while it is generated: deltas with the pauses before them, and the message
    they add up to.
    """

    def __init__(self, play: Play) -> None:
        self.play = play
        self.dice = play.dice
        self.deltas: list[tuple[float, Json]] = []
        self.message: Json = {"role": "assistant", "content": None, "refusal": None}
        self.calls: list[Json] = []
        self.failure: str | None = None
        self.shows_reasoning = not play.required("model").startswith(_HIDES_REASONING)
        self._silent_s = 0.0
        self._head = {
            "id": self.dice.name("chatcmpl-", 29),
            "created": self.dice.created,
            "model": play.body["model"],
        }
        self._options = play.body.get("stream_options") or {}
        self._choices = range(min(CHOICES_LIMIT, number(play.body.get("n")) or 1))
        self._usage = play.usage._replace(
            output=len(self._choices) * play.usage.output,
            reasoning=len(self._choices) * play.usage.reasoning,
        )
        self.delta("first", {"role": "assistant", "content": "", "refusal": None})
        for part in play.script.parts:
            _PARTS[type(part)](self, part)

    def delta(self, pause: str | float, delta: Json) -> None:
        pause_s = self.dice.pause(pause) if isinstance(pause, str) else pause
        self.deltas.append((self._silent_s + pause_s, delta))
        self._silent_s = 0.0

    def wait(self, pause: str) -> None:
        """Let time pass before the next delta, for work of the model that this wire format does not
        show.
        """
        self._silent_s += self.dice.pause(pause)

    def speak(self, field: str, text: str) -> None:
        """Emit `text` as deltas of `field`."""
        self.message[field] = (self.message.get(field) or "") + text
        for pause_s, delta in self.dice.deltas(text):
            self.delta(pause_s, {field: delta})

    @property
    def finish_reason(self) -> str:
        return "length" if self.play.script.is_cut else "tool_calls" if self.calls else "stop"

    def frames(self) -> Iterator[tuple[float, str]]:
        """Yield the stream: pauses, and the text after `data: `."""
        for pause_s, delta in self.deltas:
            for index in self._choices:
                yield 0.0 if index else pause_s, self._chunk([self._choice(index, delta, None)])
        if self.failure:
            error = {
                "message": self.failure,
                "type": "server_error",
                "param": None,
                "code": "server_error",
            }
            yield self.dice.pause("think"), compact({"error": error})
            return
        for index in self._choices:
            yield 0.0, self._chunk([self._choice(index, {}, self.finish_reason)])
        if self._options.get("include_usage"):
            yield 0.0, self._chunk([], _usage(self._usage))
        yield 0.0, "[DONE]"

    def _choice(self, index: int, delta: Json, finish_reason: str | None) -> Json:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}

    def _chunk(self, choices: list[Json], usage: Json | None = None) -> str:
        counted = {"usage": usage} if self._options.get("include_usage") else {}
        hidden = {"obfuscation": self.dice.obfuscation(_text(choices))} if self._obfuscated else {}
        return compact(
            {**self._envelope("chat.completion.chunk"), "choices": choices, **counted, **hidden}
        )

    @property
    def _obfuscated(self) -> bool:
        return bool(self._options.get("include_obfuscation", not self.shows_reasoning))

    def _envelope(self, kind: str) -> Json:
        return {
            "id": self._head["id"],
            "object": kind,
            **self._head,
            "service_tier": "default",
            "system_fingerprint": "fp_demo",
        }

    def completion(self) -> Json:
        """Return the completion as one JSON object."""
        message = {**self.message, **({"tool_calls": self.calls} if self.calls else {})}
        end = {"message": message, "logprobs": None, "finish_reason": self.finish_reason}
        choices = [{"index": index, **end} for index in self._choices]
        return {
            **self._envelope("chat.completion"),
            "choices": choices,
            "usage": _usage(self._usage),
        }


def _text(choices: list[Json]) -> str:
    return next(
        (
            value
            for choice in choices
            for value in choice["delta"].values()
            if isinstance(value, str)
        ),
        "",
    )


def _think(turn: ChatTurn, part: Think) -> None:
    if turn.shows_reasoning:
        turn.speak("reasoning_content", "\n\n".join(part.summaries))
    turn.wait("think")


def _say(turn: ChatTurn, part: Say) -> None:
    turn.speak("content", part.text)
    if part.sources:
        turn.message["annotations"] = [_citation(part.text, source) for source in part.sources]
        turn.delta("none", {"annotations": turn.message["annotations"]})


def _citation(text: str, source: Source) -> Json:
    start = text.index(source.cited)
    place = {
        "end_index": start + len(source.cited),
        "start_index": start,
        "title": source.title,
        "url": source.url,
    }
    return {"type": "url_citation", "url_citation": place}


def _refuse(turn: ChatTurn, part: Refuse) -> None:
    turn.speak("refusal", part.text)


def _call(turn: ChatTurn, part: FunctionCall) -> None:
    index = len(turn.calls)
    arguments = compact(part.arguments)
    call = {
        "id": turn.dice.name("call_"),
        "type": "function",
        "function": {"name": part.name, "arguments": arguments},
    }
    turn.calls.append(call)
    turn.delta(
        "token",
        {
            "tool_calls": [
                {"index": index, **call, "function": {"name": part.name, "arguments": ""}}
            ]
        },
    )
    for pause_s, delta in turn.dice.deltas(arguments):
        turn.delta(pause_s, {"tool_calls": [{"index": index, "function": {"arguments": delta}}]})


def _search(turn: ChatTurn, part: Search) -> None:
    turn.wait("search")


def _fail(turn: ChatTurn, part: Fail) -> None:
    turn.failure = part.message


_PARTS: dict[type[Part], Callable[[ChatTurn, Any], None]] = {
    Think: _think,
    Say: _say,
    Refuse: _refuse,
    FunctionCall: _call,
    Search: _search,
    Fail: _fail,
}


def _usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
