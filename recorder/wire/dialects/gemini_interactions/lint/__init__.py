"""The rules of Gemini's Interactions: events by type, steps by index, an end that counts tokens.

Must not know: other APIs, and where recordings come from.

The behaviour of google-genai 3.6 for Python was read in its source and measured; that of the SDK
for JavaScript 2.32 was read: it hands on whatever is JSON. The one for Python checks nothing
either, but gives each event the class of its type: a program that reads the members of that fails
where one is missing.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer
from recorder.lint.rule import rules
from recorder.wire.dialects.gemini_interactions.lint.steps import Steps

RULES = rules(
    """
GI001 error
An event is not an object with a text `event_type`.
google-genai for Python takes an object without one for an error, and raises `TypeError: unhashable
 type: 'list'` at an array there; a program that chooses by the type loses the event. Over WebSocket it raises
 `APIWebSocketError: Live interaction server events must have an event_type`.
Gemini API reference, Interactions: InteractionSSEEvent; googleapis/python-genai,
 google/genai/_gaos/utils/unions.py: parse_open_union

GI002 error
A field of an event is missing, or has another type than the API declares.
google-genai for Python hands it on unchecked: a program that adds up texts stops with
 `AttributeError` or `TypeError`.
Gemini API reference, Interactions; googleapis/python-genai,
 google/genai/_gaos/utils/serializers.py: construct_unvalidated

GI003 warning
An event, a step, a delta or a part of a content is of a type that the API does not have.
google-genai for Python makes an unknown object of it, without the members that it has: programs
 ignore it.
Gemini API reference, Interactions; googleapis/python-genai,
 google/genai/_gaos/utils/unions.py: parse_open_union

GI004 error
A delta or an end is of a step that has not begun, or that is over.
Clients keep steps by index: a program finds none, and loses the delta, or stops.
Gemini API, Streaming interactions: step.start, step.delta and step.stop

GI005 error
A step begins with the index of another one.
Clients keep steps by index: two of them become one, or the first is lost.
Gemini API, Streaming interactions: step.start

GI006 error
The stream ends without `interaction.completed`, and without an error.
Clients have no usage and no status, and treat a cut answer as complete; automatic continuation of
 the SDKs does not begin. Over WebSocket google-genai raises `APIWebSocketError` with the code of the Close.
Gemini API, Streaming interactions: interaction.completed; googleapis/python-genai,
 google/genai/_interactions_continuation.py: StreamContinuation

GI007 error
`interaction.completed` has no status in which an interaction is over.
Clients that run functions at `requires_action`, and the automatic continuation of the SDKs at
 `requires_continuation`, wait for a status that does not come.
Gemini API reference, Interactions: status; googleapis/python-genai,
 google/genai/_interactions_continuation.py: StreamContinuation

GI008 warning
`interaction.completed` has no usage.
Clients count no tokens.
Gemini API reference, Interactions: usage

GI009 warning
A step has not ended when the interaction does.
A client that makes a call, or shows a text, at `step.stop` never does.
Gemini API, Streaming interactions: step.stop

GI010 warning
The id of the interaction changes within the stream.
The next request continues the wrong one by `previous_interaction_id`, and the SDKs list both in
 `continuation_ids`.
Gemini API reference, Interactions: id; googleapis/python-genai,
 google/genai/_interactions_continuation.py: StreamContinuation.observe

GI011 warning
The result of a provider's tool is of a call that the stream does not have.
Clients that show a result beside its call find none.
Gemini API reference, Interactions: call_id

GI012 error
Something stands after `[DONE]`, or over WebSocket in a message after the end of the interaction.
Both SDKs close the stream there: everything after it is lost.
googleapis/python-genai, google/genai/_gaos/utils/eventstreaming.py: stream_events

GI013 error
A delta is of a type that its step does not have.
Clients add it to a step that has no place for it: a text in a thought is shown to nobody.
Gemini API, Streaming interactions: delta types

GI014 error
The arguments of a function call are not a JSON object when they are put together.
Clients cannot call the function: `json.loads` raises JSONDecodeError, and the API refuses a step
 whose `arguments` are not an object when it is sent back.
Gemini API, Streaming interactions: arguments_delta

GI015 warning
The token counts of `interaction.completed` contradict each other.
Costs are wrong in a way that depends on which of the counts a client uses: the total is input,
 output, thoughts and tool use, and cached tokens are part of the input.
Gemini API reference, Interactions: usage
""",
    of_answer(Steps),
    "gemini-interactions",
)
