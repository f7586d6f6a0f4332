"""AG-UI: the events of a run of an agent, from `RUN_STARTED` to `RUN_FINISHED`, for the screen of
an app.

Its path is the app's own: the body of the request says it, and else the first event. Written after
`@ag-ui/core` 1.0, and compared with what `@ag-ui/client` reads; events of reasoning before 1.0
(`THINKING_…`) are read, too.

Must not know: other wire formats.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recorder.model.events import Header
from recorder.wire.dialects.ag_ui.conversation import AgUiConversation
from recorder.wire.dialects.ag_ui.decoder import AgUiDecoder
from recorder.wire.dialects.dialect import (
    Dialect,
    RequestNoise,
    RequestPlaces,
    ResponseFields,
    noise_fields,
    paths,
)
from recorder.wire.dialects.json_values import Object, request_object, text
from recorder.wire.dialects.keys import KeyExtractor, Named, Payload, Text


class _Event(Payload, rename="camel"):
    message_id: Text | None = None
    tool_call_id: Text | None = None


def _name(event: _Event) -> Named:
    return event.type, None, event.tool_call_id or event.message_id, None


def is_asked(headers: Sequence[Header], body: bytes) -> bool:
    """Return whether a request is one for a run."""
    if b'"threadId"' not in body or b'"runId"' not in body:
        return False
    request = request_object(body)
    return (
        all(text(request, name) is not None for name in ("threadId", "runId"))
        and "messages" in request
    )


def speaks(payload: Object) -> bool:
    """Return whether a payload begins a run."""
    return payload.get("type") == "RUN_STARTED" and isinstance(payload.get("runId"), str)


_BESIDE = "threadId runId messages"

DIALECT = Dialect(
    name="ag-ui",
    routes=re.compile(r"(?!)"),  # no path of its own
    is_asked=is_asked,
    keys=KeyExtractor(_Event, _name),
    decoder=AgUiDecoder,
    framing="sse",
    terminal={"RUN_FINISHED": "completed", "RUN_ERROR": "failed"},
    needs_terminal=True,
    whole_reasons=frozenset({"success", "interrupt"}),
    conversation=AgUiConversation,
    fields=ResponseFields(
        texts=paths("delta content message"),
        usage=("usage",),
        noise=noise_fields(
            """
id | threadId runId parentRunId messageId parentMessageId toolCallId entityId subagentRunId | made anew for each run
id | outcome.pendingToolCallIds.* outcome.interrupts.*.id messages.*.id | made anew for each run
id | messages.*.toolCallId messages.*.toolCalls.*.id | made anew for each call
time | timestamp | when an event was made
made | encryptedValue | only the provider can read it
"""
        ),
    ),
    request_noise=(
        RequestNoise("fields", "ag-ui-thread", "threadId", "of one run of an app", _BESIDE),
        RequestNoise("fields", "ag-ui-run", "runId", "made anew for each request", _BESIDE),
        RequestNoise("fields", "ag-ui-parent", "parentRunId", "names an earlier run", _BESIDE),
        RequestNoise(
            "references", "ui-call", "messages.*.toolCalls.*.id", "joins a call and its result"
        ),
        RequestNoise("references", "ui-result", "messages.*.toolCallId", "names a call"),
    ),
    session_fields=("threadId",),
    places=RequestPlaces(
        of_model=paths("messages context.*.value context.*.description delta content")
    ),
    is_of_app=True,
    profiles=("ag-ui",),
    speaks=speaks,
    is_event=speaks,
    target=lambda is_document, payloads: "/agent",
)
