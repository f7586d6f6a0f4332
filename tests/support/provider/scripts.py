"""The content of the demo upstream's answers, whatever the wire format.

A script is a few parts in order. The wire formats turn parts into events; nothing here knows how.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tests.support.provider.dice import tokens
from tests.support.provider.prompt_cache import PromptTokens

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
class FunctionCall:
    """A call of one of the client's functions. Only Responses has namespaces."""

    name: str
    arguments: dict[str, Any]
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class CustomCall:
    """A call of a tool that takes text instead of JSON, which only Responses has."""

    name: str
    input: str
    namespace: str = ""


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
    """A failure of the provider at this place."""

    message: str


Part = Think | Say | FunctionCall | CustomCall | Search | Refuse | Fail


@dataclass(frozen=True, slots=True)
class Script:
    """Parts in order; with a `status` over 200 the request is refused before any of them.

    `pace` multiplies every pause in place of the server's: one that is there to be interrupted
    takes its time. `is_cut`: a limit on tokens has ended it.
    """

    parts: tuple[Part, ...] = ()
    status: int = 200
    pace: float | None = None
    is_cut: bool = False


class Usage(NamedTuple):
    """Token counts; `output` includes `reasoning`."""

    prompt: PromptTokens
    output: int
    reasoning: int

    @property
    def input(self) -> int:
        """Return the tokens of the prompt, cached ones included."""
        return self.prompt.total

    @property
    def cached(self) -> int:
        return self.prompt.cached


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
        Think(
            (
                "**Checking the weather**\n\nTwo cities were named, so both can be looked up at once.",
            )
        ),
        FunctionCall("get_weather", {"city": "Paris", "unit": "celsius"}),
        FunctionCall("get_weather", {"city": "Zürich", "unit": "celsius"}),
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

_REFUSE = Script(
    (Refuse("I’m sorry, but I can’t help with that. I’d be glad to help with something else."),)
)

_FAIL = Script(
    (
        Say("Let me start with the first half of the answer, and then"),
        Fail("The server had an error while processing your request. Sorry about that!"),
    )
)

_SLOW = Script(
    (
        Say(
            "Once there was a stream that was in no hurry. It sent a word, and looked out of the window. It sent "
            "another one, and thought of the first. Whoever listened had time to read, to nod, and to press a key; and "
            "whatever had come by then was kept, to the last byte, for those who wanted to know how far it had got. "
            "The end of the story is known to few, because few have waited for it, and they say that it was worth it."
        ),
    ),
    pace=10.0,
)

_TITLE = Script((Say("Words about a stream"),))
# how agents instruct a model that is to name a conversation
_TITLE_MAKER = re.compile(r"\btitle generator\b", re.I)

_COMMAND = "echo forty-two bottles"  # does nothing, and says the same each time
_TASK = "Say hello in one sentence."  # has no keyword of ours, or the sub-agent would go on
_AGENT = {"description": "Say hello", "prompt": _TASK, "subagent_type": "general-purpose"}

_BY_TOOL: tuple[tuple[re.Pattern[str], Mapping[str, FunctionCall | CustomCall]], ...] = (
    (
        re.compile(r"\bshell\b", re.I),
        {
            "exec_command": FunctionCall("exec_command", {"cmd": _COMMAND}),
            "shell": FunctionCall("shell", {"command": ["bash", "-c", _COMMAND]}),
            "functions.exec": CustomCall(
                "exec",
                f"const done = await tools.exec_command({{cmd: {json.dumps(_COMMAND)}}});\ntext(done.output);",
            ),
            "Bash": FunctionCall("Bash", {"command": _COMMAND, "description": "Count the bottles"}),
            "run_shell_command": FunctionCall(
                "run_shell_command", {"command": _COMMAND, "description": "Count the bottles"}
            ),
            "bash": FunctionCall("bash", {"command": _COMMAND, "description": "Count the bottles"}),
        },
    ),
    (
        re.compile(r"\bdelegate\b", re.I),
        {
            "multi_agent_v1.spawn_agent": FunctionCall(
                "spawn_agent", {"message": _TASK}, "multi_agent_v1"
            ),
            "collaboration.spawn_agent": FunctionCall(
                "spawn_agent",
                {"task_name": "greeter", "message": _TASK, "fork_turns": "none"},
                "collaboration",
            ),
            "Agent": FunctionCall("Agent", _AGENT),
            "Task": FunctionCall("Task", _AGENT),
            "task": FunctionCall("task", {**_AGENT, "subagent_type": "general"}),
        },
    ),
)
"""Keywords that mean one of the client's own tools, and how each of them is called: the first that
it offers.
"""

_AFTERWARDS: Mapping[str, Callable[[str], FunctionCall]] = {
    "multi_agent_v1.spawn_agent": lambda result: FunctionCall(
        "wait_agent", {"targets": [json.loads(result)["agent_id"]]}, "multi_agent_v1"
    ),
    "collaboration.spawn_agent": lambda _: FunctionCall("wait_agent", {}, "collaboration"),
}
"""What is called with the result of a tool, where that is not yet the end."""

_BY_KEYWORD: tuple[tuple[re.Pattern[str], Script], ...] = (
    (re.compile(r"\brate limit", re.I), Script(status=429)),
    (re.compile(r"\bunauthorized\b", re.I), Script(status=401)),
    (re.compile(r"\bbad request\b", re.I), Script(status=400)),
    (re.compile(r"\bfail\b", re.I), _FAIL),
    (re.compile(r"\brefuse\b", re.I), _REFUSE),
    (re.compile(r"\bweather\b", re.I), _WEATHER),
    (re.compile(r"\bsearch\b", re.I), _SEARCH),
    (re.compile(r"\bslow\b", re.I), _SLOW),
)


class Prompt(NamedTuple):
    """The part of a request that decides its answer: the last user text, and the tool results that
    came after it.

    `returned` is the tool of the last result, `tools` are those on offer; a name in a namespace is
    `namespace.name`. `schema` is what the answer has to fit, `forced` the call that it has to be,
    `most_tokens` how long it may get.
    """

    text: str
    results: Sequence[str] = ()
    returned: str = ""
    tools: Collection[str] = ()
    schema: object = None
    instructions: str = ""
    forced: FunctionCall | None = None
    most_tokens: int | None = None


def choose(prompt: Prompt) -> Script:
    """Return the script for the last user text, or for the tool results that came after it, as long
    as it may be.
    """
    script = _choose(prompt)
    return script if prompt.most_tokens is None else limited(script, prompt.most_tokens)


def _choose(prompt: Prompt) -> Script:
    if prompt.forced is not None:
        return Script((prompt.forced,))
    if prompt.schema is not None:
        return Script((Say(json.dumps(fill(prompt.schema))),))
    if prompt.results:
        afterwards = _AFTERWARDS.get(prompt.returned)
        return (
            Script((afterwards(prompt.results[-1]),)) if afterwards else _conclude(prompt.results)
        )
    if _TITLE_MAKER.search(prompt.instructions):
        return _TITLE
    return _use(prompt) or next(
        (script for pattern, script in _BY_KEYWORD if pattern.search(prompt.text)), _ANSWER
    )


def _use(prompt: Prompt) -> Script | None:
    """Return the call of one of the client's own tools, if the text has a keyword for one."""
    calls = (
        call
        for pattern, by_name in _BY_TOOL
        if pattern.search(prompt.text)
        for name, call in by_name.items()
        if name in prompt.tools
    )
    return next((Script((call,)) for call in calls), None)


def _conclude(results: Sequence[str]) -> Script:
    quotes = "\n".join(f"- {' '.join(result.split())[:QUOTE_LIMIT]}" for result in results)
    return Script(
        (
            Think(
                (
                    "**Reading the results**\n\nThe tools have answered, so the rest is to say it briefly.",
                ),
                64,
            ),
            Say(
                f"Here is what the tools reported:\n\n{quotes}\n\nA light jacket will do in both places."
            ),
        )
    )


def limited(script: Script, most_tokens: int) -> Script:
    """Return a script cut to so many tokens of output; half of them at most are for what is thought
    and not shown.

    A call that does not fit is left out as a whole: half an argument would be a call that nobody
    can make.
    """
    if usage(script, PromptTokens(0)).output <= most_tokens:
        return script
    parts: list[Part] = []
    left = most_tokens
    for part in script.parts:
        if isinstance(part, Think):
            part = replace(part, hidden_tokens=min(part.hidden_tokens, left // 2))
            left -= part.hidden_tokens
        elif isinstance(part, Say):
            said = tokens(part.text)[:left]
            left -= len(said)
            part = Say("".join(said), part.sources if len(said) == len(tokens(part.text)) else ())
        elif (needed := len(tokens(_spoken(part)))) <= left:
            left -= needed
        else:
            break
        parts.append(part)
    return replace(script, parts=tuple(parts), is_cut=True)


def forced(name: object, schema: object) -> FunctionCall:
    """Return the call of a function that a request has to be answered with."""
    arguments = fill(schema)
    return FunctionCall(str(name), arguments if isinstance(arguments, dict) else {})


def usage(script: Script, prompt: PromptTokens) -> Usage:
    """Return counts that agree: the input is that of the prompt, the output is defined by the
    script.
    """
    hidden = sum(part.hidden_tokens for part in script.parts if isinstance(part, Think))
    spoken = sum(len(tokens(_spoken(part))) for part in script.parts)
    return Usage(prompt, hidden + spoken, hidden)


def _spoken(part: Part) -> str:
    match part:
        case Say(text) | Refuse(text):
            return text
        case FunctionCall(name, arguments):
            return f"{name} {arguments}"
        case CustomCall(name, text):
            return f"{name} {text}"
        case Search(query):
            return query
        case _:
            return ""


# -- an answer that fits a JSON schema: routers and title makers of agents read it

TEXT = "Words about a stream"  # reads as a title, and as any other text
NUMBER = 42
DEPTH = 20  # of objects in objects; a schema that refers to itself would have no end

_SCALARS: Mapping[str, Any] = {
    "string": TEXT,
    "integer": NUMBER,
    "number": NUMBER,
    "boolean": True,
    "null": None,
}


def fill(schema: object, depth: int = DEPTH) -> Any:
    """Return the first value that the schema names, or a plain one of its type, in any case of
    letters.
    """
    if not isinstance(schema, Mapping) or not depth:
        return TEXT
    for named in ("const", "default"):
        if named in schema:
            return schema[named]
    if schema.get("enum"):
        return schema["enum"][0]
    for choice in ("anyOf", "oneOf"):
        if schema.get(choice):
            return fill(schema[choice][0], depth - 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    kind = str(kind or ("object" if "properties" in schema else "string")).lower()
    nested = _NESTED.get(kind)
    return nested(schema, depth - 1) if nested else _SCALARS.get(kind, TEXT)


def _object(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    return {name: fill(each, depth) for name, each in (schema.get("properties") or {}).items()}


def _array(schema: Mapping[str, Any], depth: int) -> list[Any]:
    return [fill(schema.get("items"), depth)]


_NESTED: Mapping[str, Callable[[Mapping[str, Any], int], Any]] = {
    "object": _object,
    "array": _array,
}
