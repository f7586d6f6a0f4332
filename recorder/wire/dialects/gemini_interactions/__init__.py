"""Gemini's Interactions API: `event: TYPE` and one line of JSON that says it again as `event_type`;
steps by index.

The stream ends with `interaction.completed`, which has the counts of tokens, and `event: done` with
`data: [DONE]`, behind which both SDKs read nothing. Must not know: other wire formats, but for what
all of Google's APIs share.

Of the two forms that the API had, this is that of the revision of May 2026, the only one that
google-genai 3 reads.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from recorder.wire.dialects.dialect import (
    Dialect,
    RequestNoise,
    RequestPlaces,
    ResponseFields,
    noise_fields,
    paths,
    response_routes,
)
from recorder.wire.dialects.gemini_interactions.conversation import (
    CONTINUATION,
    InteractionsConversation,
)
from recorder.wire.dialects.gemini_interactions.decoder import COMPLETED, InteractionsDecoder
from recorder.wire.dialects.json_values import Object
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named, Payload, Text, Whole
from recorder.wire.dialects.prompt import CachePolicy, PromptFormat, PromptPart
from recorder.wire.dialects.sdks import GOOGLE, Sdk


class _StepId(msgspec.Struct):
    id: Text | None = None


class Event(Payload):
    """The fields of an event that are keys."""

    event_type: Text | None = None
    index: Whole | None = None
    step: _StepId | None = None


def name_of(event: Event) -> Named:
    """Return the keys of an event."""
    type = event.event_type or (ERROR if event.error else None)
    return type, None, event.step.id if event.step else None, event.index


# By the status of HTTP, the code that an error has here: words, where `generateContent` has the
# status again.
_ERRORS = {
    400: "invalid_request",
    401: "authentication",
    403: "permission_denied",
    404: "not_found",
    429: "too_many_requests",
    503: "service_unavailable",
    504: "gateway_timeout",
}


def error_body(status: int, message: str, code: str | None) -> dict[str, Any]:
    """Return an error in the shape of the Interactions API."""
    usual = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request")
    return {"error": {"code": code or usual, "message": message}}


def error_events(status: int, message: str, number: int) -> list[dict[str, Any]]:
    """Return an error as a stream says it."""
    return [{**error_body(status, message, None), "event_type": ERROR}]


def is_event(payload: Object) -> bool:
    """Return whether a payload is an event of an interaction."""
    type = str(payload.get("event_type"))
    return type.startswith(("interaction.", "step."))


def speaks(payload: Object) -> bool:
    """Return whether a payload is an interaction or an event of one."""
    return is_event(payload) or payload.get("object") == "interaction"


_INTERACTIONS = ("", "interaction.")  # a document, and events that hold one
_STEPS = ("step.", "steps.*.", "interaction.steps.*.")

DIALECT = Dialect(
    name="gemini-interactions",
    sdks=(
        Sdk(
            GOOGLE,
            re.compile(r"(?P<base>.*)/(?P<version>v\d\w*)/interactions"),
            ("interactions.create",) * 2,
            ("model", "agent", "input"),
        ),
    ),
    routes=re.compile(r"^\S+ /(?:.*/)?interactions(?:/(?!live$)|$)"),
    keys=KeyExtractor(Event, name_of),
    decoder=InteractionsDecoder,
    terminal={COMPLETED: "completed", ERROR: "failed"},
    needs_terminal=True,
    whole_reasons=frozenset({"completed", "requires_action"}),
    error_body=error_body,
    error_events=error_events,
    error_statuses=(400, 401, 403, 404, 429, 500, 503, 504),
    conversation=InteractionsConversation,
    continuation=CONTINUATION,
    prompt=PromptFormat(
        generates=re.compile(r"/interactions/?$"),
        parts=(
            PromptPart("cached_content", "parameter"),
            PromptPart("tools"),
            PromptPart("system_instruction"),
            PromptPart("input", "conversation", text_as=(b'[{"type":"text","text":', b"}]")),
        ),
        suspects=(
            "generation_config.tool_choice",
            "generation_config.thinking_level",
            "response_format",
        ),
    ),
    # The same models and the same caches as those of `generateContent`: see there for the sources.
    cache=CachePolicy(
        minimums=((r"pro", 4096), (r"", 1024)),
        lapses_s=((r"", (180, 24 * 3600)),),
        step_tokens=256,  # not documented
    ),
    fields=ResponseFields(
        texts=paths(
            "delta.text delta.content.text delta.arguments delta.result step>content.*.text step>summary.*.text"
            " step>name step>arguments",
            step=_STEPS,
        ),
        usage=("interaction.usage", "usage", "step_usage", "metadata.total_usage"),
        noise=noise_fields(
            """
id | interaction>id interaction>previous_interaction_id interaction_id | made anew for each interaction
id | interaction>environment_id | made anew for each environment
id | step>id step>call_id | made anew for each call
id | event_id | a place in the stream
id | interaction>continuation_token continuation_token | of the server's state
time | interaction>created interaction>updated | when an interaction was made, and last changed
""",
            interaction=_INTERACTIONS,
            step=_STEPS,
        ),
        ciphertexts={"signature": "of a thought"},
    ),
    request_noise=(
        # The `call_id` of a result, which this joins it to, has the rule of `openai_responses`.
        RequestNoise(
            "references",
            "interactions-call",
            "input.*.id",
            "joins a call and its result",
            "name arguments",
        ),
    ),
    places=RequestPlaces(
        of_model=paths("""
            input system_instruction tools.*.parameters tools.*.description response_format
            steps step delta content
            """),
    ),
    harmless_parameters="include_input",
    profiles=("gemini-interactions",),
    response_routes=response_routes(
        "interactions", after="last_event_id", event_id="event_id", member="interaction"
    ),
    speaks=speaks,
    is_event=is_event,
    target=lambda is_document, payloads: "/v1beta/interactions",
    has_event_lines=True,
    type_member="event_type",
    operation="generate_content",
)
