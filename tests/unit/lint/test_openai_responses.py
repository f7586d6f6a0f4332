"""The rules of the Responses API: each is broken by a change to a good stream, and by nothing else
there.
"""

from __future__ import annotations

import json
import time
import typing
from collections.abc import Callable
from typing import Any

import pytest

from recorder.lint.linter import lint
from recorder.wire.dialects.openai_responses.lint.events import FIELDS, OF_ITEMS
from recorder.wire.recording import recording_of
from tests.support.recordings import Json, Mutation, Reply, assert_clean, broken, linted, recorded

PARTS: Json = {"annotations": [], "logprobs": []}
USAGE = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 20},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 42,
}
THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Think hard"}],
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hello world", **PARTS}],
}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "call_1",
    "name": "roll",
    "arguments": '{"n":2}',
}


def response(status: str, **fields: Any) -> Json:
    head = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "parallel_tool_calls": True,
    }
    return {**head, "status": status, "output": [], "usage": None, **fields}


def lifecycle(step: str, status: str | None = None, **fields: Any) -> Json:
    return {"type": f"response.{step}", "response": response(status or step, **fields)}


def item(step: str, index: int, json: Json) -> Json:
    return {"type": f"response.output_item.{step}", "output_index": index, "item": json}


def of_item(type: str, index: int, id: str, **fields: Any) -> Json:
    return {"type": f"response.{type}", "item_id": id, "output_index": index, **fields}


def text(type: str, **fields: Any) -> Json:
    return of_item(type, 1, "msg_1", content_index=0, **fields)


def summary(type: str, **fields: Any) -> Json:
    return of_item(type, 0, "rs_1", summary_index=0, **fields)


GOOD = Reply(
    (
        lifecycle("created", "in_progress"),
        lifecycle("in_progress"),
        item("added", 0, {**THOUGHT, "summary": []}),
        summary("reasoning_summary_part.added", part={"type": "summary_text", "text": ""}),
        summary("reasoning_summary_text.delta", delta="Think ", obfuscation="x1"),
        summary("reasoning_summary_text.delta", delta="hard", obfuscation="y"),
        summary("reasoning_summary_text.done", text="Think hard"),
        summary("reasoning_summary_part.done", part={"type": "summary_text", "text": "Think hard"}),
        item("done", 0, THOUGHT),
        item("added", 1, {**MESSAGE, "status": "in_progress", "content": []}),
        text("content_part.added", part={"type": "output_text", "text": "", **PARTS}),
        text("output_text.delta", delta="Hello", logprobs=[]),
        text("output_text.delta", delta=" world", logprobs=[]),
        text("output_text.done", text="Hello world", logprobs=[]),
        text("content_part.done", part={"type": "output_text", "text": "Hello world", **PARTS}),
        item("done", 1, MESSAGE),
        item("added", 2, {**CALL, "arguments": ""}),
        of_item("function_call_arguments.delta", 2, "fc_1", delta='{"n":'),
        of_item("function_call_arguments.delta", 2, "fc_1", delta="2}"),
        of_item("function_call_arguments.done", 2, "fc_1", arguments='{"n":2}'),
        item("done", 2, CALL),
        lifecycle("completed", output=[THOUGHT, MESSAGE, CALL], usage=USAGE),
    )
).numbered()

FAILED = {"code": "server_error", "message": "Boom"}
CUT = GOOD._replace(events=GOOD.events[:12])
ERROR = CUT.put(
    12, {"type": "error", "error": {"type": "server_error", **FAILED, "param": None}}
).numbered()
FAILURE = CUT.put(12, lifecycle("failed", error=FAILED)).numbered()
ERROR_AND_FAILURE = ERROR.put(13, lifecycle("failed", error=FAILED)).numbered()
TOO_LONG = {"reason": "max_output_tokens"}
INCOMPLETE = CUT.put(
    12, lifecycle("incomplete", incomplete_details=TOO_LONG, usage=USAGE)
).numbered()


def but(which: int | str, change: Callable[[Json], object]) -> Reply:
    return GOOD.edited(which, change)


def set_to(**fields: Any) -> Callable[[Json], object]:
    return lambda event: event.update(fields)


def of_response(**fields: Any) -> Callable[[Json], object]:
    return lambda event: event["response"].update(fields)


def less(*path: str | int) -> Callable[[Json], object]:
    """Takes away what stands at a path."""

    def change(event: Any) -> None:
        for step in path[:-1]:
            event = event[step]
        del event[path[-1]]

    return change


def said(*path_and_value: Any) -> Callable[[Json], object]:
    """Puts a value at a path."""

    def change(event: Any) -> None:
        *path, last, value = path_and_value
        for step in path:
            event = event[step]
        event[last] = value

    return change


def called(number: int, name: str | None, *gone: str) -> Reply:
    """With another SSE name on an event, or none, and less some fields."""
    whole = GOOD.events[number]
    assert isinstance(whole, dict)
    event = {field: value for field, value in whole.items() if field not in gone}
    line = f"event: {name}\n" if name else ""
    block = f"{line}data: {json.dumps(event)}\n\n".encode()
    return GOOD._replace(events=(*GOOD.events[:number], block, *GOOD.events[number + 1 :]))


def each_event(change: Callable[[Json], object]) -> Reply:
    reply = GOOD
    for number in range(len(GOOD.events)):
        reply = reply.edited(number, change)
    return reply


def _reindexed(event: Json) -> None:
    if event.get("output_index") == 2:
        event["output_index"] = 3


def _parted(event: Json) -> None:
    if "content_index" in event:
        event["content_index"] = 1


def without_id(*numbers: int) -> Reply:
    """With items that have no id; nor has what the response says of them."""
    reply = but(COMPLETED, less("response", "output", 1, "id"))
    for number in numbers:
        reply = reply.edited(number, less("item", "id"))
    return reply.without(*range(10, 15)).numbered()


URL = {"type": "url_citation", "start_index": 0, "end_index": 1, "title": "x"}
OTHER_CALL = {**CALL, "id": "fc_2", "call_id": "call_2"}
ARGUMENTS_OF_MESSAGE = of_item("function_call_arguments.delta", 1, "msg_1", delta="{}")
ARGUMENTS_DONE = of_item("function_call_arguments.done", 1, "msg_1", arguments="{}")
EMPTY_DELTA = text("output_text.delta", delta="", logprobs=[])
OF_INPUT, OF_OUTPUT = (
    ("response", "usage", f"{name}_tokens_details") for name in ("input", "output")
)
DELTA = "response.output_text.delta"
COMPLETED = "response.completed"
OUTPUT_2 = [
    THOUGHT,
    {**MESSAGE, "content": [{"type": "output_text", "text": "Goodbye", **PARTS}]},
    CALL,
]

MUTATIONS = [
    Mutation("RS001", "no created", GOOD.without(0).numbered()),
    Mutation("RS002", "no terminal event", GOOD.without(COMPLETED)),
    Mutation("RS002", "no event at all", GOOD._replace(events=(b": hello\n\n",))),
    Mutation(
        "RS002",
        "cut in the middle of an event",
        CUT.put(12, b"event: resp")._replace(outcome="truncated"),
    ),
    Mutation("RS003", "completed twice", GOOD.put(22, GOOD.events[-1]).numbered()),
    Mutation("RS004", "an event after the end", GOOD.put(22, {"type": "keepalive"}).numbered()),
    Mutation("RS005", "a mark of Chat Completions", GOOD.put(22, b"data: [DONE]\n\n")),
    Mutation("RS006", "a response without id", but(COMPLETED, less("response", "id"))),
    Mutation("RS007", "another response id", but(COMPLETED, of_response(id="resp_2"))),
    Mutation("RS008", "another model", but(COMPLETED, of_response(model="n"))),
    Mutation("RS009", "a status of before", but(COMPLETED, of_response(status="in_progress"))),
    Mutation("RS010", "an event without number", but(11, less("sequence_number"))),
    Mutation("RS010", "a number in quotes", but(11, set_to(sequence_number="11"))),
    Mutation("RS010", "no event has a number", each_event(less("sequence_number"))),
    Mutation("RS011", "numbers from 1", GOOD.numbered(1)),
    Mutation("RS012", "a number left out", but(21, set_to(sequence_number=22))),
    Mutation("RS012", "a number twice", but(21, set_to(sequence_number=20))),
    Mutation("RS013", "no type", called(11, DELTA, "type")),
    Mutation("RS014", "another name", called(11, "delta")),
    Mutation("RS014", "no name", called(11, None)),
    Mutation("RS015", "an unknown event", GOOD.put(5, {"type": "ping"})),
    Mutation("RS020", "no content_index", but(DELTA, less("content_index"))),
    Mutation("RS020", "an index in quotes", but(11, set_to(output_index="1"))),
    Mutation("RS020", "no delta", but(11, less("delta"))),
    Mutation("RS020", "no response", but(1, less("response"))),
    Mutation("RS021", "no item_id", but(11, less("item_id"))),
    Mutation("RS022", "no logprobs", but(11, less("logprobs"))),
    Mutation("RS023", "a message without role", but(9, less("item", "role"))),
    Mutation("RS023", "a message without content", but(15, less("item", "content"))),
    Mutation("RS023", "reasoning without summary", but(2, less("item", "summary"))),
    Mutation("RS024", "another item_id", but(11, set_to(item_id="msg_2"))),
    Mutation("RS025", "another id when done", but(15, said("item", "id", "msg_2"))),
    Mutation("RS025", "no id when added", but(9, said("item", "id", None))),
    Mutation("RS026", "a response without status", but(0, less("response", "status"))),
    Mutation("RS026", "a response without object", but(0, less("response", "object"))),
    Mutation("RS026", "a response without model", but(0, less("response", "model"))),
    Mutation("RS026", "a time in quotes", but(0, of_response(created_at="1"))),
    Mutation("RS026", "effort as the whole of reasoning", but(0, of_response(reasoning="high"))),
    Mutation("RS026", "a message without status", but(15, less("item", "status"))),
    Mutation("RS026", "a part without annotations", but(14, less("part", "annotations"))),
    Mutation("RS026", "a part without type", but(14, less("part", "type"))),
    Mutation("RS026", "logprobs as a text", but(14, said("part", "logprobs", "x"))),
    Mutation(
        "RS026",
        "an annotation without url",
        but(15, said("item", "content", 0, "annotations", [URL])),
    ),
    Mutation("RS027", "a part of null", but(10, said("part", "text", None))),
    Mutation("RS027", "a part of no type", but(10, less("part", "type"))),
    Mutation("RS027", "a part of a number", but(10, said("part", "text", 0))),
    Mutation("RS028", "a message without id", without_id(9, 15)),
    Mutation("RS029", "another call_id when done", but(20, said("item", "call_id", "call_2"))),
    Mutation("RS029", "another name when done", but(20, said("item", "name", "walk"))),
    Mutation("RS030", "an item never added", GOOD.without(9).numbered()),
    Mutation("RS030", "a summary before its item", GOOD.moved(2, 4).numbered()),
    Mutation("RS031", "added twice", GOOD.put(10, GOOD.events[9]).numbered()),
    Mutation("RS032", "never done", GOOD.without(15).numbered()),
    Mutation("RS033", "a delta after its item", GOOD.put(16, EMPTY_DELTA).numbered()),
    Mutation("RS033", "done twice", GOOD.put(16, GOOD.events[15]).numbered()),
    Mutation("RS034", "an index left out", each_event(_reindexed)),
    Mutation("RS056", "a message is done after its call", GOOD.moved(15, 20).numbered()),
    Mutation("RS035", "no content_part events", GOOD.without(10, 14).numbered()),
    Mutation("RS036", "no content_part.done", GOOD.without(14).numbered()),
    Mutation("RS037", "no output_text.done", GOOD.without(13).numbered()),
    Mutation("RS037", "no arguments.done", GOOD.without(19).numbered()),
    Mutation("RS038", "a delta after its done", GOOD.moved(12, 13).numbered()),
    Mutation("RS038", "text done after its part", GOOD.moved(13, 14).numbered()),
    Mutation("RS039", "parts from 1", each_event(_parted)),
    Mutation("RS040", "a delta lost", GOOD.without(12).numbered()),
    Mutation("RS040", "another done", but(13, set_to(text="Hello, world"))),
    Mutation("RS040", "arguments cut off", but(18, set_to(delta="2"))),
    Mutation("RS041", "another item", but(15, said("item", "content", 0, "text", "Hello"))),
    Mutation("RS041", "another part", but(14, said("part", "text", "Hello"))),
    Mutation("RS041", "an item without its part", but(15, said("item", "content", []))),
    Mutation("RS041", "another call", but(20, said("item", "arguments", "{}"))),
    Mutation("RS042", "another answer", but(COMPLETED, of_response(output=OUTPUT_2))),
    Mutation("RS042", "an item less", but(COMPLETED, of_response(output=[THOUGHT, CALL]))),
    Mutation("RS043", "no output", but(COMPLETED, of_response(output=[]))),
    Mutation(
        "RS044", "another id at last", but(COMPLETED, said("response", "output", 1, "id", "msg_2"))
    ),
    Mutation("RS045", "a delta lost to Codex", GOOD.without(12).numbered()),
    Mutation(
        "RS045", "another item for Codex", but(15, said("item", "content", 0, "text", "Hello"))
    ),
    Mutation(
        "RS046",
        "another call at last",
        but(COMPLETED, said("response", "output", 2, "call_id", "call_2")),
    ),
    Mutation(
        "RS046",
        "another name at last",
        but(COMPLETED, said("response", "output", 2, "name", "walk")),
    ),
    Mutation(
        "RS047",
        "an item more at last",
        but(COMPLETED, of_response(output=[THOUGHT, MESSAGE, CALL, OTHER_CALL])),
    ),
    Mutation(
        "RS047",
        "items in another order",
        but(COMPLETED, of_response(output=[THOUGHT, CALL, MESSAGE])),
    ),
    Mutation("RS048", "done in progress", but(15, said("item", "status", "in_progress"))),
    Mutation(
        "RS049", "text in a refusal", but(10, said("part", {"type": "refusal", "refusal": ""}))
    ),
    Mutation(
        "RS049",
        "arguments of a message",
        GOOD.put(11, ARGUMENTS_OF_MESSAGE, ARGUMENTS_DONE).numbered(),
    ),
    Mutation("RS054", "no summary part events", GOOD.without(3, 7).numbered()),
    Mutation("RS050", "no usage", but(COMPLETED, of_response(usage=None))),
    Mutation("RS051", "no total", but(COMPLETED, less("response", "usage", "total_tokens"))),
    Mutation(
        "RS051",
        "no cached",
        but(COMPLETED, less("response", "usage", "input_tokens_details", "cached_tokens")),
    ),
    Mutation(
        "RS051", "usage as a text", INCOMPLETE.edited("response.incomplete", of_response(usage="x"))
    ),
    Mutation(
        "RS055",
        "no details of input",
        but(COMPLETED, less("response", "usage", "input_tokens_details")),
    ),
    Mutation(
        "RS052", "another total", but(COMPLETED, said("response", "usage", "total_tokens", 41))
    ),
    Mutation(
        "RS052",
        "more reasoning than output",
        but(COMPLETED, said(*OF_OUTPUT, "reasoning_tokens", 13)),
    ),
    Mutation(
        "RS052", "more cached than input", but(COMPLETED, said(*OF_INPUT, "cached_tokens", 31))
    ),
    Mutation("RS053", "tokens at the beginning", but(0, of_response(usage=USAGE))),
    Mutation(
        "RS060",
        "an error without message",
        ERROR_AND_FAILURE.edited("error", less("error", "message")),
    ),
    Mutation(
        "RS064", "an error without code", ERROR_AND_FAILURE.edited("error", less("error", "code"))
    ),
    Mutation(
        "RS064",
        "a code that is a number",
        ERROR_AND_FAILURE.edited("error", said("error", "code", 500)),
    ),
    Mutation(
        "RS061",
        "a failure without error",
        FAILURE.edited("response.failed", of_response(error=None)),
    ),
    Mutation(
        "RS061",
        "a failure without code",
        FAILURE.edited("response.failed", less("response", "error", "code")),
    ),
    Mutation("RS062", "an error alone", ERROR),
    Mutation(
        "RS063",
        "no reason",
        INCOMPLETE.edited("response.incomplete", of_response(incomplete_details=None)),
    ),
]


EMPTY_PART = {"type": "output_text", "text": "", **PARTS}
TOOLS = {"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "x", "tools": []}
GOODS = {
    "as it should be": GOOD,
    "failed": FAILURE,
    "an error and a failure": ERROR_AND_FAILURE,
    "cut": INCOMPLETE,
    "an item with its part when added": but(9, said("item", "content", [EMPTY_PART]))
    .without(10, 14)
    .numbered(),
    "no item": but(COMPLETED, of_response(output=[])).without(*range(2, 21)).numbered(),
    "a text without deltas": GOOD.without(DELTA).numbered(),
    "an item at last that was not streamed": but(
        COMPLETED, of_response(output=[THOUGHT, TOOLS, MESSAGE, CALL])
    ),
    "the client left": CUT._replace(outcome="client_disconnect"),
    "the recorder stopped": CUT._replace(outcome="recorder_shutdown"),
    "the recorder died": CUT._replace(outcome="recorder_crash"),
    "it still goes on": CUT._replace(outcome=None),
}


def test_codex_does_not_read_the_whole_of_a_text_but_in_its_item() -> None:
    assert_clean(but(13, set_to(text="Hello, world")), "codex")
    assert_clean(but(14, said("part", "text", "Hello")), "codex")
    assert_clean(ERROR, "openai", "sdk")  # an error event by itself, which Codex alone minds


@pytest.mark.parametrize("outcome", ["truncated", "upstream_reset", "timeout"])
def test_an_end_that_the_provider_made_too_early_is(outcome: Any) -> None:
    [finding] = linted(CUT._replace(outcome=outcome))
    assert finding.rule == "RS002"
    assert (
        finding.places[0].said
        == f"last is response.output_text.delta; the connection ended with {outcome}"
    )


def test_a_resumed_stream_begins_in_the_middle() -> None:
    target = "/v1/responses/resp_1?stream=true&starting_after=11"
    rest = GOOD._replace(events=GOOD.events[12:], target=target, method="GET")
    assert_clean(rest)
    assert broken(rest.numbered(13)) == ["RS011"]


def test_an_item_that_is_still_open_keeps_its_id_too() -> None:
    still_open = GOOD.put(21, item("added", 3, TOOLS)).numbered()
    at_last = still_open.edited(
        COMPLETED, of_response(output=[THOUGHT, MESSAGE, CALL, {**TOOLS, "id": "mcpl_2"}])
    )
    assert broken(at_last, "sdk") == ["RS032", "RS044"]


def test_pings_need_no_number() -> None:
    assert_clean(GOOD.put(5, b"event: ping\ndata: {}\n\n"), "codex", "sdk")
    assert broken(GOOD.put(5, b"event: ping\ndata: {}\n\n")) == ["RS015"]
    accepted = {"type": "response.steer.accepted", "steer": {"id": "steer_1"}}
    assert broken(GOOD.put(5, accepted)) == []


def test_a_finding_says_where_and_what() -> None:
    [finding] = linted(but(DELTA, less("item_id")))
    assert (finding.count, finding.severity) == (2, "error")
    assert finding.places[0].said == DELTA
    first = finding.places[0].pos
    assert first is not None
    assert finding.places[1].pos == first + 1


def test_the_catalog_is_that_of_the_sdk() -> None:
    responses = pytest.importorskip("openai.types.responses")
    [union, *_] = typing.get_args(responses.ResponseStreamEvent)
    own_rules = {"type", "sequence_number", "item_id", "logprobs"}
    # sent, but not declared
    beyond = {"keepalive", *(type for type in FIELDS if "apply_patch" in type)}
    # an object; nested or flat
    loose = {"response.shell_call_output_content.delta": {"delta"}, "error": {"message"}}
    for shape in typing.get_args(union):
        [type] = typing.get_args(shape.model_fields["type"].annotation)
        required = {name for name, field in shape.model_fields.items() if field.is_required()}
        assert set(FIELDS[type]) == required - own_rules - loose.get(type, set()), type
        assert (type in OF_ITEMS) == ("item_id" in required), type
        beyond.add(type)
    assert beyond == set(FIELDS)


@pytest.mark.slow
@pytest.mark.timed
def test_a_long_stream_is_judged_in_seconds() -> None:
    deltas = [
        text("output_text.delta", delta="word ", logprobs=[], obfuscation="abcdef")
        for _ in range(100_000)
    ]
    words = "word " * len(deltas)
    whole = {**MESSAGE, "content": [{"type": "output_text", "text": words, **PARTS}]}
    long = (
        GOOD.edited(13, set_to(text=words))
        .edited(14, said("part", "text", words))
        .edited(15, said("item", whole))
    )
    long = (
        long.edited(COMPLETED, of_response(output=[THOUGHT, whole, CALL]))
        .without(11, 12)
        .put(11, *deltas)
    )
    exchange, events = recorded(long.numbered())
    begun = time.process_time()
    assert lint(recording_of(exchange, events)) == []
    assert time.process_time() - begun < 10


def test_a_character_may_come_in_two_halves() -> None:
    blocks = [
        block.replace(b"Hello world", b"Hello\xf0\x9f\x98\x80world") for block in GOOD.blocks()
    ]
    blocks[11] = blocks[11].replace(b'"Hello', b'"Hello\\ud83d')
    blocks[12] = blocks[12].replace(b'" world', b'"\\ude00world')
    assert_clean(GOOD._replace(events=tuple(blocks)), "openai")
