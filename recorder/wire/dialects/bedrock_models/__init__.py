"""Bedrock's InvokeModel with models of all companies but Anthropic: each chunk of AWS's stream has
an event as base64.

Amazon's Nova gives the events of Converse, with the type as the one member. Many give chunks of
Chat Completions. What the others give is in the table of the decoder. Must not know: other wire
formats than these two, and what is AWS's.

Written after the guide of Amazon Bedrock, "Inference request parameters and response fields", of
November 2026.
"""

from __future__ import annotations

import re

import msgspec

from recorder.wire.dialects.bedrock_converse import DIALECT as CONVERSE
from recorder.wire.dialects.bedrock_converse.decoder import MEANINGS
from recorder.wire.dialects.bedrock_invoke.decoder import STREAM_EXCEPTIONS, Chunk, unwrapped
from recorder.wire.dialects.bedrock_models.conversation import conversation
from recorder.wire.dialects.bedrock_models.decoder import METRICS, ModelsDecoder
from recorder.wire.dialects.dialect import ResponseFields, noise_fields, paths
from recorder.wire.dialects.json_values import request_object
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named
from recorder.wire.dialects.openai_chat import DIALECT as CHAT


def _name(chunk: Chunk) -> Named:
    event = request_object(chunk.event or b"")
    type = next((name for name in event if name in MEANINGS), None)
    if type is None and METRICS in event:
        type = METRICS
    return ERROR if event.get("error") else type, None, None, None


DIALECT = msgspec.structs.replace(
    CONVERSE,
    name="bedrock-models",
    routes=re.compile(r"^POST /(?:.*/)?model/[^/]+/invoke(?:-with-response-stream)?$"),
    keys=KeyExtractor(Chunk, _name),
    decoder=ModelsDecoder,
    terminal={
        **CONVERSE.terminal,
        METRICS: "completed",
        ERROR: "failed",
        **dict.fromkeys(STREAM_EXCEPTIONS, "failed"),
    },
    needs_terminal=False,  # servers that stand in for AWS leave the metrics out
    whole_reasons=CONVERSE.whole_reasons | CHAT.whole_reasons | {"FINISH", "COMPLETE"},
    unwrapped=unwrapped,
    conversation=conversation,
    fields=ResponseFields(
        pieces=paths(
            "outputText generation text outputs.*.text choices.*.text choices.*.message.content"
        ),
        texts=paths("""
            outputText generation text outputs.*.text choices.*.text choices.*.message.content choices.*.delta.content
            contentBlockDelta.delta.text contentBlockDelta.delta.toolUse.input contentBlockStart.start.toolUse.name
            """),
        usage=(METRICS,),
        noise=noise_fields(
            """
id | id generation_id response_id contentBlockStart.start.toolUse.toolUseId | made anew for each answer
time | created metrics.latencyMs metadata.metrics.latencyMs at>invocationLatency at>firstByteLatency
 | when it was made, and how long it took
padding | p | hides how long a chunk is
""",
            at=(f"{METRICS}.",),
        ),
    ),
    profiles=(),
    target=lambda is_document, payloads: (
        f"/model/unknown/invoke{'' if is_document else '-with-response-stream'}"
    ),
)
