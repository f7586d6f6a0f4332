"""Shapes of events: nothing that was said is left, and one like an earlier one is shaped as by
itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.wire.content.filler import BlankKey, FillerKey
from recorder.wire.content.shape import Shaper
from recorder.wire.dialects import by_name
from recorder.wire.framing import SSE

KEY = FillerKey(b"k" * 32)

texts = st.text('{"a\\u00e9 1.,}]tn日😀\ud83d\ude00', max_size=9) | st.sampled_from(
    ["null", "{}", "a", "b c"]
)
makers = st.sampled_from(
    [
        lambda number, text: (
            {"type": "response.output_text.delta", "sequence_number": number}
            | {"item_id": "msg_1", "output_index": number % 2, "delta": text, "obfuscation": "aB3"}
        ),
        lambda number, text: {"id": "chatcmpl-1", "created": 1, "choices": [_choice(number, text)]},
        lambda number, text: {"type": "content_block_delta", "index": 0, "delta": {"text": text}},
        lambda number, text: {"code": text, "message": "m", "n": [number, text]},
    ]
)


def _choice(number: int, text: str) -> dict[str, object]:
    call = {"index": 0, "function": {"arguments": text}} | ({} if number % 3 else {"id": text})
    return {"index": number // 4 % 2, "delta": {"content": text, "tool_calls": [call]}}


@given(makers, st.lists(texts, max_size=9), st.booleans())
def test_an_event_like_an_earlier_one_has_the_shape_that_it_has_by_itself(
    made: Callable[[int, str], object], said: Sequence[str], as_ascii: bool
) -> None:
    like, unlike = (Shaper(KEY, by_name("openai-responses")) for _ in range(2))
    for number, text in enumerate(said):
        event = json.dumps(made(number, text), ensure_ascii=as_ascii).encode(
            "utf-8", "surrogatepass"
        )
        one = like.frame(b"data: %b\n\n" % event, SSE)
        other = unlike.frame(b"data: %b%b\n\n" % (b" " * number, event), SSE)
        assert one.removeprefix(b"data:").strip() == other.removeprefix(b"data:").strip()


HIDDEN = [
    b'{"logprobs":[{"token":"secret","bytes":[115,101,99,114,101,116]}]}',
    b'{"tokenId":1234567,"context":[1234567],"embedding":[0.1234567,-1e-5]}',
    b'{"file":{"name":"secret.pdf","uri":"file:///secret"}}',
    b'{"parameters":{"properties":{"secret":{}},"$defs":{"secret":{}},"required":["secret"]}}',
    b'{"logit_bias":{"1234567":-100},"env":{"secret":"secret"}}',
    b'{"args":{"secret":1234567},"args":{"s\\u0065cret":[115,101,99,114,101,116]}}',
    b'{"arguments":"{\\"secret\\":\\"s\\\\u0065cret\\"',
    b':: ": secret',
    b'{"delta":"secret \xed\xa0\xbd","input":{"secret":1}}',
    b'{"image_url":"data:image/png;base64,secretsecret","url":"https://a.example/?q=secret"}',
]


@pytest.mark.parametrize("payload", HIDDEN)
@pytest.mark.parametrize("key", [KEY, BlankKey()])
def test_nothing_that_was_said_is_left_where_it_hides(payload: bytes, key: FillerKey) -> None:
    raw = b"data: %b\n\n" % payload
    shape = Shaper(key, by_name("other")).frame(raw, SSE)
    assert len(shape) == len(raw)
    assert not re.search(rb"secret|s\\u0065cret|1234567|115, ?101|-1e-6", shape)


def test_an_event_in_several_lines_has_the_shape_that_it_has_in_one() -> None:
    lines = b'data: {"type":"error",\nid: 7\ndata: "delta":"some words"}\n\n'
    shape = Shaper(KEY, by_name("other")).frame(lines, SSE)
    one = b'data: {"type":"error",\n"delta":"some words"}\n\n'.replace(b"\n", b"", 1)
    expected = Shaper(KEY, by_name("other")).frame(one, SSE)
    assert shape.replace(b"\nid: 7\ndata: ", b"") == expected != one
