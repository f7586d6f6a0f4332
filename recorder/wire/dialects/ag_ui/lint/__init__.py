"""The rules of AG-UI, which are those of `@ag-ui/client` 1.0: its `enforceEvents`,
`transformChunks`, `verifyEvents`.

Must not know: other APIs, and where recordings come from.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer
from recorder.lint.rule import rules
from recorder.wire.dialects.ag_ui.lint.events import Events

RULES = rules(
    """
AG001 error
An event is not an object with a type, or a member is missing, is null, or has another type than declared.
@ag-ui/client raises ZodError, and the run fails: CopilotKit shows an error.
ag-ui-protocol/ag-ui, typescript/packages/core: EventSchema; client, src/enforce/enforce.ts

AG002 error
The first event is not RUN_STARTED, and not RUN_ERROR.
@ag-ui/client raises AGUIError, and the run fails before anything is shown.
ag-ui-protocol/ag-ui, client, src/verify/verify.ts: firstEventReceived

AG003 error
A message, a thought, a call, a step or a subagent begins that is open, or goes on or ends that is not.
@ag-ui/client raises AGUIError, and the run fails: what follows is not shown.
ag-ui-protocol/ag-ui, client, src/verify/verify.ts; src/chunks/transform.ts

AG004 error
RUN_FINISHED comes while a message, a thought, a call, a step or a subagent is open.
@ag-ui/client raises AGUIError: a run with the whole answer fails.
ag-ui-protocol/ag-ui, client, src/verify/verify.ts: RUN_FINISHED

AG005 error
An event comes after the end of a run, or a run begins before the end of the one before.
@ag-ui/client raises AGUIError, and the run fails.
ag-ui-protocol/ag-ui, client, src/verify/verify.ts: runFinished, runError

AG006 warning
The stream ends without RUN_FINISHED and without RUN_ERROR.
@ag-ui/client checks nothing when the stream ends: a cut answer counts as a complete one.
ag-ui-protocol/ag-ui, client, src/verify/verify.ts

AG007 warning
The type of an event is none of the protocol.
@ag-ui/client drops it with a warning on the console; so it does with THINKING_… of before 1.0.
ag-ui-protocol/ag-ui, client, src/enforce/enforce.ts: isRecognizedEvent
""",
    of_answer(Events),
    "ag-ui",
)
