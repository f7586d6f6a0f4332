"""The declaration of a wire format as data and pure functions.

Everything that the program knows about one is in its `Dialect` and the folder of that; who speaks
it is in `recorder.wire.providers`. Nothing in it raises: a value that cannot be read is `NULL` in
the log, which has the bytes anyway, and an `Unknown` or `Malformed` among the facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from recorder.model.events import Header
from recorder.model.facts import Links, RequestFacts
from recorder.model.text import rows
from recorder.wire.dialects.conversation import Conversation
from recorder.wire.dialects.decoder import JsonDecoder
from recorder.wire.dialects.json_values import Object, flag, request_object, text
from recorder.wire.dialects.keys import DONE, KeyExtractor
from recorder.wire.dialects.prompt import CachePolicy, PromptFormat
from recorder.wire.dialects.sdks import Sdk
from recorder.wire.framing import JSON_ARRAY, Framing, framing_of_head
from recorder.wire.providers import home_of

Ending = Literal["completed", "incomplete", "failed"]
"""The status that a terminal event gives a response."""

Noise = Literal["id", "time", "made", "padding"]
"""`id`: only which of them are the same counts. `time`, `made`: that there is one counts.
`padding`: nothing counts.
"""


class NoiseField(msgspec.Struct, frozen=True):
    """Places in the payloads of responses that differ between two answers which are the same
    otherwise.

    A path is names with dots between, `*` for each element of a list.
    """

    kind: Noise
    paths: tuple[str, ...]
    reason: str


class RequestNoise(msgspec.Struct, frozen=True):
    """A part of requests that differs between two runs: the path of a field, or of an id by which
    one part of a request refers to another (`references`); the name of a header or a parameter.
    """

    kind: Literal["fields", "references", "headers", "parameters"]
    name: str  # of the rule, which `[match] without` switches off
    what: str
    reason: str
    beside: str = ""
    """Names of members that the body has too, of `fields`, or that stand beside the id, of
    `references`: a member of that name may be something else in another format."""
    found_by: str = ""
    """The member of `references` by which the call of a result is found where an id is not there:
    its name.
    """


def paths(names: str, **places: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of a text; `place>id` is the member `id` at each of the places of that name.

    The paths of places end with a dot.
    """
    found: list[str] = []
    for path in names.split():
        place, is_below, name = path.rpartition(">")
        found += [before + name for before in places[place]] if is_below else [name]
    return tuple(found)


def noise_fields(table: str, **places: Iterable[str]) -> tuple[NoiseField, ...]:
    """Return the fields of a table: in a row the kind, the paths and the reason."""
    found = []
    for row in rows(table):
        kind, names, reason = row.split(" | ")
        found.append(NoiseField(msgspec.convert(kind, Noise), paths(names, **places), reason))
    return tuple(found)


class ResponseFields(msgspec.Struct, frozen=True):
    """The paths in payloads of responses at which texts, arguments of calls and counts of tokens
    are.
    """

    texts: tuple[str, ...] = ()  # texts, names and arguments of the items
    arguments: tuple[str, ...] = ()  # members of what a tool of the provider is called with
    pieces: tuple[str, ...] = ()  # of texts that come in pieces, besides those in a `delta`
    usage: tuple[str, ...] = ()
    noise: tuple[NoiseField, ...] = ()
    # names of fields, wherever they are, and why they are ciphertext
    ciphertexts: Mapping[str, str] = {}
    ciphertext_block: str | None = None  # the type of a block whose `data` is ciphertext


class RequestPlaces(msgspec.Struct, frozen=True):
    """Places in the bodies of requests, at any depth: gateways and batches wrap them, responses
    repeat parts of them.

    A path is names with dots between, `*` for each element of a list.
    """

    # besides those whose names say it (`recorder.wire.redaction.marks`)
    credentials: tuple[str, ...] = ()
    # what a model reads or writes, with all that is in it: no parameter
    of_model: tuple[str, ...] = ()


class Continuation(msgspec.Struct, frozen=True):
    """The requests of a format that have only the new items of a conversation, and name the rest by
    an id.

    Nothing here raises, whatever the JSON.
    """

    # members of a request that hold the ids; without them it is whole as it was sent
    fields: tuple[str, ...]
    items: str  # the member that has the items
    links: Callable[[Object], Links]  # of a request
    # the items of a request, a text as the message that it is
    input: Callable[[Object], Sequence[Any]]
    # of the payloads of a response, its items as a request has them
    output: Callable[[Iterable[bytes]], Sequence[Any]]
    # an item without what only some clients send back; `None`: all of it is that
    compared: Callable[[Any], Any]
    # a response is one item of the next request, however many items came
    is_one_message: bool = False


class MessageIds(NamedTuple):
    """The ids by which a WebSocket message belongs to a turn, each None where it has none."""

    stream_id: str | None = None
    response_id: str | None = None
    previous_response_id: str | None = None  # that it continues


class LiveRequest(Protocol):
    """The request of a turn of a live session, put together from the messages since the turn
    before. Never raises.
    """

    def sent(self, payload: bytes) -> None:
        """Add a message of the client, or the one that set the session up."""

    def heard(self, payload: bytes) -> None:
        """Add what the server says of the request: a transcript of what the client let it hear."""

    def body(self) -> bytes:
        """Return the request as a JSON object. Sound is in it by size, digest and duration."""


class LiveSession(msgspec.Struct, frozen=True):
    """One conversation for a whole connection: sound streams in, and the server may answer without
    a request.
    """

    # of messages of either side that say what holds from now on; the last one counts
    setup_types: frozenset[str]
    # of the client's messages that belong to a turn: the first of them begins it
    opening_types: frozenset[str]
    heard_types: frozenset[str]  # of the server's messages that say something of the request
    request: Callable[[], LiveRequest]
    sound_size: Callable[[Object], int | None]  # of a message that is only sound; None of any other
    # that the client made in a message, and the server may repeat
    client_ids: Callable[[Object], Sequence[str]]
    # of what the server says when no turn is open; None: as any other
    between: Callable[[], JsonDecoder] | None = None


class WebSocketFormat(msgspec.Struct, frozen=True):
    """The way in which several responses are asked for, one after another or at once, on one
    WebSocket connection.
    """

    request_type: str  # of the client's message that asks for a response
    # of the one that ends a response, so that another one continues it without a request
    steer_type: str | None
    begin_types: frozenset[str]  # of the server's messages that begin a response
    ids: Callable[[bytes], MessageIds]  # of a message of either side; never raises
    # None: each response is asked for by one message, which is its request
    live: LiveSession | None = None


_MODEL_PART = re.compile(
    rb'\r\nContent-Disposition: *form-data; *name="?model"?\r\n\r\n([^\r\n]{1,200})\r\n--',
    re.IGNORECASE,
)
"""The model in a form: what transcriptions and edits of images are asked with, beside the file."""


def model_asked_for(body: bytes) -> RequestFacts:
    """Return the facts of a request of which nobody here knows what it says: the model, in JSON or
    in a form.

    Transcriptions and images are answered without it, and it decides what their tokens cost.
    """
    if body.startswith(b"--"):
        part = _MODEL_PART.search(body)
        return RequestFacts(model=part[1].decode("utf-8", "replace") if part else None)
    request = request_object(body)
    return RequestFacts(model=text(request, "model"), stream=flag(request.get("stream")))


class HostedSession(msgspec.Struct, frozen=True):
    """The session that a provider keeps for an agent of its own: requests name it by their path,
    and one makes it.
    """

    # searched in a path without its query: the groups `session` and `thread` have ids
    path: re.Pattern[str]
    # of "METHOD /path", of its events: what several such requests get is one response
    stream: re.Pattern[str]
    made: re.Pattern[str]  # of "METHOD /path", of the request that makes one
    # paths in its answer, or in an event of that, of which the first that is there is the id
    made_ids: tuple[str, ...]

    def id_in(self, said: Object) -> str | None:
        """Return the id of a session that was made, as its answer says it, or an event of that."""
        found = [text(said, *path.split(".")) for path in self.made_ids]
        return next(filter(None, found), None)


class ResponseRoutes(msgspec.Struct, frozen=True):
    """The requests for a response by its id, each a pattern of "METHOD /path" with the id in one of
    its groups.
    """

    asked_for: re.Pattern[str]  # for anything of it: to get, follow, end or delete it
    retrieved: re.Pattern[str] | None = None  # for the response, which is the same as before
    after: str = "starting_after"  # the parameter that says after which event a stream continues
    event_id: str | None = None  # the member of payloads that it is about; None: their number
    # for a new one, or for one that is there: each answer may have a part of it
    made: re.Pattern[str] | None = None
    member: str = "response"  # of the first events, which has the id
    is_restated: bool = False  # the terminal event has that member with all that the response is


def response_routes(collection: str, **more: Any) -> ResponseRoutes:
    """Return the routes of responses that are resources, below the path of that name."""
    cancel = rf"POST /(?:.*/)?{collection}/([^/]+)/cancel"
    return ResponseRoutes(
        re.compile(
            rf"^(?:(?:GET|DELETE) /(?:.*/)?{collection}/([^/]+)(?:/.*)?|{cancel})$", re.DOTALL
        ),
        re.compile(rf"^(?:GET /(?:.*/)?{collection}/([^/]+)|{cancel})$", re.DOTALL),
        made=re.compile(
            rf"^(?:POST /(?:.*/)?{collection}|GET /(?:.*/)?{collection}/[^/]+)$", re.DOTALL
        ),
        **more,
    )


class ProgramLines(msgspec.Struct, frozen=True):
    """The lines that a program of a format, and the client which started it, write to each other.

    Nothing raises.
    """

    media_type: str  # of the lines, in the log
    begins: Callable[[bytes], bool]
    """Whether a program is one of this format whose first read this is, of either side. It may be
    half a line.
    """
    asked: Callable[[Object], Sequence[str]]
    """The names by which lines that belong to a line of the client are known."""
    answered: Callable[[Object], str]
    """The one of these names that a line of the program has; an empty text: it belongs to the line
    before it.
    """
    compared: Callable[[Object], Object | None]
    """What of a line of the client counts for a replay; None: all of it."""
    asks: Callable[[Object], Object | None]
    """What counts (`compared`) of the answer of the client to a line of the program; None: it wants
    none.
    """
    refusal: Callable[[Object, str], Object | None]
    """The line that tells a client why its line is not answered; None: it waits for nothing."""


class Dialect(msgspec.Struct, frozen=True):
    """One wire format."""

    name: str  # in the log and on the command line
    routes: re.Pattern[str]  # searched in "METHOD /path", the path without its query
    keys: KeyExtractor[Any]
    decoder: Callable[[], JsonDecoder]  # one for each response
    # by `Keys.type`; of several in one stream, `failed` is the one that counts
    terminal: Mapping[str, Ending]
    # a clean end of the body without such an event means that the stream is incomplete
    needs_terminal: bool
    is_asked: Callable[[Sequence[Header], bytes], bool] | None = None
    """Whether a request is of this format by its headers and its body, where no path says that it
    is of another.
    """
    told_targets: re.Pattern[str] | None = None
    """Searched in "METHOD /path?query": targets that a server tells its client, whatever their path
    means elsewhere. They have no name of an upstream in them."""
    telling: re.Pattern[str] | None = None
    """Searched in "METHOD /path": the streams on which servers tell them, and answer what is sent
    there.
    """
    endless: re.Pattern[str] | None = None
    """Searched in "METHOD /path": streams without a terminal event, which only their reader ends.
    """
    is_last: Callable[[Sequence[Object]], bool] | None = None
    """Where a stream need not have a terminal event: whether the last of these payloads, which
    follow each other, is the last of its stream. Where one was ever seen to go on, it is not."""
    last_types: frozenset[str] = frozenset({DONE})
    """Types of events that say nothing of the response, and behind which nothing follows: gateways
    send `[DONE]` behind streams of any API."""
    whole_reasons: frozenset[str] = frozenset()  # to finish, of an answer that was given in full
    has_choices: bool = False  # `output_index` numbers alternative answers, not the items of one
    # a call's result is found by `call_place`: one side may leave ids out, or make its own
    places_calls: bool = False
    framing: str | None = None
    """That of its streams, where apps answer on its routes in another one: such a stream is not of
    this format.
    """
    unwrapped: Callable[[bytes], bytes] = lambda payload: payload
    """The event that a payload of a stream is, or has within it in another coding; never raises."""
    array_streams: re.Pattern[str] | None = None
    """Searched in a path: a JSON array that answers there is a stream, and each of its elements an
    event.
    """
    # clients take JSON in no `data:` line for an event; elsewhere they pass over it
    reads_bare_json: bool = False

    is_of_app: bool = False  # apps and agents send it to their users: a model may be behind it

    error_body: Callable[[int, str, str | None], dict[str, Any]] | None = None
    """An error of our own, by status, message and code; None: that of the first format of its
    provider.
    """
    error_events: Callable[[int, str, int], Sequence[dict[str, Any]]] | None = None
    """The payloads by which a stream says an error, by status, message and the number of events
    before; None: the one of `error_body`."""
    # the name of events that say an error, where no other event has a name
    error_event: str | None = None
    error_type: Callable[[int], str] = lambda status: "internalServerException"
    """That of an error in a binary stream of AWS, by status."""
    error_statuses: tuple[int, ...] = (400, 401, 429, 500, 503)  # that its provider documents
    conversation: Callable[[str, Object], Conversation] | None = None
    """Of a path without its query and a request body; None: nobody here knows what its requests
    say.
    """
    continuation: Continuation | None = None  # None: every request is whole as it was sent
    prompt: PromptFormat | None = None  # None: nobody here knows what of its requests a model sees
    cache: CachePolicy | None = None  # of prompts; declared by each dialect that has a `prompt`
    renumbering: Callable[[bytes, bytes], Callable[[bytes], bytes] | None] | None = None
    """What gives a payload that answered a recorded request the ids of the request that it answers
    now; None if they are the same. Their bodies are given."""
    fields: ResponseFields = ResponseFields()
    request_noise: tuple[RequestNoise, ...] = ()
    places: RequestPlaces = RequestPlaces()  # of credentials, and where none is looked for
    session_headers: frozenset[str] = frozenset()
    """In lower case, those which are as good as a key to a session: of their values a digest is
    kept.
    """
    # of requests, a regular expression of whole names in lower case: they are kept
    harmless_headers: str | None = None
    harmless_parameters: str | None = None  # the same, of a query
    # of `recorder lint`, its own first; the rules are in `lint` of its folder
    profiles: tuple[str, ...] = ()
    # ids of general rules in whose place its profiles have their own
    own_rules: frozenset[str] = frozenset()

    # whether a payload of unknown origin is of this format
    speaks: Callable[[Object], bool] | None = None
    # whether it is one of a stream, and no document
    is_event: Callable[[Object], bool] | None = None
    target: Callable[[bool, Sequence[Any]], str] = lambda is_document, payloads: "/"
    """The usual target of a request, by what answers it: whether that is not a stream, and its
    payloads.
    """
    websocket: WebSocketFormat | None = None  # None: its messages are not turns
    program: ProgramLines | None = None  # None: programs do not speak it on their standard streams
    # None: its provider keeps no sessions that requests name by their path
    hosted: HostedSession | None = None
    response_routes: ResponseRoutes | None = None  # None: nothing is asked for by an id
    # paths in the bodies of requests at which the name of a session is
    session_fields: tuple[str, ...] = ()
    # servers send errors in lines `error: {…}`, of which its profiles have a rule
    has_error_lines: bool = False
    has_event_lines: bool = False  # frames begin with `event: TYPE`
    type_member: str = "type"  # of a payload: it says that type again
    line_end: bytes = b"\n"
    sdks: tuple[Sdk, ...] = ()  # for each kind of request that an SDK sends with a recorded body
    # of OpenTelemetry (`gen_ai.operation.name`): what a request for a generation asks for
    operation: str = "chat"

    def framing_of(self, target: str, status: int, headers: Iterable[Header]) -> Framing | None:
        """Return the framing of what follows a response head; None for one document.

        What should be an array may be a document all the same: its first byte says it.
        """
        found = framing_of_head(status, headers)
        if found is not None or self.array_streams is None or not 200 <= status < 300:
            return found
        return JSON_ARRAY if self.array_streams.search(target.partition("?")[0]) else None

    def is_endless(self, method: str, target: str) -> bool:
        """Return whether only its reader ends the stream that answers a request."""
        return (
            self.endless is not None
            and self.endless.search(f"{method} {target.partition('?')[0]}") is not None
        )

    def ends(self, method: str, target: str) -> Mapping[str, Ending]:
        """Return the terminal events of the stream that answers a request."""
        return {} if self.is_endless(method, target) else self.terminal

    def request_facts(self, path: str, body: bytes) -> RequestFacts:
        """Return the facts of a request, by its path without its query and its decoded body.

        Never raises.
        """
        conversation = self.read_request(path, body)
        return model_asked_for(body) if conversation is None else conversation.facts()

    def read_request(self, path: str, body: bytes) -> Conversation | None:
        """Return the conversation of a request; None if nobody here knows what it says."""
        return None if self.conversation is None else self.conversation(path, request_object(body))

    @property
    def upstream(self) -> str:
        """Return the name of the upstream for this format: its company."""
        home = home_of(self.name)
        return home.name if home else self.name
