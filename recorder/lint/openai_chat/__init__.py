"""The rules of Chat Completions: `data: {chunk}` until `data: [DONE]`.

Must not know: other APIs, and where recordings come from.

The behaviour of openai-python 3.52 was read in its source and measured; that of openai-node was read. `.stream()` is
the helper of both that puts chunks together; many frameworks do the same in the same way. Fields that a vendor adds
break no rule.
"""

from __future__ import annotations

from recorder.lint.faults import FaultFinder
from recorder.lint.openai_chat.chunks import faults
from recorder.lint.rule import Rule, Severity

_CHAT = FaultFinder("chat", faults)

_REFERENCE = "OpenAI API reference, Chat Completions, streaming"
_PYTHON = "openai-python, src/openai/lib/streaming/chat/_completions.py"
_PYTHON_DELTAS = "openai-python, src/openai/lib/streaming/_deltas.py"
_PYTHON_SSE = "openai-python, src/openai/_streaming.py"
_NODE = "openai-node, src/lib/ChatCompletionStream.ts"
_NODE_SSE = "openai-node, src/core/streaming.ts"


def _rule(id: str, severity: Severity, meaning: str, why: str, *source: str) -> Rule:
    return Rule(id, severity, meaning, why, "; ".join(source), frozenset({"chat"}), _CHAT.of(id))


RULES: tuple[Rule, ...] = (
    _rule(
        *("CH001", "warning", "`data: [DONE]` is missing at the end."),
        "A client that waits for it takes the answer for one that broke off. The OpenAI SDKs accept the end of the "
        "body.",
        f"{_REFERENCE}: the stream is terminated by `data: [DONE]`",
    ),
    _rule(
        *("CH002", "error", "Something stands after `data: [DONE]`."),
        "openai-python and openai-node stop reading there: it is lost.",
        *(_PYTHON_SSE, _NODE_SSE),
    ),
    _rule(
        *("CH003", "error", "The `object` of a chunk is not `chat.completion.chunk`."),
        "`.stream()` of openai-python passes over such a chunk, and what it says is missing in the completion.",
        f"{_PYTHON}: _is_valid_chat_completion_chunk_weak",
    ),
    _rule(
        *("CH004", "error", "The `id` changes from one chunk to another."),
        "openai-node takes a chunk with another id for the beginning of another completion, and fails with "
        "`missing finish_reason for choice 0`, where it reads a stream that was passed on to it "
        "(`fromReadableStream`).",
        *(f"{_REFERENCE}: each chunk has the same ID", _NODE),
    ),
    _rule(
        *("CH005", "warning", "`created` or `model` changes from one chunk to another."),
        "Clients that put chunks together keep the first or the last, and do not agree which model answered, and when.",
        f"{_REFERENCE}: each chunk has the same timestamp",
    ),
    _rule(
        *("CH006", "error", "A chunk has no array `choices`."),
        "openai-python raises `TypeError: 'NoneType' object is not iterable` in `.stream()`, and whoever loops over "
        "`chunk.choices` fails alike. A chunk that has nothing to say of a choice has an empty array.",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("CH007", "warning", "A chunk lacks `id`, `created` or `model`."),
        "The SDKs declare them as always there: clients that use them (for logs, or as the key of a completion) get "
        "none.",
        f"{_REFERENCE}: the chunk object",
    ),
    _rule(
        *("CH008", "error", "A choice has no number `index` or no object `delta`."),
        "openai-python raises `TypeError: list indices must be integers` or "
        "`AttributeError: 'NoneType' object has no attribute 'to_dict'` in `.stream()`.",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("CH009", "error", "A choice begins before the one whose index is smaller by one."),
        "openai-python keeps choices in a list by index: `IndexError: list assignment index out of range` if the first "
        "chunk has another than 0; later ones are mixed up.",
        f"{_PYTHON}: _convert_initial_chunk_into_snapshot, _accumulate_chunk",
    ),
    _rule(
        *("CH010", "error", "No delta of a choice has a `role`."),
        "openai-node fails at the end of `.stream()` with `missing role for choice 0`. The first delta has it.",
        f"{_NODE}: finalizeChatCompletion",
    ),
    _rule(
        *("CH011", "error", "The stream ends without the `finish_reason` of a choice."),
        "openai-node fails at the end of `.stream()` with `missing finish_reason for choice 0`; other clients take "
        "an answer that broke off for a whole one.",
        *(_REFERENCE, f"{_NODE}: finalizeChatCompletion"),
    ),
    _rule(
        *("CH012", "error", "The request asks for usage (`stream_options.include_usage`), and no chunk has `usage`."),
        "Clients count no tokens: `chunk.usage` is null in all of them.",
        f"{_REFERENCE}, stream_options: an additional chunk will be streamed before the `data: [DONE]` message",
    ),
    _rule(
        *("CH013", "warning", "The chunk with the `usage` that was asked for has choices."),
        "A client that takes usage from the chunk without choices, as the reference tells it to, counts no tokens.",
        f"{_REFERENCE}, stream_options: on this chunk the `choices` field will always be an empty array",
    ),
    _rule(
        *("CH014", "warning", "More than one chunk has `usage`."),
        "A client that adds up what chunks say counts tokens more than once, as LangChain does when it adds chunks.",
        *(
            f"{_REFERENCE}, stream_options: all other chunks have a null value",
            "langchain-core, messages/ai.py: add_usage",
        ),
    ),
    _rule(
        *("CH015", "warning", "The token counts of `usage` are missing or contradict each other."),
        "Costs are wrong in a way that depends on which of the counts a client uses: total is prompt and completion, "
        "cached tokens are part of the prompt, reasoning tokens are part of the completion.",
        f"{_REFERENCE}: the usage object",
    ),
    _rule(
        *("CH016", "error", "The delta of a tool call has no number `index`."),
        "`.stream()` of openai-python raises `TypeError: list indices must be integers or slices, not NoneType` at the "
        "first delta of a call, “RuntimeError: Expected list delta entry to have an `index` key” at a later one: "
        "nobody can tell which call the arguments belong to.",
        *(_REFERENCE, f"{_PYTHON_DELTAS}: accumulate_delta"),
    ),
    _rule(
        *("CH017", "error", "The first delta of a tool call has no `id`."),
        "The Vercel AI SDK fails with `Expected 'id' to be a string.`, openai-node with "
        "`missing choices[0].tool_calls[0].id`; and the result of the call cannot be sent back.",
        *("vercel/ai, packages/openai-compatible, chat language model", f"{_NODE}: finalizeChatCompletion"),
    ),
    _rule(
        *("CH018", "error", "The first delta of a tool call has no name of a function."),
        "The Vercel AI SDK fails with `Expected 'function.name' to be a string.`.",
        "vercel/ai, packages/openai-compatible, chat language model",
    ),
    _rule(
        *("CH019", "error", "No delta of a tool call has a `type`."),
        "openai-node fails at the end of `.stream()` with `missing choices[0].tool_calls[0].type`; openai-python "
        "reports no arguments of such a call.",
        *(f"{_NODE}: finalizeChatCompletion", f"{_PYTHON}: _build_events"),
    ),
    _rule(
        *("CH020", "error", "A later delta of a tool call has an `id` or a name again."),
        "Clients put strings together: `.stream()` of openai-python gives the call the id `call_1call_1`, under which "
        "its result is refused. A call of its own has an index of its own.",
        f"{_PYTHON_DELTAS}: accumulate_delta",
    ),
    _rule(
        *("CH021", "error", "The arguments of a tool call are no string."),
        "Deltas of arguments are pieces of JSON text: openai-node makes `[object Object]` of an object, and who parses "
        "the text of a call fails.",
        *(_REFERENCE, _NODE),
    ),
    _rule(
        *("CH022", "warning", "The arguments of a tool call are no JSON when they are complete."),
        "A client that parses them fails (`json.JSONDecodeError`, `Unexpected end of JSON input`). Models do write "
        "such arguments; a gateway that loses a delta makes them too.",
        f"{_REFERENCE}: the model does not always generate valid JSON",
    ),
    _rule(
        *("CH023", "warning", "An error in the stream is no object `error` with a `message`."),
        "openai-python raises `APIError: An error occurred during streaming` without saying which, and takes an "
        "`event: error` without a field `error` for a chunk.",
        _PYTHON_SSE,
    ),
    _rule(
        *("CH024", "error", "Something stands after an error, other than `data: [DONE]`."),
        "openai-python and openai-node raise at the error: what follows is lost.",
        *(_PYTHON_SSE, _NODE_SSE),
    ),
    _rule(
        *("CH025", "error", "An error is sent as a field `error:` in the place of `data:`."),
        "It is no field of server-sent events: every client passes over it, and takes the answer for a whole one.",
        *("WHATWG HTML 9.2.6, any other field is ignored", _PYTHON_SSE),
    ),
    _rule(
        *("CH026", "error", "A chunk has an `event:` line."),
        "openai-node yields `{event, data}` in the place of the chunk, so that `chunk.choices` is undefined; "
        "openai-python does so for names that begin with `thread.`.",
        *(_NODE_SSE, _PYTHON_SSE),
    ),
    _rule(
        *("CH027", "warning", "A later delta of a choice has a `role` again."),
        "Clients put strings together: `.stream()` of openai-python makes `assistantassistant` of it, and the API "
        "refuses a message of that role.",
        f"{_PYTHON_DELTAS}: accumulate_delta",
    ),
    _rule(
        *("CH028", "error", "The `content` of a delta is no string."),
        "Clients put strings together: openai-node makes `[object Object]` of an array, openai-python loses it.",
        *(_REFERENCE, _NODE, f"{_PYTHON_DELTAS}: accumulate_delta"),
    ),
    _rule(
        *("CH029", "warning", "A choice says something after its `finish_reason`."),
        "A client that takes a choice for complete then loses it: openai-python has sent `content.done` by then.",
        f"{_PYTHON}: ChoiceEventState.get_done_events",
    ),
    _rule(
        *("CH030", "warning", "A choice has a second `finish_reason`."),
        "A client that acts on each of them acts twice; one that keeps the last may keep the wrong one.",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("CH031", "error", "A tool call begins before the one whose index is smaller by one."),
        "openai-python keeps calls in a list by index: `IndexError: list index out of range` in `.stream()`; "
        "openai-node leaves a hole, which is sent back as null.",
        *(f"{_PYTHON_DELTAS}: accumulate_delta", _NODE),
    ),
    _rule(
        *("CH032", "error", "A later delta of a tool call takes its `type` back: it is null."),
        "`.stream()` of openai-python puts null in the place of `function`: it says nothing of the arguments that "
        "follow, and the call that it hands over has no type. A field that has not changed is left out.",
        f"{_PYTHON_DELTAS}: accumulate_delta",
    ),
    _rule(
        *("CH033", "error", "A field of a chunk is missing, or of another kind than the API declares."),
        "The SDKs do not check: they hand on what stands there, or fail where they use it (`.stream()` of "
        "openai-python with `AttributeError: 'str' object has no attribute 'arguments'` at a function that is a "
        "text).",
        f"{_REFERENCE}: the chunk object",
    ),
    _rule(
        *("CH034", "error", "A later delta of a tool call has no `function`."),
        "openai-python raises an AssertionError without words in `.stream()`.",
        f"{_PYTHON}: _build_events",
    ),
)
