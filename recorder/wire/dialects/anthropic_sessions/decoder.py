"""The events of a session of Claude Managed Agents → facts.

An event is whole, and has an id; only a message may be shown before, in pieces that are no part of
the session's history (`event_start`, `event_delta`). A turn has no event of its own: it begins when
the agent runs, after what a user sends, and ends when the session is idle. Sub-agents have streams
of their own; that of the session says that they began, what they are told and tell, how they end,
and which of their calls wait for the client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from recorder.model.facts import (
    Fact,
    ItemFinished,
    ItemStarted,
    ItemState,
    ResponseFinished,
    TextAdded,
    ToolResult,
    Usage,
)
from recorder.wire.dialects.anthropic.blocks import output_of
from recorder.wire.dialects.decoder import Content, Facts, failed, unknown
from recorder.wire.dialects.hosted_session import (
    TURN,
    HostedDecoder,
    numbered,
    progress,
    summed,
    whole_item,
)
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    flag,
    names,
    object_,
    objects,
    text,
    whole,
)
from recorder.wire.dialects.media import without_bytes
from recorder.wire.dialects.usage_report import token_count

MESSAGE, THINKING, IDLE, DELETED = (
    "agent.message",
    "agent.thinking",
    "session.status_idle",
    "session.deleted",
)

AT_REST = names("session.status_idle session.status_terminated")
RUNNING = names("session.status_running session.status_rescheduled")

_ROLES = {MESSAGE: "assistant", "user.message": "user", "system.message": "system"}
_CALL_IDS = ("tool_use_id", "mcp_tool_use_id", "custom_tool_use_id")
_VERDICTS: Mapping[str, Literal["incomplete", "failed"]] = {
    "retries_exhausted": "failed",
    "terminated": "failed",
    "budget_reached": "incomplete",
}
_FINAL = ("exhausted", "terminal")
"""The retries of an error that has an effect on the session: after any other the provider tries
again.
"""


class ManagedAgentsDecoder(HostedDecoder):
    """Follows the events of one session, or of one thread of it."""

    about = names("id type agent_name name source media_type title")

    def __init__(self) -> None:
        super().__init__()
        self._turns = 0
        self._is_in_turn = False
        self._turn_usage: list[Usage] = []
        self._previews: set[str] = set()  # messages of which pieces came, and not the whole
        # messages that were begun: one that begins again is not told again
        self._shown: set[str] = set()

    def id_of(self, event: Object) -> str | None:
        return text(event, "id")

    def texts_in(self, event: Object) -> Iterable[Content]:
        if (text(event, "type") or "") not in EVENTS:
            return (("", event),)
        return [
            (name, event[name])
            for name in ("content", "description", "explanation")
            if name in event
        ]

    def tell(self, type: str, event: Object) -> Facts:
        handle = EVENTS.get(type)
        return (unknown(type),) if handle is None else handle(self, type, event)

    def listed(self, each: Object) -> Facts:
        """Decode an event of a list.

        What a client posts may be the result of a call that came before, in the stream.
        """
        id, call_id = text(each, "id") or "", text(each, "custom_tool_use_id")
        if call_id is None or call_id in self._seen:
            return super().listed(each)
        output = output_of(each.get("content"))
        type = text(each, "type") or ""
        return whole_item(id, ItemState("other", type, item_id=id, call_id=call_id, output=output))

    def about_session(self, session: Object) -> Facts:
        return self._begun(None, text(session, "agent", "model", "id"))

    # -- turns

    def _turn(self) -> Facts:
        """Begin a turn, unless one has begun."""
        if self._is_in_turn:
            return ()
        self._is_in_turn = True
        self._turns += 1
        self._turn_usage = []
        return (ItemStarted(self._turn_key, None, ItemState("other", TURN)),)

    @property
    def _turn_key(self) -> str:
        return f"{TURN} {self._turns}"

    def _on_running(self, type: str, event: Object) -> Facts:
        return self._turn()

    def _on_idle(self, type: str, event: Object) -> Facts:
        reason = text(event, "stop_reason", "type") or "idle"
        facts = self._stopped(reason)
        self._is_in_turn = reason == "requires_action"
        return facts

    def _on_terminated(self, type: str, event: Object) -> Facts:
        facts = self._stopped("terminated")
        self._is_in_turn = False
        return facts

    def _stopped(self, reason: str) -> Facts:
        """End the turn, perhaps only until the client has answered."""
        facts: list[Fact] = [*self._turn()]
        spent = summed(self._turn_usage)
        told = {
            name: count
            for name in Usage.__struct_fields__
            if (count := getattr(spent, name)) is not None
        }
        ended = ItemState("other", TURN, status=reason, output=as_json(told) if told else None)
        facts += self._closed_previews()
        facts.append(ItemFinished(self._turn_key, None, ended))
        facts.append(ResponseFinished(reason, _VERDICTS.get(reason)))
        return facts

    # -- messages

    def _on_message(self, type: str, event: Object) -> Facts:
        """Take a message; the pieces of it that were shown before are only repeated."""
        id = text(event, "id") or ""
        parts = objects(event, "content")
        stated = ItemState(
            "message",
            type,
            item_id=id,
            role=_ROLES[type],
            status="completed",
            texts=numbered(parts),
        )
        facts: list[Fact] = [*self._turn()] if type == MESSAGE else []
        if id in self._previews:
            facts.append(ItemFinished(id, None, stated))
        else:
            facts += whole_item(id, stated)
        self._previews.discard(id)
        self._shown.add(id)
        for number, part in enumerate(parts):
            if text(part, "type") != "text":
                shown = ItemState(
                    "other", text(part, "type") or "", status="completed", output=_shown(part)
                )
                facts += whole_item(f"{id}.{number}", shown)
        return facts

    def _on_thinking(self, type: str, event: Object) -> Facts:
        """Note that the agent thinks: the stream does not say what."""
        id = text(event, "id") or ""
        stated = ItemState("reasoning", type, item_id=id, status="completed")
        was_shown = id in self._previews
        self._previews.discard(id)
        return [ItemFinished(id, None, stated)] if was_shown else whole_item(id, stated)

    def _on_preview(self, type: str, event: Object) -> Facts:
        id, shown = text(event, "event", "id") or "", text(event, "event", "type") or ""
        if shown not in (MESSAGE, THINKING):
            return (unknown(f"{type} of {shown}"),)
        if id in self._shown or id in self._seen:
            return ()
        self._shown.add(id)
        self._previews.add(id)
        if shown == THINKING:
            return (ItemStarted(id, None, ItemState("reasoning", shown, item_id=id)),)
        return (ItemStarted(id, None, ItemState("message", shown, item_id=id, role=_ROLES[shown])),)

    def _on_delta(self, type: str, event: Object) -> Facts:
        id, delta = text(event, "event_id") or "", object_(event, "delta")
        added = text(delta, "content", "text")
        if added is None or text(delta, "type") != "content_delta":
            return (unknown(f"{type} {text(delta, 'type')}"),)
        is_repeated = id in self._shown and id not in self._previews
        return (
            ()
            if is_repeated or not added
            else (TextAdded(id, "text", whole(delta, "index") or 0, added),)
        )

    def _closed_previews(self) -> Facts:
        """End what was shown and is not to come: the request to the model broke off."""
        facts = []
        for id in sorted(self._previews):
            facts.append(
                ItemFinished(
                    id, None, ItemState("message", MESSAGE, item_id=id, status="incomplete")
                )
            )
        self._previews.clear()
        return facts

    # -- tools

    def _on_call(self, type: str, event: Object) -> Facts:
        id = text(event, "id")
        given = object_(event, "input")
        stated = ItemState(
            "tool_call",
            type,
            item_id=id,
            status="completed",
            name=text(event, "name"),
            call_id=id,
            texts=(("arguments", 0, as_json(given)),),
            thread_id=text(event, "session_thread_id"),
        )
        facts = [*self._turn(), *whole_item(id or "", stated)]
        permission = text(event, "evaluated_permission")
        if permission in ("ask", "deny"):
            facts.append(progress(type, permission, event, ("id", "evaluation")))
        return facts

    def _on_result(self, type: str, event: Object) -> Facts:
        return (
            ToolResult(
                call_id_of(event), None, output_of(event.get("content")), flag(event, "is_error")
            ),
        )

    def _on_confirmation(self, type: str, event: Object) -> Facts:
        return (progress(type, text(event, "result"), event, ("tool_use_id", "deny_message")),)

    # -- tokens

    def _on_request_end(self, type: str, event: Object) -> Facts:
        facts = self._closed_previews() if flag(event, "is_error") else ()
        return (*facts, *self._used(event, "model_usage"))

    def _used(self, event: Object, name: str) -> Facts:
        """Add the tokens of one request to a model, which leave out those of its cache."""
        given = object_(event, name)
        if not given:
            return ()
        read, written = (
            token_count(given, "cache_read_input_tokens"),
            token_count(given, "cache_creation_input_tokens"),
        )
        fresh, output = token_count(given, "input_tokens"), token_count(given, "output_tokens")
        all_input = None if fresh is None else fresh + (read or 0) + (written or 0)
        usage = Usage(
            input_tokens=all_input,
            cache_read_input_tokens=read,
            cache_write_input_tokens=written,
            output_tokens=output,
            total_tokens=None if all_input is None or output is None else all_input + output,
        )
        self._turn_usage.append(usage)
        return (self.spent(text(event, "id") or "", usage, given),)

    # -- sub-agents, outcomes, workflows: items whose state changes

    def _on_thread(self, type: str, event: Object) -> Facts:
        """Tell the state of a sub-agent: its thread is one item."""
        id = text(event, "session_thread_id")
        state = type.removeprefix("session.thread_").removeprefix("status_")
        status = text(event, "stop_reason", "type") or state
        stated = ItemState(
            "other",
            "thread",
            item_id=id,
            status=status,
            name=text(event, "agent_name"),
            call_id=id,
            thread_id=id,
        )
        return self._changed(f"thread {id}", stated)

    def _on_told(self, type: str, event: Object) -> Facts:
        """Take what one agent tells another. It stands with the thread of the other one."""
        id = text(event, "id") or ""
        side = "to" if type.endswith("sent") else "from"
        stated = ItemState(
            "message",
            type,
            item_id=id,
            role=f"{side} {text(event, f'{side}_agent_name') or 'the primary agent'}",
            status="completed",
            texts=numbered(objects(event, "content")),
            thread_id=text(event, f"{side}_session_thread_id"),
        )
        return [*self._turn(), *whole_item(id, stated)]

    def _on_outcome(self, type: str, event: Object) -> Facts:
        id = text(event, "outcome_id")
        texts = numbered([{"text": event.get("description")}])
        rest = {
            name: event[name]
            for name in ("rubric", "max_iterations")
            if event.get(name) is not None
        }
        stated = ItemState(
            "other", type, item_id=id, status="completed", texts=texts, output=as_json(rest)
        )
        return whole_item(text(event, "id") or "", stated)

    def _on_evaluation(self, type: str, event: Object) -> Facts:
        """Tell a verdict on an outcome, whose tokens count too."""
        id = text(event, "id") or ""
        texts = numbered([{"text": event.get("explanation")}])
        stated = ItemState("other", type, item_id=id, status=text(event, "result"), texts=texts)
        return [*whole_item(id, stated), *self._used(event, "usage")]

    def _on_workflow(self, type: str, event: Object) -> Facts:
        id = text(event, "workflow_run_id")
        state = type.removeprefix("workflow_run.").removeprefix("status_")
        result = object_(event, "result")
        told = result if result else event.get("error") or event.get("phases")
        stated = ItemState(
            "other",
            "workflow_run",
            item_id=id,
            status=text(result, "type") or state,
            name=text(event, "name"),
            texts=numbered([{"text": event.get("description")}]),
            output=None if told is None else as_json(told),
        )
        return self._changed(f"workflow {id}", stated)

    def _changed(self, key: str, stated: ItemState) -> Facts:
        """Tell an item as it is now."""
        if key in self._shown:
            return (ItemFinished(key, None, stated),)
        self._shown.add(key)
        return whole_item(key, stated)

    # -- what happens besides

    def _on_error(self, type: str, event: Object) -> Facts:
        if text(event, "error", "retry_status", "type") in _FINAL:
            return (failed(event),)
        return (progress(type, text(event, "error", "type"), event, ("error",)),)

    def _on_updated(self, type: str, event: Object) -> Facts:
        return self._begun(None, text(event, "agent", "model", "id"))

    def _on_step(self, type: str, event: Object) -> Facts:
        return (progress(type, type.rpartition(".")[2], event, _TOLD),)


_TOLD = (
    "usage",
    "budget",
    "iteration",
    "outcome_id",
    "workflow_run_id",
    "workflow_run_phase_id",
    "session_thread_id",
)


def call_id_of(event: Object) -> str | None:
    """Return the id of the call that a result is of."""
    return next(filter(None, (text(event, name) for name in _CALL_IDS)), None)


def _shown(part: Object) -> str:
    return as_json(without_bytes(part))


_Handler = Callable[[Any, str, Object], Facts]

_D = ManagedAgentsDecoder
EVENTS: Mapping[str, _Handler] = {
    **dict.fromkeys(_ROLES, _D._on_message),
    **dict.fromkeys(("agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use"), _D._on_call),
    **dict.fromkeys(names("agent.tool_result agent.mcp_tool_result"), _D._on_result),
    **dict.fromkeys(names("user.tool_result user.custom_tool_result"), _D._on_result),
    **dict.fromkeys(names("agent.thread_message_sent agent.thread_message_received"), _D._on_told),
    **dict.fromkeys(
        names("""
        session.thread_created session.thread_status_running session.thread_status_idle
        session.thread_status_rescheduled session.thread_status_terminated
        """),
        _D._on_thread,
    ),
    **dict.fromkeys(
        names("""
        workflow_run.created workflow_run.status_running workflow_run.status_idle workflow_run.status_ended
        workflow_run.error
        """),
        _D._on_workflow,
    ),
    **dict.fromkeys(
        names("""
        user.interrupt agent.thread_context_compacted session.status_rescheduled session.usage session.deleted
        span.model_request_start span.outcome_evaluation_start span.outcome_evaluation_ongoing
        workflow_run.phase_started workflow_run.phase_ended
        """),
        _D._on_step,
    ),
    THINKING: _D._on_thinking,
    "event_start": _D._on_preview,
    "event_delta": _D._on_delta,
    "user.tool_confirmation": _D._on_confirmation,
    "user.define_outcome": _D._on_outcome,
    "span.model_request_end": _D._on_request_end,
    "span.outcome_evaluation_end": _D._on_evaluation,
    "session.error": _D._on_error,
    "session.updated": _D._on_updated,
    "session.status_running": _D._on_running,
    IDLE: _D._on_idle,
    "session.status_terminated": _D._on_terminated,
}
