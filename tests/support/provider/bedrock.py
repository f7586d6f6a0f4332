"""Bedrock: `POST /model/NAME/converse-stream`, in the binary event stream of AWS, `/converse`, and
the same of InvokeModel with a model of Anthropic.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import msgspec

from recorder.wire.framing import aws_event_stream
from tests.support.provider import anthropic
from tests.support.provider.dice import Dice
from tests.support.provider.play import (
    Dialect,
    Json,
    Play,
    compact,
    conversation,
    listed,
    number,
    piece,
    texts,
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

_REFUSALS = {
    400: ("ValidationException", "The request was refused because it asked to be."),
    401: (
        "AccessDeniedException",
        "Authentication failed: Please make sure your API Key is valid.",
    ),
    404: (
        "ResourceNotFoundException",
        "Could not resolve the foundation model from the provided model identifier.",
    ),
    429: ("ThrottlingException", "Too many tokens, please wait before trying again."),
    424: ("ModelErrorException", "The model had an error while processing the request."),
}


def _headers(dice: Dice, kind: str) -> Headers:
    return ("content-type", kind), ("x-amzn-requestid", dice.hex("", 32))


def refuse(dice: Dice, status: int, message: str | None = None) -> DemoReply:
    """Return an error answer.

    A key that is not known has status 403, and 401 stands for that here.
    """
    type, standard = _REFUSALS[status]
    body = compact({"message": message or standard}).encode()
    return whole(body, (*_headers(dice, "application/json"), ("x-amzn-errortype", type)), status)


def prompt_of(body: Json) -> Prompt:
    """Read the prompt from `messages`; results are the blocks of the last one of the user."""
    users = [
        message
        for message in listed(conversation(body, "messages"))
        if message.get("role") == "user"
    ]
    content = listed(users[-1].get("content")) if users else []
    found = [block["toolResult"] for block in content if "toolResult" in block]
    results = []
    for result in found:
        said = [
            each.get("text") or compact(each.get("json")) for each in listed(result.get("content"))
        ]
        results.append("\n".join(said))
    formats = (body.get("outputConfig") or {}).get("textFormat") or {}
    return Prompt(
        next(reversed(texts(content)), ""),
        results,
        schema=_schema(formats),
        forced=_forced(body.get("toolConfig") or {}),
        most_tokens=number((body.get("inferenceConfig") or {}).get("maxTokens")),
    )


def _schema(format: Json) -> object:
    """Return the schema that an answer has to fit: it comes as text."""
    schema = format.get("structure", {}).get("jsonSchema", {}).get("schema")
    return None if schema is None else msgspec.json.decode(schema)


def _forced(config: Json) -> FunctionCall | None:
    name = config.get("toolChoice", {}).get("tool", {}).get("name")
    specs = [tool["toolSpec"] for tool in listed(config.get("tools")) if "toolSpec" in tool]
    found = [spec for spec in specs if spec["name"] == name]
    return forced(name, found[0]["inputSchema"]["json"]) if found else None


def render(body: Json) -> RenderedPrompt:
    values = [*listed((body.get("toolConfig") or {}).get("tools")), *listed(body.get("messages"))]
    return RenderedPrompt("bedrock", [piece(value) for value in values])


DIALECT = Dialect(prompt_of, refuse, render)


def stream(play: Play) -> DemoReply:
    """Answer with the events of a message."""
    turn = ConverseTurn(play)
    return DemoReply(
        200, _headers(play.dice, "application/vnd.amazon.eventstream"), timed(turn.frames)
    )


def converse(play: Play) -> DemoReply:
    """Answer with a message in one piece."""
    turn = ConverseTurn(play)
    if turn.has_failed:
        return refuse(play.dice, 424)
    at_s = sum(pause_s for pause_s, _ in turn.frames)
    return whole(
        compact(turn.document()).encode(), _headers(play.dice, "application/json"), at_s=at_s
    )


INVOKE = Dialect(anthropic.prompt_of, refuse, anthropic.render)


def invoke_stream(play: Play) -> DemoReply:
    """Answer with the events of Anthropic's Messages, each in a chunk."""
    turn = anthropic.MessageTurn(_named(play))
    chunks = [
        (pause_s, _chunk(frame.partition(b"data: ")[2].strip(), play.dice))
        for pause_s, frame in turn.frames
    ]
    return DemoReply(200, _headers(play.dice, "application/vnd.amazon.eventstream"), timed(chunks))


def invoke(play: Play) -> DemoReply:
    """Answer with a message of Anthropic's in one piece."""
    reply = anthropic.create(_named(play))
    return refuse(play.dice, 424) if reply.status != 200 else reply


def _named(play: Play) -> Play:
    """Name the model in the body, as Anthropic's own API has it."""
    return play._replace(body={**play.body, "model": play.name})


def _chunk(event: bytes, dice: Dice) -> bytes:
    payload = {"bytes": b64encode(event).decode(), "p": dice.name("", 8)}
    return aws_event_stream.event("chunk", compact(payload).encode())


class ConverseTurn:
    """One answer while it is generated: its events with the pauses before them, and its blocks."""

    def __init__(self, play: Play) -> None:
        self.dice, self._usage = play.dice, play.usage
        self.frames: list[tuple[float, bytes]] = []
        self.content: list[Json] = []
        self.reason = "end_turn"
        self.has_failed = False
        self.emit(self.dice.pause("first"), "messageStart", role="assistant")
        for part in play.script.parts:
            _PARTS[type(part)](self, part)
        if play.script.is_cut:
            self.reason = "max_tokens"
        if not self.has_failed:
            self.emit(0.0, "messageStop", stopReason=self.reason)
            self.emit(0.0, "metadata", **self._metadata())

    def emit(self, pause_s: float, type: str, **payload: Any) -> None:
        padded = compact({**payload, "p": self.dice.name("", 8)}).encode()
        self.frames.append((pause_s, aws_event_stream.event(type, padded)))

    def fail(self, message: str) -> None:
        self.has_failed = True
        payload = compact({"message": message}).encode()
        self.frames.append(
            (
                self.dice.pause("think"),
                aws_event_stream.exception("modelStreamErrorException", payload),
            )
        )

    def block(
        self, block: Json, deltas: list[tuple[float, Json]], start: Json | None = None
    ) -> None:
        """Emit a block; only that of a call has a beginning."""
        index = len(self.content)
        if start is not None:
            self.emit(
                self.dice.pause("think"), "contentBlockStart", contentBlockIndex=index, start=start
            )
        for pause_s, delta in deltas:
            self.emit(pause_s, "contentBlockDelta", contentBlockIndex=index, delta=delta)
        self.emit(0.0, "contentBlockStop", contentBlockIndex=index)
        self.content.append(block)

    def document(self) -> Json:
        message = {"role": "assistant", "content": self.content}
        return {"output": {"message": message}, "stopReason": self.reason, **self._metadata()}

    def _metadata(self) -> Json:
        used = self._usage
        counts = {"inputTokens": used.input - used.cached, "outputTokens": used.output}
        latency_ms = round(1_000 * sum(pause_s for pause_s, _ in self.frames))
        return {
            "usage": {
                **counts,
                "totalTokens": used.input + used.output,
                "cacheReadInputTokens": used.cached,
            },
            "metrics": {"latencyMs": latency_ms},
        }


def _think(turn: ConverseTurn, part: Think) -> None:
    thought, signature = "\n\n".join(part.summaries), turn.dice.base64(240)
    spoken = turn.dice.deltas(thought, most=3)
    deltas: list[tuple[float, Json]] = [
        (pause_s, {"reasoningContent": {"text": delta}}) for pause_s, delta in spoken
    ]
    deltas.append((0.0, {"reasoningContent": {"signature": signature}}))
    turn.block(
        {"reasoningContent": {"reasoningText": {"text": thought, "signature": signature}}}, deltas
    )


def _say(turn: ConverseTurn, part: Say | Refuse) -> None:
    turn.block(
        {"text": part.text},
        [(pause_s, {"text": delta}) for pause_s, delta in turn.dice.deltas(part.text, 3)],
    )


def _call(turn: ConverseTurn, part: FunctionCall) -> None:
    named = {"toolUseId": turn.dice.name("tooluse_", 22), "name": part.name}
    spoken = turn.dice.deltas(compact(part.arguments), most=3)
    deltas: list[tuple[float, Json]] = [
        (pause_s, {"toolUse": {"input": delta}}) for pause_s, delta in spoken
    ]
    turn.block({"toolUse": {**named, "input": part.arguments}}, deltas, {"toolUse": named})
    turn.reason = "tool_use"


_PARTS: dict[type[Part], Callable[[ConverseTurn, Any], None]] = {
    Think: _think,
    Say: _say,
    Refuse: _say,
    FunctionCall: _call,
    Search: lambda turn, part: None,
    Fail: lambda turn, part: turn.fail(part.message),
}
