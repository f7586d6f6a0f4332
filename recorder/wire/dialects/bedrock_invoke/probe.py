"""The cases of Bedrock's InvokeModel with a model of Anthropic: those of its Messages."""

from __future__ import annotations

import importlib
from typing import Any
from urllib.parse import quote

from recorder.probe.answer import ProbeAnswer
from recorder.probe.cases import Json, ProbeApi, Progress, SdkReading, common_cases
from recorder.probe.sdks import BASE
from recorder.wire.dialects.anthropic import probe as messages
from recorder.wire.dialects.bedrock_converse import probe as converse


def _create(progress: Progress, body: Json, most_tokens: int) -> tuple[str, Json]:
    """Return the target and the body of a request."""
    method = "invoke-with-response-stream" if progress.is_streamed else "invoke"
    limits = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": most_tokens}
    return f"/model/{quote(progress.model, safe='')}/{method}", {**limits, **body}


_FORM = messages.FORM._replace(
    create=_create, wrong_error=converse.wrong_error_body, names_model=False
)


def _read(http: Any, answer: ProbeAnswer) -> SdkReading:
    client = importlib.import_module("anthropic").AnthropicBedrock(
        aws_region="us-east-1", api_key="none", base_url=BASE, max_retries=0, http_client=http
    )
    return messages.read_by(client, answer)


API = ProbeApi(
    "bedrock-invoke",
    converse.API.model,
    converse.bearer,
    converse.wrong_error_body,
    common_cases(_FORM),
    "anthropic and botocore",
    _read,
)
