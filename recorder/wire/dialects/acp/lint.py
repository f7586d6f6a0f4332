"""The rules of ACP: messages of JSON-RPC, each request with one response, and what a client needs
of an agent.

Must not know: other APIs, and where recordings come from.

The behaviour of the client of `agent-client-protocol` 0.12 for Python was measured; that of
`@agentclientprotocol/sdk` 2.4 for TypeScript was read in its source: its types are the same.
"""

from __future__ import annotations

from recorder.lint.faults import misfit, shown
from recorder.lint.json_rpc import is_error, is_id, waiting
from recorder.lint.rule import Faults, rules
from recorder.lint.shape import Shapes
from recorder.lint.stream import StreamBlock, StreamView
from recorder.model.events import CloseRecord
from recorder.wire.dialects.acp.decoder import STEPS, UPDATE
from recorder.wire.dialects.json_values import Object, as_json, names, object_, request_object, text

# The shapes of the results, updates and requests of an agent, as `agent-client-protocol` 0.12 for
# Python has them. Those that begin with `on_` are updates. Of what its types and those of the SDK
# for TypeScript read leniently, a wrong value is lost without a word: it has its default, and a
# wrong element is left out.
SHAPES = Shapes("""\
initialize: protocolVersion!:integer agentCapabilities:capabilities authMethods:[auth_method] agentInfo:implementation
capabilities: loadSession:truth promptCapabilities:prompt_capabilities mcpCapabilities:mcp_capabilities
 sessionCapabilities:session_capabilities auth:object providers:object nes:object
prompt_capabilities: image:truth audio:truth embeddedContext:truth
mcp_capabilities: http:truth sse:truth acp:truth
session_capabilities: list:object delete:object additionalDirectories:object fork:object resume:object close:object
auth_method: id!:text name!:text description:text
implementation: name!:text version!:text title:text
session/new: sessionId!:text modes:modes configOptions:[config_option]
session/fork: sessionId!:text modes:modes configOptions:[config_option]
session/load: modes:modes configOptions:[config_option]
session/resume: modes:modes configOptions:[config_option]
session/set_config_option: configOptions!:[config_option]
session/list: sessions!:[session] nextCursor:text
session/prompt: stopReason!:'end_turn'|'max_tokens'|'max_turn_requests'|'refusal'|'cancelled' usage:usage
session: sessionId!:text cwd!:text additionalDirectories:[text] title:text updatedAt:text
modes: currentModeId!:text availableModes!:[mode]
mode: id!:text name!:text description:text
config_option.select: id!:text name!:text description:text currentValue!:text options!:[option]
config_option.boolean: id!:text name!:text description:text currentValue!:truth
option: name!:text value:text description:text group:text options:[option]
usage: totalTokens!:integer inputTokens!:integer outputTokens!:integer thoughtTokens:integer cachedReadTokens:integer
 cachedWriteTokens:integer
session/update: sessionId!:text update!:update
update: sessionUpdate!:text
on_user_message_chunk: content!:content messageId:text
on_agent_message_chunk: content!:content messageId:text
on_agent_thought_chunk: content!:content messageId:text
on_tool_call: toolCallId!:text title!:text kind:text status:text content:[shown] locations:[location]
on_tool_call_update: toolCallId!:text title:text kind:text status:text content:[shown] locations:[location]
on_plan: entries!:[entry]
on_plan_update: plan!:plan
on_plan_removed: planId!:text
on_available_commands_update: availableCommands!:[command]
on_current_mode_update: currentModeId!:text
on_config_option_update: configOptions!:[config_option]
on_session_info_update: title:text updatedAt:text
on_usage_update: used!:integer size!:integer cost:cost
content.text: text!:text annotations:annotations
content.image: data!:text mimeType!:text uri:text annotations:annotations
content.audio: data!:text mimeType!:text annotations:annotations
content.resource_link: name!:text uri!:text description:text mimeType:text size:integer title:text
 annotations:annotations
content.resource: resource!:resource annotations:annotations
annotations: audience:[text] lastModified:text priority:numeric
resource: uri!:text mimeType:text text:text blob:text
shown.content: content!:content
shown.diff: path!:text oldText:text newText!:text
shown.terminal: terminalId!:text
location: path!:text line:integer
entry: content!:text priority!:'high'|'medium'|'low' status!:'pending'|'in_progress'|'completed'
plan.items: planId!:text entries!:[entry]
plan.file: planId!:text uri!:text
plan.markdown: planId!:text content!:text
command: name!:text description!:text input:command_input
command_input: hint!:text
cost: amount!:numeric currency!:text
session/request_permission: sessionId!:text toolCall!:call options!:[permission]
call: toolCallId!:text title:text kind:text status:text content:[shown] locations:[location]
permission: optionId!:text name!:text kind!:'allow_once'|'allow_always'|'reject_once'|'reject_always'
fs/write_text_file: sessionId!:text path!:text content!:text
fs/read_text_file: sessionId!:text path!:text line:integer limit:integer
terminal/create: sessionId!:text command!:text args:[text] env:[variable] cwd:text outputByteLimit:integer
terminal/output: sessionId!:text terminalId!:text
terminal/release: sessionId!:text terminalId!:text
terminal/wait_for_exit: sessionId!:text terminalId!:text
terminal/kill: sessionId!:text terminalId!:text
variable: name!:text value!:text
""")


_REQUESTS = names("""
    session/request_permission fs/write_text_file fs/read_text_file
    terminal/create terminal/output terminal/release terminal/wait_for_exit terminal/kill
    """)
_OTHERS = names(
    "elicitation/create elicitation/complete mcp/connect mcp/message mcp/disconnect auth/status_update"
)
"""Methods of a client that are not stable yet."""

_ANY_RESULT = names("session/load session/list session/set_config_option")
"""Methods of which a result that is not an object is an empty one to the SDK for Python."""


class Lines:
    """Follows the lines of one agent."""

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        self._waiting = waiting(
            (request_object(each.raw) for each in stream.recording.sent), as_json
        )

    def feed(self, block: StreamBlock) -> Faults:
        line = (block.data or b"").strip()
        if block.payload is None and line != b"null" and not line.startswith((b"{", b"[")):
            return  # a line of a log, which clients pass over
        wrong = _wrong(block.payload)
        if wrong is not None:
            yield "AC001", block.pos, wrong
            return
        message = object_(block.payload)
        method = text(message, "method")
        if method is None:
            yield from self._response(block.pos, message)
        else:
            yield from _of_agent(block.pos, method, message)

    def end(self) -> Faults:
        """Yield the requests that the program did not answer before it ended, if its client had not
        left it.
        """
        end = self._stream.end
        is_left = end is None or (isinstance(end.close, CloseRecord) and end.close.by == "client")
        if is_left or not self._stream.is_seen_whole:
            return
        for requests in self._waiting.values():
            for request in requests:
                yield "AC007", None, shown(request["method"])

    def _response(self, pos: int, message: Object) -> Faults:
        asked = self._waiting.get(as_json(message["id"]))
        if asked:
            yield from _of_result(pos, text(asked.popleft(), "method") or "", message)
        elif message["id"] is not None:
            yield "AC002", pos, f"id {shown(message['id'])}"


def _wrong(message: object) -> str | None:
    """Return why a line is not a message; None if it is one."""
    if not isinstance(message, dict):
        return shown(message)
    if message.get("jsonrpc") != "2.0":
        return f"jsonrpc is {shown(message.get('jsonrpc'))}"
    if "id" in message and message["id"] is not None and not is_id(message["id"]):
        return f"its id is {shown(message['id'])}"
    if "method" in message:
        return (
            None
            if text(message, "method") is not None
            else f"its method is {shown(message['method'])}"
        )
    if "id" not in message or ("result" in message) == ("error" in message):
        return "it has no id" if "id" not in message else "it has not one of a result and an error"
    return None if "result" in message or is_error(message["error"]) else "its error cannot be read"


def _of_result(pos: int, method: str, message: Object) -> Faults:
    if "error" in message or method not in SHAPES.by_name:
        return
    result = message["result"]
    if method in _ANY_RESULT and not isinstance(result, dict):
        result = {}
    for each in SHAPES.misfits(result, method):
        yield "AC003", pos, misfit(each)


def _of_agent(pos: int, method: str, message: Object) -> Faults:
    params = message.get("params")
    if method == UPDATE:
        for each in SHAPES.misfits(params, method):
            yield "AC004", pos, misfit(each)
        yield from _update(pos, object_(params, "update"))
    elif method in _REQUESTS:
        if "id" not in message:
            yield "AC005", pos, "it has no id"
        for each in SHAPES.misfits(params, method):
            yield "AC005", pos, misfit(each)
    elif method not in _OTHERS and not method.startswith(("_", "$/")):
        yield "AC006", pos, shown(method)


def _update(pos: int, update: Object) -> Faults:
    kind = text(update, "sessionUpdate")
    if kind is None:
        return
    if f"on_{kind}" in SHAPES.by_name:
        for each in SHAPES.misfits(update, f"on_{kind}", path="update"):
            yield "AC004", pos, misfit(each)
        resource = object_(update, "content", "resource")
        if resource and resource.get("text") is None and resource.get("blob") is None:
            yield "AC004", pos, "the resource has neither a text nor a blob"
    elif kind not in STEPS:
        yield "AC006", pos, shown(kind)


RULES = rules(
    """
AC001 error
A line is not a message of JSON-RPC 2.0.
The SDK for TypeScript drops it, and answers with an error (-32700 or -32600). That for Python passes over what is not
 JSON; an array, or an id that is one, ends its connection: each request raises ConnectionError “Connection closed”.
 A request whose error is a text waits for ever.
agentclientprotocol/typescript-sdk, src/core/jsonrpc.ts: isResponseMessage; python-sdk, acp/connection.py:
 _receive_loop

AC002 error
A response is one to no request that waits: its id is another one, or it is the second.
The SDKs drop it without a word, and the request that it was meant for waits for ever. `1` and `"1"` are not the same.
agentclientprotocol/python-sdk, acp/connection.py: _handle_response

AC003 error
A field of a result is missing, or has another value than its method declares.
The SDK for Python raises ValidationError. Of what the protocol lets be wrong, as `usage` or a `modes` that cannot be
 read, or one of its options, it and that for TypeScript hand on nothing, without a word.
agentclientprotocol/python-sdk, acp/schema.py; agentclientprotocol/typescript-sdk, src/core/schema-deserialize.ts

AC004 error
A field of an update is missing, or has another value than ACP declares.
The SDKs drop the update, with an error in their log: text that the user never sees. Of what the protocol lets be wrong,
 as the `status` of a call, they hand on nothing, without a word.
agentclientprotocol/python-sdk, acp/connection.py: _run_notification; acp/schema.py: SessionNotification

AC005 error
A field of a request to the client is missing, or has another value than ACP declares.
The SDKs refuse it with “Invalid params” (-32602): no user is asked for a permission, and no file is read.
agentclientprotocol/python-sdk, acp/connection.py: _execute_request

AC006 warning
An update is of a kind, or a request of a method, that ACP does not have.
The SDKs drop such an update, with an error in their log, and refuse such a request with “Method not found” (-32601).
 What begins with `_` is an extension.
agentclientprotocol/python-sdk, acp/router.py: MessageRouter; acp/schema.py: SessionNotification

AC007 error
The agent ends before it has answered a request.
The request of the SDK for Python raises ConnectionError “Connection closed”.
agentclientprotocol/python-sdk, acp/connection.py: _disconnect
""",
    Lines,
    "acp",
)
