"""The rules of Anthropic Messages: `message_start`, blocks one after another, `message_delta`, `message_stop`.

Must not know: other APIs, and where recordings come from.

The behaviour of anthropic-sdk-python 2.11 was read in its source and measured; that of the SDK for TypeScript was read.
`.stream()` is the helper of both that puts the message together. Clients that do so by hand keep blocks in a list by
index, as both SDKs do.
"""

from __future__ import annotations

from recorder.lint.faults import FaultFinder
from recorder.lint.rule import Rule, Severity
from recorder.wire.dialects.anthropic.lint.message import TOKENS_LIMIT, faults

_MESSAGES = FaultFinder("messages", faults)

_REFERENCE = "Anthropic API, Streaming Messages"
_PYTHON = "anthropic-sdk-python, src/anthropic/lib/streaming/_messages.py: accumulate_event"
_PYTHON_SSE = "anthropic-sdk-python, src/anthropic/_streaming.py"
_TYPESCRIPT = "anthropic-sdk-typescript, src/lib/MessageStream.ts"
_TYPESCRIPT_SSE = "anthropic-sdk-typescript, src/core/streaming.ts"


def _rule(id: str, severity: Severity, meaning: str, why: str, *source: str) -> Rule:
    return Rule(id, severity, meaning, why, "; ".join(source), frozenset({"anthropic"}), _MESSAGES.of(id))


RULES: tuple[Rule, ...] = (
    _rule(
        *("AN001", "error", "An event has no `event:` line."),
        "Both SDKs distinguish events by that line and ignore one without it: its text is missing in the message, and"
        " an error is not reported.",
        *(_PYTHON_SSE, _TYPESCRIPT_SSE),
    ),
    _rule(
        *("AN002", "error", "The `event:` line of an event is not its `type`."),
        "The SDK for TypeScript uses the line, the SDK for Python both (it drops an event named `ping` and raises at "
        "one named `error`): the two get different messages.",
        *(_REFERENCE, _PYTHON_SSE, _TYPESCRIPT_SSE),
    ),
    _rule(
        *("AN003", "error", "The payload of an event is not an object with a `type`."),
        "The SDK for Python does not know such an event: it adds nothing to the message, or raises `TypeError: "
        "Unexpected event runtime type` if the payload is not an object.",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("AN004", "error", "The first event is not `message_start`."),
        'The SDK for TypeScript fails with `Unexpected event order, got … before "message_start"`; `.stream()` of the'
        " SDK for Python has no message at the end (`AssertionError`) if there is no `message_start`.",
        *(_TYPESCRIPT, _PYTHON),
    ),
    _rule(
        *("AN005", "error", "`message_start` comes a second time."),
        "The SDK for TypeScript fails with "
        '`Unexpected event order, got message_start before receiving "message_stop"`.',
        _TYPESCRIPT,
    ),
    _rule(
        *("AN006", "error", "The message of `message_start` is not complete."),
        "All later events are added to this message: without `content` and `usage`, the SDKs fail at the first block "
        "or at `message_delta` (`AttributeError: 'NoneType' object has no attribute 'append'`).",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("AN007", "error", "The stream ends without `message_stop`."),
        "The SDK for TypeScript has no final message: it fails with `stream ended without producing a Message with "
        "role=assistant`. The SDK for Python takes the message as it is.",
        *(_REFERENCE, _TYPESCRIPT),
    ),
    _rule(
        *("AN008", "error", "Something other than `ping` follows `message_stop`."),
        "Clients have already received the message: they do not see what follows, although `.stream()` of the SDK for"
        " Python adds it.",
        *(_REFERENCE, _TYPESCRIPT),
    ),
    _rule(
        *("AN009", "error", "Neither a `message_delta` nor, without one, `message_start` has a `stop_reason`."),
        "`stop_reason` stays null: an agent that runs tools at `tool_use` and continues the turn at `pause_turn` does"
        " neither.",
        *(f"{_REFERENCE}: message_delta events indicate top-level changes to the final Message", _PYTHON),
    ),
    _rule(
        *("AN010", "error", "A `message_delta` has no `delta`, or no `usage` with `output_tokens`."),
        "`.stream()` of the SDK for Python raises `AttributeError: 'NoneType' object has no attribute "
        "'output_tokens'`, and the SDK for TypeScript a TypeError.",
        *(_REFERENCE, _PYTHON, _TYPESCRIPT),
    ),
    _rule(
        *("AN011", "error", "A block continues after the next one began."),
        "Only one block may be open at a time: the SDK for TypeScript assigns a delta to the last block, whatever its"
        " index, and so reports it for the wrong block, or not at all.",
        *(_REFERENCE, _TYPESCRIPT),
    ),
    _rule(
        *("AN012", "error", "An event of a block lacks an `index` that is a number."),
        "`.stream()` of the SDK for Python raises `TypeError: list indices must be integers or slices, not NoneType`.",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("AN013", "error", "The index of a block is not the next one, counted from 0."),
        "The SDKs add blocks to a list and find them by index: a delta is added to another block, or there is no such"
        " block (`IndexError: list index out of range`).",
        *(f"{_REFERENCE}: each content block has an index in the final content array", _PYTHON),
    ),
    _rule(
        *("AN014", "error", "A delta or a stop belongs to a block that is not open."),
        "The SDKs look for the block: `IndexError: list index out of range` if it has not begun.",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *(
            "AN015",
            "error",
            "A `content_block_start` has no `content_block` with a type, or its text block has no text.",
        ),
        "Deltas are added to it: `.stream()` of the SDK for Python raises "
        "`AttributeError: 'NoneType' object has no attribute 'to_dict'`, or a TypeError at the first delta.",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("AN016", "error", "A block of tool use has no `id` or no `name`."),
        "The called tool is unknown, or its result cannot be sent back, because it needs a `tool_use_id`.",
        *(_REFERENCE, "Anthropic API, Tool use"),
    ),
    _rule(
        *("AN017", "error", "A `content_block_delta` has no `delta` with a type, or the delta lacks its text."),
        "`.stream()` of the SDK for Python raises `AttributeError: 'NoneType' object has no attribute 'type'`, or a "
        "TypeError where it adds the text.",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("AN018", "error", "A delta does not fit the type of its block."),
        "Both SDKs ignore it: its content is missing in the message.",
        *(_PYTHON, _TYPESCRIPT),
    ),
    _rule(
        *("AN019", "error", "The pieces of a tool's input, joined, are not a JSON object."),
        "The SDK for Python raises `ValueError: Unable to parse tool parameter JSON from model`, or calls the tool "
        "with the part of the input that can be read.",
        *(f"{_REFERENCE}: input JSON delta", _PYTHON),
    ),
    _rule(
        *("AN020", "error", "A block of thinking has no signature."),
        "The API refuses the next request of a turn with tools, in which the block must be sent back unchanged.",
        "Anthropic API, Extended thinking: preserving thinking blocks",
    ),
    _rule(
        *("AN021", "warning", "The `stop_reason` belongs to another API."),
        "An agent that waits for `end_turn` and `tool_use` does not know what to do next.",
        "Anthropic API, Handling stop reasons",
    ),
    _rule(
        *("AN022", "warning", "The `output_tokens` of `message_delta` are fewer than those of `message_start`."),
        "The counts are totals, and the last one is used: if a gateway sends the tokens of one event only, too few "
        "are counted.",
        *(f"{_REFERENCE}: the token counts in the usage field of message_delta are cumulative", _PYTHON),
    ),
    _rule(
        *("AN023", "error", "A block has no `content_block_stop`."),
        "A client that acts on complete blocks never acts on this one: a tool is not called, a text is not stored.",
        *(_REFERENCE, f"{_TYPESCRIPT}: contentBlock"),
    ),
    _rule(
        *("AN024", "error", "An event of a block follows `message_delta`."),
        "A client that treats the content as complete at the `stop_reason` has already acted on it.",
        f"{_REFERENCE}: the event flow",
    ),
    _rule(
        *("AN025", "warning", "An `error` is not an object with a `type` and a `message`."),
        "The SDKs raise anyway, but a client that retries at `overloaded_error` finds no type.",
        *(f"{_REFERENCE}: error events", _TYPESCRIPT_SSE),
    ),
    _rule(
        *("AN026", "error", "Something other than `ping` follows an `error`."),
        "Both SDKs raise at the error: everything after it is lost.",
        *(_PYTHON_SSE, _TYPESCRIPT_SSE),
    ),
    _rule(
        *("AN027", "note", "There is a `data: [DONE]`."),
        "A stream of Messages ends with `message_stop`. The SDKs ignore data without an `event:` line; a client that "
        "parses every `data:` as JSON fails.",
        *(_REFERENCE, _PYTHON_SSE),
    ),
    _rule(
        *("AN028", "error", "An event has a name, but no data."),
        "Both SDKs ignore it: its content is missing in the message.",
        *(_PYTHON_SSE, _TYPESCRIPT_SSE),
    ),
    _rule(
        *("AN029", "error", "A field of an event is missing, or has another type than the API declares."),
        "The SDKs do not check: they return a message with another value there, or with none.",
        *(f"{_REFERENCE}: the event types", "anthropic-sdk-python, src/anthropic/types"),
    ),
    _rule(
        *("AN030", "error", f"A token count is negative, or over {TOKENS_LIMIT:,}."),
        "Costs and the remaining context are computed wrongly: the SDKs return any number unchecked.",
        f"{_REFERENCE}: usage",
    ),
    _rule(
        *("AN031", "note", "A block or a delta is of a type that the API does not declare."),
        "Both SDKs return the block as it is and ignore the delta: its content is missing in the message.",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("AN032", "warning", "The `stop_reason` does not fit what the message has: a call of a tool, or none."),
        "An agent that runs tools at `tool_use` finds no call, or ends its turn at `end_turn` and runs none of them: "
        "the API refuses the next request, in which the result of the call is missing.",
        "Anthropic API, Handling stop reasons",
    ),
)
