"""The rules of OpenAI Realtime: events by type, a response of each turn, and texts that grow by
deltas.

Must not know: other APIs, and where recordings come from.

The behaviour of openai-python 3.52 was read in its source and measured. `realtime.connect` hands on
whatever is JSON, and gives each event the class of its type: a program that reads the members of
that fails where one is missing.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer
from recorder.lint.rule import rules
from recorder.wire.dialects.openai_realtime.lint.session import Turn

RULES = rules(
    """
OR001 error
The payload of a message is not an object with a text `type`.
openai-python makes an event of it without a type, and of an array a list: a program that chooses by
 the type loses the event, or stops with `AttributeError: 'list' object has no attribute 'type'`.
OpenAI API reference, Realtime: server events; openai-python, resources/realtime/realtime.py: parse_event

OR002 warning
An event is of a type that the API does not have.
openai-python makes an event of another class of it, with that type: programs ignore it. Those of the
 beta of 2024 are read by its clients alone.
OpenAI API reference, Realtime: server events; openai-python, _models.py: construct_type

OR003 error
A field of an event is missing, or has another type than the API declares.
openai-python hands it on unchecked: a program that adds up texts or tokens, decodes sound or answers
 a call stops with `AttributeError` or `TypeError`.
OpenAI API reference, Realtime: server events; openai-python, types/realtime

OR004 error
The connection ends in a response, without `response.done` or an error.
A program that reads up to `response.done` takes half a response for a whole one, or stops with
 `ConnectionClosedError`: nothing asks again.
OpenAI API reference, Realtime: response.done; openai-python, resources/realtime/realtime.py: __iter__

OR005 warning
A whole text is not what its deltas were.
Clients that show the deltas show another text, or call a tool with other arguments, than those that
 wait for the whole.
OpenAI API reference, Realtime: response.output_text.done

OR006 warning
A response that is completed has no usage.
Clients count no tokens.
OpenAI API reference, Realtime: response.done
""",
    of_answer(Turn),
    "openai-realtime",
)
