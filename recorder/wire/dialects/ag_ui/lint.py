"""The rules of AG-UI, which are those of `@ag-ui/client` 1.0: its `enforceEvents`,
`transformChunks`, `verifyEvents`.

Must not know: other APIs, and where recordings come from.
"""

from __future__ import annotations

from collections.abc import Mapping

from recorder.lint.faults import is_json, of_answer, shown
from recorder.lint.rule import Fault, Faults, rules
from recorder.lint.screen import misfits
from recorder.lint.shape import Shapes
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.json_values import Object, names, text

_ALL = "timestamp:whole metadata:object"
_SUB = f"subagentRunId:text {_ALL}"
SHAPES = Shapes(f"""\
event.TEXT_MESSAGE_START: messageId!:text role:text name:text {_SUB}
event.TEXT_MESSAGE_CONTENT, REASONING_MESSAGE_CONTENT: messageId!:text delta!:text {_SUB}
event.TEXT_MESSAGE_END, REASONING_MESSAGE_END, REASONING_START, REASONING_END: messageId!:text {_SUB}
event.REASONING_MESSAGE_START: messageId!:text role!:text {_SUB}
event.TEXT_MESSAGE_CHUNK: messageId:text role:text delta:text name:text {_SUB}
event.REASONING_MESSAGE_CHUNK: messageId:text delta:text {_SUB}
event.TOOL_CALL_START: toolCallId!:text toolCallName!:text parentMessageId:text {_SUB}
event.TOOL_CALL_ARGS: toolCallId!:text delta!:text {_SUB}
event.TOOL_CALL_END: toolCallId!:text {_SUB}
event.TOOL_CALL_CHUNK: toolCallId:text toolCallName:text parentMessageId:text delta:text {_SUB}
event.TOOL_CALL_RESULT: messageId!:text toolCallId!:text content!:text|[part] role:text {_SUB}
event.STATE_SNAPSHOT: {_SUB}
event.STATE_DELTA: delta!:[object] {_SUB}
event.MESSAGES_SNAPSHOT: messages!:[message] {_ALL}
event.ACTIVITY_SNAPSHOT: messageId!:text activityType!:text content!:object replace:truth {_SUB}
event.ACTIVITY_DELTA: messageId!:text activityType!:text patch!:[object] {_SUB}
event.RAW: source:text {_SUB}
event.CUSTOM: name!:text {_SUB}
event.RUN_STARTED: threadId!:text runId!:text protocolVersion:text parentRunId:text {_ALL}
event.RUN_FINISHED: threadId!:text runId!:text usage:[usage] {_ALL}
event.RUN_ERROR: message!:text code:text usage:[usage] {_ALL}
event.STEP_STARTED, STEP_FINISHED: stepName!:text {_SUB}
event.REASONING_ENCRYPTED_VALUE: subtype!:text entityId!:text encryptedValue!:text {_SUB}
event.SUBAGENT_STARTED: subagentRunId!:text name!:text description:text {_ALL}
event.SUBAGENT_FINISHED: subagentRunId!:text {_ALL}
event.SUBAGENT_ERROR: subagentRunId!:text message!:text code:text {_ALL}
message: id!:text role!:text
part: type!:text
usage: provider:text model:text inputTokens:whole outputTokens:whole totalTokens:whole reasoningTokens:whole
 cachedInputTokens:whole cacheWriteInputTokens:whole
""")

_ROLES = {"role": names("developer system assistant user")}
_WORDS = {
    "TEXT_MESSAGE_START": _ROLES,
    "TEXT_MESSAGE_CHUNK": _ROLES,
    "REASONING_MESSAGE_START": {"role": names("reasoning")},
    "TOOL_CALL_RESULT": {"role": names("tool")},
}
_NULLABLE = names("parentMessageId")  # the client takes it so from servers in other languages

_PARTS: Mapping[str, str] = {
    "TEXT_MESSAGE": "messageId",
    "REASONING_MESSAGE": "messageId",
    "REASONING": "messageId",
    "TOOL_CALL": "toolCallId",
    "STEP": "stepName",
    "SUBAGENT": "subagentRunId",
}
"""What begins and ends, with the member that names it."""
_GROWS, _ENDS = names("CONTENT ARGS"), names("END FINISHED ERROR")
_BESIDE_CHUNKS = names("RAW ACTIVITY_SNAPSHOT ACTIVITY_DELTA REASONING_ENCRYPTED_VALUE")

Part = tuple[str, str | None, str | None]
"""The family of a part, its name, and of a step who takes it."""


class Events:
    """Follows the runs of one stream."""

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        self._open: set[Part] = set()
        # by subagent, the part of its last chunk
        self._chunked: dict[str | None, tuple[str, str | None]] = {}
        self._ended: str | None = None  # the event that ended the run before
        self._has_begun = False
        self._is_broken = False  # the client reads nothing after the first event that it refuses

    def feed(self, block: StreamBlock) -> Faults:
        if self._is_broken or not block.is_event or not is_json(block):
            return
        for fault in self._judged(block):
            self._is_broken = fault[0] != "AG007"
            yield fault

    def _judged(self, block: StreamBlock) -> Faults:
        event = block.payload
        type = text(event, "type")
        if not isinstance(event, dict) or not type:
            yield "AG001", block.pos, shown(event)
        elif type not in SHAPES.families["event"]:
            yield "AG007", block.pos, shown(type)
        else:
            yield from self._event(block.pos, type, event)

    def end(self) -> Faults:
        """Yield what is missing."""
        if (
            not self._is_broken
            and self._stream.is_seen_whole
            and self._has_begun
            and self._ended is None
        ):
            yield "AG006", None, ""

    def _event(self, pos: int, type: str, event: Object) -> Faults:
        found: list[Fault] = []
        for said in misfits(SHAPES, _WORDS, event, _NULLABLE):
            found.append(("AG001", pos, said))
        found = found or [*self._in_order(pos, type)]
        self._has_begun = True
        yield from found
        if found:
            return
        family, _, verb = type.rpartition("_")
        if verb == "CHUNK":
            yield from self._chunk(pos, family, event)
            return
        if type not in _BESIDE_CHUNKS:
            self._chunked.pop(text(event, "subagentRunId"), None)
        if family == "RUN":
            yield from self._run(pos, type)
        elif family in _PARTS and verb not in ("RESULT", "VALUE"):
            yield from self._part(pos, family, verb, event)

    def _in_order(self, pos: int, type: str) -> Faults:
        if not self._has_begun:
            if type not in ("RUN_STARTED", "RUN_ERROR"):
                yield "AG002", pos, f"it is {type}"
        elif self._ended is not None:
            may_fail = type == "RUN_ERROR" and self._ended == "RUN_FINISHED"
            if type != "RUN_STARTED" and not may_fail:
                yield "AG005", pos, f"{type} comes after {self._ended}"
        elif type == "RUN_STARTED":
            yield "AG005", pos, "a run is still active"

    def _run(self, pos: int, type: str) -> Faults:
        if type == "RUN_STARTED":
            self._ended = None
            self._open.clear()
            return
        if type == "RUN_FINISHED":
            for family, name, _ in sorted(self._open, key=str):
                yield "AG004", pos, f"{family} {shown(name)} is open"
        self._ended = type

    def _part(self, pos: int, family: str, verb: str, event: Object) -> Faults:
        owner = text(event, "subagentRunId") if family == "STEP" else None
        part = (family, text(event, _PARTS[family]), owner)
        is_open = part in self._open
        is_new = verb not in _GROWS and verb not in _ENDS
        if is_open == is_new:
            yield "AG003", pos, f"{shown(part[1])} is {'open' if is_open else 'not open'}"
        elif is_new:
            self._open.add(part)
        elif verb in _ENDS:
            self._open.discard(part)

    def _chunk(self, pos: int, family: str, event: Object) -> Faults:
        owner, id = text(event, "subagentRunId"), text(event, _PARTS[family])
        before = self._chunked.get(owner)
        if id is None and (before is None or before[0] != family):
            yield "AG003", pos, f"a chunk without {_PARTS[family]} begins nothing"
            return
        is_new = before is None or before[0] != family or id not in (None, before[1])
        if is_new and family == "TOOL_CALL" and text(event, "toolCallName") is None:
            yield "AG003", pos, "a chunk without toolCallName begins no call"
            return
        if is_new:
            self._chunked[owner] = (family, id)


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
