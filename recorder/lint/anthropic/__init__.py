"""The rules of Anthropic Messages: `message_start`, blocks one after another, `message_delta`, `message_stop`.

Must not know: other APIs, and where recordings come from.

The behaviour of anthropic-sdk-python 2.11 was read in its source and measured; that of the SDK for TypeScript was read.
`.stream()` is the helper of both that puts the message together. Clients that do so by hand keep blocks in a list by
index, as both SDKs do.
"""

from __future__ import annotations

from recorder.lint.anthropic.message import TOKENS_LIMIT, faults
from recorder.lint.faults import FaultFinder
from recorder.lint.rule import Rule, Severity

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
        "Both SDKs tell events apart by that line and pass over one without it: its text is missing in the message, "
        "and if it is an error, nobody hears of it.",
        *(_PYTHON_SSE, _TYPESCRIPT_SSE),
    ),
    _rule(
        *("AN002", "error", "The `event:` line of an event is not its `type`."),
        "The SDK for TypeScript goes by the line, the one for Python by both (it drops what is called `ping` and "
        "raises at what is called `error`): each makes another message of it.",
        *(_REFERENCE, _PYTHON_SSE, _TYPESCRIPT_SSE),
    ),
    _rule(
        *("AN003", "error", "The payload of an event is no object with a `type`."),
        "The SDK for Python cannot tell what it is: it adds nothing to the message, or raises "
        "`TypeError: Unexpected event runtime type` at what is no object.",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("AN004", "error", "The first event is not `message_start`."),
        'The SDK for TypeScript fails with `Unexpected event order, got … before "message_start"`; `.stream()` of the '
        "one for Python has no message at the end (`AssertionError`) if none comes.",
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
        "Everything is added to it: without `content` and `usage`, the SDKs fail at the first block or at "
        "`message_delta` (`AttributeError: 'NoneType' object has no attribute 'append'`).",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("AN007", "error", "The stream ends without `message_stop`."),
        "The SDK for TypeScript has no final message: it fails with "
        "`stream ended without producing a Message with role=assistant`. The one for Python takes what there is.",
        *(_REFERENCE, _TYPESCRIPT),
    ),
    _rule(
        *("AN008", "error", "Something stands after `message_stop`, other than `ping`."),
        "The message was handed over by then: what follows is lost to who waits for it, and `.stream()` of the SDK for "
        "Python adds it all the same.",
        *(_REFERENCE, _TYPESCRIPT),
    ),
    _rule(
        *("AN009", "error", "Neither a `message_delta` nor, without one, `message_start` says a `stop_reason`."),
        "`stop_reason` stays null: an agent that runs tools on `tool_use` and asks on at `pause_turn` does neither.",
        *(f"{_REFERENCE}: message_delta events indicate top-level changes to the final Message", _PYTHON),
    ),
    _rule(
        *("AN010", "error", "A `message_delta` has no `delta`, or no `usage` with `output_tokens`."),
        "`.stream()` of the SDK for Python raises `AttributeError: 'NoneType' object has no attribute "
        "'output_tokens'`, and the one for TypeScript a TypeError.",
        *(_REFERENCE, _PYTHON, _TYPESCRIPT),
    ),
    _rule(
        *("AN011", "error", "A block goes on after the next one began."),
        "One block is open at a time: the SDK for TypeScript looks at the last block when it reports a delta, "
        "whatever its index, and reports it as one of the wrong block, or not at all.",
        *(_REFERENCE, _TYPESCRIPT),
    ),
    _rule(
        *("AN012", "error", "An event of a block has no number `index`."),
        "`.stream()` of the SDK for Python raises `TypeError: list indices must be integers or slices, not NoneType`.",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("AN013", "error", "The index of a block is not the next one, counted from 0."),
        "The SDKs add blocks to a list and find them by index: a delta goes to another block, or there is none "
        "(`IndexError: list index out of range`).",
        *(f"{_REFERENCE}: each content block has an index in the final content array", _PYTHON),
    ),
    _rule(
        *("AN014", "error", "A delta, or a stop, is of a block that is not open."),
        "The SDKs look for the block: `IndexError: list index out of range` if it has not begun.",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("AN015", "error", "A `content_block_start` has no `content_block` of a type, or a text block has no text."),
        "Deltas are added to it: `.stream()` of the SDK for Python raises "
        "`AttributeError: 'NoneType' object has no attribute 'to_dict'`, or a TypeError at the first delta.",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("AN016", "error", "A block of tool use has no `id` or no `name`."),
        "Nobody can tell which tool is called, and its result has no `tool_use_id` to be sent back under.",
        *(_REFERENCE, "Anthropic API, Tool use"),
    ),
    _rule(
        *("AN017", "error", "A `content_block_delta` has no `delta` of a type, or not its text."),
        "`.stream()` of the SDK for Python raises `AttributeError: 'NoneType' object has no attribute 'type'`, or a "
        "TypeError where it adds the text.",
        *(_REFERENCE, _PYTHON),
    ),
    _rule(
        *("AN018", "error", "A delta does not fit the type of its block."),
        "Both SDKs pass over it: what it says is missing in the message.",
        *(_PYTHON, _TYPESCRIPT),
    ),
    _rule(
        *("AN019", "error", "The pieces of the input of a tool add up to no JSON object."),
        "The SDK for Python raises `ValueError: Unable to parse tool parameter JSON from model`, or calls the tool "
        "with the part of the input that can be read.",
        *(f"{_REFERENCE}: input JSON delta", _PYTHON),
    ),
    _rule(
        *("AN020", "error", "A block of thinking has no signature."),
        "The API refuses the next request of a turn with tools, in which the block has to be sent back as it was.",
        "Anthropic API, Extended thinking: preserving thinking blocks",
    ),
    _rule(
        *("AN021", "warning", "The `stop_reason` is one of another API."),
        "An agent that waits for `end_turn` and `tool_use` does not know what to do next.",
        "Anthropic API, Handling stop reasons",
    ),
    _rule(
        *("AN022", "warning", "The `output_tokens` of `message_delta` are fewer than those of `message_start`."),
        "They are totals, and the last ones count: a gateway that sends the tokens of one event has too few counted.",
        *(f"{_REFERENCE}: the token counts in the usage field of message_delta are cumulative", _PYTHON),
    ),
    _rule(
        *("AN023", "error", "A block has no `content_block_stop`."),
        "A client that acts on complete blocks never does: a tool is not called, a text is not kept.",
        *(_REFERENCE, f"{_TYPESCRIPT}: contentBlock"),
    ),
    _rule(
        *("AN024", "error", "An event of a block stands after `message_delta`."),
        "A client that takes the content for complete once there is a `stop_reason` has acted on it by then.",
        f"{_REFERENCE}: the event flow",
    ),
    _rule(
        *("AN025", "warning", "An `error` is no object with a `type` and a `message`."),
        "The SDKs raise all the same, but whoever retries at `overloaded_error` finds no type.",
        *(f"{_REFERENCE}: error events", _TYPESCRIPT_SSE),
    ),
    _rule(
        *("AN026", "error", "Something stands after an `error`, other than `ping`."),
        "Both SDKs raise at the error: what follows is lost.",
        *(_PYTHON_SSE, _TYPESCRIPT_SSE),
    ),
    _rule(
        *("AN027", "note", "There is a `data: [DONE]`."),
        "The stream ends with `message_stop`. The SDKs pass over what has no `event:` line; a client that parses every "
        "`data:` as JSON fails.",
        *(_REFERENCE, _PYTHON_SSE),
    ),
    _rule(
        *("AN028", "error", "An event has a name, but no data."),
        "Both SDKs pass over it: what it should have said is missing in the message.",
        *(_PYTHON_SSE, _TYPESCRIPT_SSE),
    ),
    _rule(
        *("AN029", "error", "A field of an event is missing, or of another kind than the API declares."),
        "The SDKs do not check: they hand on a message that has something else there, or nothing.",
        *(f"{_REFERENCE}: the event types", "anthropic-sdk-python, src/anthropic/types"),
    ),
    _rule(
        *("AN030", "error", f"A token count is negative, or over {TOKENS_LIMIT:,}."),
        "Costs and the room that is left come out absurd: the SDKs hand on whatever number stands there.",
        f"{_REFERENCE}: usage",
    ),
)
