"""The conversations of a session as lines of chat JSONL.

Each request of a conversation repeats the ones before it, or continues them by an id: the line of
its last exchange has all of them. So an exchange whose messages and answer another one begins with
has no line of its own. Requests are put together by `recorder.wire.logical_request`, answers are
the items that `recorder show` has. Of a request as messages, whatever its format, results are
messages of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple, get_args

from recorder.errors import NotFoundError
from recorder.exports.chat.conversation import CallKey, ChatConversation
from recorder.model.events import Exchange, Recording, Session
from recorder.model.text import counted, safe_text
from recorder.projections.rows import ItemRow
from recorder.recordings.requests import load_requests
from recorder.recordings.selection import Numbered
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_state import folded_exchange
from recorder.wire.dialects import by_name
from recorder.wire.dialects.conversation import Conversation, Kind, Message, Part, Tool
from recorder.wire.dialects.json_values import array, as_json, decoded, text
from recorder.wire.logical_request import LogicalRequest

_OTHERS = "items of tools of the provider"
_OUTSIDE = "images outside of messages of the user"

_LOST: Mapping[Kind, str] = {
    "refusal": "refusals",
    "image": "images without bytes",
    "audio": "audio",
    "video": "videos",
    "file": "files",
    "search_result": "search results",
    "unknown": "parts of an unknown type",
    "reasoning": "reasoning",
    "old_call": "calls in the form of 2023",
    "reference": "items that only the provider has",
    "compaction": "compacted history that only the provider can read",
}
"""By the kind of a part that has no place in chat messages, how it is counted."""


def read(conversation: Conversation, chat: ChatConversation) -> None:
    """Add the system prompt, the messages and the tools of a request."""
    chat.parallel = conversation.calls_in_parallel
    _add_tools(conversation.tools, chat)
    system = Message("system", conversation.system_parts)
    own = [
        part
        for part in system.parts
        if part.text is None or not conversation.is_of_client(part.text)
    ]
    chat.system("system", "\n\n".join(_texts(own, chat)))
    for message in conversation.messages:
        if message.role == "system":
            chat.system(str(message.speaker), "\n\n".join(_texts(message.parts, chat)))
        elif message.role == "assistant":
            _add_answer(message, chat)
        elif message.role == "unknown":
            chat.lose("messages of an unknown role")
        else:
            _add_input(conversation, message, chat)


def _add_tools(tools: Sequence[Tool], chat: ChatConversation) -> None:
    namespaces = {tool.namespace for tool in tools} - {None}
    chat.lose("namespaces of tools", len(namespaces))
    for tool in tools:
        if tool.kind == "function":
            chat.function(tool.name, tool.description, tool.schema, strict=tool.strict)
        elif tool.kind == "free_text":
            chat.free_text_tool(tool.name, tool.description)
        elif tool.kind == "provider":
            chat.lose("tools of the provider")


def _add_answer(message: Message, chat: ChatConversation) -> None:
    goes_on = False
    for part in message.parts:
        if part.kind == "text":
            chat.lose("citations", _citations(part))
            chat.said(part.text or "", goes_on=goes_on)
            goes_on = goes_on or bool(part.text)
        elif part.kind == "call" and part.is_free_text:
            chat.called_with_text(text(part.id), part.name, text(part.value) or "")
        elif part.kind == "call":
            arguments = part.value if isinstance(part.value, str) else as_json(part.value or {})
            chat.called(text(part.id), part.name, arguments)
        elif part.kind == "tools":
            _add_tools(part.value, chat)
        elif part.kind == "image" and part.value:
            chat.lose(_OUTSIDE)
        else:
            chat.lose(_LOST.get(part.kind, _OTHERS))


def _add_input(conversation: Conversation, message: Message, chat: ChatConversation) -> None:
    """Add a message of the user or of a tool."""
    parts = []
    for part in message.parts:
        if part.kind == "result":
            chat.lose("marks of results as errors", int(part.given.get("is_error") is True))
            id = text(part.id) or chat.waiting_call(part.name)
            chat.result(id, "".join(_texts(conversation.content_of(part), chat)))
        elif message.role == "tool" and part.kind == "provider_result":
            chat.lose(_OTHERS)
        else:
            parts.append(part)
    chat.user(_chat_parts(parts, chat))


def _texts(parts: Sequence[Part], chat: ChatConversation) -> list[str]:
    """Return the texts of parts where nothing else has a place."""
    given = _chat_parts(parts, chat)
    texts = [part["text"] for part in given if part["type"] == "text"]
    chat.lose(_OUTSIDE, len(given) - len(texts))
    return texts


def _chat_parts(parts: Sequence[Part], chat: ChatConversation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in parts:
        chat.lose("citations", _citations(part))
        if part.kind == "text":
            found += [{"type": "text", "text": part.text}] if part.text else []
        elif part.kind == "image" and part.value:
            found.append({"type": "image_url", "image_url": part.value})
        else:
            chat.lose(_LOST.get(part.kind, _LOST["unknown"]))
    return found


def _citations(part: Part) -> int:
    return len(array(part.given.get("citations"))) + len(array(part.given.get("annotations")))


# -- the conversations of a session


_FUNCTIONS = frozenset({"function", "tool_use", "function_call", "functionCall"})
_FREE_TEXT = frozenset({"custom", "custom_tool_call"})  # types of calls with text in place of JSON

_CALL_KEYS: tuple[CallKey, ...] = get_args(CallKey)

ANSWERED = "completed"  # the status of an exchange whose answer is whole


class _ModelTurn(NamedTuple):
    """The answer of an exchange, as far as it is folded."""

    status: str | None
    items: Sequence[ItemRow]


class ChatExport:
    """The lines of a session, and afterwards what they do not have."""

    def __init__(self, log: LogReader, session: Session, chosen: Sequence[Numbered]) -> None:
        self._log, self._session, self._chosen = log, session, chosen
        self._losses, self._left_out = Counter[str](), Counter[str]()
        self._begun: list[str] = []

    async def lines(self, *, is_one: bool) -> AsyncIterator[bytes]:
        """Yield a line for each conversation; with `is_one` for the one exchange, whether others
        continue it or not.

        Raises `NotFoundError` if there is none.
        """
        answers = await self._answers()
        requests = await load_requests(self._log, self._session, self._chosen)
        known = [(each, request) for each, request in requests if _is_conversation(each.exchange)]
        self._left_out["of another API"] += len(requests) - len(known)
        self._left_out["without a request"] += self._without_request(
            {each.exchange.exchange_id for each, _ in known}
        )
        continued = set[bytes]() if is_one else _beginnings(known)
        written = 0
        for recording, request in known:
            chat = self._conversation(recording, request, answers)
            if chat is None or any(chat.digest(by) in continued for by in _CALL_KEYS):
                continue
            if not request.is_complete:
                reason = request.reason or "what it continues is not there"
                self._begun.append(
                    f"The conversation of exchange {recording.number} is not whole: {reason}."
                )
            line = chat.finished()
            self._losses += chat.losses
            written += 1
            yield as_json(line).encode() + b"\n"
        if not written:
            raise NotFoundError(
                f"There is no conversation with an answer in session {safe_text(self._session.name)}."
                f"{''.join(f' {each}' for each in self.remarks())}"
            )

    def _without_request(self, known: Set[str]) -> int:
        """Return how many exchanges have no request body, although they are not a retrieval of a
        response.
        """
        chosen = (
            each
            for _, each in self._chosen
            if _is_conversation(each) and each.resumes_response_id is None
        )
        return sum(each.exchange_id not in known for each in chosen)

    def remarks(self) -> list[str]:
        """Return sentences about what was left out and lost."""
        found = list(self._begun)
        left_out = [f"{reason} ({count:,})" for reason, count in self._left_out.items() if count]
        if left_out:
            count = sum(self._left_out.values())
            found.append(f"{counted(count, 'exchange')} left out: {', '.join(left_out)}.")
        lost = [f"{noun} ({count:,})" for noun, count in self._losses.most_common() if count]
        if lost:
            found.append(f"Chat messages do not hold: {', '.join(lost)}.")
        return found

    async def _answers(self) -> Mapping[str, _ModelTurn]:
        """Return the answers by exchange; one that was retrieved later is that of the request, too."""
        answers: dict[str, _ModelTurn] = {}
        by_response: dict[str, str] = {}
        for _, exchange in self._chosen:
            rows = await folded_exchange(self._log, exchange)
            row, answer = (
                rows["exchanges"][0],
                _ModelTurn(rows["exchanges"][0].status, rows["items"]),
            )
            answers[exchange.exchange_id] = answer
            first = (
                by_response.setdefault(row.response_id, exchange.exchange_id)
                if row.response_id
                else None
            )
            if first is not None and row.is_retrieval and answer.status == ANSWERED:
                answers[first] = answer
        return answers

    def _conversation(
        self, recording: Recording, request: LogicalRequest, answers: Mapping[str, _ModelTurn]
    ) -> ChatConversation | None:
        """Return the conversation of an exchange; None, and counted, if it has no whole answer."""
        status = answers[recording.exchange.exchange_id].status
        if status != ANSWERED:
            self._left_out[f"with status {status or 'open'}"] += 1
            return None
        chat = chat_of(recording, request)
        before = len(chat.messages)
        self._answer(chat, recording, answers)
        if len(chat.messages) == before or not chat.is_answered:
            self._left_out["without words or calls of the model"] += 1
            return None
        return chat

    def _answer(
        self, chat: ChatConversation, recording: Recording, answers: Mapping[str, _ModelTurn]
    ) -> None:
        """Add the items of the answer."""
        api, goes_on = recording.exchange.api, False
        dialect = by_name(api)
        for item in answers[recording.exchange.exchange_id].items:
            if dialect.has_choices and item.output_index:
                chat.lose("alternative answers")
            elif item.kind == "message":
                chat.lose("refusals", int(bool(item.refusal)))
                chat.lose("citations", _length(item.annotations))
                chat.said(item.text or "", goes_on=goes_on)
                goes_on = api != "openai-responses"  # whose messages are items of their own
            elif item.kind == "reasoning":
                chat.lose("reasoning")
            elif item.kind == "tool_call" and item.type in _FUNCTIONS:
                chat.called(item.call_id, item.name, item.arguments or "")
            elif item.kind == "tool_call" and item.type in _FREE_TEXT:
                chat.called_with_text(item.call_id, item.name, item.arguments or "")
            else:
                chat.lose("items of tools of the provider")


def _is_conversation(exchange: Exchange) -> bool:
    return by_name(exchange.api).conversation is not None


def chat_of(recording: Recording, request: LogicalRequest) -> ChatConversation:
    """Return the messages of a request."""
    chat = ChatConversation()
    exchange = recording.exchange
    conversation_of = by_name(exchange.api).conversation
    if conversation_of is not None:
        read(conversation_of(exchange.target.partition("?")[0], _object(request)), chat)
    return chat


def _beginnings(known: Sequence[tuple[Recording, LogicalRequest]]) -> set[bytes]:
    """Return the digests of all messages with those before them: what a conversation that goes on
    begins with.
    """
    chats = (chat_of(recording, request) for recording, request in known)
    digests = set[bytes]()
    for chat in chats:
        for by in _CALL_KEYS:
            digests.update(chat.digests(by))
    return digests


def _object(request: LogicalRequest) -> Mapping[str, Any]:
    """Return the request as it was put together, all its items decoded."""
    if request.items is None:
        return request.fields
    items = [
        decoded(bytes(item)) for item in chain.from_iterable(part.items for part in request.parts)
    ]
    return {**request.fields, request.items: items}


def _length(annotations: str | None) -> int:
    return len(array(decoded(annotations.encode()))) if annotations else 0
