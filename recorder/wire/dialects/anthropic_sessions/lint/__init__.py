"""The rules of Claude Managed Agents: events by type, each whole, and messages that are shown in
pieces before.

Must not know: other APIs, and where recordings come from.

The behaviour of anthropic-sdk-python 2.11 was read in its source and measured; that of the SDK for
TypeScript was read. Neither checks an event, but gives it the class of its type: a program that
reads the members of that fails where one is missing. `accumulate_managed_agents_event` is the
helper of the one for Python that puts a message together.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer
from recorder.lint.rule import rules
from recorder.wire.dialects.anthropic_sessions.lint.session import Session

RULES = rules(
    """
AS001 error
An event has no `event:` line, or one that is not its `type`.
The SDK for TypeScript hands on only events whose line is a type that it knows; the one for Python
 ignores an event without a line, and takes `ping` and `error` for those.
anthropic-sdk-typescript, src/core/streaming.ts; anthropic-sdk-python, src/anthropic/_streaming.py

AS002 error
The payload of an event is not an object with a text `type`.
The SDK for Python makes a user's message of it, without a type, and of an array a list: a program
 that chooses by the type loses the event, or stops with `AttributeError: 'list' object has no
 attribute 'type'`.
Claude API reference, Managed Agents: session events; anthropic-sdk-python,
 src/anthropic/_models.py: construct_type

AS003 warning
An event is of a type that the API does not have.
The SDK for Python makes a user's message of it, with that type, and the one for TypeScript leaves it
 out: programs ignore it.
Claude API reference, Managed Agents: session events; anthropic-sdk-typescript,
 src/core/streaming.ts

AS004 error
A field of an event is missing, or has another type than the API declares.
The SDK for Python hands it on unchecked: a program that adds up texts or tokens stops with
 `AttributeError` or `TypeError`, one that answers a call by its id gets no further.
Claude API reference, Managed Agents: session events; anthropic-sdk-python,
 src/anthropic/types/beta/sessions

AS005 error
A delta is of a message that has not begun, or that is whole already.
The helper of the SDK for Python raises `AnthropicError: event_delta for … received before its
 event_start`, or adds the text to another message.
anthropic-sdk-python, src/anthropic/lib/sessions/_accumulate.py

AS006 error
The index of a delta is neither that of a part of the message, nor the next one.
The helper of the SDK for Python raises `AnthropicError: event_delta index … is beyond the end of
 content`.
anthropic-sdk-python, src/anthropic/lib/sessions/_accumulate.py

AS007 warning
A message does not begin with the pieces that were shown of it.
Clients that show the pieces show another text than the one that counts.
anthropic-sdk-python, src/anthropic/types/beta/beta_managed_agents_delta_event.py

AS008 warning
The stream ends while the session runs, without an error.
A program that reads up to `session.status_idle` takes half a turn for a whole one, unless it asks
 for the stream again.
Claude API reference, Managed Agents: session status
""",
    of_answer(Session),
    "anthropic-sessions",
)
