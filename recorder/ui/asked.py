"""A request for a reader: its system prompt, tools, messages and settings, and what is new since
the request before.

The request before is the nearest earlier one of the same API, thread and purpose. Both are read as
the model saw them, with all that they continue. Of pictures, files and sounds it has sizes and
digests: `recorder.ui.pictures` has bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from recorder.model.events import Recording, Session
from recorder.recordings.logged_cache import cache_of_log
from recorder.recordings.requests import load_requests, request_json
from recorder.recordings.selection import Numbered, select_exchanges
from recorder.store.queries.outlines import outlines
from recorder.store.queries.reader import LogReader
from recorder.wire.dialects import by_name
from recorder.wire.dialects.conversation import Conversation, Message, Part, Tool
from recorder.wire.dialects.json_values import as_json, text
from recorder.wire.dialects.media import digested, without_bytes
from recorder.wire.logical_request import LogicalRequest

Json = dict[str, Any]

TEXT_CHARS = 20_000
"""Characters of a text that are shown: a long system prompt. "request and response" has all of it.
"""

SHOWN_MESSAGES = 500
"""Messages that are shown, the newest: a page with more is slow, and what is new is among them."""


Clean = Callable[[str], str]
"""Returns a text as it may be shown."""


async def asked(log: LogReader, ref: str, exchange: str, *, is_brief: bool) -> Json:
    """Return the request of an exchange; with `is_brief` only the counts of its parts.

    `read` is None if nobody here knows what its requests say.

    Raises `RecorderError` if it and what it continues are too large.
    """
    session, chosen = await select_exchanges(log, ref, exchange)
    everything = list(enumerate(await log.exchanges(session.session_id), 1))
    [found] = [each async for each in asked_of(log, session, everything, chosen)]
    return found.document(is_brief=is_brief)


async def asked_of(
    log: LogReader,
    session: Session,
    everything: Sequence[Numbered],
    chosen: Sequence[Numbered],
    clean: Clean = str,
) -> AsyncIterator[Asked]:
    """Yield the requests of some of all exchanges of a session.

    `clean` is asked for each text before it is cut.

    Raises `RecorderError` if they and what they continue are too large together.
    """
    befores = await _befores(log, session, everything)
    numbers = {number for number, _ in chosen}
    needed = numbers | {befores[number] for number in numbers & befores.keys()}
    shown = await load_requests(log, session, [each for each in everything if each[0] in needed])
    loaded = {recorded.number: (recorded, request) for recorded, request in shown}
    only = chosen[0][1].exchange_id if len(chosen) == 1 else None
    caches = {
        turn.number: turn.document() for turn in await cache_of_log(log, session, everything, only)
    }
    # until the next one of its kind: a session repeats what was said
    last_read: dict[int, Conversation] = {}
    for number in sorted(needed):
        now = _read(*loaded[number]) if number in loaded else None
        before = last_read.pop(befores.get(number, 0), None)
        if now is not None:
            last_read[number] = now
        if number in numbers:
            is_complete = number not in loaded or loaded[number][1].is_complete
            number_before = None if before is None else befores[number]
            asking = None if now is None else _Asking(now, before, clean)
            yield Asked(number, number_before, is_complete, caches.get(number), asking)


class Asked(NamedTuple):
    """The request of an exchange, and the number of the one before that it is compared with."""

    number: int
    before: int | None
    is_complete: bool
    cache: Json | None
    asking: _Asking | None

    def document(self, *, is_brief: bool = False) -> Json:
        """Return the answer of the API."""
        read = None if self.asking is None else self.asking.told(is_brief=is_brief)
        return {
            "number": self.number,
            "before": self.before,
            "is_complete": self.is_complete,
            "cache": self.cache,
            "read": read,
        }


async def _befores(
    log: LogReader, session: Session, everything: Sequence[Numbered]
) -> dict[int, int]:
    """Return the number of the nearest earlier exchange of the same API, thread and purpose, where
    there is one.
    """
    purposes = {each.exchange_id: each.purpose for each in await outlines(log, session.session_id)}
    latest: dict[tuple[str | None, ...], int] = {}
    befores = {}
    for number, exchange in everything:
        kind = exchange.api, exchange.thread_id, purposes.get(exchange.exchange_id)
        if kind in latest:
            befores[number] = latest[kind]
        latest[kind] = number
    return befores


def _read(recorded: Recording, request: LogicalRequest) -> Conversation | None:
    body = request_json(request)
    if body is None:
        return None
    return by_name(recorded.exchange.api).read_request(
        recorded.request.target.partition("?")[0], body
    )


class _Asking:
    """A request, and the one before it if there is one."""

    def __init__(self, now: Conversation, before: Conversation | None, clean: Clean) -> None:
        self._now, self._clean = now, clean
        self._system, self._messages = clean(_system(now)), _said(now)
        self._before = before
        self._kept = 0 if before is None else _common(self._messages, _said(before))

    def told(self, *, is_brief: bool) -> Json:
        """Return the request; only the sizes of its parts if it is to be brief."""
        return self._counts() if is_brief else {**self._counts(), **self._parts()}

    def _counts(self) -> Json:
        """Return the sizes of the parts, and the settings."""
        settings = msgspec.to_builtins(self._now.settings())
        return {
            "model": self._now.model,
            "system_chars": len(self._system),
            "tools": len(_tools(self._now)),
            "messages": len(self._messages),
            "kept_messages": None if self._before is None else self._kept,
            "dropped_messages": 0
            if self._before is None
            else len(_said(self._before)) - self._kept,
            "settings": {name: value for name, value in settings.items() if value is not None},
            "system_differs_at": self._system_differs_at(),
            "changed_tools": [name for name, _ in self._changed_tools()],
        }

    def _parts(self) -> Json:
        """Return the parts themselves."""
        states = dict(self._changed_tools())
        first = max(0, len(self._messages) - SHOWN_MESSAGES)
        return {
            "system": _cut(self._system),
            "tool_list": [
                {**self._tool(each), "state": states.get(_name(each), "same")}
                for each in _tools(self._now)
            ],
            "first_message": first,
            "message_list": [self._message(each) for each in self._messages[first:]],
        }

    def _system_differs_at(self) -> int | None:
        """Return the first character of the system prompt that is another one than before; None if
        it is the same.
        """
        if self._before is None:
            return None
        before = self._clean(_system(self._before))
        if before == self._system:
            return None
        pairs = zip(self._system, before, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def _changed_tools(self) -> Iterator[tuple[str, str]]:
        """Yield the names of tools that are `new`, `changed` or `gone` since the request before."""
        if self._before is None:
            return
        now = {_name(each): each for each in _tools(self._now)}
        before = {_name(each): each for each in _tools(self._before)}
        for name, tool in now.items():
            if name not in before:
                yield name, "new"
            elif before[name] != tool:
                yield name, "changed"
        for name in before.keys() - now.keys():
            yield name, "gone"

    def _tool(self, tool: Tool) -> Json:
        description = tool.description if isinstance(tool.description, str) else ""
        schema = "" if tool.schema is None else as_json(tool.schema)
        shown = {
            "description": _cut(self._clean(description)),
            "parameters": _cut(self._clean(schema)),
        }
        return {"name": _name(tool), **shown}

    def _message(self, message: Message) -> Json:
        return {"role": message.role, "parts": [self._part(each) for each in message.parts]}

    def _part(self, part: Part) -> Json:
        name = part.name if isinstance(part.name, str) else _file_name(part)
        about = {"kind": part.kind, "name": name, "pictures": list(self._pictures(part))}
        return {**about, **_cut(self._clean(self._text(part)))}

    def _text(self, part: Part) -> str:
        if part.text is not None:
            return part.text
        if part.kind == "result":
            return "\n".join(self._text(each) for each in self._now.content_of(part))
        if part.kind == "image" and isinstance(part.value, dict):
            return _picture(str(part.value["url"]))
        value = without_bytes(part.given if part.value is None else part.value)
        held = next((each for each in _holders(value) if "sha256" in each), None)
        if held is not None and part.kind in _MEDIA:
            return f"{held['mime_type']}, {held['size_bytes']:,} bytes"
        return value if isinstance(value, str) else as_json(value)

    def _pictures(self, part: Part) -> Iterator[Mapping[str, Any]]:
        """Yield size and digest of the pictures whose bytes are in a part."""
        if part.kind == "result":
            for each in self._now.content_of(part):
                yield from self._pictures(each)
        elif part.kind == "image" and isinstance(part.value, dict):
            about, coded, data = str(part.value["url"]).partition(";base64,")
            if coded:
                yield {"mime_type": about.removeprefix("data:"), **digested(data)}


def _system(conversation: Conversation) -> str:
    return "\n\n".join(conversation.instructions())


def _said(conversation: Conversation) -> list[Message]:
    return [message for message in conversation.messages if not message.is_of_system]


def _common(messages: Iterable[Message], before: Iterable[Message]) -> int:
    """Return how many messages are the same from the begin on: ids and cache marks do not count."""
    pairs = zip(messages, before, strict=False)
    return sum(1 for _ in takewhile(lambda pair: _compared(pair[0]) == _compared(pair[1]), pairs))


def _compared(message: Message) -> Any:
    return message.role, [(part.kind, part.text, part.name, part.value) for part in message.parts]


def _tools(conversation: Conversation) -> list[Tool]:
    """Return the tools that a model has: those of the request, and those that items bring, as Codex
    sends them.
    """
    tools = [*conversation.tools]
    for part in conversation.parts:
        if part.kind == "tools" and isinstance(part.value, list):
            tools += part.value
    return tools


def _name(tool: Tool) -> str:
    name = tool.name if isinstance(tool.name, str) else tool.kind
    return f"{tool.namespace}.{name}" if tool.namespace else name


_MEDIA = ("file", "audio", "video", "image")
_NAMES = (
    "filename",
    "displayName",
    "display_name",
    "title",
    "name",
    "file_id",
    "file_uri",
    "fileUri",
)
"""Members of a part, or of an object in it, that say which file it is: the best first."""


def _file_name(part: Part) -> str | None:
    """Return the name of a file that is a part of a message, where it has one."""
    if part.kind not in _MEDIA:
        return None
    holders = _holders(part.given)
    for name in _NAMES:
        for holder in holders:
            if found := text(holder, name):
                return found
    return None


def _holders(value: Any, depth: int = 2) -> list[Json]:
    """Return an object and the objects in it, as deep as a part has its file."""
    if not isinstance(value, dict):
        return []
    found = [value]
    if depth:
        for each in value.values():
            found += _holders(each, depth - 1)
    return found


def _picture(url: str) -> str:
    """Return the address of a picture; of one whose bytes are in it, its type and size."""
    about, comma, data = url.partition(",")
    if not url.startswith("data:") or not comma:
        return url
    return f"{about.removeprefix('data:').partition(';')[0]}, {len(data) * 3 // 4:,} bytes"


def _cut(text: str) -> Json:
    """Return a text as it is shown, and its length."""
    return {"text": text[:TEXT_CHARS].encode("utf-8", "replace").decode(), "chars": len(text)}
