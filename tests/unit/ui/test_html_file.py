"""Templates of the bytes of events: what is put together is what was taken apart, whatever the bytes are."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recorder.ui.html_file import LONG, Templates, documents
from tests.support.html_file import put_together

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from('"\\/\n\x7f\u2028<😀é'), max_size=90)


@given(st.lists(TEXTS, max_size=4), TEXTS, st.booleans(), st.binary(max_size=30))
def test_what_is_put_together_is_what_was_there(texts: list[str], added: str, as_ascii: bool, odd: bytes) -> None:
    document = {"items": [{"text": each * 2} for each in texts]}
    payload = json.dumps(
        {"delta": added, "whole": [each * 2 for each in texts], "note": "x" * LONG}, ensure_ascii=as_ascii
    )
    ops: list[Any] = [["set", ["status"], "x"], ["add", ["items", 0, "text"], added]]
    templates = Templates()
    for raw in (f"data: {payload}\n\n".encode(), payload.encode() + odd, odd + payload.encode()):
        made = templates.of(raw, [None, added], document)
        kept = json.loads(json.dumps(made))
        assert put_together(kept, templates.texts, ops, document) == raw


def test_a_text_that_is_known_is_a_reference() -> None:
    long = "é" * LONG
    made = Templates().of(json.dumps({"delta": "Hi", "text": long}).encode(), [None, "Hi"], {"items": [{"text": long}]})
    assert made == ['{"delta": "', [0, 1], '", "text": "', [1, ["items", 0, "text"]], '"}']


def test_a_long_text_that_nothing_has_is_shared() -> None:
    templates = Templates()
    raws = [json.dumps({"tools": "t" * LONG, "n": n}).encode() for n in range(2)]
    assert [templates.of(raw, [], {}) for raw in raws] == [['{"tools": "', 0, f'", "n": {n}}}'] for n in range(2)]
    assert templates.texts == ["t" * LONG]


def test_bytes_that_are_no_text_are_base64() -> None:
    assert Templates().of(b"\xff\x00", [], {}) == {"base64": "/wA="}


def test_a_document_is_that_right_after_its_event() -> None:
    steps: list[Any] = [
        [0, [["set", [], {"items": []}]]],
        [1, [["push", ["items"], {"text": "a"}]]],
        [1, [["set", ["items", 0, "output"], "late"]], 5],
        [3, [["add", ["items", 0, "text"], "b"]]],
    ]
    given_steps = json.dumps(steps)
    after = documents(steps)
    found = [(ops, json.loads(json.dumps(document))) for (ops, document), _ in zip(after, range(4), strict=False)]
    assert [document for _, document in found] == [
        {"items": []},
        {"items": [{"text": "a"}]},
        {"items": [{"text": "a", "output": "late"}]},
        {"items": [{"text": "ab", "output": "late"}]},
    ]
    assert [len(ops) for ops, _ in found] == [1, 1, 0, 1]
    assert json.dumps(steps) == given_steps  # a document has copies
