"""Sessions of OpenAI's hosted agents: their events, in one long GET or in the answer to the request
that creates one.

Written after the types and docstrings of openai-python 3.57; no recorded stream was to be had.
Must not know: other wire formats, but for what all of OpenAI's APIs share.
"""

from __future__ import annotations

import re

import msgspec

from recorder.wire.dialects.dialect import (
    Dialect,
    HostedSession,
    RequestPlaces,
    ResponseFields,
    noise_fields,
    paths,
)
from recorder.wire.dialects.hosted_session import is_at_rest, is_event_of
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named, Payload, Text, Whole
from recorder.wire.dialects.openai import ERROR_STATUSES, error_body
from recorder.wire.dialects.openai_agents.conversation import HostedAgentsConversation
from recorder.wire.dialects.openai_agents.decoder import (
    AT_REST,
    EVENTS,
    RUNNING,
    HostedAgentsDecoder,
)


class _Item(msgspec.Struct):
    id: Text | None = None


class _SessionEvent(Payload):
    item_id: Text | None = None
    item: _Item | None = None
    output_index: Whole | None = None


def _name(event: _SessionEvent) -> Named:
    item_id = event.item_id or (event.item.id if event.item else None)
    return event.type or (ERROR if event.error else None), None, item_id, event.output_index


is_event = is_event_of(EVENTS)


DIALECT = Dialect(
    name="openai-agents",
    routes=re.compile(r"^\S+ /(?:.*/)?agents/sessions(?:/|$)"),
    keys=KeyExtractor(_SessionEvent, _name),
    decoder=HostedAgentsDecoder,
    terminal={ERROR: "failed"},
    needs_terminal=False,
    is_last=is_at_rest(AT_REST | RUNNING, AT_REST),
    whole_reasons=frozenset({"idle", "requires_action"}),
    error_body=error_body,
    error_statuses=ERROR_STATUSES,
    conversation=HostedAgentsConversation,
    hosted=HostedSession(
        path=re.compile(
            r"/agents/sessions/(?P<session>[^/]+)(?:/subagents/(?P<thread>[^/]+))?(?:/|$)"
        ),
        stream=re.compile(r"GET .*/agents/sessions/[^/]+/events"),
        made=re.compile(r"POST .*/agents/sessions/?"),
        made_ids=("session_id", "session.id", "id"),
    ),
    fields=ResponseFields(
        texts=paths(
            "delta text item.content.*.text item.summary.*.text item.arguments item.command item.output"
        ),
        usage=("usage", "turn.usage", "session.usage"),
        noise=noise_fields("""
id | event_id session_id turn_id item_id item.id item.call_id item.turn_id turn.id turn.session_id | made anew each time
id | session.id subagent.id subagent.session_id turn.agent_id turn.subagent_id environment.id | made anew each time
time | turn.created_at turn.started_at turn.completed_at session.created_at session.last_active_at | when it happened
time | subagent.opened_at subagent.closed_at | when it happened
padding | obfuscation | hides the length of an event
"""),
    ),
    places=RequestPlaces(of_model=paths("events input item delta text")),
    profiles=("openai-agents",),
    speaks=is_event,
    is_event=is_event,
    target=lambda is_document, payloads: "/v1/agents/sessions/session/events",
    has_event_lines=True,
)
