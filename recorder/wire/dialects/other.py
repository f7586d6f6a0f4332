"""Any other stream or document: Assistants, Cohere, transcriptions, images, embeddings, what comes
next.

Recorded raw like the rest; only errors and reports of tokens are understood. The event line is the
type, as it is to the standard: a `type` in the payload may be that of the object (Assistants: a
step of type `tool_calls`). Of the fields only those are read that bear a name of ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from recorder.model.facts import ResponseStarted, Usage, UsageReported
from recorder.wire.dialects.decoder import Facts, JsonDecoder, failed
from recorder.wire.dialects.dialect import (
    Dialect,
    RequestNoise,
    RequestPlaces,
    ResponseFields,
    noise_fields,
    paths,
)
from recorder.wire.dialects.json_values import Object, as_json, object_, places, text
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named, Payload, Text, Whole
from recorder.wire.dialects.usage_report import (
    COUNTS,
    ReportedCost,
    counts_at,
    details_at,
    token_count,
)


class _TypedEvent(Payload):
    sequence_number: Whole | None = None
    item_id: Text | None = None
    output_index: Whole | None = None


def _name(event: _TypedEvent) -> Named:
    type = event.type or (ERROR if event.error else None)
    return type, event.sequence_number, event.item_id, event.output_index


# In a report of OpenAI's transcriptions, images, embeddings and Assistants, and of who took their
# form; of Cohere.
_COUNTS = places(
    f"""{COUNTS}
input_tokens tokens.input_tokens
cache_read_input_tokens input_token_details.cached_tokens prompt_token_details.cached_tokens
output_tokens tokens.output_tokens
"""
)
_DETAILS = places("""
input_audio_tokens input_token_details.audio_tokens input_tokens_details.audio_tokens
input_audio_tokens prompt_token_details.audio_tokens prompt_tokens_details.audio_tokens
input_image_tokens input_token_details.image_tokens input_tokens_details.image_tokens
input_image_tokens prompt_token_details.image_tokens prompt_tokens_details.image_tokens
output_image_tokens output_tokens_details.image_tokens completion_tokens_details.image_tokens
""")


class OtherDecoder(JsonDecoder):
    """The decoder of streams and documents of which nobody here knows the items."""

    def general(self, type: str | None, data: bytes) -> Facts:
        """Decode an event. Text that is not meant as JSON is whole: the protocol is not known."""
        is_text = type != ERROR and not data.lstrip().startswith((b"{", b"["))
        return () if is_text else super().general(type, data)

    def payload(self, type: str | None, payload: Any) -> Facts:
        body = object_(payload)
        error = body.get("error")
        # of a fine-tuning job that goes well
        is_blank = isinstance(error, dict) and not any(error.values())
        if type == ERROR or (error and not is_blank):
            return (failed(body),)
        for holder in (body, object_(body, "delta")):
            report = report_of(object_(holder, "usage"))
            if report is not None:
                return ResponseStarted(None, text(holder, "model")), report
        return ()


def report_of(usage: Object, own: Mapping[str, Sequence[str]] = {}) -> UsageReported | None:
    """Return the report, None if it counts no tokens: some transcriptions are paid by their length.

    `own` are further places of counts.
    """
    counts = counts_at(usage, _COUNTS)
    for name, path in own.items():
        counts[name] = token_count(usage, *path) if counts[name] is None else counts[name]
    if all(count is None for count in counts.values()):
        return None
    return UsageReported(
        Usage(**counts), as_json(usage), details_at(usage, _DETAILS, ReportedCost())
    )


# Of any server, of Cohere, of Assistants, of OpenAI, of AG-UI where no request says that it is
# that.
_LAST = """
    [DONE] done
    message-end stream-end
    thread.run.completed thread.run.failed thread.run.cancelled thread.run.expired thread.run.incomplete
    transcript.text.done speech.audio.done image_generation.completed image_edit.completed
    RUN_FINISHED RUN_ERROR
"""

DIALECT = Dialect(
    name="other",
    routes=re.compile(""),
    keys=KeyExtractor(_TypedEvent, _name, event_line_first=True),
    decoder=OtherDecoder,
    terminal={ERROR: "failed"},
    last_types=frozenset(_LAST.split()),
    needs_terminal=False,
    request_noise=(
        # of Bedrock's Converse
        RequestNoise(
            "references",
            "converse-call",
            "messages.*.content.*.*.toolUseId",
            "joins a call and its result",
        ),
    ),
    places=RequestPlaces(
        of_model=paths("""
            additional_messages message chat_history preamble documents texts query
            schema json_schema properties description title text arguments
            """)
    ),
    fields=ResponseFields(
        noise=noise_fields(
            """
id | id event_id | made anew for each object of a stream
id | run_id thread_id | of one run, of one conversation with an assistant
id | step>tool_calls.*.id step>message_creation.message_id delta.message.tool_calls.id
 | made anew for each call and message
time | created created_at completed_at started_at expires_at
 | when something was made, begun, complete, and will be forgotten
""",
            step=("step_details.", "delta.step_details."),
        )
    ),
)
