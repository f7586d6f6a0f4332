"""The rules of Anthropic Messages: each is broken by one change to a good reply, and nothing else
is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.recordings import Json, Mutation, Reply, unnamed

(
    START,
    THINKING,
    THOUGHT,
    SIGNED,
    THOUGHT_END,
    TEXT,
    WORD,
    TEXT_END,
    CALL,
    INPUT,
    CALL_END,
    DELTA,
    STOP,
) = range(13)
USAGE = {"input_tokens": 12, "output_tokens": 2, "cache_read_input_tokens": 0}


def block(index: int, type: str, **said: Any) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": {"type": type, **said}}


def delta(index: int, type: str, **said: Any) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type, **said}}


def stop(index: int) -> Json:
    return {"type": "content_block_stop", "index": index}


def text(index: int, said: str = "x") -> tuple[Json, ...]:
    """A block, whole."""
    return block(index, "text", text=""), delta(index, "text_delta", text=said), stop(index)


def changes(reason: str | None = "tool_use", output_tokens: int = 30) -> Json:
    said = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": said, "usage": {"output_tokens": output_tokens}}


MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5",
    "content": [],
    "usage": USAGE,
}
WHOLE: list[Json] = [
    {"type": "text", "text": "Let me see."},
    {"type": "text", "text": "Paris it is."},
    {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}},
]
PING = {"type": "ping"}
ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

GOOD = Reply(
    events=(
        {"type": "message_start", "message": MESSAGE},
        block(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Paris it is."),
        delta(0, "signature_delta", signature="c2ln"),
        stop(0),
        *text(1, "Let me see."),
        block(2, "tool_use", id="toolu_1", name="get_weather", input={}),
        delta(2, "input_json_delta", partial_json='{"city": "Paris"}'),
        stop(2),
        changes(),
        {"type": "message_stop"},
    ),
    target="/v1/messages",
    asked={"model": "claude-opus-5", "stream": True},
)
FAILED = GOOD.without(*range(CALL, STOP + 1)).put(CALL, ERROR)
INTERLEAVED = GOOD.moved(TEXT_END, CALL)


def told(at: int, event: Json | bytes) -> Reply:
    """The good reply with another event in the place of one."""
    return GOOD.without(at).put(at, event)


def in_message(change: Callable[[Json], object]) -> Reply:
    return GOOD.edited(START, lambda event: change(event["message"]))


def in_block(at: int, change: Callable[[Json], object]) -> Reply:
    return GOOD.edited(at, lambda event: change(event["content_block"]))


def in_delta(at: int, change: Callable[[Json], object]) -> Reply:
    return GOOD.edited(at, lambda event: change(event["delta"]))


MUTATIONS = [
    Mutation("AN001", "an unnamed delta", told(WORD, unnamed(delta(1, "text_delta", text="x")))),
    Mutation("AN001", "no event is named", GOOD._replace(encoding=unnamed)),
    Mutation("AN001", "an unnamed error", FAILED.without(CALL).put(CALL, unnamed(ERROR))),
    Mutation(
        "AN002",
        "another name",
        told(WORD, b"event: ping\n" + unnamed(delta(1, "text_delta", text="x"))),
    ),
    Mutation("AN003", "no type", told(WORD, b'event: content_block_delta\ndata: {"index": 1}\n\n')),
    Mutation("AN003", "an array", GOOD.put(WORD, b"event: content_block_delta\ndata: []\n\n")),
    Mutation("AN003", "null", GOOD.put(WORD, b"event: content_block_delta\ndata: null\n\n")),
    Mutation("AN004", "no start", GOOD.without(START)),
    Mutation("AN004", "a late start", GOOD.put(START, {"type": "something_new"})),
    Mutation(
        "AN005", "another start", GOOD.put(THINKING, {"type": "message_start", "message": MESSAGE})
    ),
    Mutation("AN006", "no usage", in_message(lambda message: message.pop("usage"))),
    Mutation("AN006", "no content", in_message(lambda message: message.pop("content"))),
    Mutation("AN006", "no id", in_message(lambda message: message.pop("id"))),
    Mutation("AN006", "no message", GOOD.edited(START, lambda event: event.pop("message"))),
    Mutation("AN007", "no stop", GOOD.without(STOP)),
    Mutation(
        "AN007",
        "cut off in a block",
        GOOD.without(*range(INPUT, STOP + 1))._replace(outcome="upstream_reset"),
    ),
    Mutation("AN008", "a block after the stop", GOOD.put(STOP + 1, *text(3))),
    Mutation("AN008", "stop again", GOOD.put(STOP + 1, {"type": "message_stop"})),
    Mutation("AN009", "no message_delta", GOOD.without(DELTA)),
    Mutation("AN009", "no reason", told(DELTA, changes(None))),
    Mutation("AN010", "no usage", GOOD.edited(DELTA, lambda event: event.pop("usage"))),
    Mutation("AN010", "no output tokens", GOOD.edited(DELTA, lambda event: event["usage"].clear())),
    Mutation("AN010", "no delta", GOOD.edited(DELTA, lambda event: event.pop("delta"))),
    Mutation("AN011", "a block ends in the next", INTERLEAVED),
    Mutation("AN011", "deltas alternate", INTERLEAVED.put(CALL, delta(1, "text_delta", text="y"))),
    Mutation(
        "AN012",
        "a delta without",
        GOOD.put(WORD, {"type": "content_block_delta", "delta": {"type": "text_delta"}}),
    ),
    Mutation("AN012", "a stop without", GOOD.put(TEXT_END, {"type": "content_block_stop"})),
    Mutation(
        "AN012",
        "a start without",
        GOOD.put(CALL, {"type": "content_block_start", "content_block": {}}),
    ),
    Mutation("AN013", "a number left out", GOOD.put(DELTA, *text(4))),
    Mutation("AN013", "from one", GOOD.without(*range(THINKING, TEXT))),
    Mutation("AN013", "a number again", GOOD.put(DELTA, *text(2))),
    Mutation(
        "AN014", "a delta before its block", GOOD.put(DELTA, delta(3, "text_delta", text="x"))
    ),
    Mutation("AN014", "no start of a block", GOOD.without(TEXT)),
    Mutation("AN014", "a delta after its block", GOOD.moved(WORD, TEXT_END)),
    Mutation("AN014", "stop twice", GOOD.put(CALL, stop(1))),
    Mutation("AN015", "no block", GOOD.edited(TEXT, lambda event: event.pop("content_block"))),
    Mutation("AN015", "a block without a type", in_block(TEXT, lambda block: block.pop("type"))),
    Mutation("AN015", "a text block without text", in_block(TEXT, lambda block: block.pop("text"))),
    Mutation("AN016", "no id", in_block(CALL, lambda block: block.pop("id"))),
    Mutation("AN016", "no name", in_block(CALL, lambda block: block.update(name=""))),
    Mutation("AN017", "no delta", GOOD.edited(WORD, lambda event: event.pop("delta"))),
    Mutation("AN017", "no type", in_delta(WORD, lambda delta: delta.pop("type"))),
    Mutation(
        "AN015", "a block of an empty type", in_block(TEXT, lambda block: block.update(type=""))
    ),
    Mutation("AN017", "an empty type", in_delta(WORD, lambda delta: delta.update(type=""))),
    Mutation(
        "AN031",
        "a block",
        GOOD.put(DELTA, block(3, "hologram"), delta(3, "text_delta", text="x"), stop(3)),
    ),
    Mutation("AN031", "a delta", GOOD.put(WORD, delta(1, "hologram_delta", hologram=1))),
    Mutation("AN032", "a call, and the turn ends", told(DELTA, changes("end_turn"))),
    Mutation("AN032", "no call", GOOD.without(*range(CALL, DELTA))),
    Mutation("AN017", "no text", in_delta(WORD, lambda delta: delta.pop("text"))),
    Mutation("AN018", "text in a tool", GOOD.put(INPUT, delta(2, "text_delta", text="x"))),
    Mutation(
        "AN018", "input in a text", GOOD.put(WORD, delta(1, "input_json_delta", partial_json="{}"))
    ),
    Mutation(
        "AN019", "no JSON", told(INPUT, delta(2, "input_json_delta", partial_json='{"city": '))
    ),
    Mutation(
        "AN019",
        "a text without quotes",
        told(INPUT, delta(2, "input_json_delta", partial_json='{city: "x"}')),
    ),
    Mutation(
        "AN019", "no object", told(INPUT, delta(2, "input_json_delta", partial_json='["Paris"]'))
    ),
    Mutation("AN020", "no signature", GOOD.without(SIGNED)),
    Mutation("AN028", "a name alone", GOOD.put(WORD, b"event: content_block_delta\n\n")),
    Mutation("AN029", "no role", in_message(lambda message: message.pop("role"))),
    Mutation("AN029", "a call without input", in_block(CALL, lambda block: block.pop("input"))),
    Mutation(
        "AN029",
        "tokens in quotes",
        GOOD.edited(DELTA, lambda event: event["usage"].update(input_tokens="12")),
    ),
    Mutation(
        "AN029", "a citation as a text", GOOD.put(WORD, delta(1, "citations_delta", citation="x"))
    ),
    Mutation(
        "AN030",
        "fewer than none",
        in_message(lambda message: message["usage"].update(input_tokens=-1)),
    ),
    Mutation("AN030", "more than there are", told(DELTA, changes(output_tokens=10**12))),
    Mutation("AN021", "a reason of OpenAI", told(DELTA, changes("tool_calls"))),
    Mutation("AN022", "tokens of one event", told(DELTA, changes(output_tokens=1))),
    Mutation("AN023", "a block without an end", GOOD.without(TEXT_END)),
    Mutation("AN023", "the last block without an end", GOOD.without(CALL_END)),
    Mutation("AN024", "an end after message_delta", GOOD.moved(DELTA, CALL_END)),
    Mutation("AN024", "a block after message_delta", GOOD.put(STOP, *text(3))),
    Mutation("AN025", "no type", FAILED.edited(CALL, lambda event: event["error"].pop("type"))),
    Mutation(
        "AN025", "flat", FAILED.without(CALL).put(CALL, {"type": "error", "message": "Overloaded"})
    ),
    Mutation(
        "AN025",
        "no JSON object",
        FAILED.without(CALL).put(CALL, b'event: error\ndata: "Overloaded"\n\n'),
    ),
    Mutation("AN026", "text after an error", GOOD.put(WORD, ERROR)),
    Mutation("AN027", "done", GOOD.put(STOP + 1, b"data: [DONE]\n\n")),
]


GOODS = {
    "as it should be": GOOD,
    "pings anywhere": GOOD.put(STOP + 1, PING).put(WORD, PING).put(START, PING),
    "padding": told(
        WORD,
        b"event: content_block_delta\ndata: "
        + json.dumps(delta(1, "text_delta", text="")).encode()
        + b"   \n\n",
    ),
    "an error": FAILED,
    "an error and a ping": FAILED.put(CALL + 1, PING),
    "an error at once": GOOD._replace(events=(ERROR,)),
    "a tool without input": GOOD.without(INPUT),
    "a tool with an empty input": told(INPUT, delta(2, "input_json_delta", partial_json="")),
    "input that a limit cut off": told(INPUT, delta(2, "input_json_delta", partial_json="{"))
    .without(DELTA)
    .put(DELTA, changes("max_tokens")),
    "a signature from the beginning": in_block(
        THINKING, lambda block: block.update(signature="c2ln")
    ).without(SIGNED),
    "events of a type unknown": GOOD.put(WORD, {"type": "something_new"}),
    "a message that says nothing": GOOD.without(*range(THINKING, DELTA + 1)).put(
        THINKING, changes("end_turn")
    ),
    "all of it in message_start": GOOD.without(*range(THINKING, STOP)).edited(
        START, lambda event: event["message"].update(content=WHOLE, stop_reason="tool_use")
    ),
    "a part of it in message_start": GOOD.without(*range(THINKING, CALL)).edited(
        START, lambda event: event["message"].update(content=WHOLE[:2])
    ),
    "two message_delta": GOOD.put(STOP, changes()),
    "the client left": GOOD.without(*range(INPUT, STOP + 1))._replace(outcome="client_disconnect"),
    "it still goes on": GOOD.without(*range(INPUT, STOP + 1))._replace(outcome=None),
    "the recorder stopped": GOOD.without(*range(INPUT, STOP + 1))._replace(
        outcome="recorder_shutdown"
    ),
}
