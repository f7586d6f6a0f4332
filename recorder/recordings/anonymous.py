"""The rows of a session as one may publish them: in the shape of what was recorded, with other
names and ids. Pure.

Texts of bodies and events become filler (`recorder.wire.content`). Ids, names, hosts, owners, and
values of headers that are not of the protocol become others of their form, the same one the same.
Positions, kinds, times and sizes stay; sums and the chain of hashes are made again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec.structs import replace

from recorder.model.attribution import Attribution
from recorder.model.chain import hash_after, row_root
from recorder.model.events import (
    BODY_KINDS,
    CloseRecord,
    ControlRecord,
    EndRecord,
    Event,
    Exchange,
    GapRecord,
    Header,
    RequestRecord,
    ResponseHead,
    Session,
    WebSocketTurn,
)
from recorder.wire.content.filler import FillerKey
from recorder.wire.content.shape import Shaper
from recorder.wire.dialects import DIALECTS, by_name
from recorder.wire.framing import SSE
from recorder.wire.framing.sse import ends_message
from recorder.wire.providers import PROVIDERS
from recorder.wire.recording import framing_in
from recorder.wire.redaction.headers import COUNTED, redact_target
from recorder.wire.upstreams import API_HOSTS

# last digits of our ids: the turns of a connection share them, and what is before is their order
_RANDOM = 12

_KEPT_HEADERS = re.compile(
    r"""
    accept(-encoding|-language)? | age | allow | cache-control | connection | content-(encoding|language|length|type)
    | date | expect | expires | keep-alive | pragma | retry-after(-ms)? | sec-websocket-(extensions|version)
    | server-timing | te | transfer-encoding | upgrade | user-agent | vary | x-accel-buffering | x-content-type-options
    | x-should-retry | x-(envoy-upstream-service-time|litellm-response-cost) | [a-z-]*ratelimit-[a-z_-]+
    | x-stainless-[a-z-]+ | anthropic-(beta|version) | openai-(beta|version|processing-ms) | x-goog-api-client
    """,
    re.VERBOSE,
)
"""Headers, in lower case, whose values tell nothing of who asked and what."""

_ROUTE_WORDS = frozenset(
    word
    for dialect in DIALECTS
    for pattern in (dialect.routes, dialect.array_streams, dialect.endless)
    if pattern is not None
    for word in re.findall(r"[A-Za-z][A-Za-z_-]+", pattern.pattern)
) | {
    "models",
    "model",
    "chat",
    "api",
    "openai",
    "responses",
    "google",
    "publishers",
    "locations",
    "global",
}
_VERSION = re.compile(r"v\d+(?:alpha|beta)?\d*")
_OF_MODELS = frozenset({"models", "model"})
_PARAMETER_WORD = re.compile(r"[a-z]{1,12}|\d{1,8}|\d{4}-\d\d-\d\d(?:-preview)?")
_PROVIDERS = frozenset(provider.name for provider in PROVIDERS) | {
    dialect.name for dialect in DIALECTS
}
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_PORT = re.compile(r"(?::\d+)?\Z")


class Anonymizer:
    """The rows of sessions without who asked, and what: all under one key, so that the same stays
    the same.
    """

    def __init__(self, secret: bytes) -> None:
        self._key = FillerKey(secret)
        self._names = Shaper(self._key, by_name("other"), maps_ids=True)

    def session(self, session: Session) -> Session:
        labels = self._names.document(session.labels.encode()).decode()
        return replace(
            session,
            session_id=self._own_id(session.session_id),
            name=self._key.word(session.name),
            labels=labels,
        )

    def exchange(self, exchange: Exchange) -> Exchange:
        mapped = {
            name: self._id(getattr(exchange, name))
            for name in ("thread_id", "turn_id", "resumes_response_id")
        }
        return replace(
            exchange,
            session_id=self._own_id(exchange.session_id),
            exchange_id=self._own_id(exchange.exchange_id),
            recorder_id=self._own_id(exchange.recorder_id),
            provider=self._upstream(exchange.provider),
            target=self._target(exchange.target),
            **mapped,
        )

    def events(self, recorded: Exchange, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events of an exchange, chained anew."""
        exchange = self.exchange(recorded)
        ids = {"session_id": exchange.session_id, "exchange_id": exchange.exchange_id}
        sums = _Sums()
        hash = row_root(exchange)
        for pos, event in enumerate(self._changed(recorded, events, sums)):
            item_id = self._id(event.item_id)
            sums.add(event)
            placed = replace(event, **ids, pos=pos, item_id=item_id)
            hash = hash_after(hash, placed, pos)
            yield replace(placed, hash=hash)

    def _changed(self, exchange: Exchange, events: Iterable[Event], sums: _Sums) -> Iterator[Event]:
        """Yield the events with what they say changed: those that are parts of one thing together."""
        shaper = Shaper(self._key, by_name(exchange.api), maps_ids=True)
        framing = SSE
        for group in _groups(events):
            first = group[0]
            kind, raw = first.kind, b"".join(event.raw for event in group)
            if kind == "request":
                yield from self._request(group, shaper)
                continue
            if kind == "response":
                framing = framing_in(exchange, raw)
                changed = self._response(raw)
            elif kind in ("frame", "part", "tail"):
                changed = shaper.frame(raw, framing)
            elif kind == "comment":
                changed = shaper.comment(raw)
            elif kind in ("body", "sent"):
                changed = shaper.body(raw)
            elif kind == "end":
                changed = self._end(raw, sums)
            else:
                changed = self._step(first, shaper)
            yield from _split(group, changed)

    def _request(self, group: Sequence[Event], shaper: Shaper) -> Iterator[Event]:
        head, *parts = group
        record = msgspec.json.decode(head.raw, type=RequestRecord)
        body = shaper.body(b"".join(part.raw for part in parts))
        size, digest = len(body), sha256(body).hexdigest()
        websocket = record.websocket
        if isinstance(websocket, WebSocketTurn):
            connection = self._own_id(websocket.connection)
            websocket = replace(
                websocket, connection=connection, stream_id=self._id(websocket.stream_id)
            )
        said = replace(
            record,
            target=self._target(record.target),
            upstream=self._upstream(record.upstream),
            headers=[
                each
                for each in self._headers(record.headers)
                if each[0].lower() != "content-encoding"
            ],
            wire_bytes=size,
            wire_sha256=digest,
            body_bytes=size,
            websocket=websocket,
            derived=self._key.word(record.derived)
            if isinstance(record.derived, str)
            else record.derived,
            base_url=self._url(record.base_url)
            if isinstance(record.base_url, str)
            else record.base_url,
            attribution=self._attribution(record.attribution),
        )
        yield replace(head, raw=msgspec.json.encode(said))
        yield from _split(parts, body)

    def _response(self, raw: bytes) -> bytes:
        head = msgspec.json.decode(raw, type=ResponseHead)
        return msgspec.json.encode(replace(head, headers=self._headers(head.headers)))

    def _step(self, event: Event, shaper: Shaper) -> bytes:
        if event.kind == "control":
            return self._control(event.raw)
        if event.kind == "gap":
            return msgspec.json.encode(
                replace(msgspec.json.decode(event.raw, type=GapRecord), sha256="")
            )
        return shaper.document(event.raw) if event.kind == "note" else event.raw

    def _control(self, raw: bytes) -> bytes:
        record = msgspec.json.decode(raw, type=ControlRecord)
        payload = bytes.fromhex(record.payload)
        code = payload[:2] if record.code is not None else b""
        filler = code + self._key.loose(payload[len(code) :])
        return msgspec.json.encode(
            replace(record, payload=filler.hex(), reason=self._text(record.reason))
        )

    def _end(self, raw: bytes, sums: _Sums) -> bytes:
        record = msgspec.json.decode(raw, type=EndRecord)
        is_plain = record.wire_sha256 == record.body_sha256
        wire = (
            sums.body.hexdigest()
            if is_plain
            else self._key.digest(record.wire_sha256.encode(), 32).hex()
        )
        close = record.close
        if isinstance(close, CloseRecord):
            close = replace(close, reason=self._text(close.reason))
        said = replace(
            record,
            error=self._text(record.error),
            wire_bytes=record.wire_bytes
            if sums.has_reads
            else record.wire_bytes - record.body_bytes + sums.body_bytes,
            wire_sha256=wire,
            body_bytes=sums.body_bytes,
            body_sha256=sums.body.hexdigest(),
            events=sums.events,
            close=close,
        )
        return msgspec.json.encode(said)

    # -- names

    def _text(self, text: str | None) -> str | None:
        return None if text is None else self._key.word(text)

    def _id(self, id: str | None) -> str | None:
        return None if id is None else self._names.id(id)

    def _own_id(self, id: str) -> str:
        """Return another id of ours, in the same order among others."""
        if len(id) < 2 * _RANDOM:  # that of a recorder may be a word
            return id
        return id[:-_RANDOM] + self._key.digest(id[-_RANDOM:].encode(), _RANDOM // 2).hex()

    def _upstream(self, name: str) -> str:
        return name if name in _PROVIDERS else self._names.id(name)

    def _attribution(
        self, given: Attribution | msgspec.UnsetType
    ) -> Attribution | msgspec.UnsetType:
        if not isinstance(given, Attribution):
            return Attribution(content="shape")
        tags = tuple(map(self._key.word, given.tags))
        content = given.content or "shape"
        return Attribution(self._text(given.owner), self._text(given.team), tags, content)

    def _headers(self, headers: Sequence[Header]) -> list[Header]:
        mapped: list[Header] = []
        for name, value in headers:
            if name.lower() == "host":
                value = self._place(value)
            elif _KEPT_HEADERS.fullmatch(name.lower()) is None and COUNTED.fullmatch(value) is None:
                value = self._names.id(value)
            mapped.append((name, value))
        return mapped

    def _url(self, url: str) -> str:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, self._place(parts.netloc), self._path(parts.path), "", ""))

    def _place(self, netloc: str) -> str:
        """Return a host and its port, if that is not the API of a company or this machine."""
        host = _PORT.sub("", netloc)
        if not host or host.strip("[]") in _LOCAL or API_HOSTS.fullmatch(host):
            return netloc
        return f"host-{self._key.digest(host.encode()).hex()}.example{netloc[len(host) :]}"

    def _target(self, target: str) -> str:
        if not target.startswith("/"):
            return self._url(target)
        path, mark, query = target.partition("?")
        parameters = [self._parameter(each) for each in re.split("([&;])", query)]
        return redact_target(self._path(path) + mark + "".join(parameters))

    def _path(self, path: str) -> str:
        segments: list[str] = []
        before = ""
        for segment in path.split("/"):
            name, colon, method = segment.partition(":")
            is_known = (
                name in _ROUTE_WORDS or name in _PROVIDERS or _VERSION.fullmatch(name) is not None
            )
            stays = not name or is_known or before in _OF_MODELS
            segments.append((name if stays else self._names.id(name)) + colon + method)
            before = segment
        return "/".join(segments)

    def _parameter(self, given: str) -> str:
        name, equals, value = given.partition("=")
        if not equals or _PARAMETER_WORD.fullmatch(value):
            return given
        return name + equals + self._names.id(value)


class _Sums:
    """The sums over the events so far that the last one says."""

    def __init__(self) -> None:
        self.body = sha256()
        self.body_bytes = self.events = 0
        self.has_reads = False

    def add(self, event: Event) -> None:
        self.events += 1
        self.has_reads = self.has_reads or event.kind == "reads"
        if event.kind in BODY_KINDS and event.type != "left_out":
            self.body.update(event.raw)
            self.body_bytes += len(event.raw)


def _groups(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Yield the events that are parts of one thing together: a request, a long event or message, a
    document.
    """
    group: list[Event] = []
    for event in events:
        if group and not _continues(group, event):
            yield group
            group = []
        group.append(event)
    if group:
        yield group


def _continues(group: Sequence[Event], event: Event) -> bool:
    last = group[-1]
    if event.kind != last.kind:
        return False
    if event.kind in ("part", "sent"):
        return not ends_message(last.raw)
    return event.kind in ("request", "body")


def _split(group: Sequence[Event], raw: bytes) -> Iterator[Event]:
    """Yield events with bytes in place of theirs: each gets as many as it had, as far as there are
    any.
    """
    at = 0
    for number, event in enumerate(group, 1):
        end = len(raw) if number == len(group) else at + len(event.raw)
        if raw[at:end] or number == 1:
            yield replace(event, raw=raw[at:end])
        at = end
