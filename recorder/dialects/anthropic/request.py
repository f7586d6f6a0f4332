"""What a request to Anthropic Messages asks for.

Agents put words of their own into a user's message: reminders, each a text block that is wholly one XML-like element,
beside the user's text and beside the results of tools. They are not what a person says, unless nothing else is there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recorder.dialects.anthropic.blocks import result
from recorder.dialects.telling import Object, is_element, objects, request_object, text
from recorder.facts import Asked

_MODEL = re.compile(r"/models/([^/:]+):(\w+)$")  # on Vertex the path names it, and the method
_COUNTS = ("/count_tokens", "/count-tokens:rawPredict")


def asked(path: str, body: bytes) -> Asked:
    """What a request to create a message, or to count its tokens, asks for."""
    request = request_object(body)
    found = _MODEL.search(path)
    model, method = found.groups() if found else (None, None)
    stream = request.get("stream")
    messages = objects(request.get("messages"))
    contents = [_blocks(message) for message in messages if message.get("role") == "user"]
    said = next((each for each in map(_said, reversed(contents)) if each is not None), None)
    ends_with_it = bool(messages) and messages[-1].get("role") == "user" and not _results(contents[-1])
    return Asked(
        model=text(request.get("model")) or model,
        stream=stream if isinstance(stream, bool) else method == "streamRawPredict" or None,
        text=said,
        is_turn=ends_with_it and _said(contents[-1]) is not None and not path.endswith(_COUNTS),
        results=tuple(result(block) for blocks in contents for block in _results(blocks)),
    )


def _blocks(message: Object) -> Sequence[Object]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)


def _results(blocks: Sequence[Object]) -> Sequence[Object]:
    return [block for block in blocks if block.get("type") == "tool_result"]


def _said(blocks: Sequence[Object]) -> str | None:
    """The last text of a message; a reminder only where it has no other text, and no result of a tool."""
    texts = [each for block in blocks if block.get("type") == "text" and (each := text(block.get("text")))]
    own = [each for each in texts if not is_element(each)]
    if not own and not _results(blocks):
        own = texts
    return own[-1] if own else None
