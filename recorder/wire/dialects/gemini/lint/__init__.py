"""The rules of Gemini (`:streamGenerateContent?alt=sse`): `data: {chunk}` until the body ends.

Must not know: other APIs, and where recordings come from.

The behaviour of google-genai 3.6 for Python was read in its source and measured; that of the SDK
for JavaScript and of Gemini CLI was read. The first is the strictest of all clients in reading
lines, and declares the type of every field.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer
from recorder.lint.rule import rules
from recorder.wire.dialects.gemini.lint.chunks import Chunks

RULES = rules(
    """
GE001 error
A line is not `data: ` with JSON: it is an `event:`, `id:` or `retry:` line, or another one.
google-genai for Python parses it as JSON and raises `UnknownApiResponseError: Failed to parse
 response as JSON. Raw response: event: …`; the SDK for JavaScript ignores the whole event if the
 line is its first.
googleapis/python-genai, google/genai/_api_client.py: _iter_response_stream; googleapis/js-genai,
 src/_api_client.ts: processStreamResponse

GE002 error
The stream has a comment, such as a keep-alive.
google-genai for Python parses it as JSON and raises `UnknownApiResponseError: Failed to parse
 response as JSON. Raw response: : …`.
googleapis/python-genai, google/genai/_api_client.py: _iter_response_stream

GE003 error
A `data:` line has no space after the colon.
google-genai for Python looks for `data: ` and raises `UnknownApiResponseError: Failed to parse
 response as JSON. Raw response: data:{…`.
googleapis/python-genai, google/genai/_api_client.py: _iter_response_stream

GE004 error
There is a `data: [DONE]`.
A stream of Gemini ends without a mark. google-genai for Python parses it as JSON and raises
 `UnknownApiResponseError: Failed to parse response as JSON. Raw response: [DONE]`.
googleapis/python-genai, google/genai/_api_client.py: _load_json_from_response

GE005 note
Events end with LF.
Google sends CRLF. The SDKs accept both; a client that was tested with Google only may not.
googleapis/python-genai, google/genai/_api_client.py: _SseLineDecoder; googleapis/js-genai,
 src/_api_client.ts: processStreamResponse

GE006 error
A chunk is not a JSON object.
google-genai for Python makes an empty response of it: its content is lost. The API sends an array
 of chunks only without `alt=sse`.
Gemini API reference, GenerateContentResponse; googleapis/python-genai, google/genai/_api_client.py

GE007 error
An error is not `{"error": {"code": …}}`, with `error` as its first member and a number as its code.
google-genai for Python ignores an error that is not the first field; without a code, it fails with
 `TypeError: '<=' not supported between instances of 'int' and 'NoneType'`.
googleapis/python-genai, google/genai/_api_client.py: request_streamed

GE008 error
The stream ends without the `finishReason` of a candidate.
Gemini CLI fails with `Model stream ended without a finish reason.` (`NO_FINISH_REASON`), unless a
 tool is called; other clients treat a cut answer as complete.
Gemini API reference, GenerateContentResponse; google-gemini/gemini-cli,
 packages/core/src/core/geminiChat.ts: processStreamResponse

GE009 warning
No chunk has `usageMetadata`.
Clients count no tokens. Gemini CLI uses the counts to decide when to compress a conversation.
Gemini API reference, GenerateContentResponse; google-gemini/gemini-cli,
 packages/core/src/core/geminiChat.ts: processStreamResponse

GE010 error
Something stands after an error.
google-genai for Python raises at the error: everything after it is lost.
googleapis/python-genai, google/genai/_api_client.py: request_streamed

GE011 error
A field of a chunk is missing, or has another type than the API declares.
google-genai for Python raises `ValidationError: 1 validation error for GenerateContentResponse` at
 another type, or ignores candidates that are not an array. A client that reads a missing field of a
 part gets none, and the API refuses the part when it is sent back.
Gemini API reference, GenerateContentResponse; googleapis/python-genai, google/genai/types.py

GE012 error
A token count of `usageMetadata` is not a number.
google-genai for Python raises `ValidationError: 1 validation error for GenerateContentResponse`,
 unless it is a number as a text; other clients concatenate the texts instead of adding the numbers.
Gemini API reference, GenerateContentResponse; googleapis/python-genai, google/genai/types.py

GE013 error
A `functionCall` has no `name`.
The called function is unknown: `function_call.name` is `None`, which the SDKs do not check.
Gemini API reference, GenerateContentResponse: FunctionCall; googleapis/python-genai,
 google/genai/types.py

GE014 error
The `args` of a `functionCall` are not an object.
google-genai for Python raises `ValidationError: … functionCall.args Input should be a valid
 dictionary`. Only Chat Completions sends arguments as JSON text.
Gemini API reference, GenerateContentResponse: FunctionCall; googleapis/python-genai,
 google/genai/types.py

GE015 error
The first `functionCall` of a Gemini 3 model, or a later one, has no `thoughtSignature`.
The API refuses the next request, in which the call is sent back: `400 Function call is missing a
 thought_signature in functionCall parts`.
Gemini API, Thought signatures

GE016 error
A `thoughtSignature` is not base64.
google-genai for Python raises `ValidationError: … thoughtSignature Data should be valid base64`.
Gemini API reference, GenerateContentResponse; googleapis/python-genai, google/genai/types.py

GE017 warning
The token counts of the last `usageMetadata` lack the total, or contradict each other.
Costs are wrong in a way that depends on which of the counts a client uses: the total is prompt,
 candidates, thoughts and tool use, and cached tokens are part of the prompt.
Gemini API reference, GenerateContentResponse: UsageMetadata

GE018 error
A field is written in snake_case.
Such names belong to the SDK for Python, not to the API: both SDKs ignore the field, so a finish
 reason, a usage or a function call is missing.
Gemini API reference, GenerateContentResponse; googleapis/python-genai, google/genai/types.py

GE019 warning
`modelVersion` or `responseId` changes from one chunk to another.
Clients that combine chunks keep the first or the last value, and disagree on which model answered.
Gemini API reference, GenerateContentResponse: responseId identifies each response

GE020 error
Two candidates of a chunk have the same index.
Clients combine the parts of a candidate by its index: two answers become one.
Gemini API reference, GenerateContentResponse: Candidate.index

GE021 note
A candidate has content after its `finishReason`.
Google does so when code runs between two rounds. A client that stops reading at the `finishReason`
 loses the rest.
Gemini API reference, GenerateContentResponse

GE022 error
The last event has no blank line after it, or is only half there.
The SDK for JavaScript, and with it Gemini CLI, fails with `Incomplete JSON segment at the end`. The
 SDK for Python reads a whole one, and raises `UnknownApiResponseError` at half of one.
googleapis/js-genai, src/_api_client.ts: processStreamResponse

GE023 error
The chunk with the `finishReason` comes twice.
Clients concatenate chunks: its text is in the answer twice, and its calls are made twice.
Gemini API reference, GenerateContentResponse
""",
    of_answer(Chunks),
    "gemini",
)
