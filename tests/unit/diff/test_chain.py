"""What of a model's stream an app passed on: pairs of events, lost words, delays, and which
exchanges are joined.
"""

from __future__ import annotations

import json
import random

import pytest

from recorder.diff.chain import Behind, ChainReader, ChainStream, Link, TextField, links
from recorder.diff.chain_texts import ChainText, Passage, followed
from recorder.diff.chain_words import Piece, Span
from recorder.model.events import Exchange
from tests.support.conversations import message, response
from tests.support.recordings import Reply, recorded

MS = 1_000_000
TRACE = "7" * 32
SAID = ["The ", "fast ", "train ", "leaves ", "at ", "noon", "."]

Timed = tuple[int, int, str]  # position of an event, milliseconds, text


def stream(
    name: str,
    *said: Timed,
    began: int = 0,
    ended: int = 1_000,
    trace: str | None = None,
    field: TextField = "text",
    api: str = "openai-chat",
) -> ChainStream:
    """An exchange with an upstream of that name."""
    exchange = Exchange("s", name, began * MS, "r", name, api, "POST", "/v1/chat/completions")
    pieces = [Piece(name, pos, ms * MS, text) for pos, ms, text in said]
    return ChainStream(exchange, None, trace, ended * MS, {field: pieces})


def every(ms: int, texts: list[str], began: int = 0) -> list[Timed]:
    return [(pos, began + pos * ms, text) for pos, text in enumerate(texts)]


def text_of(behind: ChainStream, front: ChainStream) -> ChainText:
    [found] = followed(Link(front, [Behind(behind, "text")])).texts
    return found


def places(span: Span | None) -> list[int] | None:
    return None if span is None else [span.first, span.last]


def positions(passage: Passage) -> tuple[list[int] | None, list[int] | None]:
    return places(passage.behind), places(passage.front)


def test_each_event_behind_is_with_the_one_that_it_became() -> None:
    found = text_of(stream("model", *every(10, SAID)), stream("app", *every(10, SAID, began=3)))
    assert [positions(each) for each in found.passages] == [
        ([n, n], [n, n]) for n in range(len(SAID))
    ]
    assert {each.delay_ns for each in found.passages} == {3 * MS}
    assert (found.same_words, found.first_delay_ns) == (7, 3 * MS)


def test_events_that_were_held_and_sent_as_one_are_one_pair_as_late_as_the_first_of_them() -> None:
    found = text_of(
        stream("model", *every(10, SAID)),
        stream("app", (4, 50, "The fast train "), (5, 70, "leaves at noon.")),
    )
    assert [positions(each) for each in found.passages] == [([0, 2], [4, 4]), ([3, 6], [5, 5])]
    assert [each.delay_ns for each in found.passages] == [50 * MS, 40 * MS]


def test_a_word_that_is_cut_otherwise_is_still_the_same() -> None:
    found = text_of(
        stream("model", (1, 0, "tra"), (2, 5, "in")), stream("app", (8, 6, "t"), (9, 9, "rain"))
    )
    assert [positions(each) for each in found.passages] == [([1, 2], [8, 9])]
    assert found.passages[0].delay_ns == 4 * MS, "a word is there with its last character"


def test_lost_added_and_changed_words_are_told_with_their_events() -> None:
    said = [(0, 0, "A **fast** one: "), (1, 1, "train "), (2, 2, "leaves "), (3, 3, "Paris")]
    shown = [(0, 5, "A fast one: "), (1, 6, "coach "), (2, 7, "leaves "), (3, 8, "Paris today")]
    found = text_of(stream("model", *said), stream("app", *shown))
    changes = [
        (each.change, each.behind_text, each.front_text)
        for each in found.passages
        if each.change != "same"
    ]
    assert changes == [
        ("lost", "**", None),
        ("lost", "**", None),
        ("changed", "train", "coach"),
        ("added", None, "today"),
    ]
    assert (found.behind_words, found.front_words, found.same_words) == (11, 8, 6)


def test_a_cut_is_one_passage_to_the_end() -> None:
    found = text_of(stream("model", *every(10, SAID)), stream("app", *every(10, SAID[:3], began=1)))
    assert found.passages[-1].change == "lost"
    assert positions(found.passages[-1]) == ([3, 6], None)


def test_the_longest_delay_is_told_with_the_place_where_it_arose() -> None:
    shown = [(pos, ms + (1 if pos < 3 else 400 + pos), text) for pos, ms, text in every(10, SAID)]
    found = text_of(stream("model", *every(10, SAID)), stream("app", *shown))
    assert (found.longest_at, found.arose_at) == (6, 3)


def test_what_two_models_said_are_two_passages_though_the_front_sent_it_as_one_event() -> None:
    first, second = stream("a", (3, 1, "Paris"), began=1), stream("b", (3, 5, "\nRome"), began=5)
    link = Link(
        stream("app", (0, 6, "Paris Rome")), [Behind(first, "text"), Behind(second, "text")]
    )
    [found] = followed(link).texts
    assert [each.behind and each.behind.exchange_id for each in found.passages] == ["a", "b"]


def test_a_text_that_no_front_shows_is_lost_as_a_whole() -> None:
    hidden = stream("model", *every(10, SAID), field="reasoning")
    found = text_of(hidden, stream("app", *every(10, SAID)))
    assert [(found.field, each.change) for each in found.passages] == [("reasoning", "lost")]


def joined(*streams: ChainStream) -> list[tuple[str, list[tuple[str, str]]]]:
    return [
        (
            link.front.exchange.exchange_id,
            [(each.stream.exchange.exchange_id, each.by) for each in link.behind],
        )
        for link in links(streams)
    ]


def test_one_that_runs_when_another_with_its_words_begins_is_the_front() -> None:
    app, model = stream("app", *every(1, SAID)), stream("model", *every(1, SAID), began=5)
    assert joined(model, app) == [("app", [("model", "text")])]


def test_nothing_joins_exchanges_that_did_not_run_at_one_time() -> None:
    app = stream("app", *every(1, SAID), ended=20, trace=TRACE)
    assert not joined(app, stream("model", *every(1, SAID), began=30, ended=60, trace=TRACE))


def test_a_phrase_that_two_answers_share_does_not_join_them() -> None:
    phrase = ["I ", "can ", "help ", "you ", "with ", "that. "]
    other = ["A ", "very ", "different ", "text ", "follows ", "that ", "line."]
    assert not joined(
        stream("app", *every(1, phrase + SAID)), stream("model", *every(1, phrase + other), began=5)
    )


def test_two_answers_of_one_place_are_not_a_chain() -> None:
    one, other = stream("model", *every(1, SAID)), stream("model", *every(1, SAID), began=5)
    assert not joined(one, other)


def test_a_trace_joins_what_has_no_common_word() -> None:
    app, model = (
        stream("app", (0, 9, "Yes"), trace=TRACE),
        stream("model", (0, 8, "No"), began=5, trace=TRACE),
    )
    assert joined(app, model) == [("app", [("model", "traceparent")])]
    assert not joined(app, stream("model", (0, 8, "No"), began=5, trace="8" * 32))


def test_the_front_of_a_model_is_the_gateway_and_not_the_app_before_it() -> None:
    three = [
        stream(name, *every(1, SAID), began=n, trace=TRACE)
        for n, name in enumerate(("app", "gateway", "model"))
    ]
    assert joined(*three) == [
        ("app", [("gateway", "traceparent")]),
        ("gateway", [("model", "traceparent")]),
    ]


def test_models_that_an_app_asks_at_once_are_not_behind_each_other() -> None:
    one, other = stream("chat", began=1, trace=TRACE), stream("embedding", began=2, trace=TRACE)
    assert joined(stream("app", trace=TRACE), one, other) == [
        ("app", [("chat", "traceparent"), ("embedding", "traceparent")])
    ]


def test_a_provider_that_is_slower_than_another_is_not_in_front_of_it_by_its_words() -> None:
    slow, fast = every(20, SAID, began=50), every(10, SAID, began=20)
    assert not joined(stream("anthropic", *slow), stream("gemini", *fast, began=5))
    assert joined(stream("gateway", *slow), stream("gemini", *fast, began=5))
    traced = stream("anthropic", *slow, trace=TRACE), stream("gemini", *fast, began=5, trace=TRACE)
    assert joined(*traced) == [("anthropic", [("gemini", "traceparent")])]


def app_of(clock_ms: int, api: str = "ui-messages") -> ChainStream:
    """What shows the words of a model 3 ms later, by a clock that is late by so much."""
    shown = every(10, SAID, began=3 - clock_ms)
    return stream("app", *shown, began=-1 - clock_ms, ended=1_000 - clock_ms, api=api)


MODEL = stream("model", *every(10, SAID))


@pytest.mark.parametrize(
    ("clock_ms", "corrected_ms"), [(0, 0), (4_000, 3_997), (-4_000, -3_999), (20, 17)]
)
def test_what_an_app_sends_is_in_front_of_a_model_whatever_its_clock_says(
    clock_ms: int, corrected_ms: int
) -> None:
    [link] = links([app_of(clock_ms), MODEL])
    assert link.front.exchange.provider == "app"
    found = followed(link)
    assert found.clock_ns == corrected_ms * MS
    assert min(each.delay_ns or 0 for each in found.texts[0].passages) >= 0
    assert link.asked_ns - found.clock_ns >= 0


@pytest.mark.parametrize(
    ("clock_ms", "api"), [(4_000, "openai-chat"), (20_000, "ui-messages"), (-20_000, "ui-messages")]
)
def test_clocks_are_not_taken_to_differ_for_a_gateway_or_by_more_than_seconds(
    clock_ms: int, api: str
) -> None:
    assert not joined(app_of(clock_ms, api), MODEL)


def test_of_two_apps_the_clocks_say_which_is_the_front() -> None:
    agent = stream("agent", *every(10, SAID), api="a2a")
    assert joined(app_of(0), agent) == [("app", [("agent", "text")])]
    assert not joined(app_of(4_000), agent)


def test_what_is_asked_again_a_little_later_is_not_behind_a_front_that_has_its_model() -> None:
    again = stream("script", *every(10, SAID, began=4_000), began=4_000, ended=5_000)
    assert joined(app_of(0), MODEL, again) == [("app", [("model", "text")])]


@pytest.mark.long
def test_a_cut_in_half_a_megabyte_is_found_between_anchors() -> None:
    dice = random.Random(7)
    words = [f"w{dice.randrange(5_000)} " for _ in range(80_000)]
    kept = [*words[:30_000], *words[50_000:]]
    found = text_of(stream("model", *every(1, words)), stream("app", *every(1, kept)))
    assert found.same_words == len(kept)
    assert [positions(each) for each in found.passages if each.change != "same"] == [
        ([30_000, 49_999], None)
    ]


def test_a_document_has_its_text_when_it_ends() -> None:
    body = json.dumps(
        {"object": "chat.completion", "choices": [{"index": 0, "message": {"content": "Yes. "}}]}
    )
    reply = Reply(
        target="/v1/chat/completions",
        body=body.encode(),
        headers=(("content-type", "application/json"),),
        outcome="eof",
    )
    exchange, events = recorded(reply)
    reader = ChainReader(exchange)
    for event in events:
        reader.add(event)
    assert [(piece.pos, piece.text) for piece in reader.stream().texts["text"]] == [
        (events[-1].pos, "\nYes. ")
    ]


def test_what_a_last_event_states_again_is_not_said_twice() -> None:
    exchange, events = recorded(Reply(events=tuple(response(*message("It is ", "clear.")))))
    reader = ChainReader(exchange)
    for event in events:
        reader.add(event)
    assert [piece.text for piece in reader.stream().texts["text"]] == ["\nIt is ", "clear."]


def test_an_exchange_that_said_it_before_did_not_get_it_from_the_other() -> None:
    """Two models that are asked the same at one time."""
    earlier, later = (
        stream("app", *every(10, SAID)),
        stream("model", *every(10, SAID, began=500), began=5),
    )
    assert links([earlier, later]) == []
