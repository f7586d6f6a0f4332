"""Claude Managed Agents: the events of a session, in one long GET, and the requests that add to
them.

`event: TYPE` and one line of JSON that says the type again. The stream of a session, and that of
one of its threads, end when the client has seen enough; the next one begins with what happens then,
and a list has what was before.

Written after the types and docstrings of anthropic-python 2.14; no recorded stream was to be had.
Must not know: other wire formats, but for what all of Anthropic's APIs share.
"""

from __future__ import annotations

import re

import msgspec

from recorder.wire.dialects.anthropic import error_body
from recorder.wire.dialects.anthropic_sessions.conversation import ManagedAgentsConversation
from recorder.wire.dialects.anthropic_sessions.decoder import (
    AT_REST,
    DELETED,
    EVENTS,
    RUNNING,
    ManagedAgentsDecoder,
)
from recorder.wire.dialects.dialect import (
    Dialect,
    HostedSession,
    RequestPlaces,
    ResponseFields,
    noise_fields,
    paths,
)
from recorder.wire.dialects.hosted_session import is_at_rest, is_event_of
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named, Payload, Text


class _Preview(msgspec.Struct):
    id: Text | None = None


class _SessionEvent(Payload):
    id: Text | None = None
    event_id: Text | None = None
    event: _Preview | None = None


def _name(event: _SessionEvent) -> Named:
    preview_id = event.event.id if event.event else None
    return (
        event.type or (ERROR if event.error else None),
        None,
        event.id or event.event_id or preview_id,
        None,
    )


is_event = is_event_of(EVENTS)


DIALECT = Dialect(
    name="anthropic-sessions",
    routes=re.compile(r"^\S+ /(?:.*/)?v1/sessions(?:/|$)"),
    keys=KeyExtractor(_SessionEvent, _name),
    decoder=ManagedAgentsDecoder,
    terminal={DELETED: "completed", ERROR: "failed"},
    needs_terminal=False,
    is_last=is_at_rest(AT_REST | RUNNING, AT_REST),
    whole_reasons=frozenset({"end_turn", "requires_action", "refusal"}),
    error_body=error_body,
    conversation=ManagedAgentsConversation,
    hosted=HostedSession(
        path=re.compile(r"/sessions/(?P<session>[^/]+)(?:/threads/(?P<thread>[^/]+))?(?:/|$)"),
        stream=re.compile(
            r"GET .*/sessions/[^/]+/(?:events(?:/stream)?|threads/[^/]+/(?:stream|events))"
        ),
        made=re.compile(r"POST .*/sessions/?"),
        made_ids=("id",),
    ),
    fields=ResponseFields(
        texts=paths("delta.content.text content.*.text input description explanation"),
        usage=("model_usage", "usage"),
        noise=noise_fields("""
id | id event.id event_id tool_use_id mcp_tool_use_id custom_tool_use_id | made anew for each event
id | model_request_start_id outcome_evaluation_start_id outcome_id phase_started_id | made anew for each span
id | session_thread_id from_session_thread_id to_session_thread_id | made anew for each thread
id | workflow_run_id workflow_run_phase_id stop_reason.event_ids.* | made anew for each run
time | processed_at | when it happened
"""),
    ),
    places=RequestPlaces(
        of_model=paths("events initial_events content input delta description explanation")
    ),
    profiles=("anthropic-sessions",),
    speaks=is_event,
    is_event=is_event,
    target=lambda is_document, payloads: (
        "/v1/sessions/session/events" + ("" if is_document else "/stream")
    ),
    has_event_lines=True,
)
