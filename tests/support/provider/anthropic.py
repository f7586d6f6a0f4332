"""The Anthropic Messages API: `POST /v1/messages`, streamed or not, and
`/v1/messages/count_tokens`.

Every event is `event: <type>`, `data: <json>` and a blank line; before its last brace the JSON is
padded with spaces, which hide how long a delta is. (WIRE_FORMATS section 3.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from recorder.wire.dialects.anthropic.conversation import BILLING
from tests.support.provider.dice import Dice
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
from tests.support.provider.prompt_cache import HOUR, PromptPiece, RenderedPrompt
from tests.support.provider.reply import DemoReply, Headers, timed, whole
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

_REFUSALS = {  # status: type, message
    400: ("invalid_request_error", "The request was refused because it asked to be."),
    401: ("authentication_error", "invalid x-api-key"),
    404: ("not_found_error", "Not found"),
    429: (
        "rate_limit_error",
        "This request would exceed your organization’s rate limit of 3 requests per minute.",
    ),
    529: ("overloaded_error", "Overloaded"),
}
_PING = b'event: ping\ndata: {"type": "ping"}\n\n'


def headers(dice: Dice, content_type: str) -> Headers:
    """Return the headers of every answer."""
    return (
        ("content-type", content_type),
        ("cache-control", "no-cache"),
        ("anthropic-ratelimit-requests-limit", "4000"),
        ("anthropic-ratelimit-requests-remaining", "3999"),
        ("anthropic-organization-id", "00000000-0000-4000-8000-000000000000"),
        ("request-id", dice.name("req_011", 21)),
        ("server", "cloudflare"),
        ("cf-ray", dice.hex("", 16) + "-ZRH"),
    )


def refuse(dice: Dice, status: int, message: str | None = None) -> DemoReply:
    """Return an error answer; a 429 has the time to wait before a retry."""
    above = headers(dice, "application/json")
    kind, standard = _REFUSALS[status]
    error = {"type": kind, "message": message or standard}
    body = compact(
        {"type": "error", "error": error, "request_id": dict(above)["request-id"]}
    ).encode()
    extra = (("retry-after", "2"), ("x-should-retry", "true")) if status == 429 else ()
    return whole(body, above + extra, status)


def prompt_of(body: Json) -> Prompt:
    """Read the prompt from `messages`; results are the `tool_result` blocks of the last one of the
    user.
    """
    users = [
        message
        for message in listed(conversation(body, "messages"))
        if message.get("role") == "user"
    ]
    content = users[-1].get("content") if users else ""
    results = [block for block in listed(content) if block.get("type") == "tool_result"]
    return Prompt(
        last_text(content),
        ["\n".join(texts(block.get("content"))) for block in results],
        tools={str(tool.get("name")) for tool in listed(body.get("tools"))},
        schema=(
            (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
        ).get("schema"),
        instructions="\n".join(texts(body.get("system"))),
        forced=_forced(body),
        most_tokens=number(body.get("max_tokens")),
    )


def _forced(body: Json) -> FunctionCall | None:
    """Return the call that `tool_choice` demands: of a tool by its name, or of any one."""
    choice, tools = body.get("tool_choice") or {}, listed(body.get("tools"))
    if choice.get("type") not in ("tool", "any"):
        return None
    found = [
        each for each in tools if choice["type"] == "any" or each.get("name") == choice.get("name")
    ]
    return forced(found[0].get("name"), found[0].get("input_schema")) if found else None


# a change spares the tools alone
_BEFORE_SYSTEM = (("output_format",), ("output_config", "format"), ("speed",))
# and one of these the system, too
_BEFORE_MESSAGES = (("tool_choice",), ("thinking",), ("output_config", "effort"))


def render(body: Json) -> RenderedPrompt:
    """Render tools, system, parameters, messages, a block a piece; a mark of the whole request is
    for the last one.
    """
    pieces = [_piece(tool, tool) for tool in listed(body.get("tools"))]
    pieces += _parameters(body, _BEFORE_SYSTEM)
    system = _blocks(body.get("system"))
    pieces += [
        _piece(block, block) for block in system if not str(block.get("text")).startswith(BILLING)
    ]
    pieces += _parameters(body, _BEFORE_MESSAGES)
    for message in listed(body.get("messages")):
        for block in _blocks(message.get("content")):
            pieces.append(_piece({"role": message.get("role"), "content": block}, block))
    if pieces and "cache_control" in body:
        pieces[-1] = PromptPiece(pieces[-1].data, _lifetimes(body))
    return RenderedPrompt("anthropic", pieces, by_marks=True)


def _parameters(body: Json, paths: Sequence[Sequence[str]]) -> list[PromptPiece]:
    found = [
        ((body.get(path[0]) or {}).get(path[1]) if path[1:] else body.get(path[0]))
        for path in paths
    ]
    return [
        piece({".".join(path): value}) for path, value in zip(paths, found, strict=True) if value
    ]


def _blocks(content: object) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else listed(content)


def _piece(value: Json, marked: Json) -> PromptPiece:
    return piece(_unmarked(value), _lifetimes(marked))


def _lifetimes(marked: Json) -> int:
    mark = marked.get("cache_control")
    return (HOUR if mark.get("ttl") == "1h" else 1) if isinstance(mark, dict) else 0


def _unmarked(value: Any) -> Any:
    """Return a value without its marks: a beginning is the same wherever they are."""
    if isinstance(value, list):
        return [_unmarked(each) for each in value]
    if isinstance(value, dict):
        return {name: _unmarked(each) for name, each in value.items() if name != "cache_control"}
    return value


DIALECT = Dialect(prompt_of, refuse, render)


def create(play: Play) -> DemoReply:
    """Answer with a message, streamed or whole."""
    turn = MessageTurn(play)
    if play.body.get("stream"):
        return DemoReply(
            200, headers(play.dice, "text/event-stream; charset=utf-8"), timed(turn.frames)
        )
    if turn.failed:
        return refuse(play.dice, 529)
    body = compact(turn.message()).encode()
    return whole(
        body, headers(play.dice, "application/json"), at_s=sum(pause for pause, _ in turn.frames)
    )


def count_tokens(play: Play) -> DemoReply:
    """Answer with the number of tokens of the request."""
    body = compact({"input_tokens": play.usage.input}).encode()
    return whole(body, headers(play.dice, "application/json"))


def greet(play: Play) -> DemoReply:
    """Answer that the service is up: Claude Code asks before its first request."""
    return whole(compact({"message": "hello"}).encode(), headers(play.dice, "application/json"))


class MessageTurn:
    """One message while it is generated: its frames with the pauses before them, and its content
    blocks.
    """

    def __init__(self, play: Play) -> None:
        self.dice = play.dice
        self.usage = play.usage
        self.frames: list[tuple[float, bytes]] = []
        self.content: list[Json] = []
        self.stop: Json = {"stop_reason": "end_turn", "stop_sequence": None}
        self.searches = 0
        self.failed = False
        self.thinks = (play.body.get("thinking") or {}).get("type") != "disabled"
        self.head = {
            "model": play.required("model"),
            "id": self.dice.name("msg_01", 22),
            "type": "message",
        }
        self._perform(play)

    def _perform(self, play: Play) -> None:
        ending: Json = {"stop_reason": None, "stop_sequence": None}
        usage = {**_input_usage(self.usage), "output_tokens": 1, "service_tier": "standard"}
        message = {**self.head, "role": "assistant", "content": [], **ending, "usage": usage}
        self.emit("first", "message_start", message=message)
        for part in play.script.parts:
            _PARTS[type(part)](self, part)
        if play.script.is_cut:
            self.stop = {"stop_reason": "max_tokens", "stop_sequence": None}
        if not self.failed:
            self.emit("none", "message_delta", delta=self.stop, usage=self.total())
            self.emit("none", "message_stop")

    def emit(self, pause: str | float, type: str, **fields: Any) -> None:
        pause_s = self.dice.pause(pause) if isinstance(pause, str) else pause
        data = compact({"type": type, **fields})
        self.frames.append(
            (pause_s, f"event: {type}\ndata: {data[:-1]}{self.dice.padding()}}}\n\n".encode())
        )

    def block(self, empty: Json, deltas: list[tuple[float, Json]], full: Json) -> None:
        """Emit a content block that begins `empty` and becomes `full`."""
        index = len(self.content)
        self.emit(
            "think" if index else "token", "content_block_start", index=index, content_block=empty
        )
        if not index:
            self.frames.append((0.0, _PING))
        for pause_s, delta in deltas:
            self.emit(pause_s, "content_block_delta", index=index, delta=delta)
        self.emit("none", "content_block_stop", index=index)
        self.content.append({**empty, **full})

    def spoken(self, kind: str, field: str, text: str) -> list[tuple[float, Json]]:
        """Return `text` as deltas of that kind, each with its pause."""
        return [
            (pause_s, {"type": kind, field: delta})
            for pause_s, delta in self.dice.deltas(text, most=3)
        ]

    def total(self) -> Json:
        """Return the usage at the end: it is cumulative and overrides that of `message_start`."""
        details = {"output_tokens_details": {"thinking_tokens": self.usage.reasoning}}
        searched = (
            {"server_tool_use": {"web_search_requests": self.searches}} if self.searches else {}
        )
        counts = {k: v for k, v in _input_usage(self.usage).items() if k != "cache_creation"}
        return {**counts, "output_tokens": self.usage.output, **details, **searched}

    def message(self) -> Json:
        """Return the message as one JSON object."""
        usage = {**_input_usage(self.usage), **self.total(), "service_tier": "standard"}
        return {
            **self.head,
            "role": "assistant",
            "content": self.content,
            **self.stop,
            "usage": usage,
        }


def _think(turn: MessageTurn, part: Think) -> None:
    if not turn.thinks:
        return
    text, signature = "\n\n".join(part.summaries), turn.dice.base64(280)
    deltas = turn.spoken("thinking_delta", "thinking", text)
    deltas.append((0.0, {"type": "signature_delta", "signature": signature}))
    turn.block(
        {"type": "thinking", "thinking": "", "signature": ""},
        deltas,
        {"thinking": text, "signature": signature},
    )


def _say(turn: MessageTurn, part: Say) -> None:
    cited = [_citation(turn.dice, source) for source in part.sources]
    deltas = turn.spoken("text_delta", "text", part.text)
    deltas += [(0.0, {"type": "citations_delta", "citation": citation}) for citation in cited]
    empty: Json = {"citations": []} if cited else {}
    full: Json = {"citations": cited} if cited else {}
    turn.block({**empty, "type": "text", "text": ""}, deltas, {**full, "text": part.text})


def _citation(dice: Dice, source: Source) -> Json:
    place = {"cited_text": source.cited, "url": source.url, "title": source.title}
    return {"type": "web_search_result_location", **place, "encrypted_index": dice.base64(90)}


def _refuse(turn: MessageTurn, part: Refuse) -> None:
    _say(turn, Say(part.text))
    details = {"type": "refusal", "category": None, "explanation": None}
    turn.stop = {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}


def _input(turn: MessageTurn, arguments: Json) -> list[tuple[float, Json]]:
    first: Json = {"type": "input_json_delta", "partial_json": ""}
    return [(0.0, first), *turn.spoken("input_json_delta", "partial_json", compact(arguments))]


def _call(turn: MessageTurn, part: FunctionCall) -> None:
    empty = {
        "type": "tool_use",
        "id": turn.dice.name("toolu_01", 22),
        "name": part.name,
        "input": {},
    }
    turn.block(empty, _input(turn, part.arguments), {"input": part.arguments})
    turn.stop = {"stop_reason": "tool_use", "stop_sequence": None}


def _search(turn: MessageTurn, part: Search) -> None:
    turn.searches += 1
    call = {
        "type": "server_tool_use",
        "id": turn.dice.name("srvtoolu_01", 22),
        "name": "web_search",
        "input": {},
    }
    turn.block(call, _input(turn, {"query": part.query}), {"input": {"query": part.query}})
    found = [_result(turn.dice, source) for source in part.sources]
    turn.block(
        {"type": "web_search_tool_result", "tool_use_id": call["id"], "content": found}, [], {}
    )


def _result(dice: Dice, source: Source) -> Json:
    page = {"title": source.title, "url": source.url, "page_age": None}
    return {"type": "web_search_result", **page, "encrypted_content": dice.base64(240)}


def _fail(turn: MessageTurn, part: Fail) -> None:
    turn.failed = True
    turn.emit("think", "error", error={"type": "overloaded_error", "message": "Overloaded"})


_PARTS: dict[type[Part], Callable[[MessageTurn, Any], None]] = {
    Think: _think,
    Say: _say,
    Refuse: _refuse,
    FunctionCall: _call,
    Search: _search,
    Fail: _fail,
}


def _input_usage(usage: Usage) -> Json:
    """Return the usage of the input; `input_tokens` were neither read from the cache nor written to
    it.
    """
    prompt = usage.prompt
    of_5m = prompt.written - prompt.written_1h
    return {
        "input_tokens": usage.input - usage.cached - prompt.written,
        "cache_creation_input_tokens": prompt.written,
        "cache_read_input_tokens": usage.cached,
        "cache_creation": {
            "ephemeral_5m_input_tokens": of_5m,
            "ephemeral_1h_input_tokens": prompt.written_1h,
        },
    }
