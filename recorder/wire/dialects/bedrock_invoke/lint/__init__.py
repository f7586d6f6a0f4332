"""The rule of Bedrock's InvokeModel: a message of AWS is a chunk with an event in it.

What the events are is judged by the rules of Anthropic Messages, to whose profile this one belongs.
Must not know: other APIs, and where recordings come from.

The behaviour of anthropic-sdk-python 2.11 and botocore 1.44 was measured.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer, shown
from recorder.lint.rule import Faults, rules
from recorder.lint.stream import StreamBlock, StreamView


class _Chunks:
    """Looks at the messages of one stream, each by itself."""

    def __init__(self, stream: StreamView) -> None:
        pass

    def feed(self, block: StreamBlock) -> Faults:
        message = block.message
        # AN003 is about what has no event in it, and an exception has none
        if message is None or block.type is None:
            return
        name = (message.event or b"").decode("utf-8", "replace")
        if name != "chunk":
            yield "BI001", block.pos, f"its type is {shown(name)}"
        elif block.data == message.data:
            yield "BI001", block.pos, f"{shown(block.type)} is not in `bytes`"

    def end(self) -> Faults:
        return ()


RULES = rules(
    """
BI001 error
An event does not come as the `bytes` of a `chunk`.
AnthropicBedrock and botocore skip it without an error: its content is missing in the message.
anthropic-sdk-python, src/anthropic/lib/bedrock/_stream_decoder.py; boto/botocore,
 botocore/parsers.py: BaseEventStreamParser
""",
    of_answer(_Chunks),
    "anthropic",
)
