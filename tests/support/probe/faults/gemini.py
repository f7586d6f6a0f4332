"""What gateways of Gemini do wrong."""

from __future__ import annotations

import json

from tests.support.probe.planting import (
    JSON_HEADERS,
    OPENAI_ERROR,
    Json,
    answered,
    any_key,
    both,
    each,
    everywhere,
    faults,
    forgets,
    is_stream,
    on_error,
    parsed,
    removed,
    streamed,
    together,
    with_body,
)
from tests.support.provider.reply import DemoReply, DemoRequest, Step, whole


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


FAULTS = faults(
    """\
gemini-no-finish | text | GE008 | No candidate has a `finishReason`.
gemini-no-usage | text | GE009 | `usageMetadata` is missing.
gemini-done | text | GE004 | There is a `data: [DONE]`.
gemini-comments | text | GE002 | A keep-alive is sent as a comment.
gemini-array | text | PR011 | A stream of events is requested, and a JSON array comes.
gemini-one-chunk | text | PR021 | The text comes in one chunk, at the end.
gemini-args-text | parallel-tools | GE014 | The arguments of a function are a text in place of an object.
gemini-thoughts-aloud | reasoning | PR121 | Thoughts are not marked, and so a part of the answer.
gemini-cut-stop | max-tokens | PR015 | The `finishReason` of an answer that was cut off is `STOP`.
gemini-no-schema | structured | PR060 | The schema of the answer is ignored.
gemini-any-key | wrong-key | PR090 | A wrong key is accepted.
gemini-error-openai | bad-request | PR082 | Errors have the form of OpenAI's.
""",
    {
        "gemini-no-finish": everywhere(removed("finishReason")),
        "gemini-no-usage": everywhere(removed("usageMetadata")),
        "gemini-done": streamed(lambda steps: [*steps, Step(0.0, b"data: [DONE]\r\n\r\n")]),
        "gemini-comments": streamed(lambda steps: [Step(0.0, b": keep-alive\r\n\r\n"), *steps]),
        "gemini-array": answered(_as_array),
        "gemini-one-chunk": streamed(together(_gemini_text)),
        "gemini-args-text": everywhere(each("args", json.dumps)),
        "gemini-thoughts-aloud": everywhere(removed("thought")),
        "gemini-cut-stop": everywhere(each("finishReason", lambda _: "STOP")),
        "gemini-no-schema": both(
            forgets("generationConfig", "responseJsonSchema"), forgets("generationConfig", "responseSchema")
        ),
        "gemini-any-key": any_key,
        "gemini-error-openai": on_error(400, 401, change=with_body(OPENAI_ERROR)),
    },
)
