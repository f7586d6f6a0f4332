"""The rules of the UI message stream, which are those of `ai` 6.0 for JavaScript.

Must not know: other APIs, and where recordings come from.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer
from recorder.lint.rule import rules
from recorder.wire.dialects.ui_messages.lint.chunks import Chunks

RULES = rules(
    """
UM001 error
A chunk has no type that the SDK knows, or a member is missing, is null, or has another type than declared.
useChat raises AI_TypeValidationError, shows an error and drops the rest of the answer.
vercel/ai, packages/ai/src/ui-message-stream/ui-message-chunks.ts: uiMessageChunkSchema

UM002 error
A text or a thought grows or ends that did not begin, or is not open any more: a step ends all that are.
useChat raises AI_UIMessageStreamError, shows an error and drops the rest of the answer.
vercel/ai, packages/ai/src/ui/process-ui-message-stream.ts: text-delta, text-end, reasoning-delta, reasoning-end

UM003 error
The input of a call grows, and the call did not begin.
useChat raises AI_UIMessageStreamError, shows an error and drops the rest of the answer.
vercel/ai, packages/ai/src/ui/process-ui-message-stream.ts: tool-input-delta

UM004 error
A result, a refusal or a request for approval is of a call that is not in the message, and not in the request.
useChat raises AI_UIMessageStreamError, shows an error and drops the rest of the answer.
vercel/ai, packages/ai/src/ui/process-ui-message-stream.ts: getToolInvocation

UM005 warning
A text, a thought or the input of a call is still open when the message is finished.
useChat shows it as one that still streams, for as long as the chat is open.
vercel/ai, packages/ai/src/ui/process-ui-message-stream.ts: state

UM006 warning
The stream ends without `finish`, `abort`, `error` or `[DONE]`.
useChat takes a cut answer for a complete one: it says so to nobody.
vercel/ai, packages/ai/src/ui/chat.ts: makeRequest
""",
    of_answer(Chunks),
    "ui-messages",
)
