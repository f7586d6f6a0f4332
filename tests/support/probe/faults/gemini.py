"""What gateways of Gemini do wrong."""

from __future__ import annotations

import json

from recorder.demo.reply import DemoReply, DemoRequest, Step, whole
from tests.support.probe.planting import (
    JSON_HEADERS,
    OPENAI_ERROR,
    Json,
    PlantedFault,
    answered,
    any_key,
    both,
    each,
    everywhere,
    forgets,
    is_stream,
    on_error,
    parsed,
    removed,
    streamed,
    together,
    with_body,
)


def _gemini_text(event: Json) -> tuple[Json, str] | None:
    """The text of an answer, which does not end here."""
    for candidate in event.get("candidates", ()):
        part = candidate["content"]["parts"][0]
        if part.get("text") and "thought" not in part and "finishReason" not in candidate:
            return part, "text"
    return None


def _as_array(_: DemoRequest, reply: DemoReply) -> DemoReply:
    """A JSON array in the place of server-sent events."""
    if not is_stream(reply):
        return reply
    chunks = [parsed(step.take())[1] for step in reply.steps]
    return whole(json.dumps(chunks).encode(), JSON_HEADERS)


FAULTS = [
    PlantedFault(
        "gemini-no-finish",
        "No candidate has a `finishReason`.",
        "text",
        "GE008",
        everywhere(removed("finishReason")),
    ),
    PlantedFault(
        "gemini-no-usage",
        "`usageMetadata` is missing.",
        "text",
        "GE009",
        everywhere(removed("usageMetadata")),
    ),
    PlantedFault(
        "gemini-done",
        "There is a `data: [DONE]`.",
        "text",
        "GE004",
        streamed(lambda steps: [*steps, Step(0.0, b"data: [DONE]\r\n\r\n")]),
    ),
    PlantedFault(
        "gemini-comments",
        "A keep-alive is sent as a comment.",
        "text",
        "GE002",
        streamed(lambda steps: [Step(0.0, b": keep-alive\r\n\r\n"), *steps]),
    ),
    PlantedFault(
        "gemini-array",
        "A stream of events is requested, and a JSON array comes.",
        "text",
        "PR011",
        answered(_as_array),
    ),
    PlantedFault(
        "gemini-one-chunk",
        "The text comes in one chunk, at the end.",
        "text",
        "PR021",
        streamed(together(_gemini_text)),
    ),
    PlantedFault(
        "gemini-args-text",
        "The arguments of a function are a text in place of an object.",
        "parallel-tools",
        "GE014",
        everywhere(each("args", json.dumps)),
    ),
    PlantedFault(
        "gemini-thoughts-aloud",
        "Thoughts are not marked, and so a part of the answer.",
        "reasoning",
        "PR121",
        everywhere(removed("thought")),
    ),
    PlantedFault(
        "gemini-cut-stop",
        "The `finishReason` of an answer that was cut off is `STOP`.",
        "max-tokens",
        "PR015",
        everywhere(each("finishReason", lambda _: "STOP")),
    ),
    PlantedFault(
        "gemini-no-schema",
        "The schema of the answer is ignored.",
        "structured",
        "PR060",
        both(forgets("generationConfig", "responseJsonSchema"), forgets("generationConfig", "responseSchema")),
    ),
    PlantedFault(
        "gemini-any-key",
        "A wrong key is accepted.",
        "wrong-key",
        "PR090",
        any_key,
    ),
    PlantedFault(
        "gemini-error-openai",
        "Errors have the form of OpenAI's.",
        "bad-request",
        "PR082",
        on_error(400, 401, change=with_body(OPENAI_ERROR)),
    ),
]
