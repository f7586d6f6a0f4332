"""RS03…: the order of the events of items and parts: added, then what they are, then done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from recorder.lint.rule import Hit, Profile, Rule, Severity, at_end
from recorder.lint.stream import StreamView
from recorder.wire.dialects.openai_responses.lint.events import is_complete
from recorder.wire.dialects.openai_responses.lint.walk import walk

_REFERENCE = "OpenAI API reference, Responses: Streaming events"
_SDK = "openai-python 3.52, lib/streaming/responses"
_CODEX = "openai/codex, codex-rs/core: turn; Codex CLI 0.169"

_ALL = frozenset[Profile]({"openai", "codex", "sdk"})
_OPENAI = frozenset[Profile]({"openai"})
_SDKS = frozenset[Profile]({"openai", "sdk"})


def _walked(rule: str) -> Callable[[StreamView], Iterable[Hit]]:
    return at_end(lambda stream: walk(stream).found(rule), walk)


def _open_items(stream: StreamView) -> Iterable[Hit]:
    if is_complete(stream):
        for item in walk(stream).items.values():
            if item.done is None:
                yield Hit(item.pos, f"{item.type}, output_index {item.index}")


def _open_parts(stream: StreamView) -> Iterable[Hit]:
    for item in walk(stream).items.values():
        for (of, number), part in item.parts.items() if item.done is not None else ():
            if part.is_announced and not part.is_closed:
                yield Hit(part.pos, f"{of} {number} of {item.type} {item.index}")


def _open_texts(stream: StreamView) -> Iterable[Hit]:
    for item in walk(stream).items.values():
        for (name, _), text in item.texts.items() if item.done is not None else ():
            if text.done is None:
                yield Hit(text.pos, f"{name}.done, output_index {item.index}")


class _Of(NamedTuple):
    id: str
    severity: Severity
    meaning: str
    why: str
    source: str
    profiles: frozenset[Profile]


_WALKED = (
    _Of(
        "RS024",
        "error",
        "The `item_id` of an event is not the id of the item at its `output_index`.",
        "Clients that assign deltas by `item_id` find no item of that id and drop the text, or open a second message."
        " GitHub Copilot sends such events; Codex does not check the id.",
        f"{_REFERENCE}: item_id",
        _OPENAI,
    ),
    _Of(
        "RS025",
        "error",
        "The id of an item changes from added to done.",
        "openai-python, `responses.stream`: RuntimeError “Completed output item identity changed.”, also if the item "
        "had none when it was added (a call may). In the next request the client names an item that the provider may "
        "not know.",
        f"{_REFERENCE}; {_SDK}",
        _SDKS,
    ),
    _Of(
        "RS028",
        "error",
        "An item has no id, neither when it is added nor when it is done.",
        "Clients find the item of an event by its id, and the next request cannot name the item without one. Calls "
        "have a `call_id`, and need no id. openai-python does not check it.",
        f"{_REFERENCE}: item.id",
        _OPENAI,
    ),
    _Of(
        "RS029",
        "error",
        "The type, `call_id` or name of an item changes from added to done.",
        "openai-python, `responses.stream`: RuntimeError “Completed output item identity changed.” for type and "
        "`call_id`; it reports both names. The result of a call is sent back under a `call_id` that the provider may "
        "not know.",
        f"{_REFERENCE}; {_SDK}",
        _SDKS,
    ),
    _Of(
        "RS030",
        "error",
        "Events of an item arrive before its `response.output_item.added`, or without it.",
        "Codex: “OutputTextDelta without active item”, “ReasoningSummaryDelta without active item”, and nothing is "
        "shown until the item is done; openai-python: RuntimeError “Received a content event for output index … before "
        "receiving its output item”.",
        f"{_REFERENCE}; {_CODEX}; {_SDK}",
        _ALL,
    ),
    _Of(
        "RS031",
        "error",
        "An item is added twice.",
        "openai-python, `responses.stream`: RuntimeError “Duplicate response output index …”.",
        f"{_REFERENCE}; {_SDK}",
        _SDKS,
    ),
    _Of(
        "RS033",
        "error",
        "Events of an item arrive after its `response.output_item.done`.",
        "For Codex no item is open then: “OutputTextDelta without active item”, “ReasoningSummaryDelta without active"
        " item”; their content is not in the item that it stores. It stores an item twice if there are two `done` "
        "events.",
        f"{_REFERENCE}; {_CODEX}",
        frozenset({"openai", "codex"}),
    ),
    _Of(
        "RS034",
        "error",
        "Items are not numbered 0, 1, 2 and so on by `output_index`.",
        "openai-node: OpenAIError “missing output at index …”; clients that keep items in an array leave a hole.",
        f"{_REFERENCE}: output_index; openai-node, lib/responses/ResponseStream.ts",
        _SDKS,
    ),
    _Of(
        "RS035",
        "error",
        "The text of a message has no part: `response.content_part.added` is missing before its first delta.",
        "openai-python, `responses.stream`: IndexError “list index out of range” at the first delta; openai-node: "
        "OpenAIError “missing content at index 0”. Codex of 2025 showed errors on every delta, Codex 0.169 works "
        "without it.",
        f"{_REFERENCE}; {_SDK}; openai-node, lib/responses/ResponseStream.ts",
        _SDKS,
    ),
    _Of(
        "RS038",
        "error",
        "An event comes after the one that closes its text or part.",
        "Clients that treat `.done` as the end have already shown or parsed the text, and miss the rest.",
        _REFERENCE,
        _OPENAI,
    ),
    _Of(
        "RS039",
        "error",
        "Parts of an item are not numbered 0, 1, 2 and so on.",
        "openai-python appends parts and looks them up by number: IndexError “list index out of range”, or text in the "
        "wrong part; openai-node: OpenAIError “missing content at index …”.",
        f"{_REFERENCE}: content_index, summary_index; {_SDK}",
        _SDKS,
    ),
    _Of(
        "RS048",
        "error",
        "A finished item has the status of an unfinished one.",
        "Clients that read the status, and the provider when the item is sent back, treat a finished item as still "
        "running: it is not shown, its tool is not called.",
        f"{_REFERENCE}: response.output_item.done",
        _SDKS,
    ),
    _Of(
        "RS049",
        "error",
        "A text is not of the type of its item, or of its part.",
        "openai-python, `responses.stream`: an AssertionError without a message at `response.output_text.delta` and "
        "`response.function_call_arguments.delta`; other texts are lost.",
        f"{_REFERENCE}; {_SDK}",
        _SDKS,
    ),
    _Of(
        "RS056",
        "warning",
        "Items are done in another order than that of their `output_index`.",
        "A client that appends an item when it is done, as Codex does, has another order than the final response: it "
        "sends them back so, and a call may come before the message that explains it.",
        f"{_REFERENCE}: output_index; {_CODEX}",
        frozenset({"openai", "codex"}),
    ),
    _Of(
        "RS054",
        "error",
        "A summary or a refusal has no part: `response.reasoning_summary_part.added` or `response.content_part.added` "
        "is missing before its first delta.",
        "Clients that build a summary part by part have no part to add the delta to: Codex of 2025 showed errors on "
        "every delta. Codex 0.169 and openai-python work without it.",
        _REFERENCE,
        _OPENAI,
    ),
)

RULES: tuple[Rule, ...] = (
    *(Rule(*each, _walked(each.id)) for each in _WALKED),
    Rule(
        "RS032",
        "error",
        "An item is never closed: the response is complete, but `response.output_item.done` is missing.",
        "Codex takes items only from that event: the message is neither shown nor stored, the tool is not called. "
        "openai-python: RuntimeError “Cannot complete response with unfinished output items.”, unless the final "
        "response has it.",
        f"{_REFERENCE}; {_CODEX}; {_SDK}",
        _ALL,
        at_end(_open_items, walk),
    ),
    Rule(
        "RS036",
        "warning",
        "A part is never closed: `response.content_part.done` (of a summary: `response.reasoning_summary_part.done`) "
        "is missing, although its item is done.",
        "Clients that show a part when it is done do not show it. Codex and the SDKs work without it.",
        _REFERENCE,
        _OPENAI,
        at_end(_open_parts, walk),
    ),
    Rule(
        "RS037",
        "warning",
        "A text is never closed: its `.done` event is missing, although its item is done.",
        "Clients that wait for `.done` (for the arguments of a call, above all) never get the text; openai-python "
        "sends no `response.output_text.done` with the parsed text.",
        f"{_REFERENCE}; {_SDK}",
        _OPENAI,
        at_end(_open_texts, walk),
    ),
)
