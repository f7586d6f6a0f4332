"""What the demo upstream says, whatever the wire format it says it in.

A script is a few parts in order. The wire formats turn parts into events; nothing here knows how.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from recorder.demo.dice import tokens

CACHED_TOKENS = 1_024  # as if a cached system prompt stood before every request
QUOTE_LIMIT = 200  # characters of a tool result that the final answer repeats


@dataclass(frozen=True, slots=True)
class Think:
    """Reasoning, as the summaries a provider shows of it."""

    summaries: tuple[str, ...]
    hidden_tokens: int = 128  # thought of, paid for, not shown


@dataclass(frozen=True, slots=True)
class Source:
    """A page that an answer cites; `cited` is the part of the answer that comes from it."""

    url: str
    title: str
    cited: str


@dataclass(frozen=True, slots=True)
class Say:
    text: str
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one of the client's functions."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Search:
    """A web search that the provider does itself."""

    query: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Refuse:
    text: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The provider breaks off here."""

    message: str


Part = Think | Say | Call | Search | Refuse | Fail


@dataclass(frozen=True, slots=True)
class Script:
    """Parts in order; with a `status` over 200 the request is refused before any of them."""

    parts: tuple[Part, ...] = ()
    status: int = 200


class Usage(NamedTuple):
    """Token counts; `input` includes `cached`, `output` includes `reasoning`."""

    input: int
    cached: int
    output: int
    reasoning: int


_ANSWER = Script(
    (
        Think(
            (
                "**Recalling how streams work**\n\nThe question is open, so a short and friendly explanation is best.",
                "**Choosing an example**\n\nA recorder that keeps every event is easy to picture.",
            ),
            hidden_tokens=192,
        ),
        Say(
            "A stream is a letter that arrives word by word. Each word comes as an event of its own — “now”, “then”, "
            "“done” — and whoever keeps the events *and* their times can read the letter again later, at the same "
            "pace, down to the last byte. ✓"
        ),
    )
)

_WEATHER = Script(
    (
        Think(("**Checking the weather**\n\nTwo cities were named, so both can be looked up at once.",)),
        Call("get_weather", {"city": "Paris", "unit": "celsius"}),
        Call("get_weather", {"city": "Zürich", "unit": "celsius"}),
    )
)

_SOURCES = (
    Source(
        "https://html.spec.whatwg.org/multipage/server-sent-events.html",
        "HTML Standard: Server-sent events",
        "events are separated by a blank line",
    ),
    Source(
        "https://developer.mozilla.org/docs/Web/API/Server-sent_events",
        "Server-sent events - Web APIs | MDN",
        "the stream must be encoded as UTF-8",
    ),
)

_SEARCH = Script(
    (
        Search("server-sent events format", _SOURCES),
        Say(
            "In a stream of server-sent events, events are separated by a blank line, and the stream must be encoded "
            "as UTF-8. Lines may end with LF, CR or CRLF.",
            _SOURCES,
        ),
    )
)

_REFUSE = Script((Refuse("I’m sorry, but I can’t help with that. I’d be glad to help with something else."),))

_FAIL = Script(
    (
        Say("Let me start with the first half of the answer, and then"),
        Fail("The server had an error while processing your request. Sorry about that!"),
    )
)

_BY_KEYWORD: tuple[tuple[re.Pattern[str], Script], ...] = (
    (re.compile(r"\brate limit", re.I), Script(status=429)),
    (re.compile(r"\bunauthorized\b", re.I), Script(status=401)),
    (re.compile(r"\bbad request\b", re.I), Script(status=400)),
    (re.compile(r"\bfail\b", re.I), _FAIL),
    (re.compile(r"\brefuse\b", re.I), _REFUSE),
    (re.compile(r"\bweather\b", re.I), _WEATHER),
    (re.compile(r"\bsearch\b", re.I), _SEARCH),
)


def choose(text: str, results: Sequence[str]) -> Script:
    """The script for the last user text, or for the tool results that came after it."""
    if results:
        return _conclude(results)
    return next((script for pattern, script in _BY_KEYWORD if pattern.search(text)), _ANSWER)


def _conclude(results: Sequence[str]) -> Script:
    quotes = "\n".join(f"- {' '.join(result.split())[:QUOTE_LIMIT]}" for result in results)
    return Script(
        (
            Think(("**Reading the results**\n\nThe tools have answered, so the rest is to say it briefly.",), 64),
            Say(f"Here is what the tools reported:\n\n{quotes}\n\nA light jacket will do in both places."),
        )
    )


def usage(script: Script, body: bytes) -> Usage:
    """Counts that hang together: the input grows with the request, the output is what the script says."""
    hidden = sum(part.hidden_tokens for part in script.parts if isinstance(part, Think))
    spoken = sum(len(tokens(_spoken(part))) for part in script.parts)
    return Usage(CACHED_TOKENS + 16 + len(body) // 4, CACHED_TOKENS, hidden + spoken, hidden)


def _spoken(part: Part) -> str:
    match part:
        case Say(text) | Refuse(text):
            return text
        case Call(name, arguments):
            return f"{name} {arguments}"
        case Search(query):
            return query
        case _:
            return ""
