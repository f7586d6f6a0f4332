"""The shape of an exchange: its bodies and events with filler for every text.

Rules of this file:

* What is structure stays: names of members, types, roles, models, names of tools, ids, times,
  numbers. A string that no table here calls structure is a text; so is one that does not look like
  a word or an id.
* Of what a tool is called with, all is text: the names of members and the numbers too. The
  `properties` of a schema have the same filler, so that arguments fit their schema still.
* JSON has as many bytes as before: only the characters of strings change, never its layout. What is
  no JSON is filled as a text, or not kept (`unkept`).
* The text of a stream is that of its pieces: what follows each other in one place of a response is
  one text.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from recorder.wire.content.filler import Filler, FillerKey, Numbers
from recorder.wire.dialects import DIALECTS, Dialect
from recorder.wire.dialects.json_values import decoded, decoded_or_none, names
from recorder.wire.dialects.keys import DONE
from recorder.wire.framing import AWS_EVENT_STREAM, Framing
from recorder.wire.framing.sse import BOM
from recorder.wire.redaction.bodies import placeholder

# forms of events that come again: a stream has one or two at a time
_PATTERNS = 8
_VARIABLES = 32  # of a form: what has more, as usage with all its counts, comes once
# texts of one response that are open at once: the most that was seen has some thirty calls
_LANES = 256

_WORDS = names("""
    type object role model models modelVersion model_version status event_type sessionUpdate method jsonrpc
    finish_reason finishReason native_finish_reason stop_reason stopReason reason code param error_code
    service_tier serviceTier effort reasoning_effort thinkingLevel thinking_level verbosity truncation phase speed
    tool_choice mode modality modalities responseModalities response_modalities format encoding encoding_format detail
    mimeType mime_type media_type responseMimeType response_mime_type input_audio_format output_audio_format
    category probability severity threshold include ttl background quality size output_format moderation action
    language outcome search_context_size prompt_cache_retention trafficType inference_geo token_type
    anthropic_version response_format kind state done_reason role_type execution channel syntax context
    finishStatus protocolVersion protocol_version file_type
""")
"""Members whose values are words of a protocol."""

_TOOLS = names(
    "name tool_name toolName recipient_name allowedFunctionNames allowed_function_names tools"
)
"""Members that have the name of a tool."""

_NAMED = names(
    "properties $defs definitions patternProperties dependentSchemas logit_bias env attributes"
)
"""Members that hold others by names of somebody's own."""

_TOKENS = names("tokenId token_id")
"""Members that have the number of a word, in place of it."""

_OTHERS = names("role uri url bytes parts artifactId data mimeType")
"""Members beside which a name is that of a person, or of a file."""

_CALLED_WITH = names("args arguments rawInput raw_input parsed_arguments")
_OTHER_INPUTS = names("audio moderation")
_ANSWERED_WITH = names("functionResponse function_response")
_NO_ARGUMENTS = names("null {}")
_PIECES = names("delta inputTextDelta")
_PLACES = names("""
    index output_index content_index summary_index contentBlockIndex thought sessionUpdate messageId toolCallId
""")
"""Members that say to which text of a response a piece belongs."""

_ID_NAMED = re.compile(r"(?:.*[a-z]_|.*[a-z](?=[A-Z]))?(?:ids?|Ids?|uuids?)")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/+=|-]{0,255}")
_ID_HEAD = re.compile(r"(?:[a-z]{2,10}_){1,2}|chatcmpl-|gen-")
_LONG_HEX = re.compile(r"[0-9a-f-]{16,}")
_WORD = re.compile(r"@?[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,127}")
_TIME = re.compile(r"[0-9T:.Z+-]{1,40}")
_SUMMARY = re.compile("auto|concise|detailed|none")
_FINE_TUNED = "ft:"
_DATA_URL = re.compile(rb"data:[\w/.+-]{1,80};base64,")

_PADDING = re.compile("[A-Za-z0-9]{0,64}")  # by chance: OpenAI has it beside each delta
_QUOTED = re.compile(rb'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+')
_ARGUMENTS = re.compile(rb"(?!(?:null|\{\})\Z)" + _QUOTED.pattern)

_TOKEN = re.compile(
    rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"(\s*:)?|\\?\Z)|-?[0-9][0-9.eE+-]*', re.DOTALL
)

_Fill = Callable[[bytes], bytes]
_Holders = Sequence[Mapping[str, Any]]
_Lane = tuple[Any, ...]


class _Variable(NamedTuple):
    """What may stand at a place of events of the same form."""

    # None: what else may stand there is not known, a value is decided by what it is
    fits: Callable[[bytes], object] | None
    fill: _Fill | None  # None: it stays


class _Pattern(NamedTuple):
    """The form of an event: what is the same in all that have it, and what stands between that.

    Most events of a stream are like one before but for a text and a number. To find these takes two
    microseconds; to decode the event, and to decide on each of its strings, thirty.
    """

    start: bytes
    places: Sequence[tuple[_Variable, bytes]]  # with what follows each

    def values(self, raw: bytes) -> list[bytes] | None:
        """Return what stands at the variables of an event; None if it has another form.

        What follows a text begins with the quote that ends it: before one that does not, there is a
        backslash, and the text does not fit.
        """
        if not raw.startswith(self.start):
            return None
        at, values = len(self.start), list[bytes]()
        for (fits, _), constant in self.places:
            end = raw.find(constant, at)
            value = raw[at:end]
            if end < 0 or fits is None or not fits(value):
                return None
            values.append(value)
            at = end + len(constant)
        return values if at == len(raw) else None

    def filled(self, values: Sequence[bytes]) -> bytes:
        """Return an event with filler at its variables."""
        pieces = [self.start]
        for value, ((_, fill), constant) in zip(values, self.places, strict=True):
            pieces += (value if fill is None else fill(value), constant)
        return b"".join(pieces)


class Shaper:
    """The shape of one exchange: its documents, and the events of its response in order."""

    def __init__(self, key: FillerKey, dialect: Dialect, *, maps_ids: bool = False) -> None:
        """With `maps_ids` ids become others of their form, the same one the same."""
        self._key, self.dialect = key, dialect
        self._maps_ids = maps_ids
        self._text, self._number = _Variable(None, key.filled), _Variable(None, key.number)
        self._pieces = frozenset(path.replace(".*", "") for path in dialect.fields.pieces)
        self._lanes: dict[_Lane, tuple[str | None, Filler]] = {}
        self._latest: tuple[_Lane, Filler] = ((), Filler(key))
        self._patterns: deque[_Pattern] = deque(maxlen=_PATTERNS)

    def document(self, data: bytes) -> bytes:
        """Return the shape of a body, or of a message of the client. Never raises."""
        return self._json(data, is_piece=False) if data else data

    def body(self, data: bytes) -> bytes:
        """Return the shape of a body. What is no JSON is not kept, but for its size."""
        begins_as_json = data.lstrip()[:1] in (b"{", b"[")
        if not data or begins_as_json or decoded_or_none(data) is not None:
            return self.document(data)
        return unkept(data, self._key)

    def loose(self, data: bytes) -> bytes:
        """Return the shape of bytes that may be anything."""
        return self._key.loose(data)

    def frame(self, raw: bytes, framing: Framing) -> bytes:
        """Return the shape of an event of a stream, of any framing. Never raises."""
        return self.known(raw) or self._frame(raw, framing)

    def known(self, raw: bytes) -> bytes | None:
        """Return the shape of an event that is like an earlier one but for its texts and numbers;
        None if it is like none.
        """
        if not raw.isascii() and not _is_text(raw):
            return None
        for pattern in self._patterns:
            values = pattern.values(raw)
            if values is not None:
                return pattern.filled(values)
        return None

    def _frame(self, raw: bytes, framing: Framing) -> bytes:
        if raw.startswith(BOM):
            return BOM + self._frame(raw.removeprefix(BOM), framing)
        fields = framing.fields(raw)
        if fields.data is None:  # JSON at most: an error
            return self._json(raw, is_piece=False)
        if fields.data_start is None:
            return self._in_lines(raw, fields.data)
        if framing is AWS_EVENT_STREAM:  # with sums
            return framing.with_data(raw, fields, self._payload(fields.data))
        end = fields.data_start + len(fields.data)
        return self._payload(fields.data, raw[: fields.data_start], raw[end:])

    def _in_lines(self, raw: bytes, data: bytes) -> bytes:
        """Return the shape of an event whose payload stands in several lines of a block."""
        lines = self._payload(data).split(b"\n")
        placed = iter(lines)
        if [len(each) for each in lines] != [
            len(field[2]) for field in _FIELD.finditer(raw) if field[1].startswith(_DATA_FIELD)
        ]:
            return self._loose(raw)
        return _FIELD.sub(
            lambda field: (
                field[1] + next(placed)
                if field[1].startswith(_DATA_FIELD)
                else self._loose_field(field)
            ),
            raw,
        )

    def _payload(self, data: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
        """Return the shape of the payload of an event, between what stands around it."""
        if data.strip() == DONE.encode():
            return before + data + after
        inner = self.dialect.unwrapped(data)
        if inner is data or inner == data:
            return self._json(data, before, after, is_piece=True)
        coded = b64encode(inner)  # within the payload, in base64: Bedrock
        if coded not in data or b64decode(coded) != inner:
            return before + self._json(data, is_piece=False) + after
        return before + data.replace(coded, b64encode(self._json(inner, is_piece=True))) + after

    def comment(self, raw: bytes) -> bytes:
        """Return the shape of a comment of a stream: servers have one that says that they are
        alive.
        """
        return raw if len(raw) <= 40 and _ALIVE.fullmatch(raw) else self._loose(raw)

    def id(self, text: str) -> str:
        """Return the id that stands in place of one."""
        if not self._maps_ids:
            return text
        head = _ID_HEAD.match(text)
        rest = text[head.end() if head else 0 :]
        if not _LONG_HEX.fullmatch(rest):
            return text[: len(text) - len(rest)] + self._key.word(rest)
        digits = iter(self._key.digest(rest.encode(), 64).hex() * (1 + len(rest) // 128))
        return text[: len(text) - len(rest)] + "".join(
            next(digits) if each != "-" else each for each in rest
        )

    # -- JSON: a plan of its tokens by its values, then the tokens in its bytes

    def _json(
        self, data: bytes, before: bytes = b"", after: bytes = b"", *, is_piece: bool
    ) -> bytes:
        try:
            data.decode()  # what reads JSON takes half an emoji for a character
            value = decoded(data)
        except ValueError:
            return before + self._loose(data) + after
        plan: list[_Variable | None] = []
        self._add(plan, value, (), (), is_piece=is_piece, is_text=False)
        tokens = [*_TOKEN.finditer(data)]
        if len(tokens) != len(plan):  # a name that is there twice
            return before + self._loose(data) + after
        pattern, values = _pattern_of(data, tokens, plan, before, after)
        if is_piece and len(values) <= _VARIABLES and all(map(_is_open, pattern.places)):
            self._patterns.appendleft(pattern)
        return pattern.filled(values)

    def _add(
        self,
        plan: list[_Variable | None],
        value: Any,
        path: tuple[str, ...],
        holders: tuple[Mapping[str, Any], ...],
        *,
        is_piece: bool,
        is_text: bool,
    ) -> None:
        """Add how each token of a value is filled, in their order; None for one that stays."""
        if isinstance(value, str):
            plan.append(
                self._text if is_text else self._string(value, path, holders, is_piece=is_piece)
            )
        elif isinstance(value, dict):
            is_text = is_text or _is_called_with(path)
            is_named = is_text or (path[-1:] != () and path[-1] in _NAMED)
            for name, inner in value.items():
                plan.append(self._text if is_named else None)
                self._add(
                    plan,
                    inner,
                    (*path, name),
                    (*holders, value),
                    is_piece=is_piece,
                    is_text=is_text,
                )
        elif isinstance(value, list):
            # that has items
            is_text = is_text or (path[-1:] != ("input",) and _is_called_with(path))
            numbers = _Variable(None, Numbers(self._key).filled)
            for inner in value:
                if not is_text and isinstance(inner, int | float) and not isinstance(inner, bool):
                    plan.append(numbers)
                else:
                    self._add(
                        plan, inner, (*path, "*"), holders, is_piece=is_piece, is_text=is_text
                    )
        elif value is not None and not isinstance(value, bool):
            plan.append(self._of_number(path, holders, is_text=is_text))

    def _of_number(
        self, path: tuple[str, ...], holders: _Holders, *, is_text: bool
    ) -> _Variable | None:
        """Return how a number is filled; None if it stays, and nothing else is like it."""
        name = path[-1] if path else ""
        if is_text:
            return self._number
        if name in _TOKENS:
            return _Variable(None, partial(self._continued, *_lane_of(path, holders)))
        return None if name in _PLACES else _NUMBER

    def _string(
        self, value: str, path: tuple[str, ...], holders: _Holders, *, is_piece: bool
    ) -> _Variable | None:
        """Return how a string is filled; None if it stays."""
        name = next((step for step in reversed(path) if step != "*"), "")
        form = _form_of(name)
        if self._maps_ids and value.startswith(_FINE_TUNED):
            form = None  # the name of its organization is in that of the model
        if (
            form is not None
            and form.fullmatch(value)
            and _is_structure(name, holders[-1] if holders else {})
        ):
            is_mapped = self._maps_ids and form in (_ID, _PADDING)
            return _Variable(None, self._id_between_quotes) if is_mapped else _STAYING.get(form)
        if name == "arguments" and value in _NO_ARGUMENTS:
            return None
        fits = _ARGUMENTS.fullmatch if name == "arguments" else _QUOTED.fullmatch
        fill = self._whole
        if is_piece and (
            not _PIECES.isdisjoint(path) or ".".join(path).replace(".*", "") in self._pieces
        ):
            fill = partial(self._continued, *_lane_of(path, holders))
        return _Variable(fits if form is None else None, fill)

    def _whole(self, text: bytes) -> bytes:
        """Return the filler of a text. A picture in a URL stays one."""
        url = _DATA_URL.match(text)
        at = url.end() if url else 0
        return text[:at] + self._key.filled(text[at:])

    def _id_between_quotes(self, text: bytes) -> bytes:
        return self.id(text.decode()).encode() if b"\\" not in text else self._key.filled(text)

    def _continued(self, lane: _Lane, id: str | None, piece: bytes) -> bytes:
        """Return the filler of a piece, after those of the same text."""
        latest, filler = self._latest
        if lane is not latest:  # of another form of events, it may be equal
            filler = self._open(lane, id)
        return filler.filled(piece)

    def _open(self, lane: _Lane, id: str | None) -> Filler:
        """Return the filler of the text in a lane, which becomes the latest one."""
        known_id, filler = self._lanes.pop(lane, (id, None))
        if filler is None or (id is not None and id != known_id):
            known_id, filler = id, Filler(self._key)
        if len(self._lanes) >= _LANES:
            del self._lanes[next(iter(self._lanes))]
        self._lanes[lane] = known_id, filler
        self._latest = lane, filler
        return filler

    # -- what is no JSON, or none that can be read

    def _loose(self, data: bytes) -> bytes:
        """Return the shape of what cannot be read.

        Of JSON that breaks off, or that has a name twice, all strings and numbers are filled, names
        too; of a block of several lines, what follows each field. Anything else is one text.
        """
        if _LINES.match(data):
            return _FIELD.sub(self._loose_field, data)
        return self._loose_payload(data)

    def _loose_payload(self, data: bytes) -> bytes:
        if _BROKEN_JSON.fullmatch(_TOKEN.sub(b"0", data)):
            return _TOKEN.sub(self._loose_token, data)
        return self._key.loose(data)

    def _loose_token(self, token: re.Match[bytes]) -> bytes:
        if token[1] is None:
            return Numbers(self._key).filled(token[0]) if _IS_NUMBER(token[0]) else token[0]
        start, end = (place - token.start() for place in token.span(1))
        return token[0][:start] + self._key.loose(token[1]) + token[0][end:]

    def _loose_field(self, field: re.Match[bytes]) -> bytes:
        return field[1] + (
            field[2] if field[1].startswith(_KEPT_FIELDS) else self._loose_payload(field[2])
        )


_BROKEN_JSON = re.compile(rb"\s*[{\[](?:[\s{}\[\]:,0-9.eE+-]|true|false|null)*+[a-z]{0,5}")
_LINES = re.compile(rb"(?:data|event|id|retry|error)?:")
_FIELD = re.compile(rb"^((?:data|event|id|retry|error)?: ?|)([^\r\n]+)", re.MULTILINE)
_DATA_FIELD = b"data:"
_KEPT_FIELDS = (b"event:", b"id:", b"retry:")
_ALIVE = re.compile(
    rb"\s*:?\s*(?i:ping|keep-?alive|heartbeat|openrouter processing|ok|connected)?\s*"
)


def _pattern_of(
    data: bytes,
    tokens: Iterable[re.Match[bytes]],
    plan: Iterable[_Variable | None],
    before: bytes,
    after: bytes,
) -> tuple[_Pattern, list[bytes]]:
    """Return the form of an event, and what stands at its variables."""
    constants, variables, values = list[bytes](), list[_Variable](), list[bytes]()
    begun = 0
    for token, variable in zip(tokens, plan, strict=True):
        if variable is not None:
            start, end = token.span(0 if token[1] is None else 1)
            constants.append(data[begun:start])
            variables.append(variable)
            values.append(data[start:end])
            begun = end
    first, *others = *constants, data[begun:] + after
    return _Pattern(before + first, list(zip(variables, others, strict=True))), values


def _is_open(place: tuple[_Variable, bytes]) -> bool:
    return place[0].fits is not None


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _lane_of(path: tuple[str, ...], holders: _Holders) -> tuple[_Lane, str | None]:
    """Return the text that a piece at that path continues, and the id of its call."""
    place: list[Any] = [path, holders[0].get("type")]
    id: str | None = None
    for number, holder in enumerate(holders):
        place += [holder[name] for name in _PLACES if isinstance(holder.get(name), str | int)]
        if number or path[-1] in _PIECES:
            id = holder.get("id") or id  # a call has it in its first piece, or in each
        if "output_index" not in holder:  # beside it, gateways have another id in each event
            place.append(holder.get("item_id"))
    return tuple(place), id


def unkept(data: bytes, key: FillerKey) -> bytes:
    """Return what stands in place of a body of which no shape can be made: its size, and a keyed
    digest of it.
    """
    return placeholder("content", len(data)) + b" " + key.digest(data).hex().encode()


@lru_cache(maxsize=4096)  # the names of an API are few
def _form_of(name: str) -> re.Pattern[str] | None:
    """Return the form of a value that makes it structure in a member of that name; None if nothing
    does.
    """
    if name in _IDS or name == "system_fingerprint" or _ID_NAMED.fullmatch(name):
        return _ID
    if name in _TIMES:
        return _TIME
    if name == "summary":  # that a request asks for; else it is one
        return _SUMMARY
    if name == "obfuscation":
        return _PADDING
    return (
        _WORD
        if name in _WORDS or name in _TOOLS or name.startswith("$") or name == "code"
        else None
    )


def _is_structure(name: str, holder: Mapping[str, Any]) -> bool:
    """Return whether a member of such a name is one, by those beside it."""
    if name == "code":  # of an error; else it is a program
        return "message" in holder
    return name not in _TOOLS or _OTHERS.isdisjoint(holder)


def _is_called_with(path: tuple[str, ...]) -> bool:
    """Return whether an object at that path is what a tool is called with, or what one of Gemini
    answers.
    """
    if path[-1:] == ("response",):
        return not _ANSWERED_WITH.isdisjoint(path)
    if path[-1:] == ("input",):  # one at the root is the prompt
        return len(path) > 1 and _OTHER_INPUTS.isdisjoint(path)
    return path[-1:] != () and path[-1] in _CALLED_WITH


def _declared(kind: str) -> frozenset[str]:
    """Return the names of members that have ids, or times, as the noise of all formats declares
    them.
    """
    found = set()
    for dialect in DIALECTS:
        for field in dialect.fields.noise:
            for path in field.paths if field.kind == kind else ():
                found.add(path.removesuffix(".*").rpartition(".")[2])
    return frozenset(found)


_IDS, _TIMES = _declared("id"), _declared("time")
_IS_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").fullmatch
_NUMBER = _Variable(_IS_NUMBER, None)
_STAYING = {
    form: _Variable(re.compile(form.pattern.encode()).fullmatch, None) for form in (_TIME, _PADDING)
}
"""Values that stay, but differ in events of the same form."""
