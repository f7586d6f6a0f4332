"""Events of the log → facts: the payload is taken out of its frame, and the exchange's dialect
decodes it.

Pure, and fed in order. Payloads that the log keeps in pieces are joined here: parts of a long
frame, a body that is no stream, a request body. The pieces of one payload are held up to a limit;
the log has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, TypeVar

import msgspec

from recorder.model.attribution import Attribution
from recorder.model.events import LEFT_OUT, STDIO, WEBSOCKET, WHOLE, Event, Exchange, Header
from recorder.model.facts import (
    ApiSpoken,
    BudgetSpent,
    CostReported,
    DerivedFrom,
    ErrorReported,
    ExchangeEnded,
    Fact,
    FirstByte,
    HeadReceived,
    LostBytes,
    MalformedPayload,
    OversizedPayload,
    RequestAttributed,
    RequestFacts,
    RequestPurpose,
    RequestReceived,
    ResponseFinished,
    UnknownType,
    UnreadableResponse,
    UnterminatedEvent,
)
from recorder.model.prices import usd
from recorder.projections.pieces import Pieces
from recorder.wire.conclusion import worse
from recorder.wire.dialects import Dialect, answered_in, by_name
from recorder.wire.dialects.decoder import FastPath, JsonDecoder, common_delta
from recorder.wire.dialects.dialect import model_asked_for
from recorder.wire.dialects.errors import refusal
from recorder.wire.dialects.json_values import request_object
from recorder.wire.dialects.keys import DONE, Whole
from recorder.wire.framing import JSON_ARRAY, MESSAGES, SSE, Framing
from recorder.wire.framing.sse import BOM
from recorder.wire.grouping.purpose import placed
from recorder.wire.grouping.rules import Claims
from recorder.wire.recording import decoder_between_turns, live_turn
from recorder.wire.spoken import SpokenDialect

ACCEPTED = 202
ERROR_STATUS = 400  # from here on, a body says what went wrong

PAYLOAD_LIMIT = 16 * 2**20  # of one event, as `recorder.ingest.capture` reads its keys
# of a body that is not a stream, and of a request: decoded JSON takes many times its bytes
DOCUMENT_LIMIT = 16 * 2**20

_NOTHING: Sequence[Fact] = ()
# of a block without data, which is neither a text nor an error
_FIELDS = (b"event:", b"id:", b"retry:")

_NO_ANSWER = (
    ApiSpoken,
    UnknownType,
    MalformedPayload,
    UnterminatedEvent,
    RequestReceived,
    RequestFacts,
    RequestPurpose,
    RequestAttributed,
    DerivedFrom,
    HeadReceived,
    CostReported,
    FirstByte,
    LostBytes,
)
"""The facts that are there without anything that a model, or its provider, said."""


class _RequestClaims(msgspec.Struct, frozen=True):
    """The fields of the first `request` event that are read here."""

    headers: list[Header] = []
    derived: str | msgspec.UnsetType = msgspec.UNSET
    attribution: Attribution | None = None


class _Head(msgspec.Struct, frozen=True):
    """The fields of a `response` event that are read here."""

    status: Annotated[int, msgspec.Meta(ge=0, le=999)]
    headers: list[Header] = []


class _GapSide(msgspec.Struct, frozen=True):
    """The fields of a `gap` event that are read here."""

    of: str = "response"
    size_bytes: Whole = 0
    reason: str = ""


_request_of = msgspec.json.Decoder(_RequestClaims).decode
_head_of = msgspec.json.Decoder(_Head).decode
_gap_of = msgspec.json.Decoder(_GapSide).decode
_end_of = msgspec.json.Decoder(ExchangeEnded).decode
_budget_of = msgspec.json.Decoder(BudgetSpent).decode
_reads_of = msgspec.json.Decoder(list[tuple[Whole, Whole]]).decode


COST_HEADER = "x-litellm-response-cost"
"""The one header that is known to report the cost: of a LiteLLM proxy, and of others that do as it
does. A decimal text in US dollars: https://docs.litellm.ai/docs/proxy/pass_through_cost_tracking"""


def _cost(headers: Sequence[Header]) -> Sequence[Fact]:
    costs = (usd(value) for name, value in headers if name.lower() == COST_HEADER)
    return [CostReported(cost, COST_HEADER) for cost in costs if cost is not None][-1:]


class FactReader:
    """A decoder of the events of one exchange into facts."""

    def __init__(self, exchange: Exchange) -> None:
        self._dialect = by_name(exchange.api)
        self._method, self._path = exchange.method, exchange.target.partition("?")[0]
        self._head = b""
        self._spoken = SpokenDialect(self._dialect)
        self._fast_path: dict[str | None, FastPath] = {}
        self._read_as(self._dialect, decoder_between_turns(exchange))
        self._request = Pieces(DOCUMENT_LIMIT)
        self._live_turn = live_turn(exchange)
        self._body = Pieces(DOCUMENT_LIMIT)
        self._parts = Pieces(PAYLOAD_LIMIT)
        self._sent = Pieces(PAYLOAD_LIMIT)  # of the client
        self._is_asking = True  # the request is not over yet
        self._framing: Framing = SSE  # of the response
        self._owes_bracket = False  # the end of an array that is a stream
        self._http_status = 0
        self._head_pos = 0  # the place of the response head
        self._expects_answer = asks_for_answer(exchange)
        self._restart()

    def _read_as(self, dialect: Dialect, decoder: JsonDecoder | None = None) -> None:
        """Decode what comes from here on as payloads of a dialect.

        Who has `fast_paths` has the new ones then.
        """
        self._dialect, decoder = dialect, decoder or dialect.decoder()
        self._tell, self._document, self.latest_usage = (
            decoder.general,
            decoder.document,
            decoder.latest_usage,
        )
        self._ask, self._send = decoder.request, decoder.sent
        self._fast_path.clear()
        self._fast_path.update(decoder.fast_paths())

    def _hear(self, payload: bytes) -> Sequence[Fact]:
        """Return what a first payload, or a document, shows of its format.

        Of messages those of a turn show it.
        """
        is_of_turn = self._framing is not MESSAGES or self._method == WEBSOCKET
        if not is_of_turn or not self._spoken.hear(request_object(payload)):
            return _NOTHING
        self._read_as(self._spoken.dialect)
        return (ApiSpoken(self._dialect.name, self._spoken.contradicts_path),)

    def _restart(self) -> None:
        """Forget what an earlier exchange with the same response has said."""
        self._verdict = "completed"  # the worst that the provider has said of the response so far
        # that it failed was said by an error which a whole response may follow
        self._may_recover = False
        self._is_answered = self._is_finished = False
        self._said_end = False
        self._silent_frames = 0  # frames that were read here, and said nothing
        self._body_bytes = 0  # of a body that is not a stream
        self._missing = ""  # why bytes of the response are not there

    def fast_paths(self) -> Mapping[str | None, FastPath]:
        """Return the readers of common deltas, by type of event: frames that they read need not be
        read by `facts`.
        """
        return self._fast_path

    def facts(self, event: Event) -> Sequence[Fact]:
        """Return the facts of an event."""
        if self._live_turn is not None:
            self._live_turn.add(event)
        start, length = event.data_start, event.data_length
        if event.kind == "frame" and start is not None and length is not None:
            delta = common_delta(self._fast_path.get(event.type), event.raw[start : start + length])
            if delta is not None:
                return (delta, *self.latest_usage())
        return self.others(event)

    def others(self, event: Event) -> Sequence[Fact]:
        """Return the facts of an event that is not a common delta."""
        start, length = event.data_start, event.data_length
        if start is not None and length is not None and event.kind == "frame":
            payload = event.raw[start : start + length]
            spoken = self._hear(payload) if self._spoken.is_open else _NOTHING
            facts = self._heard([*spoken, *self._tell(event.type, payload)])
        else:
            read = _READERS.get(event.kind)
            facts = self._heard(read(self, event)) if read else _NOTHING
        if not self._is_answered and event.kind in ("frame", "part"):
            self._silent_frames += 1
        if event.type == DONE:
            self._said_end = True
        return facts

    def _heard(self, facts: Sequence[Fact]) -> Sequence[Fact]:
        """Return facts, of which it remembers what they say about the response as a whole."""
        for fact in facts:
            if not isinstance(fact, _NO_ANSWER):
                self._is_answered = True
            if isinstance(fact, ErrorReported):
                self._may_recover = not fact.ends and (
                    self._may_recover or self._verdict != "failed"
                )
                self._verdict = "failed"
            elif isinstance(fact, ResponseFinished):
                self._is_finished = True
                before = "completed" if self._may_recover else self._verdict
                self._verdict = worse(before, fact.verdict or "completed")
                self._may_recover = False
        return facts

    @property
    def holds_back(self) -> bool:
        """Return True if `close` may have facts: of a request or a document whose `end` is not
        there yet.

        Half a document has none. To find that out by `close` would take the time to read it, at
        each of its events.
        """
        return self._is_asking or (self._body.size_bytes > 0 and not self._body.is_half_json)

    def document(self, body: bytes) -> Sequence[Fact]:
        """Return the facts of a document from an earlier exchange with the same response; half of
        one has none.
        """
        return [fact for fact in self._document(body) if not isinstance(fact, MalformedPayload)]

    def close(self) -> Sequence[Fact]:
        """Return the last facts of an exchange that has no `end` yet, for a look at it at this
        moment.
        """
        document = (
            fact for fact in self._read_document() if not isinstance(fact, MalformedPayload)
        )  # half of it is not a fault
        return [*self._request_facts(), *document]

    def _on_request(self, event: Event) -> Sequence[Fact]:
        if event.pos and event.type == "body":
            self._request.add(event.raw)
        elif not event.pos:
            self._head = event.raw
            self._restart()
        return _NOTHING

    def _on_response(self, event: Event) -> Sequence[Fact]:
        head = _decoded(_head_of, event.raw)
        self._http_status = 0 if head is None else head.status
        headers = [] if head is None else head.headers
        framing = self._dialect.framing_of(self._path, self._http_status, headers)
        self._framing = framing or SSE
        self._owes_bracket = framing is JSON_ARRAY
        answered = self._dialect if framing is None else answered_in(self._dialect, framing.name)
        spoken: Sequence[Fact] = _NOTHING
        if answered is not self._dialect:
            self._spoken = SpokenDialect(answered)
            self._read_as(answered)
            spoken = (ApiSpoken(answered.name, False),)
        self._head_pos = event.pos
        facts = [] if head is None else [HeadReceived(head.status), *_cost(head.headers)]
        # The request of a live turn goes on while it is answered.
        asked = self._request_facts() if self._live_turn is None else ()
        return [*asked, *facts, *spoken]

    def _request_facts(self) -> Sequence[Fact]:
        """Return the facts of the request, when it is complete."""
        if not self._is_asking:
            return _NOTHING
        self._is_asking = False
        size_bytes, body = self._request.size_bytes, self._request.take()
        if self._live_turn is not None:
            body = self._live_turn.request()
        conversation = self._dialect.read_request(self._path, body or b"")
        request = model_asked_for(body or b"") if conversation is None else conversation.facts()
        head = _decoded(_request_of, self._head) or _RequestClaims()
        claims = Claims(head.headers, body, is_message=self._method == WEBSOCKET)
        place = placed(self._dialect.name, self._method, self._path, claims, request)
        said: list[Fact] = []
        if isinstance(head.derived, str):
            said.append(DerivedFrom(head.derived))
        if head.attribution is not None:
            said.append(RequestAttributed(head.attribution))
        if body is None:
            return (*said, OversizedPayload(size_bytes), place)
        return (
            *said,
            request,
            RequestReceived(self._path, body, conversation),
            place,
            *self._ask(body),
        )

    def _raw(self, event: Event) -> bytes:
        """Return the bytes of an event of a stream, of the first one without a byte order mark: it
        is a part of the stream there, and a character anywhere else.
        """
        is_first = event.pos <= self._head_pos + 1 and self._framing is SSE
        return event.raw.removeprefix(BOM) if is_first else event.raw

    def _on_part(self, event: Event) -> Sequence[Fact]:
        self._parts.add(self._raw(event))
        return self._parts_block(event) if self._framing.ends(event.raw) else _NOTHING

    def _on_tail(self, event: Event) -> Sequence[Fact]:
        """Read an event without its blank line: several providers end so.

        Half an event has no facts.
        """
        self._parts.add(self._raw(event))
        given = self._parts_block(event)
        facts = [fact for fact in given if not isinstance(fact, MalformedPayload)]
        # an error, in a body that says it is a stream
        is_document = event.raw.lstrip().startswith((b"{", b"["))
        if facts and is_document:
            return facts
        return [
            *facts,
            UnterminatedEvent(
                sum(fact.characters for fact in given if isinstance(fact, MalformedPayload))
            ),
        ]

    def _parts_block(self, event: Event) -> Sequence[Fact]:
        size_bytes, block = self._parts.size_bytes, self._parts.take()
        return (OversizedPayload(size_bytes),) if block is None else self._block(event, block)

    def _block(self, event: Event, block: bytes) -> Sequence[Fact]:
        """Read a block that has more than one line of data, or none by the standard; or a message
        that is not JSON.
        """
        if self._framing is MESSAGES and self._method not in (WEBSOCKET, STDIO):  # of a connection
            return _NOTHING
        data = self._framing.fields(block).data
        if data is None and self._framing is SSE:
            return self._without_data(event, block)
        if data is None:
            return (MalformedPayload("a message with a wrong checksum, or half of one"),)
        return self._tell(event.type, data) if data.strip() else _NOTHING

    def _without_data(self, event: Event, block: bytes) -> Sequence[Fact]:
        """Read a block without data.

        It is not an event by the standard, and most clients skip it. But errors come so: as bare
        JSON (Gemini), or as a field `error:` (llama.cpp).
        """
        if block.startswith(BOM):
            return (
                MalformedPayload(
                    "a byte order mark within the stream: clients do not read this event"
                ),
            )
        bare = block.removeprefix(b"error:").strip()
        if bare.startswith(_FIELDS):
            return _NOTHING
        if not bare.startswith((b"{", b"[")):
            return self._refused(bare)
        if self._dialect.reads_bare_json:
            return self._tell(event.type, bare)
        failures = [
            fact
            for fact in self._dialect.decoder().event(event.type, bare)
            if isinstance(fact, ErrorReported)
        ]
        return failures or (MalformedPayload("JSON without `data:`, which clients pass over"),)

    def _on_comment(self, event: Event) -> Sequence[Fact]:
        if self._framing is JSON_ARRAY and event.raw.endswith(b"]"):
            self._owes_bracket = False
        return _NOTHING

    def _on_sent(self, event: Event) -> Sequence[Fact]:
        """Read a message of the client, which may come in parts."""
        self._sent.add(event.raw)
        if not MESSAGES.ends(event.raw):
            return _NOTHING
        size_bytes, message = self._sent.size_bytes, self._sent.take()
        return (
            (OversizedPayload(size_bytes),) if message is None else self._send(event.type, message)
        )

    def _on_body(self, event: Event) -> Sequence[Fact]:
        # over WebSocket, bytes that could not be framed
        if self._framing is not MESSAGES and event.type != LEFT_OUT:
            self._body.add(event.raw)
            self._body_bytes += len(event.raw)
        return _NOTHING

    def _read_document(self) -> Sequence[Fact]:
        size_bytes, body = self._body.size_bytes, self._body.take()
        if body is None:
            return (OversizedPayload(size_bytes),)
        is_open = self._spoken.is_open and self._http_status < ERROR_STATUS
        spoken = self._hear(body) if body and is_open else _NOTHING
        # what was only accepted may have no body
        is_there = body or self._http_status == ACCEPTED
        facts = [*spoken, *self._document(body)] if is_there else _NOTHING
        return (
            facts
            if any(isinstance(fact, ErrorReported) for fact in facts)
            else self._refused(body) or facts
        )

    def _refused(self, body: bytes) -> Sequence[Fact]:
        """Return the error that a body is because its status is one: also a text, a page, or JSON
        of another API.
        """
        failure = refusal(body) if self._http_status >= ERROR_STATUS and body else None
        return _NOTHING if failure is None else (failure,)

    def _on_reads(self, event: Event) -> Sequence[Fact]:
        # else those from the client
        reads = _decoded(_reads_of, event.raw) if event.type is None else None
        return (FirstByte(reads[0][0]),) if reads else _NOTHING

    def _on_gap(self, event: Event) -> Sequence[Fact]:
        self._parts.take()
        gap = _decoded(_gap_of, event.raw) or _GapSide()
        if gap.of != "request":
            self._missing = self._missing or gap.reason or "bytes were not recorded"
        return (LostBytes("request" if gap.of == "request" else "response", gap.size_bytes),)

    def _on_note(self, event: Event) -> Sequence[Fact]:
        budget = _decoded(_budget_of, event.raw)
        return _NOTHING if budget is None else (budget,)

    def _on_end(self, event: Event) -> Sequence[Fact]:
        end = _decoded(_end_of, event.raw) or ExchangeEnded("unknown", "unknown")
        document = self._read_document()
        if self._owes_bracket and end.frames and end.outcome in WHOLE:
            document = (MalformedPayload("the array has no end"),)
        facts = self._heard([*self._request_facts(), *document])
        is_broken = self._expects_answer and any(
            isinstance(fact, MalformedPayload) for fact in document
        )
        reason = self._unread(end, is_told=is_broken)
        if (reason is not None or is_broken) and not self._is_finished:
            self._verdict = worse(self._verdict, "incomplete")
        unreadable = [] if reason is None else [UnreadableResponse(reason)]
        return [*facts, *unreadable, self._settled(end)]

    def _unread(self, end: ExchangeEnded, *, is_told: bool) -> str | None:
        """Return why there is no answer in a response that came to its end, or not all of it; None
        if there is, or if another fact tells it.
        """
        if end.outcome not in WHOLE:
            return None  # its end says why
        if end.undecoded is not None and end.outcome == "eof":
            return end.undecoded
        is_good = 200 <= self._http_status < 300 or self._framing is MESSAGES
        is_answered = self._is_answered or is_told or end.frames > self._silent_frames
        if not self._expects_answer or not is_good or is_answered:
            return None
        if self._missing or end.undecoded:
            return self._missing or end.undecoded
        return (
            "there is no answer in it"
            if end.frames or self._body_bytes
            else "the response is empty"
        )

    def _settled(self, end: ExchangeEnded) -> ExchangeEnded:
        """Return the end with what the provider says of it.

        A connection that broke behind the last event of a whole response is not an error of that.
        """
        status = worse(end.status, self._verdict)
        is_well = status in ("completed", "incomplete")
        error = None if is_well else end.error
        return msgspec.structs.replace(end, status=status, error=error, said_end=self._said_end)


def asks_for_answer(exchange: Exchange) -> bool:
    """Return whether a request is for an answer of a model, or for all of one that another request
    began.
    """
    prompt = by_name(exchange.api).prompt
    path = exchange.target.partition("?")[0]
    generates = (
        exchange.method in ("POST", WEBSOCKET)
        and prompt is not None
        and prompt.generates.search(path)
    )
    return bool(generates) or (
        exchange.resumes_response_id is not None and exchange.resumes_after is None
    )


_READERS: Mapping[str, Callable[[FactReader, Event], Sequence[Fact]]] = {
    "request": FactReader._on_request,
    "response": FactReader._on_response,
    "frame": lambda reader, event: reader._block(event, reader._raw(event)),
    "part": FactReader._on_part,
    "tail": FactReader._on_tail,
    "sent": FactReader._on_sent,
    "comment": FactReader._on_comment,
    "body": FactReader._on_body,
    "reads": FactReader._on_reads,
    "gap": FactReader._on_gap,
    "end": FactReader._on_end,
    "note": FactReader._on_note,
}
"""By the kind of event."""

Decoded = TypeVar("Decoded")


def _decoded(decode: Callable[[bytes], Decoded], raw: bytes) -> Decoded | None:
    """Return the JSON of an event of our own; None if another version wrote it otherwise."""
    try:
        return decode(raw)
    except msgspec.DecodeError:
        return None
