"""The lines of a run of Claude Code → facts: what was said, thought and done, by it and by its
sub-agents.

Events of Anthropic's are decoded as those of a response, for each agent apart; a whole message that
repeats streamed ones is skipped. Tokens and costs are those of the results, of which each has the
sums since the conversation began, and since the last one the tokens of the messages: a run that is
killed has no result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, ClassVar

import msgspec

from recorder.model.facts import (
    ErrorReported,
    Fact,
    Field,
    ItemFinished,
    ItemKey,
    ItemStarted,
    ItemState,
    MalformedPayload,
    RequestFacts,
    ResponseFinished,
    ResponseStarted,
    ToolProgress,
    Usage,
    UsageDetails,
    UsageReported,
)
from recorder.model.prices import usd
from recorder.wire.dialects.anthropic.blocks import RESULT, result, returned, stated
from recorder.wire.dialects.anthropic.decoder import MessagesDecoder, counts_of
from recorder.wire.dialects.decoder import Content, Facts, JsonDecoder, unknown
from recorder.wire.dialects.hosted_session import summed, whole_item
from recorder.wire.dialects.json_values import (
    Object,
    array,
    as_json,
    flag,
    names,
    object_,
    objects,
    places,
    text,
    without,
    word,
)
from recorder.wire.dialects.media import without_bytes
from recorder.wire.dialects.requests import By, Requests
from recorder.wire.dialects.usage_report import counts_at, exact_amount, token_count

_COUNTS = places("""
input_tokens inputTokens
cache_read_input_tokens cacheReadInputTokens
cache_write_input_tokens cacheCreationInputTokens
output_tokens outputTokens
reasoning_output_tokens thinkingTokens
""")
"""Of a model. The input leaves out what was cached."""

_QUIET = names("thinking_tokens session_state_changed status")
"""Subtypes of `system` that come all the time, and say nothing that stays."""

_STEPS = names("tool_progress rate_limit_event auth_status tool_use_summary prompt_suggestion")
_ABOUT = names("type subtype uuid session_id timestamp")
_TURNS = "turns"
"""What the tokens of results without sums are of, each one of a turn."""

AGENTS_LIMIT = 10_000
"""Agents whose messages are followed: no run has a hundredth of it."""

_NO_MODEL = "<synthetic>"
"""The model of a message that the program itself wrote: of an error."""


class _AgentDecoder(MessagesDecoder):
    """Follows the streamed messages of one agent, whose items have its name in their keys."""

    def __init__(self, name: str | None) -> None:
        super().__init__()
        self.name = name
        self.message_id: str | None = None  # of the message whose tokens are `spent`
        self.spent = Usage()

    def has_streamed(self, message: Object) -> bool:
        """Return whether a whole message repeats the one that is streamed."""
        return self._started is not None and self.streamed_id == text(message, "id")

    def _new_key(self, index: int) -> ItemKey:
        key = super()._new_key(index)
        return key if self.name is None else f"{self.name} {key}"

    @property
    def streamed_id(self) -> str | None:
        return self._started.response_id if self._started else None


class StreamJsonDecoder(JsonDecoder):
    """Follows one run."""

    about = MessagesDecoder.about

    def __init__(self) -> None:
        self._agents: dict[str | None, _AgentDecoder] = {}  # by the call that began a sub-agent
        self._requests = Requests()
        self._items = 0  # that came as a whole
        self._has_asked = False
        self._conversations = 0  # that were cleared
        self._spent: dict[str, Usage] = {}  # of each conversation
        # of messages since the last result, but for the last one of each agent
        self._since = Usage()
        self._searches: dict[str, int] = {}
        self._costs: dict[str, Decimal] = {}

    def contents(self, type: str | None, payload: Any) -> Iterable[Content]:
        line = object_(payload)
        agent = self._agent(line)
        if line.get("type") == "stream_event":
            return agent.contents(None, object_(line, "event"))
        is_message = line.get("type") in ("assistant", "user")
        is_told = (
            is_message
            and not agent.has_streamed(object_(line, "message"))
            and not line.get("isReplay")
        )
        return (
            [("message.content", line["message"].get("content"))]
            if is_told and object_(line, "message")
            else ()
        )

    def payload(self, type: str | None, payload: Any) -> Facts:
        return self._line(payload, "server")

    def sent(self, type: str | None, data: bytes) -> Facts:
        return self._read(data, lambda payload: self._line(payload, "client"))

    def _line(self, line: Any, by: By) -> Facts:
        if not isinstance(line, dict):
            return (MalformedPayload("a line is not a JSON object"),)
        type = text(line, "type") or ""
        tell = self._by_type.get(type)
        if tell is not None:
            return tell(self, line, by)
        return (_step(line),) if type in _STEPS else (unknown(type),)

    # -- messages

    def _agent(self, line: Object) -> _AgentDecoder:
        name = text(line, "parent_tool_use_id")
        agent = self._agents.get(name)
        if agent is None:
            agent = _AgentDecoder(name)
            if len(self._agents) < AGENTS_LIMIT:
                self._agents[name] = agent
        return agent

    def _on_event(self, line: Object, by: By) -> Facts:
        agent = self._agent(line)
        return [*self._of_agent(agent, agent.payload(None, object_(line, "event")))]

    def _of_agent(self, agent: _AgentDecoder, facts: Iterable[Fact]) -> Iterator[Fact]:
        """Yield the facts of a message as those of the run, which ends with no message of its own."""
        name = agent.name
        for fact in facts:
            match fact:
                case ResponseStarted():
                    yield from self._begun(None, fact.model if name is None else None)
                case UsageReported():
                    yield self._spend(agent, agent.streamed_id, fact.usage, fact.raw)
                case ResponseFinished():
                    pass
                case ErrorReported():
                    # it is tried again, or the result says it
                    yield msgspec.structs.replace(fact, ends=False)
                case ItemStarted() | ItemFinished():
                    yield msgspec.structs.replace(
                        fact, stated=msgspec.structs.replace(fact.stated, thread_id=name)
                    )
                case _:
                    yield fact

    def _on_assistant(self, line: Object, by: By) -> Facts:
        message, agent = object_(line, "message"), self._agent(line)
        if agent.has_streamed(message):
            return ()
        name, model = agent.name, text(message, "model")
        is_of_run = name is None and model != _NO_MODEL
        facts: list[Fact] = [*self._begun(None, model)] if is_of_run else []
        for block in objects(message, "content"):
            item = stated(block, status="completed")
            facts += returned(block)
            if item is not None:
                facts += self._whole(msgspec.structs.replace(item, thread_id=name))
        usage = object_(message, "usage")
        return (
            [*facts, self._spend(agent, text(message, "id"), counts_of(usage), as_json(usage))]
            if usage
            else facts
        )

    def _whole(self, item: ItemState) -> list[Fact]:
        self._items += 1
        return whole_item(f"whole {self._items}", item)

    def _on_user(self, line: Object, by: By) -> Facts:
        """Decode what a user says, and what tools returned."""
        content = object_(line, "message").get("content")
        if line.get("isReplay"):
            return ()
        blocks = (
            [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
        )
        results = [block for block in blocks if _is_result(block)]
        said = [block for block in blocks if not _is_result(block)]
        facts: list[Fact] = [result(block) for block in results]
        if said:
            facts += self._said(said, text(line, "uuid"), text(line, "parent_tool_use_id"))
        if said and by == "client" and not self._has_asked:
            self._has_asked = True
            words = "\n".join(each for _, _, each in _texts(said))
            facts.insert(0, RequestFacts(text=words, is_turn=bool(words)))
        return facts

    def _said(self, blocks: list[Object], id: str | None, agent: str | None) -> list[Fact]:
        others = [as_json(without_bytes(block)) for block in blocks if text(block, "text") is None]
        return self._whole(
            ItemState(
                "message",
                "user",
                item_id=id,
                role="user",
                status="completed",
                texts=tuple(_texts(blocks)),
                annotations=tuple(others),
                thread_id=agent,
            )
        )

    # -- what both sides ask of each other

    def _on_request(self, line: Object, by: By) -> Facts:
        request, id = object_(line, "request"), text(line, "request_id") or ""
        subtype = text(request, "subtype") or ""
        given = as_json(without_bytes(without(request, ("subtype", "tool_use_id"))))
        name, call_id = word(request, "tool_name"), text(request, "tool_use_id")
        stated = ItemState(
            "other",
            subtype,
            item_id=id,
            name=name,
            call_id=call_id,
            texts=(("arguments", 0, given),),
        )
        return self._requests.ask(by, id, subtype, stated)

    def _on_response(self, line: Object, by: By) -> Facts:
        response = object_(line, "response")
        request = self._requests.answered(by, text(response, "request_id") or "")
        if request is None:
            return ()
        failed = response.get("subtype") == "error"
        output = as_json(without_bytes(response.get("error" if failed else "response")))
        status = "failed" if failed else "completed"
        ended = msgspec.structs.replace(
            request.stated, texts=(), output=output, failed=failed, status=status
        )
        return (ItemFinished(request.key, None, ended),)

    # -- the run

    def _on_system(self, line: Object, by: By) -> Facts:
        subtype = text(line, "subtype")
        if subtype == "init":
            return self._begun(text(line, "session_id"), text(line, "model"))
        return () if subtype in _QUIET else (_step(line),)

    def _on_reset(self, line: Object, by: By) -> Facts:
        """Take note that sums begin again."""
        self._conversations += 1
        return (_step(line),)

    def _on_result(self, line: Object, by: By) -> Facts:
        """Decode the end of a turn.

        One that failed leaves the run as it is: the next one may do.
        """
        return *self._used(line), _ended(line)

    def _used(self, line: Object) -> Facts:
        models = [each for each in object_(line, "modelUsage").values() if isinstance(each, dict)]
        conversation = str(self._conversations)
        if models:
            self._spent[conversation] = summed(map(_of_model, models))
            self._searches[conversation] = sum(
                token_count(each, "webSearchRequests") or 0 for each in models
            )
        elif object_(line, "usage"):
            self._spent[_TURNS] = summed(
                [self._spent.get(_TURNS, Usage()), counts_of(object_(line, "usage"))]
            )
        amount = exact_amount(self._data, "total_cost_usd")
        if amount is not None:
            self._costs[conversation] = amount
        raw = line["modelUsage"] if models else object_(line, "usage")
        if raw:
            self._since = Usage()
            for agent in self._agents.values():
                agent.spent = Usage()
        return (self._report(as_json(raw)),) if self._spent else ()

    def _spend(
        self, agent: _AgentDecoder, message_id: str | None, spent: Usage, raw: str
    ) -> UsageReported:
        """Count a message once, by what it says last, until a result has the sums."""
        if message_id != agent.message_id:
            self._since = summed([self._since, agent.spent])
        agent.message_id, agent.spent = message_id, spent
        return self._report(raw)

    def _report(self, raw: str) -> UsageReported:
        details = UsageDetails(
            web_searches=sum(self._searches.values()) or None,
            reported_cost_usd=usd(sum(self._costs.values())) if self._costs else None,
            reported_cost_source="total_cost_usd" if self._costs else None,
        )
        running = [agent.spent for agent in self._agents.values()]
        return UsageReported(summed([*self._spent.values(), self._since, *running]), raw, details)

    def _nothing(self, line: Object, by: By) -> Facts:
        return ()

    _by_type: ClassVar[Mapping[str, Callable[[StreamJsonDecoder, Object, By], Facts]]] = {
        "system": _on_system,
        "stream_event": _on_event,
        "assistant": _on_assistant,
        "user": _on_user,
        "result": _on_result,
        "control_request": _on_request,
        "control_response": _on_response,
        "conversation_reset": _on_reset,
        "control_cancel_request": _nothing,
        "keep_alive": _nothing,
        "transcript_mirror": _nothing,
    }


KNOWN = StreamJsonDecoder._by_type.keys() | _STEPS


def _step(line: Object) -> ToolProgress:
    told = without_bytes(without(line, _ABOUT))
    return ToolProgress(text(line, "type") or "", text(line, "subtype") or "", as_json(told))


def _is_result(block: Object) -> bool:
    return (text(block, "type") or "").endswith(RESULT)


def _texts(blocks: Iterable[Object]) -> Iterator[tuple[Field, int, str]]:
    said = (text(block, "text") for block in blocks)
    for number, each in enumerate(filter(None, said)):
        yield "text", number, each


def _of_model(reported: Object) -> Usage:
    counts = Usage(**counts_at(reported, _COUNTS))
    inputs = (counts.input_tokens, counts.cache_read_input_tokens, counts.cache_write_input_tokens)
    gross = sum(filter(None, inputs))
    return msgspec.structs.replace(
        counts, input_tokens=gross, total_tokens=gross + (counts.output_tokens or 0)
    )


def _ended(line: Object) -> ResponseFinished | ErrorReported:
    subtype, reason = text(line, "subtype") or "", text(line, "terminal_reason") or ""
    if reason.startswith("aborted") or subtype.startswith("error_max"):
        return ResponseFinished(reason if reason.startswith("aborted") else subtype, "incomplete")
    if subtype == "success" and not flag(line, "is_error"):
        return ResponseFinished(text(line, "stop_reason"))
    errors = [each for each in array(line, "errors") if isinstance(each, str)]
    status = line.get("api_error_status")
    return ErrorReported(
        text(line, "api_error_type") or (None if subtype == "success" else subtype),
        None if status is None else as_json(status),
        word(line, "result") or "\n".join(errors) or None,
        ends=False,
    )
