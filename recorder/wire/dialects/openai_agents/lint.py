"""The rules of OpenAI's hosted agents: events by type, turns, and items that grow by deltas.

Must not know: other APIs, and where recordings come from.

The behaviour of openai-python 3.52 was read in its source and measured. It hands on whatever is
JSON, and gives each event the class of its type; `get_final_result` is what puts the answer of the
first turn together.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer, shown
from recorder.lint.hosted import SessionWalk
from recorder.lint.rule import Faults, rules
from recorder.lint.shape import Shapes
from recorder.lint.stream import StreamView
from recorder.wire.dialects.json_values import Object, names, object_, text, whole
from recorder.wire.dialects.openai_agents.decoder import AT_REST, FIELDS, RUNNING

# The shapes of the events, as openai 3.52 declares them. What an agent and its environment are made
# of is what their maker gave, and not judged. What a tool of MCP is given and returns, and its
# error, may be null, though they are declared as there.
SHAPES = Shapes("""\
event.error: event_id!:text session_id!:text error!:error obfuscation:text
event.agent.session.created,agent.session.idle,agent.session.in_progress,agent.session.requires_action,
 agent.session.failed: event_id!:text session!:session obfuscation:text
event.agent.session.turn.created,agent.session.turn.in_progress: event_id!:text session_id!:text turn_id!:text
 turn!:turn obfuscation:text
event.agent.session.turn.completed,agent.session.turn.failed,agent.session.turn.cancelled: event_id!:text
 session_id!:text turn_id!:text turn!:turn usage:usage obfuscation:text
event.agent.session.turn.item.added: event_id!:text session_id!:text turn_id:text item!:item output_index:whole
 obfuscation:text
event.agent.session.turn.item.done: event_id!:text session_id!:text turn_id:text item!:item output_index!:whole
 obfuscation:text
event.agent.session.turn.content_part.added,agent.session.turn.content_part.done: event_id!:text session_id!:text
 turn_id:text item_id!:text output_index!:whole content_index!:whole part!:part obfuscation:text
event.agent.session.turn.output_text.delta: event_id!:text session_id!:text turn_id:text item_id!:text
 output_index!:whole content_index!:whole delta!:text obfuscation:text
event.agent.session.turn.output_text.done: event_id!:text session_id!:text turn_id:text item_id!:text
 output_index!:whole content_index!:whole text!:text obfuscation:text
event.agent.session.turn.reasoning_summary_part.added: event_id!:text session_id!:text turn_id:text item_id!:text
 output_index!:whole summary_index!:whole part!:part obfuscation:text
event.agent.session.turn.reasoning_summary_part.done: event_id!:text session_id!:text turn_id:text item_id!:text
 output_index!:whole summary_index!:whole part!:part status:text obfuscation:text
event.agent.session.turn.reasoning_summary_text.delta: event_id!:text session_id!:text turn_id:text item_id!:text
 output_index!:whole summary_index!:whole delta!:text obfuscation:text
event.agent.session.turn.reasoning_summary_text.done: event_id!:text session_id!:text turn_id:text item_id!:text
 output_index!:whole summary_index!:whole text!:text obfuscation:text
event.agent.output.command_execution_output.delta: event_id!:text session_id!:text turn_id:text item_id!:text
 output_index!:whole delta!:text obfuscation:text
event.agent.session.subagent.created,agent.session.subagent.active,agent.session.subagent.closed: event_id!:text
 subagent!:subagent obfuscation:text
event.agent.session.environment.pending,agent.session.environment.ready,agent.session.environment.connected,
 agent.session.environment.disconnected,agent.session.environment.suspended,agent.session.environment.expired,
 agent.session.environment.failed: event_id!:text session_id!:text turn_id:text environment!:environment
 obfuscation:text
event.agent.session.environment.reset: event_id!:text session_id!:text turn_id:text environment_id!:text
 reset_count!:whole obfuscation:text
error: type!:text code:text message!:text param:text
session: id!:text object!:text status!:text agent!:agent created_at!:whole last_active_at!:whole metadata!:{text}
 required_actions!:[action] vault_ids!:[text] error:text usage:usage review:text
 prompt_cache_options:cache
agent: id!:text model!:text service_tier!:text name:text
cache: ttl!:text
turn: id!:text object!:text status!:text session_id!:text agent_id!:text subagent_id:text created_at!:whole
 started_at:whole completed_at:whole error:turn_error usage:usage prompt_cache_options:cache
turn_error: code!:text message!:text
usage: input_tokens!:whole input_tokens_details!:input_details output_tokens!:whole
 output_tokens_details!:output_details total_tokens!:whole
input_details: cached_tokens!:whole
output_details: reasoning_tokens!:whole
subagent: id!:text object!:text status!:text session_id!:text parent_agent_id!:text name:text opened_at!:whole
 closed_at:whole
environment: id!:text type!:text status!:text error:environment_error
environment_error: type!:text code!:text message!:text
part: type!:text text!:text
content.input_text,output_text: text!:text
content.input_image: image_url!:text
content.encrypted_content: encrypted_content!:text
item.message: id:text turn_id!:text role!:text status!:text content!:[content] phase:text
item.reasoning: id!:text turn_id!:text summary!:[part] status:text
item.function_call: id!:text turn_id!:text call_id!:text name!:text arguments!:any status!:text
item.function_call_output: id!:text turn_id!:text call_id!:text output:text|[content] error:text status!:text
item.agent_message: id!:text turn_id!:text content!:[content] sender_agent_id!:text recipient_agent_id!:text
item.mcp_call: id!:text turn_id!:text server_label!:text name!:text arguments:any output:any error:any status!:text
item.computer_use_call: id!:text turn_id!:text title:text output:screenshot status!:text
item.computer_use_approval_request: id!:text turn_id!:text request_id!:text request!:approval
item.computer_use_approval_request_result: id!:text turn_id!:text request_id!:text response!:approved
item.web_search_call: id!:text turn_id!:text action:search status!:text
item.command_execution: id!:text turn_id!:text command!:text cwd:text output:text exit_code:whole duration_ms:whole
 status!:text
item.create_subagent_call: id!:text turn_id!:text agent_id!:text content!:[content] model:text reasoning_effort:text
 status!:text
item.send_subagent_input_call: id!:text turn_id!:text content!:[content] sender_agent_id!:text
 recipient_agent_id!:text status!:text
item.resume_subagent_call,interrupt_subagent_call,close_subagent_call: id!:text turn_id!:text sender_agent_id!:text
 recipient_agent_id!:text status!:text
item.wait_for_subagents_call: id!:text turn_id!:text sender_agent_id!:text recipient_agent_ids!:[text] status!:text
screenshot: type!:text image_url!:text
search.search: query:text queries:[text]
search.open_page: url:text
search.find_in_page: pattern:text url:text
search.other:
approved.browser_authentication: action!:text
approval.browser_authentication: credential_origin:text reason:text fields!:[field] options!:[option]
approval.browser_origin_access: origin!:text reason:text
field: id!:text type!:text label!:text required!:truth
option: id!:text label!:text field_ids!:[text]
action.function_call: turn_id!:text call_id!:text name!:text arguments:any
action.mcp_approval_request: turn_id!:text request_id!:text request!:mcp_request
action.computer_use_approval_request: turn_id!:text request_id!:text request!:approval
action.environment_connection: environment_id!:text
mcp_request: type!:text server_label!:text name:text message!:text arguments:any
""")


_TURN = "agent.session.turn."
_ENDED = names("completed failed cancelled")


class Session(SessionWalk):
    """Follows the events of one session."""

    NO_EVENT, UNKNOWN, MISFIT, NO_REST = "OA001", "OA002", "OA003", "OA004"
    shapes, at_rest, running = SHAPES, AT_REST, RUNNING

    def __init__(self, stream: StreamView) -> None:
        super().__init__(stream)
        # of items that have begun here, by field and number
        self._texts: dict[str, dict[tuple[str, int], str]] = {}

    def event(self, pos: int, type: str, event: Object) -> Faults:
        _, _, what = type.rpartition(_TURN)
        of, _, step = what.rpartition(".")
        if "turn" in event:
            yield from self._turn(pos, what, event)
        elif of == "item":
            self._item(step, text(event, "item", "id") or "")
        elif of in FIELDS:
            field, place = FIELDS[of]
            yield from self._text(pos, (field, whole(event, place) or 0), event)

    def _turn(self, pos: int, state: str, event: Object) -> Faults:
        turn = object_(event, "turn")
        id, status = text(turn, "id"), text(turn, "status")
        if id is not None and id != text(event, "turn_id"):
            yield (
                "OA005",
                pos,
                f"turn_id is {shown(event.get('turn_id'))}, that of the turn {shown(id)}",
            )
        if state in _ENDED and status is not None and status != state:
            yield "OA005", pos, f"a turn that is {state} has the status {shown(status)}"
        if state == "completed" and not (event.get("usage") or turn.get("usage")):
            yield "OA007", pos, ""

    def _item(self, step: str, id: str) -> None:
        if step == "added":
            self._texts[id] = {}
        else:
            self._texts.pop(id, None)

    def _text(self, pos: int, place: tuple[str, int], event: Object) -> Faults:
        """Add a piece, or compare all of them with the whole."""
        pieces = self._texts.get(text(event, "item_id") or "")
        if pieces is None:
            return  # it began before the stream
        stated = text(event, "text")
        if stated is None:
            pieces[place] = pieces.get(place, "") + (text(event, "delta") or "")
        elif pieces.get(place, stated) != stated:
            yield "OA006", pos, f"{shown(stated)} is not {shown(pieces[place])}"


RULES = rules(
    """
OA001 error
The payload of an event is not an object with a text `type`.
openai-python makes an event of it without a type, and of an array a list: a program that chooses by
 the type loses the event, or stops with `AttributeError: 'list' object has no attribute 'type'`.
OpenAI API reference, Agents: session events; openai-python, _models.py: construct_type

OA002 warning
An event is of a type that the API does not have.
openai-python makes an event of another class of it, with that type: programs ignore it.
OpenAI API reference, Agents: session events; openai-python, _models.py: construct_type

OA003 error
A field of an event is missing, or has another type than the API declares.
openai-python hands it on unchecked: `get_final_result` stops with `AgentTurnResultError`, a program
 that adds up texts or tokens with `AttributeError` or `TypeError`.
OpenAI API reference, Agents: session events; openai-python, types/beta and lib/beta/agents/_result.py

OA004 error
The stream ends while the session runs, without an error.
`get_final_result` of openai-python raises `AgentTurnResultError: Could not collect the agent turn
 result: incomplete`; a program that reads up to `agent.session.idle` takes half a turn for a whole one.
openai-python, lib/beta/agents/_result.py: AgentTurnResultCollector

OA005 error
An event of a turn has another `turn_id` than the turn, or a turn that has another status than it says.
The turn does not end for `get_final_result` of openai-python, which raises `AgentTurnResultError`.
openai-python, lib/beta/agents/_result.py: AgentTurnResultCollector

OA006 warning
A whole text is not what its deltas were.
Clients that show the deltas show another text than the one that `get_final_result` gives.
openai-python, lib/beta/agents/_result.py: AgentTurnResultCollector

OA007 warning
A turn that is completed has no usage.
Clients count no tokens.
OpenAI API reference, Agents: turns
""",
    of_answer(Session),
    "openai-agents",
)
