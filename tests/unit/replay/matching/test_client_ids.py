"""Ids that a client's tools made: in a replay, answers name those of the client that asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.model.events import EndRecord, Recording
from recorder.replay.matching import Match, Matcher, MatchRequest
from recorder.replay.matching.client_ids import ANSWER_BYTES, is_client_id, with_client_ids
from recorder.replay.matching.noise import Rules
from recorder.replay.matching.rules import DEFAULT
from tests.support.recordings import ask, event, record
from tests.support.tables import table

AGENT, OTHER = "01a20550-36d9-7951-b01a-a59f4c60b60a", "01a20550-59f6-7491-b3cf-ad21b33fcf0c"
LONGER = "/tmp/claude-0/-home-me-a-project/5a280d05-f767-40f6-aea6-5da1ab4a387b/tasks/a0facf202446e758e.output"
SPAWNED = '{{"agent_id":"{}","nickname":"{}"}}'
RUNNING = "Chunk ID: {1}\nWall time: 0.5012 seconds\nProcess running with session ID {0}\nOutput:\nbegun\n"


def codex(output: str, *more: dict[str, Any]) -> MatchRequest:
    """The turn of Codex after a call."""
    call = {"type": "function_call", "name": "spawn_agent", "arguments": "{}", "call_id": "call_1"}
    result = {"type": "function_call_output", "call_id": "call_1", "output": output}
    return ask({"model": "m", "input": [{"role": "user", "content": "go"}, call, result, *more]})


def waits(id: str, *, split: int = 7, number: int = 0) -> list[bytes]:
    """The answer that waits for an agent: arguments bit by bit, then whole, then in the item."""
    arguments = json.dumps({"targets": [id], "timeout_ms": 20000})
    item = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_2",
        "name": "wait_agent",
        "arguments": arguments,
    }
    at = {"item_id": "fc_1", "output_index": number}
    bits = [arguments[start : start + split] for start in range(0, len(arguments), split)]
    return [
        *(
            event("response.function_call_arguments.delta", n, **at, delta=bit)
            for n, bit in enumerate(bits)
        ),
        event("response.function_call_arguments.done", 98, **at, arguments=arguments),
        event("response.output_item.done", 99, output_index=number, item=item),
    ]


def body(recorded: Recording) -> bytes:
    return b"".join(piece.raw for piece in recorded.pieces)


def given_for(asked: MatchRequest, recorded: Recording, rules: Rules | None = None) -> Recording:
    found = Matcher([recorded], rules or Rules()).match(asked)
    assert isinstance(found, Match), found.message
    return with_client_ids(found.recorded, found.client_ids)


@table("split", [1, 2, 7, 36, 1000])
def test_an_agent_is_waited_for_under_the_id_that_it_has_in_this_run(split: int) -> None:
    recorded = record(codex(SPAWNED.format(AGENT, "Bohr")), *waits(AGENT, split=split))
    answer = given_for(codex(SPAWNED.format(OTHER, "Epicurus")), recorded)
    assert [piece.raw for piece in answer.pieces] == waits(OTHER, split=split)
    assert body(recorded) == b"".join(waits(AGENT, split=split)), "the recording stays as it is"


def test_the_next_turn_of_that_client_matches_too() -> None:
    def turns(id: str) -> list[MatchRequest]:
        wait = {
            "type": "function_call",
            "name": "wait_agent",
            "arguments": json.dumps({"targets": [id]}),
        }
        waited = {
            "type": "function_call_output",
            "output": f'{{"status":{{"{id}":{{"completed":"42"}}}}}}',
        }
        told = f'<subagent_notification>\n{{"agent_path":"{id}"}}\n</subagent_notification>'
        said = {"role": "user", "content": told}
        first = SPAWNED.format(id, "Bohr")
        return [codex(first), codex(first, wait, waited), codex(first, wait, waited, said)]

    matcher = Matcher([record(each) for each in turns(AGENT)])
    for asked in turns(OTHER):
        found = matcher.match(asked)
        assert isinstance(found, Match)
        assert (found.how, found.client_ids) == ("noise", {AGENT: OTHER})


def test_an_equal_request_gets_the_recorded_bytes() -> None:
    recorded = record(codex(SPAWNED.format(AGENT, "Bohr")), *waits(AGENT))
    assert given_for(codex(SPAWNED.format(AGENT, "Bohr")), recorded) is recorded


def test_two_agents_are_not_mistaken_for_each_other() -> None:
    """Also where one client has an id that the other one has too."""
    both = [
        {"type": "function_call_output", "output": SPAWNED.format(id, "x")} for id in (AGENT, OTHER)
    ]
    recorded = record(codex("", *both), *waits(AGENT), *waits(OTHER, number=1))
    answer = given_for(codex("", *reversed(both)), recorded)
    assert [piece.raw for piece in answer.pieces] == [*waits(OTHER), *waits(AGENT, number=1)]


def test_a_handle_that_both_have_stays_though_another_is_a_part_of_it() -> None:
    def told(*ids: str) -> list[dict[str, Any]]:
        return [
            {"type": "function_call_output", "output": f"<task-id>{id}</task-id>"} for id in ids
        ]

    recorded = record(
        codex("", *told("task-1", "task-1-b")), *waits("task-1-b"), *waits("task-1", number=1)
    )
    answer = given_for(codex("", *told("work-9", "task-1-b")), recorded)
    assert [piece.raw for piece in answer.pieces] == [
        *waits("task-1-b"),
        *waits("work-9", number=1),
    ]


def test_a_client_that_has_more_of_them_gets_the_recorded_ones() -> None:
    recorded = record(codex("none of them"), *waits(AGENT))
    found = Matcher([recorded], Rules(until="position")).match(codex(SPAWNED.format(OTHER, "x")))
    assert isinstance(found, Match)
    assert (found.how, found.client_ids) == ("position", {})


def test_without_its_rule_nothing_is_put_in() -> None:
    recorded = record(codex(SPAWNED.format(AGENT, "x")), *waits(AGENT))
    rules = Rules((rule for rule in DEFAULT if rule.name != "codex-agent"), until="position")
    assert given_for(codex(SPAWNED.format(OTHER, "x")), recorded, rules) is recorded


@table(("theirs", "mine"), [("86068", "91667"), ("86068", "1234"), ("1234", "86068")])
@table("split", [1, 3, 50])
def test_the_number_of_a_process_is_put_into_arguments_and_nowhere_else(
    theirs: str, mine: str, split: int
) -> None:
    def answer(id: str) -> bytes:
        arguments = f'{{"session_id": {id}, "chars": ""}}'
        bits = [arguments[start : start + split] for start in range(0, len(arguments), split)]
        told = b"".join(
            event("response.function_call_arguments.delta", 7, output_index=0, delta=bit)
            for bit in bits
        )
        rest = {
            "arguments": arguments,
            "usage": int(theirs),
            "near": f"{theirs}9 1.{theirs} x{theirs}",
        }
        return told + event(
            "response.function_call_arguments.done", int(theirs), output_index=0, **rest
        )

    recorded = record(codex(RUNNING.format(theirs, "04800e")), answer(theirs))
    given = joined(body(given_for(codex(RUNNING.format(mine, "63f1b4")), recorded)))
    assert given == joined(
        answer(mine).replace(b'"sequence_number": %b' % mine.encode(), b'"sequence_number": 7')
    )


def joined(stream: bytes) -> tuple[str, list[Any]]:
    """The deltas as one text, and the other events."""
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith(b"data: ")]
    for each in events:
        each["sequence_number"] = 7
    others = [each for each in events if "delta" not in each]
    return "".join(each["delta"] for each in events if "delta" in each), others


def claude(id: str, file: str, took: int) -> MatchRequest:
    launched = f"Async agent launched successfully.\nagentId: {id} (internal ID)\noutput_file: {file}\nDo NOT Read it."
    told = (
        f"<task-notification>\n<task-id>{id}</task-id>\n<output-file>{file}</output-file>\n"
        f"<usage><tool_uses>1</tool_uses><duration_ms>{took}</duration_ms></usage>\n</task-notification>"
    )
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [{"type": "text", "text": launched}],
    }
    said = [
        {"role": "user", "content": [each]} for each in (result, {"type": "text", "text": told})
    ]
    asked = {"model": "m", "messages": [{"role": "user", "content": "go"}, *said]}
    return ask(asked, "/v1/messages", upstream="anthropic")


def deltas(text: str, split: int, of: Callable[[str], Any]) -> list[bytes]:
    bits = [text[start : start + split] for start in range(0, len(text), split)]
    return [b"data: " + json.dumps(of(bit), ensure_ascii=False).encode() + b"\n\n" for bit in bits]


SHAPES: dict[str, Callable[[str], Any]] = {
    "anthropic": lambda bit: {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": bit},
    },
    "chat": lambda bit: {
        "choices": [
            {"index": 0, "delta": {"tool_calls": [{"index": 2, "function": {"arguments": bit}}]}}
        ]
    },
    "gemini": lambda bit: {
        "candidates": [{"content": {"parts": [{"text": bit}], "role": "model"}, "index": 0}]
    },
}


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
@given(st.data())
def test_a_path_of_another_length_is_put_in_wherever_it_was_split(
    shape: str, data: st.DataObject
) -> None:
    short = "/tmp/claude-0/-p/72db488d-466e-4387-98f0-ed1091aa693f/tasks/a72b73ec22c17af52.output"
    pair = [(short, LONGER), (LONGER, short)][data.draw(st.integers(0, 1))]
    words = data.draw(st.lists(st.text('aé"\\\n😀 ', max_size=5), min_size=3, max_size=3))
    split = data.draw(st.integers(1, 200))
    told = [f"{words[0]} {path} {words[1]} {path} {words[2]}" for path in pair]
    recorded = record(
        claude("a72b73ec22c17af52", pair[0], 214), *deltas(told[0], split, SHAPES[shape])
    )
    total = len(body(recorded))
    cuts = sorted(data.draw(st.lists(st.integers(0, total), max_size=5)))
    sizes = [end - start for start, end in zip([0, *cuts], [*cuts, total], strict=True)]
    recorded = msgspec.structs.replace(recorded, reads=tuple(enumerate(sizes)), end=END)
    answer = given_for(claude("a0facf202446e758e", pair[1], 341), recorded)
    assert "".join(leaves(body(answer), shape)) == told[1]
    assert len(answer.pieces) == len(recorded.pieces)
    assert sum(size for _, size in answer.reads) == len(body(answer))
    assert len(answer.reads) == len(recorded.reads)


END = EndRecord(*("completed", "eof", None, 200, 0, "", 0, "", 0, 0, 0, 0, None, None, True))


def leaves(stream: bytes, shape: str) -> Iterable[str]:
    for line in stream.split(b"\n\n"):
        value = json.loads(line[6:]) if line else None
        while value is not None and not isinstance(value, str):
            steps = ("delta", "partial_json", "choices", "tool_calls", "function", "arguments")
            more = ("candidates", "content", "parts", "text")
            value = (
                value[0]
                if isinstance(value, list)
                else next(value[name] for name in (*steps, *more) if name in value)
            )
        if value is not None:
            yield value


def test_texts_of_two_calls_at_once_are_not_one_text() -> None:
    """Half of an id in the one and half in the other are not an id."""
    half = len(AGENT) // 2
    halves = AGENT[:half], AGENT[half:]
    bits = [event("x.delta", n, output_index=n, delta=text) for n, text in enumerate(halves)]
    recorded = record(codex(SPAWNED.format(AGENT, "x")), *bits)
    assert given_for(codex(SPAWNED.format(OTHER, "x")), recorded) is recorded


def test_a_document_is_answered_in_the_client_s_ids_too() -> None:
    said = (
        b' {"output": [{"arguments": "{\\"targets\\":[\\"%b\\"]}", "id": "fc_1"}],\n  "n": 1.0}\n'
    )
    recorded = record(
        codex(SPAWNED.format(AGENT, "x")), said % AGENT.encode(), content_type="application/json"
    )
    assert body(given_for(codex(SPAWNED.format(OTHER, "x")), recorded)) == said % OTHER.encode()


DEEP = b'{"a": ' + b"[" * 5000
UNREADABLE = [
    b"",
    b"data: {",
    b"data: \xff\xfe\n\n",
    b"data: [[[{",
    DEEP,
    b"data: [DONE]\n\n",
    b"\0",
]


@table(
    "raw",
    [
        *([raw, AGENT.encode()] for raw in UNREADABLE),
        [*waits(AGENT), b": " + b"x" * ANSWER_BYTES + b"\n\n"],
    ],
)
def test_what_cannot_be_read_or_is_over_the_limit_stays_as_it_is(raw: list[bytes]) -> None:
    recorded = record(codex(SPAWNED.format(AGENT, "x")), *raw)
    assert given_for(codex(SPAWNED.format(OTHER, "x")), recorded) is recorded


@table("text", ["abc", "a" * 513, 'with"quote', "back\\slash", "two words", "näher", "line\n1"])
def test_what_is_not_found_again_as_it_is_is_no_handle(text: str) -> None:
    assert not is_client_id(text)
