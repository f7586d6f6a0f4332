"""Bedrock: a server that answers as it does, its clients, and an answer of Anthropic's as
InvokeModel streams it.
"""

from __future__ import annotations

import base64
import importlib
import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import anthropic

from tests.support.aws_messages import aws_event
from tests.support.http_server import Handler, listening

KIND = "application/vnd.amazon.eventstream"
MODEL = "us.anthropic.claude-sonnet-4-20250514-v1:0"
REGION = "us-east-1"
ACCESS, SECRET = "none", "none"
QUESTION: Any = {"max_tokens": 99, "messages": [{"role": "user", "content": "Roll."}]}

Json = dict[str, Any]


def chunk(event: Json, padding: str = "abcdefgh") -> bytes:
    """Encode an event of Anthropic's, with the member that hides its length."""
    return aws_event(
        "chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode(), "p": padding}
    )


def block(index: int, begun: Json, *deltas: Json) -> list[Json]:
    """The events of a block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": begun},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


MESSAGE = {
    "id": "msg_bdrk_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-20250514",
}
COUNTS = {
    "input_tokens": 3,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 2,
    "output_tokens": 1,
}
METRICS = {
    "inputTokenCount": 3,
    "outputTokenCount": 9,
    "invocationLatency": 9,
    "firstByteLatency": 3,
}
EVENTS: list[Json] = [
    {
        "type": "message_start",
        "message": {**MESSAGE, "content": [], "stop_reason": None, "usage": COUNTS},
    },
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "AAAA"},
    ),
    *block(
        1,
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "Zür"},
        {"type": "text_delta", "text": "ich ✓"},
    ),
    *block(
        2,
        {"type": "tool_use", "id": "toolu_1", "name": "roll", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"sides":'},
        {"type": "input_json_delta", "partial_json": "6}"},
    ),
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 9},
    },
    {"type": "message_stop", "amazon-bedrock-invocationMetrics": METRICS},
]
STREAM = b"".join(map(chunk, EVENTS))


REFUSED = (
    b'{"message":"The request signature we calculated does not match the signature you provided."}'
)


def is_signed_for_host(request: Handler, body: bytes) -> bool:
    """Return whether the signature of a request is right, with the host that was asked in it; a
    bearer key has none.
    """
    signed = re.search("SignedHeaders=([^,]+), Signature=(.+)", request.headers["authorization"])
    if signed is None:
        return request.headers["authorization"].startswith("Bearer ")
    credentials, awsrequest = map(
        importlib.import_module, ("botocore.credentials", "botocore.awsrequest")
    )
    headers = {name: request.headers[name] for name in signed[1].split(";")}
    again = awsrequest.AWSRequest(
        "POST", f"https://{request.headers['host']}{request.path}", headers=headers, data=body
    )
    again.context["timestamp"] = request.headers["x-amz-date"]
    auth = importlib.import_module("botocore.auth").SigV4Auth(
        credentials.Credentials(ACCESS, SECRET), "bedrock", REGION
    )
    text = auth.string_to_sign(again, auth.canonical_request(again))
    return bool(auth.signature(text, again) == signed[2])


@contextmanager
def bedrock(stream: bytes = STREAM, document: bytes = b"{}") -> Iterator[str]:
    """A server that answers each request whose path says so with the stream, any other with the
    document.
    """

    class Bedrock(Handler):
        def do_POST(self) -> None:
            asked = self.given()
            if not is_signed_for_host(self, asked):
                self.send_response(403)
                self.send_header(
                    "x-amzn-ErrorType",
                    "InvalidSignatureException:http://internal.amazon.com/coral/",
                )
                self.send_header("content-length", str(len(REFUSED)))
                self.end_headers()
                self.wfile.write(REFUSED)
                return
            is_stream = self.path.endswith("-stream")
            self.answer(
                KIND if is_stream else "application/json", stream if is_stream else document
            )

    with listening(Bedrock) as url:
        yield url


@contextmanager
def aws_client(url: str) -> Iterator[Any]:
    """A client of botocore, which signs its requests."""
    session = importlib.import_module("botocore.session").get_session()
    client = session.create_client(
        "bedrock-runtime",
        region_name=REGION,
        endpoint_url=url,
        aws_access_key_id=ACCESS,
        aws_secret_access_key=SECRET,
    )
    try:
        yield client
    finally:
        client.close()


def converse_events(body: bytes) -> list[Any]:
    """What botocore yields of a stream of Converse."""
    load, model, parsers, streams = map(
        importlib.import_module,
        ("botocore.loaders", "botocore.model", "botocore.parsers", "botocore.eventstream"),
    )
    service = model.ServiceModel(load.Loader().load_service_model("bedrock-runtime", "service-2"))

    class Raw:
        def stream(self) -> Iterator[bytes]:
            yield body

    shape, parser = service.shape_for("ConverseStreamOutput"), parsers.EventStreamJSONParser()
    return list(streams.EventStream(Raw(), shape, parser, "ConverseStream"))


def anthropic_bedrock(url: str) -> anthropic.AnthropicBedrock:
    return anthropic.AnthropicBedrock(
        aws_region=REGION, api_key="none", base_url=url, max_retries=0
    )


def message_of(url: str) -> Json:
    """What Anthropic's SDK makes of a stream."""
    with (
        anthropic_bedrock(url) as client,
        client.messages.stream(model=MODEL, **QUESTION) as stream,
    ):
        return stream.get_final_message().to_dict()


def invoked(url: str) -> list[Json]:
    """The events in the chunks that botocore yields."""
    with aws_client(url) as client:
        body = json.dumps({"anthropic_version": "bedrock-2023-05-31", **QUESTION})
        answer = client.invoke_model_with_response_stream(modelId=MODEL, body=body)
        with closing(answer["body"]) as stream:
            return [json.loads(event["chunk"]["bytes"]) for event in stream]
