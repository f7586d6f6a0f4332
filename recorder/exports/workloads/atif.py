"""A session as trajectories of ATIF, Harbor's Agent Trajectory Interchange Format: a JSON object
for each agent.

Rules of this file:

* A thread of the session is a trajectory. Those of sub-agents are embedded in that of the agent
  which began them, and the result of the call which began one refers to it.
* An exchange is one step of the agent, with the results of its calls as its observation. Before it
  stand the messages of others that are new in its request. Steps of an agent before the first
  exchange are copied context.
* Texts are those of the log. What has no place in a trajectory is counted by what it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from recorder.exports.chat.conversation import INPUT, ChatConversation, Message
from recorder.exports.chat.lines import chat_of
from recorder.exports.workloads.turns import AnsweredRequest, conversations, load_answered
from recorder.model.events import Session
from recorder.model.text import counted
from recorder.projections.rows import ItemRow
from recorder.recordings.selection import Numbered
from recorder.store.queries.reader import LogReader
from recorder.wire.dialects import by_name
from recorder.wire.dialects.json_values import as_json, decoded_or_none

SCHEMA_VERSION = "ATIF-v1.8"
"""The newest that Harbor 0.26 reads."""

Json = dict[str, Any]

_CONVERSED = (None, "turn", "subagent")  # what an exchange is for, if it is of a conversation
_UNKNOWN = "unknown"
_PICTURES, _ALTERNATIVES = "pictures", "alternative answers"
_MEDIA = ("audio", "videos", "files", "search results", "images without bytes")
"""The losses of chat messages that are losses here, too: reasoning and tools of the provider are in
a trajectory.
"""


class AtifExport:
    """The trajectories of a session, and afterwards remarks about them."""

    def __init__(self, log: LogReader, session: Session, chosen: Sequence[Numbered]) -> None:
        self._log, self._session, self._chosen = log, session, chosen
        self._remarks: list[str] = []

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield a trajectory a line, mostly one. Raises `NotFoundError` if no agent answered."""
        known = await load_answered(self._log, self._session, self._chosen)
        requests = known.only("agent", _is_of_agent, "of no conversation")
        self._remarks += known.remarks()
        trajectories = [Trajectory(each, self._session) for each in _threads(requests)]
        agents = _nested(trajectories)
        for agent in agents:
            yield as_json(agent.document()).encode() + b"\n"
        if len(agents) > 1:
            self._remarks.append(
                f"{counted(len(agents), 'agent')} without a common beginning: a trajectory a line."
            )
        losses = sum((each.losses for each in trajectories), Counter[str]())
        if losses:
            lost = ", ".join(f"{noun} ({count:,})" for noun, count in losses.most_common())
            self._remarks.append(f"Trajectories do not hold: {lost}.")

    def remarks(self) -> Iterator[str]:
        """Yield sentences about what was left out and lost."""
        yield from self._remarks


def _is_of_agent(request: AnsweredRequest) -> bool:
    return request.row.purpose in _CONVERSED and bool(request.answer.items)


def _threads(requests: Sequence[AnsweredRequest]) -> list[list[AnsweredRequest]]:
    """Return the requests of each agent: of a thread of the client, or of a conversation where it
    names none.
    """
    threads: dict[str, list[AnsweredRequest]] = {}
    for number, conversation in enumerate(conversations(requests), 1):
        name = conversation[0].exchange.thread_id or f"{number}"
        threads.setdefault(name, []).extend(conversation)
    return [sorted(each, key=lambda request: request.number) for each in threads.values()]


def _nested(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Embed the trajectories of sub-agents where they were begun, and return the others."""
    agents: list[Trajectory] = []
    for trajectory in trajectories:
        caller = next(
            (each for each in trajectories if each is not trajectory and each.refer_to(trajectory)),
            None,
        )
        if caller is None and trajectory.is_subagent and agents:
            caller = agents[0]
        if caller is None:
            agents.append(trajectory)
        else:
            caller.subagents.append(trajectory)
    return agents


class Trajectory:
    """The steps of one agent. `losses` counts what they do not have, by noun."""

    def __init__(self, requests: Sequence[AnsweredRequest], session: Session) -> None:
        self._first, self._session = requests[0], session
        self.subagents: list[Trajectory] = []
        self.losses = Counter[str]()
        self._steps: list[Json] = []
        self._results: dict[str, Json] = {}  # by the id of the call
        self._cost_usd: Decimal | None = None
        self._tools: list[Json] = []
        self._begun_with = ""
        for request in requests:
            if request.asked is not None:
                self._ask(request, chat_of(*request.asked))
            self._answer(request)

    @property
    def id(self) -> str:
        """Return the thread, or the exchange that began it."""
        return self._first.exchange.thread_id or self._first.exchange.exchange_id

    @property
    def is_subagent(self) -> bool:
        return self._first.row.purpose == "subagent" or self._first.row.parent_thread_id is not None

    # -- what an exchange adds

    def _ask(self, request: AnsweredRequest, chat: ChatConversation) -> None:
        """Add the messages that are new in a request: in a later one those after the last answer
        that it repeats.
        """
        self._tools = chat.tools or self._tools
        self.losses |= Counter({noun: chat.losses[noun] for noun in _MEDIA if chat.losses[noun]})
        messages = chat.messages
        answers = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
        if self._steps and answers:
            messages = messages[answers[-1] + 1 :]
        for message in messages:
            self._add_message(message, _time(request.started_ns))

    def _add_message(self, message: Message, timestamp: str) -> None:
        role, text = message["role"], self._text_of(message["content"])
        if role == "tool":
            result = self._results.get(message["tool_call_id"])
            if result is not None:
                result.setdefault("content", text)
            return
        if role != "assistant":
            source = "user" if role == "user" else "system"
            self._begun_with = self._begun_with or (text if source == "user" else "")
            self._add({"timestamp": timestamp, "source": source, "message": text})
            return
        calls = [
            _call(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls", ())
        ]
        self._add({"source": "agent", "message": text, "is_copied_context": True}, calls)

    def _answer(self, request: AnsweredRequest) -> None:
        """Add the step of the agent."""
        answer = request.answer
        texts: list[str] = []
        reasoning: list[str] = []
        calls: list[Json] = []
        for item in answer.items:
            if item.output_index and by_name(answer.exchange.api).has_choices:
                self.losses[_ALTERNATIVES] += 1
            elif item.kind == "reasoning":
                reasoning += filter(None, (item.summary_text, item.text))
            elif item.kind == "message" and item.role != "user":
                texts += filter(None, (item.text, item.refusal))
            elif item.kind == "tool_call":
                calls.append(_call(_id_of(item), item.name or item.type, item.arguments))
        step: Json = {
            "timestamp": _time(request.started_ns),
            "source": "agent",
            "model_name": answer.row.response_model or answer.row.request_model,
            "message": "\n\n".join(texts),
            "reasoning_content": "\n\n".join(reasoning) or None,
            "metrics": self._metrics(request),
            "llm_call_count": 1,
            "extra": {"exchange_id": request.exchange.exchange_id, "exchange": request.number},
        }
        self._add(step, calls)
        for item in answer.items:
            result = answer.answers.get(item.item)
            if result is not None and _id_of(item) in self._results:
                self._results[_id_of(item)]["content"] = result.output

    def _metrics(self, request: AnsweredRequest) -> Json | None:
        usage, cost = request.answer.usage, request.answer.cost
        usd = None if cost is None or cost.usd is None else Decimal(cost.usd)
        if usd is not None:
            self._cost_usd = usd + (self._cost_usd or 0)
        details = {
            name: getattr(usage, name)
            for name in ("reasoning_output_tokens", "cache_write_input_tokens")
        }
        metrics = _known(
            prompt_tokens=usage.input_tokens,
            completion_tokens=usage.output_tokens,
            cached_tokens=usage.cache_read_input_tokens,
            cost_usd=None if usd is None else float(usd),
            extra=_known(**details) or None,
        )
        return metrics or None

    def _text_of(self, content: Any) -> str:
        """Return the text of a chat message.

        Trajectories refer to pictures by a file, and there is none.
        """
        if not isinstance(content, list):
            return content or ""
        texts = [part["text"] for part in content if part["type"] == "text"]
        self.losses[_PICTURES] += len(content) - len(texts)
        return "\n\n".join(texts)

    def _add(self, step: Json, calls: Sequence[Json] = ()) -> None:
        results = {call["tool_call_id"]: {"source_call_id": call["tool_call_id"]} for call in calls}
        self._results |= results
        step["step_id"] = len(self._steps) + 1
        if calls:
            step |= {"tool_calls": list(calls), "observation": {"results": list(results.values())}}
        self._steps.append(_known(**step))

    # -- sub-agents

    def refer_to(self, other: Trajectory) -> bool:
        """Refer to the trajectory of a sub-agent from the call that began it; return whether there
        is one.

        Its task is in the arguments, or the result names its thread.
        """
        for step in self._steps:
            for call in step.get("tool_calls", ()):
                result = self._results[call["tool_call_id"]]
                if "subagent_trajectory_ref" not in result and other.is_begun_by(call, result):
                    result["subagent_trajectory_ref"] = [{"trajectory_id": other.id}]
                    return True
        return False

    def is_begun_by(self, call: Json, result: Json) -> bool:
        """Return whether a call began this agent."""
        thread = self._first.exchange.thread_id
        if thread is not None and thread in result.get("content", ""):
            return True
        told = [value.strip() for value in call["arguments"].values() if isinstance(value, str)]
        return bool(self._begun_with) and self._begun_with.strip() in told

    # -- all of it

    def document(self) -> Json:
        """Return the trajectory as JSON, with those of its sub-agents."""
        for step in self._steps:
            _drop_unanswered(step)
        exchange = self._first.exchange
        agent = _known(
            name=exchange.client or _UNKNOWN,
            version=exchange.client_version or _UNKNOWN,
            model_name=next(
                (step["model_name"] for step in self._steps if "model_name" in step), None
            ),
            tool_definitions=self._tools or None,
        )
        return _known(
            schema_version=SCHEMA_VERSION,
            session_id=self._session.session_id,
            trajectory_id=self.id,
            agent=agent,
            steps=self._steps,
            final_metrics=self._final_metrics(),
            subagent_trajectories=[each.document() for each in self.subagents] or None,
        )

    def _final_metrics(self) -> Json:
        metrics = [step["metrics"] for step in self._steps if "metrics" in step]
        totals = {}
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
            counts = [each[name] for each in metrics if name in each]
            totals[f"total_{name}"] = sum(counts) if counts else None
        cost_usd = self.cost_usd()
        total_usd = None if cost_usd is None else float(cost_usd)
        return _known(**totals, total_cost_usd=total_usd, total_steps=len(self._steps))

    def cost_usd(self) -> Decimal | None:
        """Return the known cost, with that of sub-agents."""
        costs = [self._cost_usd, *(each.cost_usd() for each in self.subagents)]
        known = [each for each in costs if each is not None]
        return sum(known, Decimal()) if known else None


def _id_of(item: ItemRow) -> str:
    """Return the id of a call: formats without one find a result by the key."""
    return item.call_id or item.call_key or f"{item.exchange_id}:{item.item}"


def _call(id: str, name: str, arguments: str | None) -> Json:
    """Return a call. Arguments are an object: text that is none is a member of it."""
    value = decoded_or_none((arguments or "{}").encode())
    return {
        "tool_call_id": id,
        "function_name": name,
        "arguments": value if isinstance(value, dict) else {INPUT: arguments},
    }


def _drop_unanswered(step: Json) -> None:
    """Drop the results of calls that have none."""
    if "observation" not in step:
        return
    results = [each for each in step["observation"]["results"] if len(each) > 1]
    if results:
        step["observation"] = {"results": results}
    else:
        del step["observation"]


def _known(**members: Any) -> Json:
    return {name: value for name, value in members.items() if value is not None}


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat()
