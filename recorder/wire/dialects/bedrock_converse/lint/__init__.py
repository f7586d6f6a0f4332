"""The rules of Bedrock's Converse: events whose types are in headers, blocks by index, the counts
last.

Must not know: other APIs, and where recordings come from.

The behaviour of botocore 1.44 was measured. It hands each event on by itself: what puts them
together is a program.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer
from recorder.lint.rule import rules
from recorder.wire.dialects.bedrock_converse.lint.events import Events

RULES = rules(
    """
BR001 error
An event, or a member of one, is a text, a number or an array in place of an object.
botocore raises AttributeError, which ends the stream.
boto/botocore, botocore/parsers.py: BaseJSONParser._handle_structure

BR002 error
A delta, the start of a block or a thought has no member, or several: each has the one that says its kind.
botocore raises ResponseParserError, which ends the stream: “must have one and only one member set”.
boto/botocore, botocore/parsers.py: ResponseParser._has_unknown_tagged_union_member

BR003 error
A field of an event is missing, or has another type than the API declares.
botocore hands the event on unchecked: programs fail with KeyError, or with TypeError where they join
 texts.
Bedrock API Reference, ConverseStream; botocore, bedrock-runtime service model

BR004 error
An event or an exception has no type in its headers, or one that the API does not declare.
botocore passes over such an event without a word, and raises EventStreamError without a message for
 such an exception.
boto/botocore, botocore/parsers.py: BaseEventStreamParser; botocore, bedrock-runtime service model

BR005 error
The stream ends without `messageStop`, and without an exception.
botocore ends without an error: a cut answer is taken for a complete one.
Bedrock API Reference, ConverseStream: MessageStopEvent

BR006 warning
The stream has no `metadata` with the counts of tokens.
Programs count no tokens, and know no cost.
Bedrock API Reference, ConverseStream: ConverseStreamMetadataEvent

BR007 error
A piece of a call's input comes without a `contentBlockStart` for it.
No event names the tool or the id of the call: a program has nothing to call, or to answer.
Bedrock API Reference, ConverseStream: ContentBlockStartEvent

BR008 error
The input of a call is not a JSON object when its block stops.
botocore hands on the pieces: programs that decode them raise JSONDecodeError.
Bedrock API Reference, ConverseStream: ToolUseBlockDelta
""",
    of_answer(Events),
    "bedrock-converse",
)
