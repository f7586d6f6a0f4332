"""Messages of ACP → facts: prompts and what an agent says, thinks and does until it has answered
them.

A prompt is a message of the user, which ends with the response. What the agent says comes in
chunks: those that follow each other, with one id if they have ids, are one message. A call of a
tool is what its updates have made of it; it is told when it ends, or when the turn does. Each
session beside the first is a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from recorder.model.facts import (
    AnnotationAdded,
    Fact,
    Field,
    ItemFinished,
    ItemKind,
    ItemStarted,
    ItemState,
    RequestFacts,
    ResponseFinished,
    TextAdded,
    ToolProgress,
    Usage,
    UsageDetails,
    UsageReported,
)
from recorder.model.prices import usd
from recorder.wire.dialects.decoder import Facts, failed, unknown
from recorder.wire.dialects.hosted_session import summed
from recorder.wire.dialects.json_rpc import RpcDecoder
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    names,
    object_,
    objects,
    places,
    text,
    text_or_json,
    without,
    without_nulls,
    word,
)
from recorder.wire.dialects.media import without_bytes
from recorder.wire.dialects.requests import By, Request
from recorder.wire.dialects.usage_report import counts_at, exact_amount

PROMPT = "session/prompt"
UPDATE = "session/update"
_SESSIONS = names("session/new session/load session/resume session/fork")

_IDS = ("_meta", "sessionId")
"""Members of a request beside what it asks for."""

OPEN_LIMIT = 10_000
"""Sessions, and calls that have not ended: no editor shows a hundredth of it."""


class _Chunks(NamedTuple):
    """What the chunks of a kind are part of."""

    kind: ItemKind
    field: Field
    role: str | None


_CHUNKS: Mapping[str, _Chunks] = {
    "agent_message_chunk": _Chunks("message", "text", "assistant"),
    "agent_thought_chunk": _Chunks("reasoning", "reasoning", None),
    "user_message_chunk": _Chunks("message", "text", "user"),
}
_CALLS = names("tool_call tool_call_update")
STEPS = names("""
    plan plan_update plan_removed available_commands_update current_mode_update config_option_update
    session_info_update notice compaction_update subagent_update
    """)
_ENDS = names("completed failed")
_COUNTS = places("""
input_tokens inputTokens
cache_read_input_tokens cachedReadTokens
cache_write_input_tokens cachedWriteTokens
output_tokens outputTokens
reasoning_output_tokens thoughtTokens
total_tokens totalTokens
""")


class _Said(NamedTuple):
    """The message that is open in a thread."""

    key: str
    place: tuple[str, str | None]  # the kind of its chunks, and its id
    stated: ItemState


class _Call(msgspec.Struct):
    """A call of a tool, as its updates have made it so far."""

    key: str
    thread: str | None
    members: dict[str, Any]


class AcpDecoder(RpcDecoder):
    """Follows the sessions of one agent."""

    def __init__(self) -> None:
        super().__init__()
        self._items = 0  # that are not requests
        self._said: dict[str | None, _Said] = {}  # by thread
        self._calls: dict[tuple[str | None, str], _Call] = {}
        self._threads: dict[str, str | None] = {}  # by session: the first one is none
        self._has_asked = False
        self._spent = Usage()  # in all turns
        self._costs: dict[str | None, Decimal] = {}  # of each session, in US dollars
        self._usage: Object = {}  # of the last turn

    # -- requests, and their responses

    def message(self, message: Object, by: By, *, is_whole: bool = False) -> Facts:
        facts = super().message(message, by, is_whole=is_whole)
        # the answer for one that is there does not name it
        if text(message, "method") in _SESSIONS:
            facts = [*self._in(text(message, "params", "sessionId")), *facts]
        is_prompt = text(message, "method") == PROMPT and by == "client"
        if not is_prompt or self._has_asked:
            return facts
        self._has_asked = True
        stated = next((fact.stated for fact in facts if isinstance(fact, ItemStarted)), None)
        said = "\n".join(each for _, _, each in stated.texts) if stated else ""
        return [RequestFacts(text=said, is_turn=bool(said)), *facts]

    def stated(self, method: str, id: str, params: Object) -> ItemState:
        """Return a request as an item: a prompt is what the user says."""
        thread = self._thread(text(params, "sessionId"))
        if method != PROMPT:
            call = object_(params, "toolCall")
            given = {name: value for name, value in params.items() if name not in _IDS}
            if call:  # which the item of the call has
                given["toolCall"] = without(call, ("toolCallId",))
            arguments = as_json(without_bytes(given))
            return ItemState(
                "other",
                method,
                item_id=id,
                name=text(call, "title"),
                call_id=text(call, "toolCallId"),
                texts=(("arguments", 0, arguments),),
                thread_id=thread,
            )
        return ItemState(
            "message",
            method,
            item_id=id,
            role="user",
            texts=tuple(_prompted(objects(params, "prompt"))),
            annotations=tuple(
                as_json(without_bytes(each))
                for each in objects(params, "prompt")
                if not _is_text(each)
            ),
            thread_id=thread,
        )

    def answered(self, request: Request, message: Object) -> Facts:
        result = object_(message, "result")
        if request.method in _SESSIONS:
            return *super().answered(request, message), *self._entered(result)
        if request.method != PROMPT:
            return super().answered(request, message)
        stated = msgspec.structs.replace(
            request.stated, texts=(), annotations=(), status=_ended_as(message)
        )
        return (
            *self._settle(request.stated.thread_id),
            ItemFinished(request.key, None, stated),
            *self._turned(message),
        )

    def _entered(self, result: Object) -> Facts:
        """Decode the beginning of a session.

        The model is an option of it, if anything says which one it is.
        """
        options = objects(result, "configOptions")
        models = [text(each, "currentValue") for each in options if each.get("category") == "model"]
        return self._in(
            text(result, "sessionId"),
            text(result, "models", "currentModelId") or next(iter(models), None),
        )

    def _in(self, session: str | None, model: str | None = None) -> Facts:
        """Take note of a session. A run has the id of its first."""
        is_first = self._thread(session) is None
        return self._begun(session if is_first else None, model if is_first else None)

    def _turned(self, message: Object) -> Facts:
        """Decode the end of a turn.

        One that failed leaves the agent as it is: the next one may do.
        """
        if message.get("error"):
            return (msgspec.structs.replace(failed(message), ends=False),)
        result = object_(message, "result")
        reason = text(result, "stopReason")
        return *self._used(object_(result, "usage")), ResponseFinished(reason)

    # -- usage

    def _used(self, usage: Object) -> Facts:
        """Add the tokens of a turn.

        Agents count what was cached with the input or beside it: the total says which.
        """
        if not usage:
            return ()
        counts = Usage(**counts_at(usage, _COUNTS))
        parts = [
            counts.input_tokens,
            counts.cache_read_input_tokens,
            counts.cache_write_input_tokens,
        ]
        gross = sum(filter(None, parts))
        if counts.total_tokens == gross + (counts.output_tokens or 0):
            counts = msgspec.structs.replace(counts, input_tokens=gross)
        self._spent = summed([self._spent, counts])
        self._usage = usage
        return self._report()

    def _report(self) -> Facts:
        cost = usd(sum(self._costs.values())) if self._costs else None
        details = UsageDetails(
            reported_cost_usd=cost, reported_cost_source="cost.amount" if cost else None
        )
        return (UsageReported(self._spent, as_json(self._usage), details),) if self._usage else ()

    def _charged(self, thread: str | None, cost: Object) -> Facts:
        """Take the cost of a session so far."""
        amount = exact_amount(self._data, "params.update.cost.amount")
        if amount is None or text(cost, "currency") != "USD":
            return ()
        self._costs[thread] = amount
        return self._report()

    # -- updates

    def noticed(self, method: str, params: Object) -> Facts:
        if method != UPDATE:
            return ()
        thread, update = self._thread(text(params, "sessionId")), object_(params, "update")
        kind = text(update, "sessionUpdate") or ""
        if kind in _CHUNKS:
            return self._chunk(thread, kind, update)
        if kind in _CALLS:
            return *self._end_said(thread), *self._called(thread, update)
        if kind == "usage_update":
            return self._charged(thread, object_(update, "cost"))
        if kind in STEPS:
            told = without_bytes(without(update, ("sessionUpdate", "_meta")))
            return (ToolProgress(kind, text(update, "status") or "", as_json(told)),)
        return (unknown(kind or method),)

    def _thread(self, session: str | None) -> str | None:
        """Return the thread of a session: None for the first one, and for those that are too many."""
        if session is None or (session not in self._threads and len(self._threads) >= OPEN_LIMIT):
            return None
        return self._threads.setdefault(session, session if self._threads else None)

    def _chunk(self, thread: str | None, kind: str, update: Object) -> Facts:
        facts: list[Fact] = []
        place = (kind, text(update, "messageId"))
        said = self._said.get(thread)
        if said is None or said.place != place:
            facts += self._end_said(thread)
            said = self._begin_said(thread, place)
            facts.append(ItemStarted(said.key, None, said.stated))
        content = object_(update, "content")
        if not _is_text(content):
            facts.append(AnnotationAdded(said.key, as_json(without_bytes(content))))
        elif content["text"]:
            facts.append(TextAdded(said.key, _CHUNKS[kind].field, 0, content["text"]))
        return facts

    def _begin_said(self, thread: str | None, place: tuple[str, str | None]) -> _Said:
        chunks = _CHUNKS[place[0]]
        stated = ItemState(
            chunks.kind, place[0], item_id=place[1], role=chunks.role, thread_id=thread
        )
        self._items += 1
        said = self._said[thread] = _Said(f"message {self._items}", place, stated)
        return said

    def _end_said(self, thread: str | None) -> Facts:
        said = self._said.pop(thread, None)
        return () if said is None else (ItemFinished(said.key, None, said.stated),)

    def _called(self, thread: str | None, update: Object) -> Facts:
        """Decode a call or what changes of it: members that are left out, or null, stay."""
        id = text(update, "toolCallId") or ""
        told = without_nulls(update)
        call = self._calls.get((thread, id))
        facts: list[Fact] = []
        if call is None:
            if len(self._calls) >= OPEN_LIMIT:
                return ()
            self._items += 1
            call = self._calls[thread, id] = _Call(f"call {self._items}", thread, told)
            facts.append(ItemStarted(call.key, None, self._call_stated(call)))
        call.members |= told
        return [*facts, *self._end_call(thread, id)] if told.get("status") in _ENDS else facts

    def _call_stated(self, call: _Call) -> ItemState:
        members = call.members
        id = text(members, "toolCallId")
        name = (
            word(members, "name")
            or word(members, "_meta", "claudeCode", "toolName")
            or text(members, "title")
        )
        return ItemState(
            "tool_call",
            word(members, "kind") or "tool_call",
            item_id=id,
            name=name,
            call_id=id,
            texts=(("arguments", 0, as_json(members.get("rawInput") or {})),),
            thread_id=call.thread,
        )

    def _end_call(self, thread: str | None, id: str) -> Facts:
        call = self._calls.pop((thread, id))
        status = text(call.members, "status") or "pending"
        is_over = status in _ENDS
        output = _output(call.members) if is_over else None
        failed = status == "failed" if is_over else None
        stated = msgspec.structs.replace(
            self._call_stated(call), status=status, output=output, failed=failed
        )
        return (ItemFinished(call.key, None, stated),)

    def _settle(self, thread: str | None) -> list[Fact]:
        """End what is open in the session of a turn that is over."""
        facts: list[Fact] = [*self._end_said(thread)]
        for id in [id for of_thread, id in self._calls if of_thread == thread]:
            facts += self._end_call(thread, id)
        return facts


def _is_text(content: Object) -> bool:
    return content.get("type") == "text" and isinstance(content.get("text"), str)


def _prompted(blocks: list[Object]) -> Iterator[tuple[Field, int, str]]:
    for number, block in enumerate(filter(_is_text, blocks)):
        yield "text", number, block["text"]


def _ended_as(message: Object) -> str:
    return (
        "failed" if message.get("error") else text(message, "result", "stopReason") or "completed"
    )


def _output(members: Object) -> str:
    """Return what a tool gave: its own output, else what the editor shows, as text if it is nothing
    else.
    """
    raw = members.get("rawOutput")
    if raw is not None:
        return text_or_json(without_bytes(raw))
    content = objects(members, "content")
    shown = [object_(each, "content") for each in content]
    if all(map(_is_text, shown)):
        return "\n".join(each["text"] for each in shown)
    return as_json(without_bytes(content))
