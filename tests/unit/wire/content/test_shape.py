"""Shapes of events: one like an earlier one is shaped as by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from recorder.wire.content.filler import FillerKey
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
