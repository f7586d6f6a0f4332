"""The places in payloads of the Responses format: texts and calls, usage, what differs between two answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.wire.dialects.dialect import NoiseField, RequestPlaces, ResponseFields, below

_RESPONSES = ("", "response.")  # a document, and events that hold one
_ITEMS = ("item.", "output.*.", "response.output.*.")
_OF_ITEMS = (
    *("content.*.text", "content.*.refusal", "summary.*.text", "arguments", "input", "code", "name"),
    *("action", "operation", "actions"),  # what tools of the provider are called with: objects
)


FIELDS = ResponseFields(
    texts=(
        *("delta", "text", "refusal", "arguments", "input", "code", "name", "part.text", "part.refusal"),
        *below(("item.", "response.output.*.", "output.*."), *_OF_ITEMS),
    ),
    arguments=below(("item.", "response.output.*.", "output.*."), "queries", "prompt", "revised_prompt"),
    usage=("response.usage", "usage"),
    noise=(
        NoiseField("id", below(_RESPONSES, "id", "previous_response_id"), "made anew for each response"),
        NoiseField("id", below(_RESPONSES, "conversation.id"), "made anew for each conversation"),
        NoiseField("id", ("response_id",), "made anew for each response"),
        NoiseField("id", below(_ITEMS, "id"), "made anew for each item"),
        NoiseField("id", ("item_id", *below(_ITEMS, "approval_request_id")), "names an item of this response"),
        NoiseField("id", below(_ITEMS, "call_id"), "names a call of this response"),
        NoiseField(
            "id",
            (
                *below(_ITEMS, "container_id", "environment.container_id", "content.*.annotations.*.container_id"),
                *("annotation.container_id", "part.annotations.*.container_id"),
                *below(_RESPONSES, "tools.*.environment.container_id"),
            ),
            "of the sandbox that a tool ran in",
        ),
        NoiseField("time", below(_RESPONSES, "created_at"), "when a response was made"),
        NoiseField("time", below(_RESPONSES, "completed_at"), "when it was complete"),
        NoiseField("made", below(_RESPONSES, "metadata.system_fingerprint"), "names the machines that answered"),
        NoiseField("padding", ("obfuscation",), "hides from a listener how long a delta is"),
    ),
    ciphertexts={"encrypted_content": "only the provider can read it, and it never comes out twice the same"},
)


PLACES = RequestPlaces(
    credentials=(
        "tools.*.authorization",  # of an MCP server or a connector
        "tools.*.container.network_policy.domain_secrets.*.value",
    ),
    of_model=(
        *("input", "instructions", "prompt", "text", "format"),
        *("tools.*.parameters", "tools.*.description"),
        *("output", "item", "part", "delta", "annotation", "annotations", "logprobs", "top_logprobs"),
    ),
)


def is_event(payload: Mapping[str, Any]) -> bool:
    """Return whether a payload is an event of a response."""
    return str(payload.get("type")).startswith("response.")


def speaks(payload: Mapping[str, Any]) -> bool:
    """Return whether a payload is a response or an event of one."""
    return is_event(payload) or payload.get("object") == "response"
