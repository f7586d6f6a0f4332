"""The deltas and the whole messages of Chat Completions, whichever vendor sent them.

Nothing here remembers anything. Vendors agree on `content` and `tool_calls` at most: their names
for reasoning, and its repetitions, are resolved in this file. Empty texts are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from recorder.model.facts import Field
from recorder.wire.dialects.decoder import Content
from recorder.wire.dialects.json_values import (
    Object,
    array,
    as_json,
    names,
    object_,
    objects,
    text,
    text_or_json,
    whole,
)
from recorder.wire.dialects.media import medium

CHUNK = "chat.completion.chunk"

CALLING = ("tool_calls", "function_call")
WHOLE = ("stop", *CALLING)
"""The reasons for which a choice ends when all of it was said."""

LEGACY = "function_call"
"""The slot of the one call that there was before there were `tool_calls`."""


REASONING = (
    *("reasoning_content", "reasoning", "reasoning_text"),  # the last is Copilot's
    *("thinking", "cot_summary"),  # gateways in front of Ollama; Copilot too
)
"""The members that have reasoning as plain text: of several, the first that has some."""

ABOUT = names("""
    type id index role channel format provider data signature
    reasoning_opaque provider_metadata audio_id token_ids logprobs trace_details seed
    finish_reason native_finish_reason stop_reason matched_stop content_filter_results
    system_fingerprint object model service_tier usage error x_groq obfuscation
    prompt_filter_results time_info p created
    """)
"""Members of a chunk and of its deltas that are not content."""


class ToolCall(msgspec.Struct, frozen=True):
    """A tool call or a piece of one. `slot` is its `index`; not every vendor has one."""

    slot: int | str | None
    type: str | None
    id: str | None
    name: str | None
    arguments: str


class Delta(msgspec.Struct):
    """A delta, or a whole message, in the words of the facts."""

    role: str
    texts: list[tuple[Field, str]] = []
    calls: list[ToolCall] = []
    annotations: list[str] = []
    pictures: list[str] = []  # each a JSON object that describes one
    encrypted: bool = False
    unknown: list[str] = []  # types of parts of content


def delta_of(choice: Object) -> Delta:
    """Return the delta of a choice. Some vendors add a `message` or a `text` that repeats it."""
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        delta = choice.get("message")
    return read_message(
        delta if isinstance(delta, dict) else {**choice, "content": choice.get("text")}
    )


def content_of(choice: Object) -> Content:
    """Return what of a choice is its delta or message, in which each text is content."""
    for name in ("delta", "message"):
        if isinstance(choice.get(name), dict):
            return name, choice[name]
    return "", choice


def read_message(message: Object) -> Delta:
    """Read a message, or a delta of one."""
    delta = Delta(text(message, "role") or "assistant")
    _reason(delta, message)
    _speak(delta, message)
    delta.calls += map(_call, objects(message, "tool_calls"))
    if isinstance(message.get("function_call"), dict):
        delta.calls.append(_legacy_call(message["function_call"]))
    delta.annotations += map(as_json, objects(message, "annotations"))
    for image in objects(message, "images"):
        _add_picture(delta, image)
    return delta


def _reason(delta: Delta, message: Object) -> None:
    """Add the reasoning.

    What repeats the plain text, `reasoning_details` or LiteLLM's `thinking_blocks`, only shows
    whether it is a summary, and whether there is more that only the provider can read.
    """
    details, blocks = objects(message, "reasoning_details"), objects(message, "thinking_blocks")
    plain = next((given for name in REASONING if (given := text(message, name))), None)
    is_summary = any(detail.get("type") == "reasoning.summary" for detail in details)
    if plain:
        delta.texts.append(("summary" if is_summary else "reasoning", plain))
    else:
        delta.texts += _details(details, (("summary", "summary"), ("reasoning", "text")))
        delta.texts += _details(blocks, (("reasoning", "thinking"),))
    is_sealed = any(detail.get("type") == "reasoning.encrypted" for detail in details)
    is_signed = any(block.get("signature") or block.get("data") for block in blocks)
    delta.encrypted = is_sealed or is_signed or bool(message.get("reasoning_opaque"))


def _details(
    details: list[Object], fields: Sequence[tuple[Field, str]]
) -> Iterator[tuple[Field, str]]:
    for detail in details:
        yield from ((field, given) for field, name in fields if (given := text(detail, name)))


def _speak(delta: Delta, message: Object) -> None:
    content = message.get("content")
    parts = array(content)
    if isinstance(content, str) and content:
        delta.texts.append(
            ("reasoning" if message.get("channel") == "analysis" else "text", content)
        )
    for part in parts:
        _add_part(delta, {"type": "text", "text": part} if isinstance(part, str) else object_(part))
    if refusal := text(message, "refusal"):
        delta.texts.append(("refusal", refusal))
    transcript = text(message, "audio", "transcript")
    if transcript and not content:
        delta.texts.append(("text", transcript))


def _add_part(delta: Delta, part: Object) -> None:
    type = text(part, "type") or "text"
    add = _PARTS.get(type)
    if add is None:
        delta.unknown.append(type)
    else:
        add(delta, part)


def _add_text(delta: Delta, part: Object) -> None:
    if given := text(part, "text"):
        delta.texts.append(("text", given))


def _add_refusal(delta: Delta, part: Object) -> None:
    if given := text(part, "refusal"):
        delta.texts.append(("refusal", given))


def _add_thinking(delta: Delta, part: Object) -> None:
    thinking = part.get("thinking")
    texts = (
        [thinking]
        if isinstance(thinking, str)
        else [text(each, "text") for each in objects(thinking)]
    )
    delta.texts += (("reasoning", each) for each in texts if each)


def _add_reference(delta: Delta, part: Object) -> None:
    delta.annotations.append(as_json(part))


def _add_picture(delta: Delta, part: Object) -> None:
    image = part.get("image_url")
    delta.pictures.append(picture(text(image) or text(image, "url") or ""))


_PARTS: Mapping[str, Callable[[Delta, Object], None]] = {
    "text": _add_text,
    "output_text": _add_text,
    "refusal": _add_refusal,
    "thinking": _add_thinking,
    "reference": _add_reference,
    "image_url": _add_picture,
}


def citations(chunk: Object) -> list[str]:
    """Return what Perplexity repeats beside the choices of every chunk: its search results, or only
    their addresses.
    """
    if results := objects(chunk, "search_results"):
        return [as_json({"type": "search_result", **result}) for result in results]
    return [
        as_json({"type": "citation", "url": url})
        for url in array(chunk, "citations")
        if isinstance(url, str)
    ]


def picture(url: str) -> str:
    """Return JSON that describes an image: its address, or the size and digest of a `data:` URL."""
    head, _, body = url.partition(",")
    if not head.startswith("data:"):
        return as_json({"url": url})
    return as_json(
        medium({"data": body, "mime_type": head.removeprefix("data:").partition(";")[0]})
    )


def _call(call: Object) -> ToolCall:
    # some gateways have it flat
    function = object_(call, "function") or object_(call, "custom") or call
    arguments = function.get("arguments", function.get("input"))
    type = text(call, "type") or ("custom" if call.get("custom") else None)
    return ToolCall(
        whole(call, "index"), type, text(call, "id"), text(function, "name"), _arguments(arguments)
    )


def _legacy_call(call: Object) -> ToolCall:
    return ToolCall(LEGACY, LEGACY, None, text(call, "name"), _arguments(call.get("arguments")))


def _arguments(value: Any) -> str:
    return "" if value is None else text_or_json(value)
