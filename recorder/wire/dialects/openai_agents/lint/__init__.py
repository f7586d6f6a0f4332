"""The rules of OpenAI's hosted agents: events by type, turns, and items that grow by deltas.

Must not know: other APIs, and where recordings come from.

The behaviour of openai-python 3.52 was read in its source and measured. It hands on whatever is
JSON, and gives each event the class of its type; `get_final_result` is what puts the answer of the
first turn together.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer
from recorder.lint.rule import rules
from recorder.wire.dialects.openai_agents.lint.session import Session

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
