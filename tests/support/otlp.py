"""OTLP/JSON as the official protobuf definitions read it, strictly; and what `recorder export`
writes of it.

OTLP/JSON is the JSON of protobuf but for four rules (opentelemetry-proto, docs/specification.md):
ids are hexadecimal, enums are numbers, names are in lowerCamelCase only, and 64-bit integers are
strings, as protobuf itself writes them.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import re
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span
from sqlalchemy import URL

from recorder.exports.otlp.telemetry import span_id
from recorder.model.events import Exchange
from tests.support.conversations import (
    Conversation,
    Conversations,
    answering,
    asking,
    call,
    response,
)
from tests.support.server import run
from tests.support.superuser import connected

IDS = {"traceId": 32, "spanId": 16, "parentSpanId": 16}  # hexadecimal digits
LONG = frozenset({"startTimeUnixNano", "endTimeUnixNano", "timeUnixNano", "intValue", "count"})
ENUMS = frozenset({"kind", "code", "aggregationTemporality"})


def trace_request(line: bytes) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    ParseDict(_strict(json.loads(line)), request)
    return request


def metrics_request(line: bytes) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    ParseDict(_strict(json.loads(line)), request)
    return request


def _strict(value: Any, name: str = "") -> Any:
    """The JSON of protobuf for a value of OTLP/JSON that keeps to all rules."""
    if isinstance(value, dict):
        assert all(re.fullmatch("[a-z][A-Za-z]*", key) for key in value), value.keys()
        return {key: _strict(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_strict(each, "count" if name == "bucketCounts" else "") for each in value]
    if name in IDS:
        assert re.fullmatch(f"[0-9a-f]{{{IDS[name]}}}", value), (name, value)
        assert value.strip("0"), f"{name} is all zero"
        return base64.b64encode(bytes.fromhex(value)).decode()
    assert name not in LONG or (isinstance(value, str) and re.fullmatch("-?[0-9]+", value)), (
        name,
        value,
    )
    assert name not in ENUMS or type(value) is int, (name, value)
    return value


def value_of(value: Any) -> Any:
    """The Python value of an `AnyValue`."""
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [value_of(each) for each in found.values] if kind == "array_value" else found


def attributes_of(span: Any) -> dict[str, Any]:
    """The attributes of a span or a point, none of them twice."""
    found = {each.key: value_of(each.value) for each in span.attributes}
    assert len(found) == len(span.attributes)
    return found


def exported(db: Path | URL, *options: object, session: str = "latest") -> list[bytes]:
    """The lines of `recorder export --format otlp-json`."""
    ran = run(db, "export", session, "--format", "otlp-json", *options)
    assert ran.code == 0, ran.err
    assert ran.out.endswith(b"\n")
    return ran.out.splitlines()


def spans_in(lines: Iterable[bytes]) -> list[Span]:
    """The spans of lines, each of which names one schema."""
    requests = [trace_request(line) for line in lines]
    scopes = [
        (of, scope) for each in requests for of in each.resource_spans for scope in of.scope_spans
    ]
    assert len({url for of, scope in scopes for url in (of.schema_url, scope.schema_url)}) == 1
    return [span for _, scope in scopes for span in scope.spans]


def spans(db: Path | URL, *options: object, session: str = "latest") -> list[Span]:
    """The spans of a session."""
    return spans_in(exported(db, *options, session=session))


# -- A collector on a loopback socket, built on the official protobuf definitions: it parses
# strictly what is pushed


_PARSE: Mapping[str, Callable[[bytes], Any]] = {
    "/v1/traces": trace_request,
    "/v1/metrics": metrics_request,
}


class Answer(NamedTuple):
    """An answer. What is not answered with 200 is not accepted."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = {}
    before: Callable[[], object] = bool  # called when the request is there, before the answer


class Reset(NamedTuple):
    """No answer: the connection is reset. `is_taken`: after the request was accepted."""

    is_taken: bool = False
    before: Callable[[], object] = bool


class Request(NamedTuple):
    """A request that was parsed."""

    path: str
    headers: Mapping[str, str]  # names in lower case
    body: bytes  # as it was sent
    json: Any
    message: Any
    is_accepted: bool


class Receiver:
    """A running collector."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.wrong: list[str] = []
        self._plan: list[Answer | Reset] = []
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def plan(self, *answers: Answer | Reset) -> None:
        """Answer the next requests so."""
        with self._lock:
            self._plan += answers

    def listen(self, certificate: Path | None = None) -> None:
        """Listen, again on the port of before if there was one; with a certificate, by TLS."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                receiver._connections.append(self.connection)

            def do_POST(self) -> None:
                receiver._take(self)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_: object) -> None:
                pass  # a client that was killed

        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections, and end those that are there."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._connections.clear()

    # -- what was accepted

    @property
    def accepted(self) -> list[Request]:
        return [each for each in self.requests if each.is_accepted]

    @property
    def resources(self) -> list[ResourceSpans]:
        return [
            each
            for request in self._accepted_at("/v1/traces")
            for each in request.message.resource_spans
        ]

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for resource in self.resources
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def span_ids(self) -> Counter[str]:
        """How often each span arrived."""
        return Counter(span.span_id.hex() for span in self.spans)

    @property
    def metrics(self) -> list[Metric]:
        found = (
            each
            for request in self._accepted_at("/v1/metrics")
            for each in request.message.resource_metrics
        )
        return [
            metric for each in found for scope in each.scope_metrics for metric in scope.metrics
        ]

    def _accepted_at(self, path: str) -> list[Request]:
        return [each for each in self.accepted if each.path == path]

    # -- one request

    def _take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"]))
        with self._lock:
            answer = self._plan.pop(0) if self._plan else Answer()
        try:
            found, message = self._parsed(handler, body)
        except Exception as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
            answer = Answer(400, str(error).encode())
            found = message = None
        is_accepted = answer.is_taken if isinstance(answer, Reset) else answer.status == 200
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self._lock:
            self.requests.append(Request(handler.path, headers, body, found, message, is_accepted))
        answer.before()
        if isinstance(answer, Reset):
            handler.connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            handler.close_connection = True
            return
        handler.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(answer.body)))
        handler.end_headers()
        handler.wfile.write(answer.body)

    def _parsed(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[Any, Any]:
        assert handler.headers["content-type"] == "application/json", "not JSON"
        assert handler.headers["content-encoding"] == "gzip", "not compressed"
        line = gzip.decompress(body)
        return json.loads(line), _PARSE[handler.path.partition("?")[0]](line)


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """A collector, while the block lasts. All that it got must have been right."""
    receiver = Receiver()
    receiver.listen()
    try:
        yield receiver
        assert receiver.wrong == []
    finally:
        receiver.close()


# -- A log of an agent whose model calls tools, and what a collector has of it after a push


BATCH = 3  # spans, where a test wants small batches


class Log:
    """A database with sessions of an agent."""

    def __init__(self, database: URL) -> None:
        self.database = database
        self.conversations = Conversations(database)
        self.made: set[str] = set()

    def talk(self, name: str, turns: int = 2, at_s: float = 0.0) -> Conversation:
        """A session in which each response calls a tool, whose result the next request brings."""
        talk = self.conversations.session(name, at_s)
        asked = asking("Go")
        for turn in range(turns):
            self.add(talk, turn, asked)
            asked = [*asked, *answering(f"result {turn}", f"call_{turn}")]
        return talk

    def add(self, talk: Conversation, turn: int, asked: Any) -> Exchange:
        frames = response(
            *call("roll", "{}", 0, f"call_{turn}"), id=f"resp_{talk.session.name}_{turn}"
        )
        exchange = talk.exchange(frames, asked, at_s=turn * 10)
        self.made.add(span_id(exchange.exchange_id))
        return exchange

    def push(self, receiver: Receiver, *options: object) -> dict[str, Any]:
        ran = run(self.database, "export", "--to", receiver.url, "--json", *options)
        assert ran.code == 0, ran.err
        [row] = json.loads(ran.out)
        return dict(row)

    def rows(self) -> int:
        with connected(self.database) as connection:
            [(count,)] = connection.execute("SELECT count(*) FROM export_cursors")
            return int(count)


def once(receiver: Receiver, log: Log, tools: int) -> bool:
    """Whether the collector has each span of the log exactly once."""
    counts = receiver.span_ids
    assert max(counts.values()) == 1, counts
    assert len(counts) == len(log.made) + tools
    assert counts.keys() >= log.made
    return True
