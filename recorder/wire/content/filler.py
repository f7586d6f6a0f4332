"""Filler: what stands in place of a text, made of it with a secret key.

Rules of this file:

* A character is replaced by one of its kind: a letter by a letter of the same case, a digit by a
  digit, any other one beyond ASCII by one of the same block. Space, punctuation and zero stay. So
  the filler has as many bytes as the text, in JSON too, and base64 stays base64.
* Which one it is, a keyed digest of all that came before in the same text says. So the filler of
  the pieces of a text is the filler of the text; the same text has the same filler, another one
  another; what two texts begin with alike, their fillers begin with alike.
* Of a text that is JSON, each string and each number in it counts as a text by itself. So it stays
  JSON, and `{"city": "Paris"}` as a text and as an object have the same filler.

What filler tells: how long a text and its words are, its punctuation, and how far two texts are the
same. Who knows one text can find where others begin as it does. Nobody learns a text from its
filler alone without the key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import blake2b
from itertools import count

KEY_BYTES = 32

_CACHE_BYTES = 16 * 2**20
"""Of texts whose filler is remembered: an agent sends its whole conversation with each request, a
megabyte at most.
"""
_ENTRY_BYTES = 200  # that a text takes there beside its own

_LOWER, _UPPER, _DIGITS = b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"123456789"
_MOVED = frozenset(_LOWER + _UPPER + _DIGITS)
_ASCII = 0x80
_WORD = 32  # letters of a word, and bytes of a digest
_SPACE = b" \t\r\n"
_OPENING = frozenset(b"{[")
_QUOTE, _BACKSLASH, _ZERO = b'"\\0'
_OF_NUMBERS = frozenset(b".eE+-")
_LITERALS = ("true", "false", "null")
_ESCAPED = {"b": 8, "t": 9, "n": 10, "f": 12, "r": 13}
_HEX = re.compile(r"[0-9a-fA-F]")
_OF_STRINGS = re.compile(rb'[^"\\]+')
_PARTS_OF_NUMBER = re.compile(rb"(-?)([0-9])([0-9.]*)((?:[eE].*)?)")
_CHARACTERS = re.compile(r"([^\\\x80-\U0010ffff]+)|\\u([0-9a-fA-F]{4})|\\(.)|(.)", re.DOTALL)
_NUMBER_DIGIT = frozenset(b"0123456789")


class FillerKey:
    """The secret that decides all filler of a log, or of one export."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret[:KEY_BYTES]
        self.begin: Callable[[], blake2b] = blake2b(key=self._secret, digest_size=_WORD).copy
        self.tables, self.chain, self.nibbles = _tables(secret)
        self._cache: dict[bytes, bytes] = {}
        self._cache_bytes = 0

    def filled(self, text: bytes) -> bytes:
        """Return the filler of a whole text, both as they stand between the quotes of JSON."""
        known = self._cache.get(text)
        if known is not None:
            return known
        made = Filler(self).filled(text)
        self._cache_bytes += _ENTRY_BYTES + len(text)
        if self._cache_bytes > _CACHE_BYTES:
            self._cache.clear()
            self._cache_bytes = _ENTRY_BYTES + len(text)
        self._cache[text] = made
        return made

    def word(self, text: str) -> str:
        """Return the filler of a text that stands in no JSON."""
        filler = _Text(self)
        units = text.encode("utf-16-be", "surrogatepass")
        moved = b"".join(
            filler.unit(int.from_bytes(units[at : at + 2])).to_bytes(2)
            for at in range(0, len(units), 2)
        )
        return moved.decode("utf-16-be", "surrogatepass")

    def loose(self, data: bytes) -> bytes:
        """Return the filler of bytes that may be no text: then it is zeros."""
        try:
            data.decode()
        except UnicodeDecodeError:
            return bytes(len(data))
        return self.filled(data)

    def number(self, text: bytes) -> bytes:
        """Return the filler of a number of JSON."""
        digits = _Text(self)
        return bytes(digits.unit(each) if each in _NUMBER_DIGIT else each for each in text)

    def digest(self, data: bytes, size: int = 8) -> bytes:
        """Return a digest that only who has the key can compute."""
        return blake2b(data, key=self._secret, digest_size=size, person=b"digest").digest()


class BlankKey(FillerKey):
    """No secret at all: every letter is the same one, and every digit but zero."""

    def __init__(self) -> None:
        super().__init__(b"")
        table = bytearray(range(_ASCII))
        for alphabet in (_LOWER, _UPPER, _DIGITS):
            for character in alphabet:
                table[character] = alphabet[-3]
        self.tables, self.nibbles = [bytes(table)] * 256, [b"\0" + b"\1" * 15] * 256

    def digest(self, data: bytes, size: int = 8) -> bytes:
        return bytes(size)


class Filler:
    """The filler of one text that comes in pieces."""

    def __init__(self, key: FillerKey) -> None:
        self._key = key
        self._text: _Text | _Json | None = None

    def filled(self, piece: bytes) -> bytes:
        """Return the filler of the next piece, both as they stand between the quotes of JSON."""
        if _BACKSLASH not in piece and piece.isascii():
            return self.run(piece)
        return _CHARACTERS.sub(self._characters, piece.decode()).encode()

    def run(self, piece: bytes) -> bytes:
        """Return what stands in place of the next characters of ASCII."""
        if self._text is not None:
            return self._text.run(piece)
        begun = piece.lstrip(_SPACE)
        if not begun:
            return piece
        self._text = _Json(self._key) if begun[0] in _OPENING else _Text(self._key)
        return piece[: len(piece) - len(begun)] + self._text.run(begun)

    def unit(self, unit: int) -> int:
        """Return what stands in place of the next unit of UTF-16."""
        if unit < _ASCII:
            return self.run(bytes((unit,)))[0]
        if self._text is None:
            self._text = _Text(self._key)
        return self._text.unit(unit)

    def nibble(self, nibbles: list[int]) -> int:
        """Return what stands in place of the last of the first hexadecimal digits of the next unit."""
        if self._text is None:
            self._text = _Text(self._key)
        return self._text.nibble(nibbles)

    def _characters(self, match: re.Match[str]) -> str:
        run, code, escaped, plain = match.groups()
        if run:
            return self.run(run.encode()).decode()
        if code:
            unit = f"{self.unit(int(code, 16)):04x}"
            return f"\\u{unit if code == code.lower() else unit.upper()}"
        if escaped:
            self.unit(_ESCAPED.get(escaped, ord(escaped)))
            return match[0]
        character = ord(plain)
        if character < 0x10000:
            return chr(self.unit(character))
        high, low = divmod(character - 0x10000, 0x400)
        high, low = self.unit(0xD800 + high), self.unit(0xDC00 + low)
        return chr(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00)


class _Text:
    """Filler of a text that is not JSON.

    A digest of all before a word gives a byte for each of its letters. That byte, and what the
    letters before it in the word have led to in `chain`, choose the order of the alphabet. A digest
    for each letter takes five times as long.
    """

    def __init__(self, key: FillerKey) -> None:
        digest = key.begin()
        self._add, self._digest = digest.update, digest.digest
        self._key = key
        self._bytes = b""  # of the word
        self._place = self._state = 0  # in the word

    def run(self, piece: bytes) -> bytes:
        """Return what stands in place of characters of ASCII.

        One loop for all of them: a call for each takes four times as long.
        """
        tables, chain, made = self._key.tables, self._key.chain, bytearray(piece)
        drawn, place, state, begun = self._bytes, self._place, self._state, 0
        for at, unit in enumerate(piece):
            if unit not in _MOVED:
                place = 0
                continue
            if place == 0:
                self._add(piece[begun:at])
                begun, drawn, state = at, self._digest(), 0
            choice = drawn[place] ^ state
            state = chain[choice][unit]
            made[at] = tables[choice][unit]
            place = (place + 1) % _WORD
        self._add(piece[begun:])
        self._bytes, self._place, self._state = drawn, place, state
        return bytes(made)

    def unit(self, unit: int) -> int:
        """Return what stands in place of the next unit of UTF-16."""
        if unit < _ASCII:
            return self.run(bytes((unit,)))[0]
        drawn, nibbles = self._digest(), list[int]()
        moved = 0
        for shift in (12, 8, 4, 0):
            nibbles.append(unit >> shift & 0xF)
            moved = moved << 4 | self._nibble(nibbles, drawn)
        self._add(b"\xff%b" % unit.to_bytes(2))
        self._place = 0
        return moved

    def nibble(self, nibbles: list[int]) -> int:
        return self._nibble(nibbles, self._digest())

    def _nibble(self, nibbles: list[int], drawn: bytes) -> int:
        """Move within the block, so that the character keeps its size, and no line end comes of it."""
        place, last = len(nibbles) - 1, nibbles[-1]
        first, second, third, _ = (*nibbles, 0, 0, 0)[:4]
        stays = place == 0
        if first == 0:  # up to U+0FFF: two bytes before U+0800, and controls before U+00A0
            stays = stays or place == 1 or (second == 0 and (place == 2 or third < 0xA))
        elif first == 0xD:  # Hangul and surrogates: of these, the second one of a pair is moved
            stays = stays or place == 1 or 8 <= second < 0xC
        elif first == 0xF:
            stays = place < 3
        elif first == 2:  # U+2000 and what follows is punctuation
            stays = stays or (place > 1 and second == 0)
        return last if stays else self._key.nibbles[drawn[place]][last]


class Numbers:
    """The filler of numbers that follow each other, as the bytes or tokens of a text do.

    The first digit tells what a number may be at most, so it is one; later zeros move, too.
    """

    def __init__(self, key: FillerKey) -> None:
        self._text = _Text(key)

    def filled(self, number: bytes) -> bytes:
        """Return the filler of the next number of JSON, which has as many digits."""
        parts = _PARTS_OF_NUMBER.fullmatch(number)
        assert parts is not None, "it is a number of JSON"
        sign, first, rest, power = parts.groups()
        moved = self._text.run(first + rest.replace(b"0", b"5") + b",")[1:-1]
        return sign + (first if first == b"0" else b"1") + moved + power


class _Json:
    """Filler of a text that begins as an object or an array does, whether it is JSON or not."""

    def __init__(self, key: FillerKey) -> None:
        self._key = key
        self._string: Filler | None = None  # that is open
        self._escape: str | None = None  # that is open in it
        self._number: _Text | None = None
        self._word = ""
        self._outside = _Text(key)

    def run(self, piece: bytes) -> bytes:
        """Return what stands in place of characters of ASCII."""
        made, at = bytearray(), 0
        while at < len(piece):
            run = None
            if self._string is not None and self._escape is None:
                run = _OF_STRINGS.match(piece, at)
            if run is None or self._string is None:
                made.append(self.unit(piece[at]))
                at += 1
            else:
                made += self._string.run(run[0])
                at = run.end()
        return bytes(made)

    def unit(self, unit: int) -> int:
        if self._string is None:
            return self._between(unit)
        if self._escape is not None:
            return self._escaped(self._string, self._escape + chr(unit))
        if unit == _QUOTE:
            self._string = None
        elif unit == _BACKSLASH:
            self._escape = ""
        else:
            return self._string.unit(unit)
        return unit

    def nibble(self, nibbles: list[int]) -> int:
        return (self._string or self._outside).nibble(nibbles)

    def _escaped(self, string: Filler, escape: str) -> int:
        """Return the last character of an escape: it may be cut by the end of a piece."""
        self._escape = escape
        last = escape[-1]
        if escape == "u":
            return ord(last)
        if len(escape) == 1:
            self._escape = None
            string.unit(_ESCAPED.get(last, ord(last)))
            return ord(last)
        if not _HEX.fullmatch(last):  # no JSON at all
            self._escape = None
            return string.unit(ord(last))
        moved = f"{string.nibble([int(digit, 16) for digit in escape[1:]]):x}"
        if len(escape) == len("u0000"):
            self._escape = None
            string.unit(int(escape[1:], 16))
        return ord(moved.upper() if last.isupper() else moved)

    def _between(self, unit: int) -> int:
        """Return what stands in place of a unit that is in no string: a number, a literal, a sign."""
        if unit in _NUMBER_DIGIT:
            self._number = self._number or _Text(self._key)
            return self._number.unit(unit)
        if self._number is not None and unit in _OF_NUMBERS:
            return unit
        self._number = None
        if unit in _MOVED:
            self._word += chr(unit)
            if any(literal.startswith(self._word) for literal in _LITERALS):
                return unit
        else:
            self._word = ""
        if unit == _QUOTE:
            self._string = Filler(self._key)
        return self._outside.unit(unit)


@lru_cache(maxsize=8)  # a recorder has one key, an export one
def _tables(secret: bytes) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Return 256 orders of the letters and digits, 256 tables of random bytes, and 256 orders of
    the hexadecimal digits from 1: zero stays.
    """
    tables, chain, nibbles = [], [], []
    for number in range(256):
        stream = _stream(secret, number)
        table = bytearray(range(_ASCII))
        for alphabet in (_LOWER, _UPPER, _DIGITS):
            for character, other in zip(alphabet, _shuffled(alphabet, stream), strict=True):
                table[character] = other
        tables.append(bytes(table))
        nibbles.append(b"\0" + _shuffled(bytes(range(1, 16)), stream))
        chain.append(bytes(next(stream) for _ in range(_ASCII)))
    return tables, chain, nibbles


def _stream(secret: bytes, number: int) -> Iterator[int]:
    for block in count():
        yield from blake2b(
            b"%d %d" % (number, block), key=secret[:KEY_BYTES], person=b"filler"
        ).digest()


def _shuffled(alphabet: bytes, stream: Iterator[int]) -> bytes:
    """Return the characters in an order that depends on the next bytes of a stream."""
    ranked = sorted((next(stream), next(stream), character) for character in alphabet)
    return bytes(character for _, _, character in ranked)
