"""The shapes of the results, updates and requests of an agent, as `agent-client-protocol` 0.12 for
Python has them.

Those that begin with `on_` are updates. Of what its types and those of the SDK for TypeScript read
leniently, a wrong value is lost without a word: it has its default, and a wrong element is left
out.
"""

from __future__ import annotations

from recorder.lint.shape import Shapes

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
