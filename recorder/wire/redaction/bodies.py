"""Request bodies as they may be kept: each secret replaced, whole, by
`<REDACTED openai-key, 164 bytes>`.

    [redact]
    env = ["ACME_TOKEN"]
    patterns = ['employee-\\d{6}']
    fields = ["metadata.user_email"]

Rules of this file:

* What is not a secret is not touched: a body without one comes out as it is, and what was redacted
  before stays so.
* JSON stays JSON, with the same structure. A secret is found though some of its characters are
  written as escapes, in JSON inside JSON too.
* Nothing is replaced where a provider would miss it: inside encrypted content and signatures, in
  long base64. A key that is sent instead of one is replaced.
* The same body and the same secrets give the same bytes: the log and a replay compare them.
* Pure, and never raises on what a client sent.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from recorder.wire.redaction.fields import Path, find_placed
from recorder.wire.redaction.marks import find_marked
from recorder.wire.redaction.shapes import Hit, find, merged
from recorder.wire.redaction.unescape import Unescaped, plain_size, spliced

VALUE_LIMIT = 8
"""Characters of a registered value, at least: what is shorter stands in texts that mean something
else.
"""

KEYS = ("env", "patterns", "fields")

PLACEHOLDER = re.compile(rb"<REDACTED [a-z-]{1,30}, [0-9]{1,12} bytes>")

CIPHER = 8
"""Characters that a ciphertext, a signature or a picture begins with before anything in it looks
like a key by chance: `v1.` and `key=` have less.
"""

_HALF = 4  # characters of a value that a body which broke off may end with


class Redacted(NamedTuple):
    """A body, and how many secrets of which kind were taken out of it."""

    body: bytes
    counts: Mapping[str, int]


class Redactor:
    """Takes out what is shaped like a secret, the registered values, and in the texts what the
    patterns match.
    """

    def __init__(
        self,
        values: Iterable[str] = (),
        patterns: Iterable[re.Pattern[str]] = (),
        fields: Iterable[Path] = (),
    ) -> None:
        stripped = {value.strip("\"'\\ \t\r\n") for value in values}
        self._values = [
            _Value(value) for value in sorted(stripped, key=lambda each: (-len(each), each))
        ]
        self._values = [value for value in self._values if len(value.text) >= VALUE_LIMIT]
        self._patterns = tuple(patterns)
        self._fields = tuple(fields)

    def redact(self, body: bytes, *, cut: bool = False) -> Redacted:
        """Redact a decoded request body.

        With `cut` it breaks off, and at its end half a secret is one too.
        """
        encoding = wide_encoding(body)
        if encoding is None:
            return self._redact(body, cut=cut)
        usual, counts = self._redact(_recoded(body, encoding, "utf-8"), cut=cut)
        return Redacted(_recoded(usual, "utf-8", encoding) if counts else body, counts)

    def _redact(self, body: bytes, *, cut: bool) -> Redacted:
        counts: Counter[str] = Counter()
        if self._patterns:
            body = self._without_patterns(body, counts)
        view = Unescaped(body)
        hits = self._hits(view.text, cut=cut)
        placed = find_placed(view.text, self._fields, body)
        hits += (hit for hit in placed if not _has_placeholder(view.text, hit))
        if not hits:
            return Redacted(body, counts)
        replacing = list(_replacing(view.text, list(merged(hits))))
        counts.update(hit.kind for hit, _ in replacing)
        return Redacted(
            spliced(body, ((*view.place(hit), instead) for hit, instead in replacing)), counts
        )

    def secrets(self, text: str) -> list[Hit]:
        """Return the secrets in a text that is not JSON, in order, at positions of its characters."""
        data = text.encode("utf-8", "surrogatepass")
        view = Unescaped(data)
        found = []
        for hit in self._hits(view.text, cut=False):
            start, end = view.place(hit)
            found.append(Hit(_characters(data, start), _characters(data, end), hit.kind))
        for pattern in self._patterns:
            found += (Hit(*match.span(), "pattern") for match in pattern.finditer(text) if match[0])
        stays = [match.span() for match in _SPLIT_AT_PLACEHOLDERS.finditer(text)]
        found = [
            hit
            for hit in found
            if not any(hit.start < end and start < hit.end for start, end in stays)
        ]
        return list(merged(found)) if found else []

    def _hits(self, text: bytes, *, cut: bool) -> list[Hit]:
        hits = [*find(text, cut=cut), *find_marked(text)]
        for value in self._values:
            hits += value.find(text, cut=cut)
        return [hit for hit in hits if not _has_to_stay(text, hit, behind=CIPHER)]

    # -- patterns: of texts, so that none of them reaches over the end of one

    def _without_patterns(self, body: bytes, counts: Counter[str]) -> bytes:
        if not is_json(body):
            text = body.decode("utf-8", "surrogateescape")
            if not any(pattern.search(text) for pattern in self._patterns):
                return body
            return self._sub(text, counts).encode("utf-8", "surrogateescape")

        def string(match: re.Match[bytes]) -> bytes:
            text = match[0][1:-1].decode()
            text = json.loads(f'"{text}"', strict=False) if "\\" in text else text
            if not any(pattern.search(text) for pattern in self._patterns):
                return match[0]
            if _has_to_stay(body, Hit(match.start() + 1, match.end() - 1, "")):
                return match[0]
            without = self._sub(text, counts)
            return match[0] if without == text else _written(without, as_ascii=match[0].isascii())

        return _STRING.sub(string, body)

    def _sub(self, text: str, counts: Counter[str]) -> str:
        """Replace what the patterns match in the pieces of a text between placeholders, and the
        secrets there.

        A pattern that matches a part of a secret takes the whole of it: the rest would look like
        none.
        """
        parts = _SPLIT_AT_PLACEHOLDERS.split(text)
        for index in range(0, len(parts), 2):
            replacements = []
            for hit in self.secrets(parts[index]):
                size_bytes = len(parts[index][hit.start : hit.end].encode("utf-8", "surrogatepass"))
                replacements.append(
                    (hit.start, hit.end, placeholder(hit.kind, size_bytes).decode())
                )
                counts[hit.kind] += 1
            parts[index] = spliced(parts[index], replacements)
        return "".join(parts)


def placed_secrets(text: bytes) -> list[tuple[int, int, bytes]]:
    """Return the secrets of a text by their places alone: where each is, and its placeholder."""
    view = Unescaped(text)
    hits = [hit for hit in find_placed(view.text, (), text) if not _has_placeholder(view.text, hit)]
    if not hits:
        return []
    return [
        (*view.place(hit), instead) for hit, instead in _replacing(view.text, list(merged(hits)))
    ]


def redactor_from(
    tables: Sequence[Mapping[str, object]], environment: Mapping[str, str]
) -> Redactor:
    """Make a redactor of all `[redact]` tables.

    Raises `ValueError` with one sentence that says what is wrong.
    """
    values: list[str] = []
    patterns: list[re.Pattern[str]] = []
    fields: list[Path] = []
    for table in tables:
        for key in table:
            if key not in KEYS:
                raise ValueError(f"[redact] has no setting {key!r}: it has {', '.join(KEYS)}.")
        values += [environment[name] for name in words_of(table, "env") if name in environment]
        patterns += [_pattern(what) for what in words_of(table, "patterns")]
        fields += [_path(what) for what in words_of(table, "fields")]
    return Redactor(values, patterns, fields)


def words_of(table: Mapping[str, object], key: str, name: str = "redact") -> list[str]:
    """Return the texts of a setting in the table of that name.

    Raises `ValueError` with one sentence.
    """
    words = table.get(key, [])
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise ValueError(f'[{name}] {key} must be a list of texts, for example {key} = ["…"].')
    return words


def _pattern(what: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(what)
    except re.error as error:
        raise ValueError(
            f"[redact] patterns: {what!r} is not a regular expression: {error}."
        ) from None
    if pattern.search(""):
        raise ValueError(
            f"[redact] patterns: {what!r} matches nothing at all, which is everywhere."
        )
    return pattern


def _path(what: str) -> Path:
    path = what.split(".")
    if not all(path):
        raise ValueError(
            f"[redact] fields: {what!r} is not a path: write names with dots, as metadata.user_email."
        )
    return path


# -- registered values

_CHARACTERS = {
    '"': rb'(?:\\*"|\\+u0022)',
    "\\": rb"(?:\\+(?:u005[cC])?)+",
    "/": rb"\\*/",
    "\n": rb"(?:\n|\\+n)",
    "\r": rb"(?:\r|\\+r)",
    "\t": rb"(?:\t|\\+t)",
}


class _Value:
    """A registered value."""

    def __init__(self, text: str) -> None:
        self.text = text
        plain = re.findall(r"[A-Za-z0-9_.~-]+", text)
        self._hint = max(plain, key=len, default="").encode()
        collapsed = re.sub(r"\\+", r"\\", text)
        self._pattern = re.compile(b"".join(map(_character, collapsed)))

    def find(self, text: bytes, *, cut: bool) -> Iterator[Hit]:
        if self._hint in text:
            yield from (Hit(*match.span(), "value") for match in self._pattern.finditer(text))
        if cut:
            raw = self.text.encode("utf-8", "surrogateescape")
            ends = (
                size for size in range(len(raw) - 1, _HALF - 1, -1) if text.endswith(raw[:size])
            )
            yield from (Hit(len(text) - size, len(text), "cut") for size in ends)


def _character(character: str) -> bytes:
    """Return a pattern for a character, however JSON writes it."""
    if character in _CHARACTERS:
        return _CHARACTERS[character]
    raw = re.escape(character.encode("utf-8", "surrogateescape"))
    if character.isascii() or "\udc80" <= character <= "\udcff":
        return raw
    units = character.encode("utf-16-be")
    codes = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
    return b"(?:%b|(?i:%b))" % (raw, "".join(rf"\\+u{code}" for code in codes).encode())


# -- what stays

_SEALED = re.compile(
    rb'\\*"(?:encrypted_\w{1,40}|(?:thought_?)?signature|thoughtSignature)\\*"\s{0,20}:\s{0,20}\\*"\Z'
)
_DATA_URL = b";base64,"
_NAME_BYTES = 120
_SEALED_BYTES = 4096  # of such a value: what is longer is a payload
_OF_TOKENS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-.~\\"


def _has_to_stay(text: bytes, hit: Hit, *, behind: int = 0) -> bool:
    """Return whether a hit is part of a placeholder, or of a value that has to stay: only base64,
    under such a name.

    What begins before the value has `behind` characters is not part of a ciphertext: the value is a
    key.
    """
    if _has_placeholder(text, hit):
        return True
    before = text[max(0, hit.start - _SEALED_BYTES) : hit.start]
    start = hit.start - len(before) + len(before.rstrip(_OF_TOKENS))
    is_data = text.endswith(_DATA_URL, 0, start)
    if not is_data and not _SEALED.search(text, max(0, start - _NAME_BYTES), start):
        return False
    if hit.start - start < behind:
        return False
    value = text[start : hit.end + _SEALED_BYTES]
    rest = value.lstrip(_OF_TOKENS)
    is_whole = is_data or not rest or rest.startswith(b'"')
    return is_whole and start + len(value) - len(rest) >= hit.end


def _has_placeholder(text: bytes, hit: Hit) -> bool:
    around = PLACEHOLDER.finditer(text, max(0, hit.start - _NAME_BYTES), hit.end + _NAME_BYTES)
    return any(match.start() < hit.end and hit.start < match.end() for match in around)


def _replacing(text: bytes, hits: list[Hit]) -> Iterator[tuple[Hit, bytes]]:
    """Yield the replacement of each hit.

    In JSON a number becomes a string, and what is more than a string stays.
    """
    odd = [
        hit
        for hit in hits
        if _NUMBER.fullmatch(text, *hit[:2]) or b'"' in text[hit.start : hit.end]
    ]
    strings = (
        _STRING.sub(lambda match: b" " * len(match[0]), text) if odd and is_json(text) else b""
    )
    for hit in hits:
        if not strings[hit.start : hit.end].strip():
            yield hit, placeholder(hit.kind, plain_size(text[hit.start : hit.end]))
        elif number := _whole_number(strings, hit):
            yield number, b'"%b"' % placeholder(hit.kind, plain_size(text[hit.start : hit.end]))


def _whole_number(text: bytes, hit: Hit) -> Hit | None:
    start = len(text[: hit.start].rstrip(_OF_NUMBERS))
    end = len(text) - len(text[hit.end :].lstrip(_OF_NUMBERS))
    return Hit(start, end, hit.kind) if _NUMBER.fullmatch(text, start, end) else None


def placeholder(kind: str, size_bytes: int) -> bytes:
    """Return the placeholder of a secret."""
    return b"<REDACTED %b, %d bytes>" % (kind.encode(), size_bytes)


def _characters(data: bytes, size_bytes: int) -> int:
    return len(data[:size_bytes].decode("utf-8", "surrogatepass"))


# -- texts of two or four bytes a character

_MARKS = (
    (b"\xff\xfe\0\0", "utf-32-le"),  # before UTF-16, whose mark is the beginning of this one
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_WIDE = re.compile(rb"(\0\0\0[\[{ \r\n])|([\[{ \r\n]\0\0\0)|(\0[\[{ \r\n])|([\[{ \r\n]\0)")
_WIDE_ENCODINGS = ("utf-32-be", "utf-32-le", "utf-16-be", "utf-16-le")


def wide_encoding(body: bytes) -> str | None:
    """Return the encoding of a body that is a text in UTF-16 or UTF-32: it has a mark, or begins as
    JSON does.
    """
    begins_as_json = _WIDE.match(body)
    if begins_as_json is not None:
        encoding: str | None = _WIDE_ENCODINGS[(begins_as_json.lastindex or 1) - 1]
    else:
        encoding = next((encoding for mark, encoding in _MARKS if body.startswith(mark)), None)
    if encoding is None:
        return None
    try:
        body.decode(encoding, "surrogatepass")
    except UnicodeDecodeError as error:
        # A body that breaks off may do so within a character. Anything else is not such a text, but
        # a file.
        return encoding if error.start >= len(body) - 4 else None
    return encoding


def _recoded(text: bytes, encoding: str, into: str) -> bytes:
    """Return a text in another encoding; a character that breaks off is left out."""
    while True:
        try:
            return text.decode(encoding, "surrogatepass").encode(into, "surrogatepass")
        except UnicodeDecodeError as error:
            text = text[: error.start]


# -- JSON

_OF_NUMBERS = b"0123456789.eE+-"
_NUMBER = re.compile(b"[%b]+" % re.escape(_OF_NUMBERS))
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SPLIT_AT_PLACEHOLDERS = re.compile(f"({PLACEHOLDER.pattern.decode()})")


def is_json(body: bytes) -> bool:
    """Return whether a body is JSON, to the strict decoder or to the standard library."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _is_json_with_lone_surrogates(body)
    return True


def _is_json_with_lone_surrogates(body: bytes) -> bool:
    try:
        json.loads(body.decode(), strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _written(text: str, *, as_ascii: bool) -> bytes:
    try:
        return json.dumps(text, ensure_ascii=as_ascii).encode()
    except UnicodeEncodeError:  # half of a pair of surrogates, which only an escape can write
        return json.dumps(text).encode()


BY_SHAPE = Redactor()
"""Without settings."""
