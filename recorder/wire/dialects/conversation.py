"""The conversation of a request, read once from its body: what was said before, what it asks, and
the tools for it.

A dialect extends `Conversation`: it says what its format calls a message, a call, a result. All
that the program knows of the words of a request is read from here: its facts and parameters, the
session that it continues, chat messages, messages of OpenTelemetry. Only a prompt, as a provider's
cache compares it, is read from bytes (`.prompt`).

A part keeps what was sent; its kind means the same in all formats. Nothing here raises, whatever
the JSON.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, takewhile
from typing import Any, ClassVar, Literal

import msgspec

from recorder.model.facts import RepeatedCall, RequestFacts, RequestParameters, ToolResult
from recorder.model.text import rows
from recorder.wire.dialects.canonical import (
    cache_marks,
    call_place,
    lifetime,
    request_digest,
    sized_texts,
    sized_tools,
)
from recorder.wire.dialects.json_values import (
    Object,
    Places,
    array,
    first_at,
    flag,
    fraction,
    names,
    objects,
    text,
    whole,
    without,
    word,
)
from recorder.wire.dialects.user_text import instructions, last_words

Role = Literal["system", "user", "assistant", "tool", "unknown"]

Kind = Literal[
    "text",
    "refusal",
    "image",
    "audio",
    "video",
    "file",
    "search_result",
    "task",  # that one agent gives to another
    "unknown",  # a part of a message that is none of these
    "reasoning",
    "call",
    "result",
    "old_call",  # in the form of 2023
    "provider_call",  # of a tool that the provider runs
    "provider_result",
    "reference",  # to an item that only the provider has
    "compaction",
    "tools",  # that are offered from here on
    "other",  # an item that is none of these
]

WORDS = names("text refusal image audio video file search_result task unknown")
"""The kinds of what somebody says or shows: a message has one of them, at least."""


class Part(msgspec.Struct, frozen=True):
    """A part of a message, or an item between messages."""

    kind: Kind
    given: Object  # as it was sent
    text: str | None = None  # of a text, a refusal, readable reasoning
    id: Any = None  # of a call; of a result, that of its call; of a reference, that of the item
    name: Any = None
    value: Any = None  # the arguments of a call, the content of a result, the address of an image
    is_free_text: bool = False  # of a call: what its tool takes is not JSON


_ACCESSORS: Mapping[str, Callable[..., Any]] = {
    "text": text,
    "word": word,
    "whole": whole,
    "fraction": fraction,
    "flag": flag,
}


def settings_at(request: Object, settings: Places) -> dict[str, Any]:
    """Return the settings of a request, by a table in which each has its accessor:
    `store:flag store`.
    """
    found = {}
    for setting, paths in settings.items():
        name, _, accessor = setting.partition(":")
        found[name] = first_at(_ACCESSORS[accessor], request, paths)
    return found


def kinds(table: str) -> Mapping[str, Kind]:
    """Return the kinds of parts by a word of a format: in a row of the table a kind, and the words
    for it.
    """
    found: dict[str, Kind] = {}
    for kind, *words in map(str.split, rows(table)):
        found.update(dict.fromkeys(words, msgspec.convert(kind, Kind)))
    return found


def role_of(roles: Mapping[str, Role], given: Any) -> Role:
    """Return what a role means that was sent."""
    return roles.get(given, "unknown") if isinstance(given, str) else "unknown"


def image_part(given: Object, url: Any, detail: Any = None) -> Part:
    """Return a picture as a part; it has no value if it has no URL and no bytes."""
    if not isinstance(url, str) or not url.startswith(("data:", "http://", "https://")):
        return Part("image", given)
    return Part(
        "image",
        given,
        value={"url": url, "detail": detail} if isinstance(detail, str) else {"url": url},
    )


def text_part(text: str) -> Part:
    """Return a text that is not in a list as a part."""
    return Part("text", {"type": "text", "text": text}, text)


class Message(msgspec.Struct, frozen=True):
    """A message, or an item of a conversation by itself."""

    role: Role
    parts: Sequence[Part]
    content: Any = None  # as it was sent, in the form in which turns are compared
    speaker: Any = None  # the role in the word of the format
    id: Any = None
    given: Object = {}
    is_item: bool = False  # it has no content of parts

    @property
    def words(self) -> list[str]:
        """Return its texts."""
        return [
            part.text
            for part in self.parts
            if part.kind in ("text", "task") and part.text is not None
        ]

    @property
    def is_of_system(self) -> bool:
        """Return whether the system gives it: instructions, or tools."""
        return self.role == "system" or (bool(self.parts) and self.parts[0].kind == "tools")

    @property
    def is_said(self) -> bool:
        """Return whether somebody says or shows something in it."""
        return any(part.text or part.kind != "text" for part in self.parts if part.kind in WORDS)

    @property
    def has_results(self) -> bool:
        return any(part.kind == "result" for part in self.parts)


class Tool(msgspec.Struct, frozen=True):
    """A tool that a request offers."""

    kind: Literal["function", "free_text", "provider", "old_function"]
    name: Any
    description: Any = None
    schema: Any = None
    strict: Any = None
    namespace: str | None = None


class Conversation(ABC):
    """A request as a conversation. `path` is without its query."""

    marks: ClassVar[tuple[str, ...]] = ()
    """Names of the members that mark what is to be cached."""

    not_of_answer: ClassVar[frozenset[str]] = frozenset()
    """Members of a request that decide nothing of its answer, or are in a digest of their own."""

    joins_texts: ClassVar[bool] = False
    """The texts of a message are one: clients divide it where they like."""

    def __init__(self, path: str, request: Object) -> None:
        self.path, self.request = path, request

    def __eq__(self, other: object) -> bool:
        """Compare what was read: the facts that have a conversation are compared, too."""
        return isinstance(other, Conversation) and (self.path, self.request) == (
            other.path,
            other.request,
        )

    def __hash__(self) -> int:
        return hash(self.path)

    # -- what a dialect says

    @cached_property
    def model(self) -> str | None:
        """Return the name of the model that is asked."""
        return text(self.request, "model")

    @property
    def stream(self) -> bool | None:
        """Return whether the answer shall be a stream, if the request says so."""
        return flag(self.request, "stream")

    @property
    def method(self) -> str:
        """Return what tells requests with the same body apart, as one for an answer and one for its
        size.
        """
        return self.path.rpartition("/")[2]

    @abstractmethod
    def read_messages(self) -> Iterator[Message]:
        """Yield the messages and the items of the conversation."""

    @abstractmethod
    def read_tools(self) -> Iterator[Tool]:
        """Yield the tools that are offered."""

    @abstractmethod
    def result(self, part: Part) -> ToolResult | None:
        """Return the result of a call, given as a part; None if a provider's tool gave it."""

    @abstractmethod
    def content_of(self, part: Part) -> Sequence[Part]:
        """Return the parts of a result."""

    @abstractmethod
    def settings(self) -> RequestParameters:
        """Return the settings of the request: all that does not depend on its messages."""

    @property
    def calls_in_parallel(self) -> bool | None:
        """Return whether the model may call several tools at once, if the request says so."""
        return self.settings().parallel_tool_calls

    @property
    def is_count(self) -> bool:
        """Return whether only the number of tokens is asked for."""
        return False

    @property
    def previous_response_id(self) -> str | None:
        """Return the id of the response that the request continues."""
        return None

    @property
    def system(self) -> Any:
        """Return the system prompt beside the messages, as it was sent."""
        return None

    @property
    def system_parts(self) -> Sequence[Part]:
        """Return the parts of the system prompt beside the messages."""
        return ()

    @property
    def offered(self) -> Sequence[Any]:
        """Return the tools as they were sent."""
        return array(self.request, "tools")

    @property
    def about(self) -> list[Any]:
        """Return what tells equal conversations apart: the model, the tools, and the system prompt."""
        return [self.request.get("model"), self.request.get("tools"), self.system]

    def is_of_client(self, text: str) -> bool:
        """Return whether a text of the system prompt is a client's own, which the model is not
        shown.
        """
        return False

    # -- what is the same for all

    @cached_property
    def messages(self) -> Sequence[Message]:
        return list(self.read_messages())

    @cached_property
    def parts(self) -> Sequence[Part]:
        return list(chain.from_iterable(message.parts for message in self.messages))

    @cached_property
    def tools(self) -> Sequence[Tool]:
        return list(self.read_tools())

    def is_users(self, message: Message) -> bool:
        """Return whether a message is one of the user."""
        return message.role == "user"

    def facts(self) -> RequestFacts:
        """Return the facts of the request."""
        conversation = [message for message in self.messages if not message.is_of_system]
        at_end = takewhile(
            lambda each: self.is_users(each) and not each.has_results, reversed(conversation)
        )
        users = [self._words(message) for message in conversation if self.is_users(message)]
        words, is_turn = last_words(users, sum(1 for _ in at_end))
        return RequestFacts(
            model=self.model,
            stream=self.stream,
            text=words,
            is_turn=is_turn and not self.is_count,
            results=tuple(self.results()),
            repeated_calls=self.repeated_calls(),
            instructions=instructions(self.instructions()),
            previous_response_id=self.previous_response_id,
            items=len(self.messages),
            parameters=self.parameters(),
        )

    def _words(self, message: Message) -> list[str]:
        words = message.words
        return ["\n".join(words)] if self.joins_texts and words else words

    def instructions(self) -> Iterator[str]:
        """Yield the texts of the system, wherever they are."""
        yield from Message("system", self.system_parts).words
        for message in self.messages:
            if message.role == "system":
                yield from message.words

    def results(self) -> Iterator[ToolResult]:
        """Yield the results of calls that the request carries."""
        for message in self.messages:
            if message.role != "assistant":
                yield from filter(None, map(self.result, message.parts))

    def repeated_calls(self) -> tuple[RepeatedCall, ...]:
        """Return the calls of the last turn with calls, if they have a result."""
        turn: list[Part] = []
        is_answered = False
        for part in self.parts:
            if part.kind == "result":
                is_answered = True
            elif part.kind == "call":
                if is_answered:
                    turn, is_answered = [], False
                turn.append(part)
        return tuple(map(_repeated, turn)) if is_answered else ()

    # -- parameters

    def parameters(self) -> RequestParameters:
        """Return the settings of the request, and what is in it by kind."""
        if not self.request:
            return RequestParameters()
        tools = sized_tools(self.offered, self.marks)
        system = sized_texts(self._first_instructions(), self.is_of_client)
        settings, marks = self.settings(), self._cache_marks()
        kinds = Counter[str](part.kind for part in self.parts)
        rest = without(self.request, self.not_of_answer)
        return msgspec.structs.replace(
            settings,
            tool_names=tuple(tool_names(self.tools)),
            input_messages=sum([message.is_said for message in self.messages]),
            input_tool_calls=kinds["call"] + kinds["old_call"] + kinds["provider_call"],
            input_tool_results=kinds["result"] + kinds["provider_result"],
            input_reasoning=kinds["reasoning"],
            input_other=kinds["reference"] + kinds["compaction"] + kinds["tools"] + kinds["other"],
            system_bytes=system.size_bytes,
            system_digest=system.digest,
            tools_bytes=tools.size_bytes,
            tools_digest=tools.digest,
            prompt_cache_retention=settings.prompt_cache_retention or lifetime(marks),
            cache_markers=len(marks),
            request_digest=request_digest(self.method, self.model, system, tools, rest),
        )

    def _first_instructions(self) -> Iterator[str]:
        """Yield the texts of the system that stand before all other messages."""
        yield from Message("system", self.system_parts).words
        for message in takewhile(lambda each: each.is_of_system, self.messages):
            yield from message.words

    def _cache_marks(self) -> list[Object]:
        """Return the marks of the request, its tools, its system prompt, its messages and what is
        in them.
        """
        if not self.marks:
            return []
        places = [self.request, *objects(self.offered)]
        places += [part.given for part in self.system_parts]
        places += [message.given for message in self.messages]
        parts = [part.given for part in self.parts]
        places += parts
        for part in parts:
            places += objects(part, "content")  # of a result
        return cache_marks(places, self.marks)


def _repeated(call: Part) -> RepeatedCall:
    arguments = {} if call.value is None else call.value
    return RepeatedCall(text(call.id), call_place(text(call.name), arguments))


def tool_names(tools: Sequence[Tool]) -> Iterator[str]:
    """Yield the names of tools; of one in a namespace behind that."""
    for tool in tools:
        if isinstance(tool.name, str) and tool.name:
            yield f"{tool.namespace}.{tool.name}" if tool.namespace else tool.name
