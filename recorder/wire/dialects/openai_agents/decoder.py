"""The events of a session of OpenAI's hosted agents → facts.

Each has an id, and says its turn and its item. An item grows by deltas, as in the Responses API,
and ends as a whole; a turn ends with the tokens that it took. A turn of a sub-agent names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from recorder.model.facts import (
    Fact,
    Field,
    ItemFinished,
    ItemKind,
    ItemStarted,
    ItemState,
    ResponseFinished,
    TextAdded,
    TextFinished,
    ToolResult,
    Usage,
)
from recorder.wire.dialects.decoder import Content, Facts, unknown
from recorder.wire.dialects.hosted_session import (
    TURN,
    HostedDecoder,
    error_in,
    numbered,
    progress,
    whole_item,
)
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    names,
    object_,
    objects,
    places,
    text,
    text_or_json,
    whole,
)
from recorder.wire.dialects.media import without_bytes
from recorder.wire.dialects.usage_report import counts_at

RESULT = "function_call_output"
AT_REST = names("agent.session.idle agent.session.requires_action agent.session.failed")
RUNNING = names("agent.session.in_progress agent.session.turn.created")

_KINDS: Mapping[str, ItemKind] = {
    "message": "message",
    "agent_message": "message",
    "reasoning": "reasoning",
    "computer_use_approval_request": "other",
    "computer_use_approval_request_result": "other",
    **dict.fromkeys(
        names("function_call mcp_call web_search_call command_execution computer_use_call"),
        "tool_call",
    ),
    **dict.fromkeys(
        names("""
        create_subagent_call send_subagent_input_call resume_subagent_call wait_for_subagents_call
        interrupt_subagent_call close_subagent_call
        """),
        "tool_call",
    ),
}
_ABOUT_A_CALL = names(
    "id type status turn_id call_id name output error arguments exit_code duration_ms"
)
_COUNTS = places("""
input_tokens input_tokens
cache_read_input_tokens input_tokens_details.cached_tokens
output_tokens output_tokens
reasoning_output_tokens output_tokens_details.reasoning_tokens
total_tokens total_tokens
""")
_VERDICTS: Mapping[str, Literal["incomplete", "failed"]] = {
    "failed": "failed",
    "cancelled": "incomplete",
}
FIELDS: Mapping[str, tuple[Field, str]] = {
    "output_text": ("text", "content_index"),
    "reasoning_summary_text": ("summary", "summary_index"),
    "command_execution_output": ("output", ""),
}
"""By what a delta is of, the field of its item, and the member that numbers its part."""


class HostedAgentsDecoder(HostedDecoder):
    """Follows the events of one session."""

    about = names("type phase role")

    def __init__(self) -> None:
        super().__init__()
        self._open: set[str] = set()  # items that have begun
        self._threads: dict[str, str] = {}  # by turn, the sub-agent that it is of

    def id_of(self, event: Object) -> str | None:
        return text(event, "event_id")

    def texts_in(self, event: Object) -> Iterable[Content]:
        if (text(event, "type") or "") not in EVENTS:
            return (("", event),)
        given = [
            ("item.content", object_(event, "item").get("content")),
            ("delta", event.get("delta")),
        ]
        return [*given, ("text", event.get("text"))]

    def tell(self, type: str, event: Object) -> Facts:
        handle = EVENTS.get(type)
        return (unknown(type),) if handle is None else handle(self, type, event)

    def about_session(self, session: Object) -> Facts:
        agent = object_(session, "agent")
        return (
            *self._begun(None, text(agent, "model")),
            *self._served_at(text(agent, "service_tier")),
        )

    def listed(self, each: Object) -> Facts:
        """Decode a turn or an item of a list."""
        if each.get("object") == "agent.session.turn":
            return self._turn(each, "ended", {"turn": each})
        return (
            self._item(each, None, is_over=True) if text(each, "type") in {*_KINDS, RESULT} else ()
        )

    # -- the session, and its turns

    def _on_session(self, type: str, event: Object) -> Facts:
        session, state = object_(event, "session"), type.rpartition(".")[2]
        facts: list[Fact] = [*self.about_session(session)]
        if state == "failed":
            error = error_in(session)
            facts += [] if error is None else [error]
        # their turns go on when the client has answered
        waiting = [text(action, "turn_id") for action in objects(session, "required_actions")]
        for id in dict.fromkeys(waiting):
            facts += self._turn({"id": id}, state, {})
        if state in ("idle", "requires_action", "failed"):
            facts.append(ResponseFinished(state, _VERDICTS.get(state)))
        return facts

    def _on_turn(self, type: str, event: Object) -> Facts:
        return self._turn(object_(event, "turn"), type.rpartition(".")[2], event)

    def _turn(self, turn: Object, state: str, event: Object) -> Facts:
        id = text(turn, "id") or text(event, "turn_id") or ""
        thread = text(turn, "subagent_id") or self._threads.get(id)
        if thread is not None:
            self._threads[id] = thread
        key = f"{TURN} {id}"
        facts: list[Fact] = []
        if key not in self._open:
            self._open.add(key)
            facts.append(
                ItemStarted(key, None, ItemState("other", TURN, item_id=id, thread_id=thread))
            )
        if state in ("created", "in_progress"):
            return facts
        usage = object_(event, "usage") or object_(turn, "usage")
        status = text(turn, "status") or state
        output = as_json(usage) if usage else None
        stated = ItemState(
            "other", TURN, item_id=id, status=status, output=output, thread_id=thread
        )
        facts.append(ItemFinished(key, None, stated))
        if usage:
            facts.append(self.spent(id, Usage(**counts_at(usage, _COUNTS)), usage))
        error = error_in(turn)
        if error is not None:
            facts.append(error)
        if status == "cancelled":
            facts.append(ResponseFinished(status, "incomplete"))
        return facts

    # -- items

    def _on_item(self, type: str, event: Object) -> Facts:
        return self._item(
            object_(event, "item"), whole(event, "output_index"), is_over=type.endswith("done")
        )

    def _item(self, item: Object, index: int | None, *, is_over: bool) -> Facts:
        type, id = text(item, "type") or "", text(item, "id") or ""
        if type == RESULT:
            output = item.get("output")
            error = text(item, "error")
            returned = text_or_json(without_bytes(output)) if output is not None else error or ""
            return (ToolResult(text(item, "call_id"), None, returned, error is not None or None),)
        if type not in _KINDS:
            return (unknown(type),)
        stated = self._stated(type, item)
        is_whole = is_over or text(item, "role") == "user" or type == "agent_message"
        if id in self._open:
            return (ItemFinished(id, index, stated),) if is_whole else ()
        self._open.add(id)
        begun = ItemState(
            stated.kind,
            type,
            item_id=id,
            role=stated.role,
            name=stated.name,
            call_id=stated.call_id,
            thread_id=stated.thread_id,
        )
        first = ItemStarted(id, index, begun)
        return (first, ItemFinished(id, index, stated)) if is_whole else (first,)

    def _stated(self, type: str, item: Object) -> ItemState:
        kind = _KINDS[type]
        error = item.get("error")
        output = item.get("output") if item.get("output") is not None else error
        code = whole(item, "exit_code")
        is_call = kind == "tool_call"
        sender = text(item, "sender_agent_id") if type == "agent_message" else None
        return ItemState(
            kind=kind,
            type=type,
            item_id=text(item, "id"),
            role=f"from {sender}" if sender else text(item, "role"),
            phase=text(item, "phase"),
            status=text(item, "status") or "completed",
            name=(text(item, "name") or type.removesuffix("_call")) if is_call else None,
            call_id=(text(item, "call_id") or text(item, "id")) if is_call else None,
            texts=_texts(kind, item),
            output=None
            if output is None or kind != "tool_call"
            else text_or_json(without_bytes(output)),
            failed=bool(error is not None or code) if is_call and output is not None else None,
            thread_id=self._threads.get(text(item, "turn_id") or ""),
        )

    def _on_delta(self, type: str, event: Object) -> Facts:
        field, place = FIELDS[type.split(".")[-2]]
        added, key = text(event, "delta"), text(event, "item_id") or ""
        return (TextAdded(key, field, whole(event, place) or 0, added),) if added else ()

    def _on_text(self, type: str, event: Object) -> Facts:
        field, place = FIELDS[type.split(".")[-2]]
        stated, key = text(event, "text") or "", text(event, "item_id") or ""
        return (TextFinished(key, field, whole(event, place) or 0, stated),)

    # -- what is around them

    def _on_subagent(self, type: str, event: Object) -> Facts:
        subagent = object_(event, "subagent")
        id = text(subagent, "id")
        stated = ItemState(
            "other",
            "subagent",
            item_id=id,
            status=text(subagent, "status"),
            name=text(subagent, "name"),
            call_id=id,
            texts=numbered(objects(subagent, "instructions")),
            thread_id=id,
        )
        key = f"subagent {id}"
        if key in self._open:
            return (ItemFinished(key, None, stated),)
        self._open.add(key)
        return whole_item(key, stated)

    def _on_environment(self, type: str, event: Object) -> Facts:
        return (
            progress(
                "environment", type.rpartition(".")[2], event, ("environment", "environment_id")
            ),
        )

    def _nothing(self, type: str, event: Object) -> Facts:
        return ()


def _texts(kind: ItemKind, item: Object) -> tuple[tuple[Field, int, str], ...]:
    if kind == "tool_call":
        given = item.get("arguments")
        if given is None:
            given = {
                name: value
                for name, value in item.items()
                if name not in _ABOUT_A_CALL and value is not None
            }
        return (("arguments", 0, text_or_json(without_bytes(given))),)
    if kind == "reasoning":
        return tuple(
            ("summary", number, said) for _, number, said in numbered(objects(item, "summary"))
        )
    return numbered(objects(item, "content"))


_D = HostedAgentsDecoder
_SESSION, _TURN = "agent.session.", "agent.session.turn."


def _types(before: str, words: str, handle: Any) -> dict[str, Any]:
    return {f"{before}{word}": handle for word in words.split()}


EVENTS: Mapping[str, Callable[[Any, str, Object], Facts]] = {
    **_types(_SESSION, "created idle in_progress requires_action failed", _D._on_session),
    **_types(_TURN, "created in_progress completed failed cancelled", _D._on_turn),
    **_types(_TURN, "item.added item.done", _D._on_item),
    **_types(_TURN, "output_text.delta reasoning_summary_text.delta", _D._on_delta),
    **_types(_TURN, "output_text.done reasoning_summary_text.done", _D._on_text),
    **_types(_TURN, "content_part.added content_part.done", _D._nothing),
    **_types(_TURN, "reasoning_summary_part.added reasoning_summary_part.done", _D._nothing),
    **_types(f"{_SESSION}subagent.", "created active closed", _D._on_subagent),
    **_types(
        f"{_SESSION}environment.",
        "pending ready connected disconnected suspended expired failed reset",
        _D._on_environment,
    ),
    "agent.output.command_execution_output.delta": _D._on_delta,
}
