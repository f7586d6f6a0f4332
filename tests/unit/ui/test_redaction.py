"""Secrets in tracks and events: found in the texts that deltas make together, taken out of each of
them.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from recorder.ui.ops import apply
from recorder.ui.redaction import RedactedTrack, redacted_rows, redacted_value
from recorder.wire.redaction.bodies import BY_SHAPE, Redactor
from tests.support.rows import make_events, make_exchange, make_session
from tests.support.secret_shapes import secrets_of

KEY = secrets_of(3)["openai project"]
EVENTS = make_events(
    make_exchange(make_session()), [b"data: 1\n\n", b"data: 22\n\n", b"data: 3\n\n"]
)
INSTEAD = f"<REDACTED openai-key, {len(KEY)} bytes>"


def texts_at(steps: list[Any]) -> list[Any]:
    """The document after each step."""
    document: Any = {}
    found = []
    for step in steps:
        document = apply(document, [[op[0], op[1], *op[2:]] for op in step[1]])
        found.append(str(document))
    return found


def track(*deltas: str) -> list[Any]:
    begun = [0, [["set", [], {"items": [{"kind": "message", "text": ""}]}]]]
    return [
        begun,
        *([pos, [["add", ["items", 0, "text"], each]]] for pos, each in enumerate(deltas, 1)),
    ]


@pytest.mark.parametrize("size", [1, 5, 7, len(KEY), 300])
def test_a_secret_in_deltas_of_any_size_is_in_none_of_them(size: int) -> None:
    said = f"Here: {KEY}, {KEY}!"
    deltas = [said[at : at + size] for at in range(0, len(said), size)]
    redacted = RedactedTrack(track(*deltas), BY_SHAPE)
    written = "".join(step[1][0][2] for step in redacted.steps[1:])
    assert written == f"Here: {INSTEAD}, {INSTEAD}!"
    assert redacted.counts == {"openai-key": 2}
    places = [
        range(said.index(KEY), said.index(KEY) + len(KEY)),
        range(said.rindex(KEY), said.rindex(KEY) + len(KEY)),
    ]
    spans = {
        pos: range((pos - 1) * size, min(pos * size, len(said)))
        for pos in range(1, len(deltas) + 1)
    }
    assert redacted.pieces == {
        pos
        for pos, span in spans.items()
        if any(set(span) & set(place) and not set(place) <= set(span) for place in places)
    }


def test_a_text_that_is_set_anew_is_another_text() -> None:
    steps = track("Here: ", KEY[:20])
    steps += [
        [3, [["set", ["items", 0, "text"], "No."]]],
        [4, [["add", ["items", 0, "text"], KEY[20:]]]],
    ]
    redacted = RedactedTrack(steps, BY_SHAPE)
    assert not redacted.counts
    assert redacted.steps[4][1][0][2] == KEY[20:]


def test_texts_in_values_that_are_set_or_pushed_are_found() -> None:
    steps: list[Any] = [
        [0, [["set", [], {"items": [], "error": f"bad key {KEY}"}]]],
        [1, [["push", ["items"], {"text": KEY[:9], "summary": ["a", KEY[:12]]}]]],
        [
            2,
            [["add", ["items", 0, "text"], KEY[9:]], ["add", ["items", 0, "summary", 1], KEY[12:]]],
        ],
        [2, [["set", ["items", 0, "output"], {"images": [KEY]}]], 99],
    ]
    redacted = RedactedTrack(steps, BY_SHAPE)
    assert redacted.counts == {"openai-key": 4}
    assert redacted.pieces == {1, 2}
    last = texts_at(redacted.steps)[-1]
    assert last.count(INSTEAD) == 4
    assert KEY[:9] not in last


def test_patterns_and_values_of_the_settings_are_found() -> None:
    redactor = Redactor(["tops secret value"], [re.compile(r"employee-\d+")])
    redacted = RedactedTrack(track("emplo", "yee-12", "34 has tops", " secret value"), redactor)
    assert "".join(step[1][0][2] for step in redacted.steps[1:]) == (
        "<REDACTED pattern, 13 bytes> has <REDACTED value, 17 bytes>"
    )


def test_any_value_of_json_is_searched() -> None:
    counts: Counter[str] = Counter()
    value = {"a": [f"é {KEY} 😀", 1, None, True], "b": (KEY, "short")}
    assert redacted_value(value, BY_SHAPE, counts) == {
        "a": [f"é {INSTEAD} 😀", 1, None, True],
        "b": [INSTEAD, "short"],
    }
    assert counts == {"openai-key": 2}


def test_what_was_redacted_before_stays() -> None:
    assert redacted_value(INSTEAD, BY_SHAPE, Counter()) == INSTEAD


def test_events_without_secrets_are_not_changed() -> None:
    assert redacted_rows(EVENTS, frozenset(), BY_SHAPE) == {}


def test_an_event_that_brought_a_part_is_left_out_whole() -> None:
    assert redacted_rows(EVENTS, frozenset({1}), BY_SHAPE) == {1: b"<REDACTED event, 10 bytes>"}


@pytest.mark.long
def test_many_items_cost_each_the_same() -> None:
    """Were each set compared with all texts before it, these would take longer than a test may."""
    steps: list[Any] = [[0, [["set", [], {"items": []}]]]]
    for number in range(15_000):
        steps.append([number + 1, [["push", ["items"], {"text": KEY[:9], "kind": "message"}]]])
        steps.append([number + 1, [["set", ["items", number, "status"], "completed"]]])
    steps.append([15_001, [["add", ["items", 14_999, "text"], KEY[9:]]]])
    assert RedactedTrack(steps, BY_SHAPE).counts == {"openai-key": 1}
