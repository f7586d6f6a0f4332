"""Secrets that what stands before them gives away: `ACME_TOKEN=…`, `Bearer …`, `?sig=…`,
`https://user:…@host`. Pure.

Rules of this file:

* Only the value is a secret; what stands before it stays.
* Text about secrets is not a secret. A value has letters and digits and no spaces; code, a
  reference to a variable and the `your-key-here` of a manual stay:
  `API_KEY = os.environ["API_KEY"]`, `TOKEN=$OTHER`, `password=settings.password`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from recorder.wire.redaction.shapes import Hit

BEARER_CHARACTERS = 12  # fewer are a word of a sentence
VALUE_CHARACTERS = 8

# The lookbehinds are in this order because text has many `=`: a look at one character is the
# cheapest.
_ASSIGNED = re.compile(
    rb"=(?:(?<=[yYnNtTdDgGeElLsS]=)|(?<=[yYnNtTdD] =))"
    rb"(?:(?<=(?i:key)=)|(?<=(?i:token)=)|(?<=(?i:secret)=)|(?<=(?i:word)=)|(?<=(?i:passwd)=)|(?<=(?i:pwd)=)"
    rb"|(?<=(?i:ential)=)|(?<=(?i:entials)=)|(?<=(?i:ature)=)|(?<=[?&;]sig=)"
    rb"|(?<=(?i:key) =)|(?<=(?i:token) =)|(?<=(?i:secret) =)|(?<=(?i:word) =))"
)
_OF_NAMES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_BEHIND_AN_ESCAPE = re.compile(rb"\A[nrt]")  # of a line end, as JSON writes it
_QUOTED = re.compile(rb"""\s?(\\*["'`])([^\s"'`\\<>(){}\[\]$,;]{8,4096}+)(?=\\*["'`]|\Z)""")
_BARE = re.compile(rb"""([^\s"'`\\<>(){}\[\]$,;&|]{8,4096}+)(?![(\[{$<])""")
# or a path: ~/.ssh/id_ed25519
_CODE = re.compile(rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[.~]?/.*|https?:.*", re.DOTALL)
_CODED = re.compile(rb"%[0-9A-Fa-f]{2}")
_LETTER = re.compile(rb"[A-Za-z]")
_DIGIT = re.compile(rb"[0-9]")
_OF_MANUALS = re.compile(
    rb"(?i)your|example|placeholder|changeme|change-me|dummy|x{4}|\*{3}|\.{3}|REDACTED|redacted"
)
_SIGNED = re.compile(rb"(?i)(?:x-(?:amz|goog|ms)-|sharedaccess|^)(?:signature|credential|sig)$")
_BEARER = re.compile(rb"\s{0,3}([A-Za-z0-9._~+/=-]{%d,}+)" % BEARER_CHARACTERS)
_USERINFO = re.compile(
    # a password after a name, or a token without one
    rb"""(?:[^\s/\\?#"'`@<>{}$:]{0,200}:([^\s/\\?#"'`@<>{}$]{6,400})|([^\s/\\?#"'`@<>{}$:]{16,400}))@"""
)
_NAME_BYTES = 80


def find_marked(text: bytes) -> Iterator[Hit]:
    """Yield the values that a name or a word before them says to be secret."""
    for match in _ASSIGNED.finditer(text):
        if hit := _assigned(text, match.end()):
            yield hit
    yield from _after(text, b"earer ", _BEARER, "bearer-token")
    yield from _after(text, b"://", _USERINFO, "userinfo")


def _after(text: bytes, word: bytes, pattern: re.Pattern[bytes], kind: str) -> Iterator[Hit]:
    """Yield the last group of a pattern after each place of a word: nothing finds a word as fast as
    `find`.
    """
    at = text.find(word)
    while at >= 0:
        at += len(word)
        match = pattern.match(text, at)
        if match is not None and _is_made_up(match[match.lastindex or 0]):
            yield Hit(*match.span(match.lastindex or 0), kind)
        at = text.find(word, at)


def _assigned(text: bytes, at: int) -> Hit | None:
    """Return the value that is assigned at a place, if its name and it are those of a secret."""
    before = text[max(0, at - _NAME_BYTES) : at - 1].removesuffix(b" ")
    around = before.rstrip(_OF_NAMES)  # a regular expression would begin again at each letter
    name = before[len(around) :]
    if around.endswith(b"\\"):
        name = _BEHIND_AN_ESCAPE.sub(b"", name)
    is_parameter = around.endswith((b"?", b"&", b";")) or name.startswith(b"--")
    is_signature = _SIGNED.search(name) is not None
    if not is_secret(name.decode()) and not is_signature and not (is_parameter and name == b"key"):
        return None
    if (quoted := _QUOTED.match(text, at)) is not None:
        return Hit(*quoted.span(2), "variable") if _is_made_up(quoted[2]) else None
    bare = _BARE.match(text, at) if is_parameter or is_signature or name.isupper() else None
    if bare is None or not _is_made_up(bare[1]) or _CODE.fullmatch(bare[1]):
        return None
    return Hit(*bare.span(1), "variable")


def _is_made_up(value: bytes) -> bool:
    """Return whether a value looks like one that is not a word: it has letters and digits, and no
    manual says it.
    """
    value = _CODED.sub(b"", value)
    return bool(_LETTER.search(value) and _DIGIT.search(value) and not _OF_MANUALS.search(value))


# -- names of secrets: of members of JSON, fields of forms, parameters of queries, variables

# What a name says counts only where it is one: among the parameters of a request (`fields`), before
# a `=`.
_SECRET = re.compile(
    r"authori[sz]ation|cookie|token|secret|passw|passphrase|pwd|credential|bearer|jwt"
    r"|(?:api|access|private|account|search|embedding|subscription|master|admin|shared|signing|encryption|license"
    r"|client|service|auth|storage|cosmos)[-_.]?key"
    r"|connection[-_]?string|conn[-_]?str|sas[-_]?(?:url|uri)|key[-_]?string|webhook[-_]?url"
    r"|(?:^|[-_.])(?:auth|authentication|pat|pass|dsn|sas)$"
)
_HARMLESS = re.compile(
    # What a value is, where it is sent and how long it holds; and tokens that are words of a model,
    # or pages of a list.
    r"(?:^|[-_.])(?:types?|kind|method|scheme|name|expir\w*|version|format|status|count|limit|budget|enabled|mode)$"
    r"|(?:endpoint|authorization|token)[-_]?ur[il]$|endpoint$|(?:token|credential)[-_]?ids?$"
    r"|(?:next|previous|prev|page|continuation|sync|stop|start|end|eos|bos|pad|unk|mask|sep|cls|image|audio|special"
    r"|max|min|new|total|prompt|completion|input|output|cached|reasoning|thinking|per)[-_]?(?:page[-_]?)?tokens?$"
    r"|tokens(?:$|[-_])|tokeniz|password[-_]?policy"
)
_LABELS = frozenset({"domain", "description", "title", "in", "grant_type"})

# In capitals a shell's variable: any key is one there, but for these.
_VARIABLE = re.compile(r"(?:.*_)?(?:KEY|PAT|PASS|PWD|DSN)")
_NO_VARIABLE = re.compile(
    r"(?:.*_)?(?:PUBLIC|CACHE|SORT|PRIMARY|FOREIGN|UNIQUE|PARTITION|ROUTING|INDEX|HOT|GROUP|LOOKUP|FUNCTION|HOST)_KEY"
)
_NAME = re.compile(r"[\w.$:\[\]-]{1,100}")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=4096)  # the names of an API are few; those of a form's author are bounded
def is_secret(name: str) -> bool:
    """Return whether a value of this name is a secret, however the name is written: `apiKey`,
    `API_KEY`, `api-key`.
    """
    if not _NAME.fullmatch(name):
        return False
    if name.isupper():
        if _NO_VARIABLE.fullmatch(name):
            return False
        if _VARIABLE.fullmatch(name):
            return True
    words = _small_words(name)
    return _SECRET.search(words) is not None and _HARMLESS.search(words) is None


@lru_cache(maxsize=4096)
def is_label(name: str) -> bool:
    """Return whether a value of this name, beside a secret, says what that is and how long it
    holds.
    """
    return name in _LABELS or _HARMLESS.search(_small_words(name)) is not None


def _small_words(name: str) -> str:
    return _CAMEL.sub("_", name).lower()
