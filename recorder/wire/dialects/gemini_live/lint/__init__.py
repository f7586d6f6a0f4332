"""The rules of Gemini Live: messages whose members are declared, and turns that end.

Must not know: other APIs but `generateContent`, and where recordings come from.

The behaviour of google-genai 3.6 was read in its source and measured: `aio.live.connect` checks
each message by the types that it declares.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer
from recorder.lint.rule import rules
from recorder.wire.dialects.gemini_live.lint.turn import Turn

RULES = rules(
    """
GL001 error
A message is not a JSON object.
`receive()` of google-genai stops with `AttributeError: 'list' object has no attribute 'get'`, and of
 a number with `TypeError`: the session is over for its program.
googleapis/python-genai, google/genai/live.py: _receive

GL002 error
A message has none of the members that the API has.
`receive()` of google-genai takes it for an error, and fails with `TypeError: '<=' not supported
 between instances of 'int' and 'NoneType'`.
googleapis/python-genai, google/genai/live.py: _receive; google/genai/errors.py: raise_error

GL003 error
A field of a message has another type than the API declares.
`receive()` of google-genai raises a `ValidationError`: the session is over for its program.
googleapis/python-genai, google/genai/types.py: LiveServerMessage

GL004 error
The connection ends in a turn, without `turnComplete` or an error.
`receive()` of google-genai raises an `APIError` with the code of the Close in the middle of the turn.
googleapis/python-genai, google/genai/live.py: receive

GL005 error
A function call has no id.
`send_tool_response` of google-genai refuses a result without the id: `ValueError: FunctionResponse
 request must have an `id` field`.
googleapis/python-genai, google/genai/live.py: send_tool_response

GL006 warning
A turn has no usage.
Clients count no tokens.
Gemini API reference, Live API: usageMetadata
""",
    of_answer(Turn),
    "gemini-live",
)
