"""Templates of the bytes of events: what is put together is what was taken apart, whatever the
bytes are.
"""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from recorder.ui.html_file import LONG, Templates
from tests.support.html_file import put_together

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from('"\\/\n\x7f\u2028<😀é'), max_size=90)


@given(st.lists(TEXTS, max_size=4), st.booleans(), st.binary(max_size=30))
def test_what_is_put_together_is_what_was_there(
    texts: list[str], as_ascii: bool, odd: bytes
) -> None:
    payload = json.dumps(
        {"texts": [each * 2 for each in texts], "note": "x" * LONG}, ensure_ascii=as_ascii
    )
    templates = Templates()
    for raw in (f"data: {payload}\n\n".encode(), payload.encode() + odd, odd + payload.encode()):
        kept = json.loads(json.dumps(templates.of(raw)))
        assert put_together(kept, templates.texts) == raw


def test_a_long_text_is_shared() -> None:
    templates = Templates()
    raws = [json.dumps({"tools": "t" * LONG, "n": n}).encode() for n in range(2)]
    assert [templates.of(raw) for raw in raws] == [
        ['{"tools": "', 0, f'", "n": {n}}}'] for n in range(2)
    ]
    assert templates.texts == ["t" * LONG]


def test_bytes_that_are_no_text_are_base64() -> None:
    assert Templates().of(b"\xff\x00") == {"base64": "/wA="}
