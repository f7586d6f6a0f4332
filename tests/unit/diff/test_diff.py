"""`recorder.diff`: each change is found at its level and only there, and nothing else is."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.commands.diff import without_collecting
from recorder.diff import ALL, Level, diff
from recorder.diff.alignment import numbered, stretches
from recorder.diff.compared import NotedFacts
from recorder.diff.noise_filter import NoiseFilter, owned
from recorder.model.facts import TextAdded
from recorder.projections.items import ITEMS_LIMIT
from recorder.recordings.files import load_file
from recorder.replay.matching.noise import DEFAULT_RULES
from recorder.wire.recording import recording_of
from tests.support.corpus import CORPUS, corpus_index, each_stream
from tests.support.recordings import (
    CHAT_REPLY,
    GOOD,
    MESSAGES,
    RESPONSES,
    Json,
    Reply,
    compared,
    differing,
    recorded,
    replaced,
)
from tests.support.tables import table

every_api = table("good", GOOD.values())


# -- a change is found at its level


@every_api
def test_a_stream_does_not_differ_from_itself(good: Reply) -> None:
    assert compared(good, good, *ALL).is_equal


@every_api
def test_a_changed_word_is_found_in_the_answer_alone(good: Reply) -> None:
    report = compared(good, replaced(good, "sunny", "rainy"))
    assert report.differing == ("answer",)
    [found] = report.pairs[0].levels[1].differences
    assert [word for word in found.words or () if word.of != "="] == [
        ("-", "sunny"),
        ("+", "rainy"),
    ]


@every_api
def test_a_changed_argument_is_found_in_the_tools_alone(good: Reply) -> None:
    report = compared(good, replaced(good, "Lyon", "Nice"))
    assert report.differing == ("tools",)
    [found] = report.pairs[0].levels[2].differences
    assert (found.where, found.a, found.b) == (
        "tool_call 0 look_up · arguments.city",
        '"Lyon"',
        '"Nice"',
    )


@every_api
def test_a_changed_tool_is_found_in_the_tools_alone(good: Reply) -> None:
    assert differing(good, replaced(good, "look_up", "look_out")) == ("tools",)


@every_api
def test_a_changed_token_count_is_found_in_the_usage_alone(good: Reply) -> None:
    report = compared(good, replaced(good, "87", "88"))
    assert report.differing == ("usage",)
    output = next(each for each in report.pairs[0].levels[3].measures if each.name == "output")
    assert (output.a, output.b, output.differs) == (87, 88, True)


@every_api
@table("before", [0, 1, -1])
def test_a_delay_is_found_in_the_timing_alone(good: Reply, before: int) -> None:
    assert differing(good, good._replace(pauses={before % len(good.events): 1.0})) == ("timing",)


@table(
    ("good", "dropped"),
    [
        *(
            (RESPONSES, type)
            for type in (
                "response.created",
                "response.content_part.added",
                "response.content_part.done",
            )
        ),
        *((RESPONSES, type) for type in ("response.output_text.done", "response.output_item.done")),
        *((MESSAGES, type) for type in ("ping", "content_block_stop", "message_stop")),
        (CHAT_REPLY, 0),
        (CHAT_REPLY, 7),
    ],
)
def test_a_dropped_structural_event_is_found_in_the_events_alone(good: Reply, dropped: Any) -> None:
    assert differing(good, good.without(dropped)) == ("events",)


@every_api
def test_a_dropped_event_is_missing_where_it_was(good: Reply) -> None:
    for number in range(len(good.events)):
        levels = {each.level: each for each in compared(good, good.without(number)).pairs[0].levels}
        found = levels["events"].differences
        assert any(each.change == "missing" or "in a row" in each.where for each in found), number


def test_a_stream_numbered_anew_differs_only_in_what_is_missing() -> None:
    report = compared(RESPONSES, RESPONSES.without("response.content_part.done").numbered())
    [found] = report.pairs[0].levels[5].differences
    assert (found.change, found.where) == ("missing", "response.content_part.done")


def test_a_wrong_sequence_number_is_told_once() -> None:
    def skip(event: Json) -> None:
        event["sequence_number"] += 100

    report = compared(RESPONSES, RESPONSES.edited(13, skip).edited(14, skip))
    assert [each.where for each in report.pairs[0].levels[5].differences] == [
        "response.output_item.done · sequence_number"
    ]


def test_an_event_that_moved_is_told_as_moved() -> None:
    report = compared(RESPONSES, RESPONSES.moved(7, 13))
    assert "moved" in {each.change for each in report.pairs[0].levels[5].differences}


def test_a_text_that_contradicts_its_item_is_an_event_that_differs() -> None:
    contradicting = RESPONSES.edited(
        "response.output_text.done", lambda event: event.update(text="It rains.")
    )
    assert differing(RESPONSES, contradicting) == ("events",)


def test_deltas_that_are_cut_elsewhere_are_one_difference_of_the_events() -> None:
    cut = RESPONSES.edited(3, lambda event: event.update(delta="It ")).edited(
        4, lambda event: event.update(delta="is sunny")
    )
    report = compared(RESPONSES, cut)
    assert (report.differing, report.count("events")) == (("events",), 1)


def test_another_number_of_deltas_is_one_line() -> None:
    less = (
        RESPONSES.without(4).edited(3, lambda event: event.update(delta="It is sunny")).numbered()
    )
    report = compared(RESPONSES, less)
    assert report.differing == ("events",)
    assert [(each.a, each.b) for each in report.pairs[0].levels[5].differences] == [
        ("3 deltas", "2 deltas")
    ]


def test_where_in_a_text_a_ping_stands_is_chance() -> None:
    assert compared(MESSAGES, MESSAGES.moved(3, 4)).is_equal


# -- noise


def _as_of_another_run(text: str) -> str:
    times = ('"created_at": 1', '"created_at": 2'), ('"created": 7', '"created": 8')
    for old, new in (("_1", "_9"), *times, ("xyz", "")):
        text = text.replace(old, new)
    return text


@every_api
def test_ids_times_and_padding_are_noise(good: Reply) -> None:
    other = good._replace(events=tuple(json.loads(_as_of_another_run(json.dumps(good.events)))))
    assert other != good
    assert compared(good, other).is_equal
    assert "events" in compared(good, other, exact=True).differing


def test_ids_in_a_list_are_noise() -> None:
    ended = {"type": "RUN_FINISHED", "outcome": {"pendingToolCallIds": ["a", "b"]}}
    assert NoiseFilter(owned("ag-ui", DEFAULT_RULES), exact=False).apply(ended, (), ()).ids == [
        "a",
        "b",
    ]


def test_an_id_that_is_not_that_of_its_item_is_not_noise() -> None:
    assert differing(
        RESPONSES, RESPONSES.edited(4, lambda event: event.update(item_id="msg_other"))
    ) == ("events",)


@pytest.mark.parametrize("exact", [False, True])
def test_ciphertext_is_compared_by_its_length_alone(exact: bool) -> None:
    def reasoning(secret: str) -> Reply:
        item = {"type": "reasoning", "summary": [], "encrypted_content": secret}
        return RESPONSES.put(
            1, {"type": "response.output_item.done", "output_index": 9, "item": item}
        )

    assert (
        "events"
        not in compared(reasoning("abc"), reasoning("xyz"), "events", exact=exact).differing
    )
    assert (
        "events" in compared(reasoning("abc"), reasoning("longer"), "events", exact=exact).differing
    )


def test_bytes_are_compared_only_if_they_are_asked_for() -> None:
    other = RESPONSES.edited(3, lambda event: event.update(obfuscation="zyx"))
    assert compared(RESPONSES, other).is_equal
    assert compared(RESPONSES, other, "bytes").differing == ("bytes",)
    assert compared(RESPONSES, other, exact=True).differing == ("events", "bytes")


def test_times_differ_only_past_the_tolerance() -> None:
    later = RESPONSES._replace(pauses={14: 0.04})
    assert compared(RESPONSES, later).is_equal
    assert compared(RESPONSES, RESPONSES._replace(pauses={14: 0.3}), tolerance=100.0).is_equal


# -- exchanges


def _session(*replies: Reply) -> list[Any]:
    return [
        recording_of(*recorded(reply), number=number) for number, reply in enumerate(replies, 1)
    ]


def _asking(text: str, **more: Any) -> Reply:
    return RESPONSES._replace(asked={"model": "gpt", "input": text, **more})


def test_exchanges_are_partners_by_what_they_ask() -> None:
    report = diff(
        _session(_asking("one"), _asking("two")), _session(_asking("two"), _asking("one"))
    )
    assert report.is_equal
    assert [(pair.a.number, pair.b.number, pair.how) for pair in report.pairs] == [
        (1, 2, "exact"),
        (2, 1, "exact"),
    ]


def test_the_ladder_goes_down_to_the_order_of_requests() -> None:
    a = _session(_asking("same", user="me"), _asking("words"), _asking("A"))
    b = _session(
        _asking("B"), _asking("same", user="you"), _asking("words", instructions="Be short.")
    )
    assert [pair.how for pair in diff(a, b).pairs] == ["noise", "position", "order"]


def test_an_exchange_without_a_partner_is_missing_or_added() -> None:
    report = diff(_session(_asking("one"), _asking("two")), _session(_asking("two")))
    assert [each.number for each in report.missing] == [1]
    assert [
        each.number for each in diff(_session(CHAT_REPLY), _session(MESSAGES, RESPONSES)).added
    ] == [1, 2]


def test_a_gateway_is_compared_with_what_it_stands_for() -> None:
    def through(upstream: str, number: int) -> Any:
        exchange, events = recorded(_asking("the same"))
        target = f"/{upstream}/v1/responses"
        row = msgspec.structs.replace(exchange, provider=upstream, target=target)
        return recording_of(row, events, number=number)

    report = diff(
        [through("openai", 1), through("openai", 2)], [through("gateway", 1), through("gateway", 2)]
    )
    assert (report.is_equal, [pair.how for pair in report.pairs]) == (True, ["exact", "exact"])


def test_a_changed_request_is_found_in_the_request_alone() -> None:
    report = compared(_asking("one"), _asking("two"))
    assert report.differing == ("request",)
    assert [each.where for each in report.pairs[0].levels[0].differences] == ["input"]


# -- whatever comes


@pytest.mark.long
@each_stream(corpus_index())
def test_no_recording_differs_from_itself(entry: dict[str, Any]) -> None:
    recordings = load_file(CORPUS / entry["file"]).recordings
    assert recordings
    assert diff(recordings, recordings, ALL).is_equal


_VALUES: Any = st.sampled_from(
    ["sunny", "", "zzz", "msg_1", 5, 87, None, True, False, [], {}, {"text": "x"}]
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every member of a JSON value, with what holds it."""
    names = (
        list(value)
        if isinstance(value, dict)
        else list(range(len(value)))
        if isinstance(value, list)
        else []
    )
    return [(value, name) for name in names] + [
        place for name in names for place in _places(value[name])
    ]


@st.composite
def _mutated(draw: st.DrawFn) -> tuple[Reply, Reply]:
    good = draw(st.sampled_from([RESPONSES, CHAT_REPLY, MESSAGES.without("ping"), GOOD["gemini"]]))
    events = json.loads(json.dumps(good.events))
    for _ in range(draw(st.integers(0, 3))):
        number = draw(st.integers(0, len(events) - 1))
        if draw(st.booleans()):
            holder, name = draw(st.sampled_from(_places(events[number]) or [({}, "x")]))
            holder[name] = draw(_VALUES)
        else:
            events.insert(draw(st.integers(0, len(events))), events.pop(number))
        if len(events) > 2 and draw(st.booleans()):
            del events[draw(st.integers(0, len(events) - 1))]
    return good, good._replace(events=tuple(events))


_ID = {"id", "item_id", "call_id", "responseId"}


def _without_noise(value: Any, ids: dict[str, int]) -> Any:
    """What is left of a stream, written down otherwise than the code under test does."""
    if isinstance(value, list | tuple):
        return [_without_noise(each, ids) for each in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for name, each in sorted(value.items()):
        if name in _ID and isinstance(each, str) and each:
            made[name] = f"id {ids.setdefault(each, len(ids))}"
        elif name in ("created", "created_at") and each and not isinstance(each, dict | list):
            made[name] = "time"
        elif name == "thoughtSignature" and isinstance(each, str):
            made[name] = len(each)
        elif not (name == "obfuscation" and isinstance(each, str)):
            made[name] = _without_noise(each, ids)
    return made


_COMPARED: tuple[Level, ...] = ("request", "answer", "tools", "usage", "events")


@settings(deadline=None)
@given(_mutated())
def test_streams_are_equal_if_and_only_if_nothing_but_noise_differs(
    replies: tuple[Reply, Reply],
) -> None:
    one, other = (json.dumps(_without_noise(reply.events, {})) for reply in replies)
    for pair in (replies, replies[::-1]):
        assert compared(*pair, *_COMPARED).is_equal == (one == other)


@pytest.mark.long
@settings(deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=3), st.sampled_from(list(GOOD)))
def test_nothing_that_was_recorded_raises(blocks: list[bytes], api: str) -> None:
    good = GOOD[api]
    garbled = good._replace(
        events=(*blocks, *good.events[2:4], *(block + b"\n\ndata: {" for block in blocks))
    )
    for exact in (False, True):
        assert compared(garbled, garbled, *ALL, exact=exact).is_equal
        msgspec.json.encode(compared(good, garbled, *ALL, exact=exact))


@pytest.mark.parametrize("exact", [False, True])
def test_half_a_character_can_be_reported(exact: bool) -> None:
    broken = replaced(replaced(RESPONSES, "sunny", "\ud83d"), "msg_1", "msg_\udc00").edited(
        4, lambda event: event.pop("item_id")
    )
    report = compared(RESPONSES, broken, exact=exact)
    assert not report.is_equal
    msgspec.json.encode(report)


def _of_model(model: str) -> Reply:
    def name_it(event: Json) -> None:
        event["response"]["model"] = model

    return RESPONSES.edited("response.created", name_it).edited("response.completed", name_it)


def test_what_several_events_of_a_response_repeat_is_told_once() -> None:
    assert compared(_of_model("big"), _of_model("small")).count("events") == 1


def test_calls_that_all_stand_elsewhere_are_compared_in_their_order() -> None:
    def calls(*places: int) -> Reply:
        events = []
        for at, name in zip(places, ("look_up", "send"), strict=True):
            item = {"type": "function_call", "call_id": name, "name": name, "arguments": "{}"}
            events.append({"type": "response.output_item.done", "output_index": at, "item": item})
        return Reply(tuple(events))

    assert differing(calls(0, 1), calls(2, 3)) == ("events",)


def test_what_would_take_minutes_to_align_is_refused_at_once() -> None:
    assert stretches(*numbered(range(150_000), range(150_000, 300_000))) is None
    assert (
        stretches(*numbered(range(300_000), [*range(150_000), -1, *range(150_001, 300_000)]))
        is not None
    )


@pytest.mark.slow
@pytest.mark.parametrize("logprobs", [False, True], ids=["runs", "distinct"])
@pytest.mark.timed
def test_a_hundred_thousand_events_take_seconds(logprobs: bool) -> None:
    def stream(changed: int) -> Any:
        where = {
            "type": "response.output_text.delta",
            "item_id": "m",
            "output_index": 0,
            "content_index": 0,
        }
        words = [f"{'x' if number % 100 == changed else 'w'}{number} " for number in range(100_000)]
        more = [
            {"logprobs": [{"token": word, "logprob": -1}]} if logprobs else {} for word in words
        ]
        return recorded(
            Reply(
                tuple(
                    {**where, "delta": w, "sequence_number": n, **more[n]}
                    for n, w in enumerate(words)
                )
            )
        )

    one, other = stream(1), stream(2)
    began = time.process_time()
    with without_collecting():  # as the command compares
        report = compared(one, other)
    assert time.process_time() - began < 10
    assert report.count("answer") > 900


def test_items_without_a_row_are_told_apart() -> None:
    noted = NotedFacts()
    deltas = [TextAdded(item, "text", 0, "x") for item in ("a", "b", "a")]
    one, other, again = (noted.number(delta) for delta in deltas)
    assert (one, again) == (ITEMS_LIMIT, one)
    assert other not in (one, ITEMS_LIMIT - 1)
