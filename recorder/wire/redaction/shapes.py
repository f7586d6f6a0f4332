"""The shapes of secrets: keys and tokens of known issuers, JSON web tokens, private keys.

A table and a search, pure. The search looks at words that are long enough for a key and at nothing
else, so text without one costs a few milliseconds a megabyte. It takes a secret whole, wherever it
begins: after a quote, an escaped line end, a percent code, a colour of a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from recorder.wire.providers import PROVIDERS, KeyShape, issued, issued_as_sk

# A kind, how its secrets begin, the characters after that, how many there are at least, and how
# they end.
_ISSUERS = r"""
gitlab-token        gl(?:pat|dt|rt|cbt|ptt|soat|ft|imt|agent)-  [A-Za-z0-9_-]  20  (?:\.[A-Za-z0-9_-]+)*
slack-token         xox[abeoprs]-|xapp-               [A-Za-z0-9-]      20
stripe-key          [sr]k_(?:live|test|prod)_|whsec_  [A-Za-z0-9+/]     16
npm-token           npm_                              [A-Za-z0-9]       36
pypi-token          pypi-                             [A-Za-z0-9_-]     50
rubygems-key        rubygems_                         [a-f0-9]          48
docker-token        dckr_(?:pat|oat)_                 [A-Za-z0-9_-]     20
vault-token         hv[sbr]\.                         [A-Za-z0-9_-]     24
replicate-token     r8_                               [A-Za-z0-9]       37
nvidia-key          nvapi-                            [A-Za-z0-9_-]     50
elevenlabs-key      sk_                               [a-f0-9]          48
jina-key            jina_                             [A-Za-z0-9_-]     50
voyage-key          pa-                               [A-Za-z0-9]       40
pinecone-key        pcsk_                             [A-Za-z0-9_]      50
tavily-key          tvly-                             [A-Za-z0-9-]      20
firecrawl-key       fc-                               [a-f0-9]          32
sandbox-key         e2b_                              [a-f0-9]          40
langsmith-key       lsv2_(?:pt|sk)_                   [a-f0-9]          32   (?:_[a-f0-9]+)?
langfuse-key        sk-lf-                            [a-f0-9-]         36
sendgrid-key        SG\.                              [A-Za-z0-9_-]     20   \.[A-Za-z0-9_-]{30,}
twilio-key          SK                                [a-f0-9]          32   (?![A-Za-z0-9])
shopify-token       shp(?:at|ca|pa|ss)_               [A-Fa-f0-9]       32
digitalocean-token  do[opr]_v1_                       [a-f0-9]          64
databricks-token    dapi                              [a-f0-9]          32   (?:-[0-9])?
cloudflare-token    cf(?:ut|at|k)_                    [A-Za-z0-9_-]     40
cloudflare-key      v1\.0-                            [a-f0-9]          24   -[a-f0-9]{100,}
linear-key          lin_(?:api|oauth)_                [A-Za-z0-9]       32
notion-token        ntn_|secret_                      [A-Za-z0-9]       40
sentry-token        sntry[su]_                        [A-Za-z0-9+/=_-]  40
supabase-token      sbp_                              [a-f0-9]          40
supabase-key        sb_secret_                        [A-Za-z0-9_-]     20
figma-token         fig[dou]_                         [A-Za-z0-9_-]     36
grafana-token       glsa_|glc_                        [A-Za-z0-9_+/]    32   ={0,2}
newrelic-key        NRAK-                             [A-Z0-9]          27
postman-key         PMAK-                             [A-Fa-f0-9-]      50
atlassian-token     AT[AC]TT3                         [A-Za-z0-9_=-]    50
planetscale-token   pscale_(?:tkn|pw|oauth)_          [A-Za-z0-9_.=-]   32
google-secret       GOCSPX-                           [A-Za-z0-9_-]     28
alibaba-key         LTAI                              [A-Za-z0-9]       20   (?![A-Za-z0-9])
onepassword-token   ops_(?=eyJ)                       [A-Za-z0-9+/]     100  ={0,2}
""".strip()


SHAPES: tuple[KeyShape, ...] = (
    *chain.from_iterable(provider.key_shapes for provider in PROVIDERS),
    # of OpenAI until 2024, and of many who followed; `sk-toggleable__label-arrow` is a class of a
    # style sheet
    issued_as_sk(
        "api-key",
        rb"(?<![_-])sk-(?=[A-Za-z_-]{0,200}[0-9])"
        rb"(?:(?=[a-z0-9_-]{0,200}[A-Z])|(?=[a-z0-9_-]{0,200}?[a-z0-9]{16}))[A-Za-z0-9_-]{20,}",
    ),
    KeyShape("aws-key", rb"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])", rb"A[KS]IA", rb"A[KS]IA[A-Z0-9]*"),
    KeyShape(
        "github-token",
        rb"gh[opsru]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,}",
        rb"gh[opsru]_|github_pat_",
        rb"gh[opsru]_[A-Za-z0-9]*|github_pat_[A-Za-z0-9_]*",
    ),
    *map(issued, _ISSUERS.split("\n")),
    KeyShape(
        "jwt",
        rb"(?<![_-])eyJ[A-Za-z0-9_-]{16,}+\.eyJ[A-Za-z0-9_-]{7,}+\.[A-Za-z0-9_-]*",
        rb"eyJ",
        rb"(?<![_-])eyJ[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*){0,2}",
    ),
)
"""The shapes of keys, those of providers first. Each has a word of at least `WORD` characters, at
most `BEFORE` after its beginning."""

PRIVATE_KEY = "private-key"

WORD = 19
BEFORE = len(b"ya29.")
PAYLOAD = 1000
"""Characters of base64 in a row that are an image, a sound, a signature: longer than any key, and
in so many of them anything may stand by chance."""

START = (
    rb"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})"
    rb"|(?<=[0-9;\[][mK]))"  # \x1b[01;31m, as grep colours what it found
)
_PREFIX = re.compile(b"|".join(dict.fromkeys(shape.prefix for shape in SHAPES)))
_BEGINNING = re.compile(_PREFIX.pattern + rb"|PRIVATE KEY")
_ANY = re.compile(START + b"(?:" + b"|".join(b"(%b)" % shape.pattern for shape in SHAPES) + b")")

_ANY_IN_ANY_CASE = re.compile(_ANY.pattern, re.IGNORECASE)

_OF_WORDS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_OTHERS = bytes(set(range(256)) - set(_OF_WORDS))
_MASK = bytes.maketrans(_OF_WORDS + _OTHERS, b"a" * len(_OF_WORDS) + b" " * len(_OTHERS))
_LONG = b"a" * WORD
_BASE64 = re.compile(rb"[A-Za-z0-9+/=_-]*+")

_CUT = re.compile(
    START + b"(?:" + b"|".join(dict.fromkeys(shape.cut for shape in SHAPES)) + rb")\Z"
)
_CUT_BYTES = 4096  # at the end of a body: a JSON web token is as long at times

_NAMED = rb"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
# line ends; numbers and arrows before a line
_MARKS = rb"(?:[^A-Za-z\"\\]|\\+(?:[nrt]|u[0-9A-Fa-f]{4}))*+"
_OF_LINES = rb"(?:[A-Za-z0-9+/=]|\\+/)"
_TO_ITS_END = rb'(?:[^"\\-]|\\.|-(?!----BEGIN))'  # of the JSON string that it stands in
_PEM = re.compile(
    rb"-----BEGIN "
    + _NAMED
    + (
        rb'(?=(?:[^A-Za-z\\]|\\+(?:[nrt"]|u[0-9A-Fa-f]{4}))*+(?:'
        + _OF_LINES
        + rb"{16}|[A-Za-z-]{4,20}: ))(?:"
    )
    + (_TO_ITS_END + b"{0,16384}?-----END " + _NAMED)
    # or, if that is missing, all lines of base64
    + (
        b"|(?:"
        + _MARKS
        + rb"(?:(?:Proc-Type|DEK-Info): [A-Za-z0-9,-]+|"
        + _OF_LINES
        + rb"{24,}+))++"
    )
    + (b"(?:" + _MARKS + _OF_LINES + b"++)?)"),
    re.DOTALL,
)
_CUT_PEM = re.compile(rb"-----BEGIN " + _NAMED + _TO_ITS_END + rb"*+\\?\Z", re.DOTALL)


class Hit(NamedTuple):
    """A secret in a text, and where it is."""

    start: int
    end: int
    kind: str


def may_hold_one(text: bytes) -> bool:
    """Return whether a text is worth a search: of a short text this costs half of one."""
    return _BEGINNING.search(text) is not None


def find(text: bytes, *, cut: bool = False) -> Iterator[Hit]:
    """Yield what is shaped like a secret.

    With `cut` the text breaks off, and at its end half a secret is one too.
    """
    yield from _in_words(text)
    if b"PRIVATE KEY" in text:
        yield from (Hit(*match.span(), PRIVATE_KEY) for match in _PEM.finditer(text))
    if cut:
        for shape in (_CUT, _CUT_PEM):
            yield from (
                Hit(*match.span(), "cut")
                for match in shape.finditer(text, max(0, len(text) - _CUT_BYTES))
            )


def find_in_any_case(text: bytes) -> Iterator[Hit]:
    """Yield what is shaped like a secret, in a short text whose letters may all be small by now."""
    for match in _ANY_IN_ANY_CASE.finditer(text):
        yield Hit(*match.span(), SHAPES[(match.lastindex or 1) - 1].kind)


def merged(hits: Iterable[Hit]) -> Iterator[Hit]:
    """Yield the hits in order, those that overlap as one of the kind of the longest."""
    one, *others = sorted(hits)
    for hit in others:
        if hit.start < one.end:
            kind = one.kind if one.end - one.start >= hit.end - hit.start else hit.kind
            one = Hit(one.start, max(one.end, hit.end), kind)
        else:
            yield one
            one = hit
    yield one


def _in_words(text: bytes) -> Iterator[Hit]:
    """Yield the hits in every word of `WORD` characters, but for those of a payload."""
    mask = text.translate(_MASK) + b" "
    at = mask.find(_LONG)
    while at >= 0:
        end = mask.find(b" ", at + WORD)
        if (text[end : end + 1] in (b"+", b"/") or end - at > PAYLOAD) and (
            after := _end_of_base64(text, at)
        ) > at:
            end = after
        else:
            place = max(0, at - BEFORE)
            while prefix := _PREFIX.search(text, place, end):
                place = prefix.start() + 1
                if match := _ANY.match(text, prefix.start()):
                    place = match.end()
                    yield Hit(*match.span(), SHAPES[(match.lastindex or 1) - 1].kind)
            end = max(place, end)
        at = mask.find(_LONG, end)


def _end_of_base64(text: bytes, at: int) -> int:
    """Return the end of a payload that begins here; `at` if none does."""
    match = _BASE64.match(text, at)
    return match.end() if match and match.end() - at > PAYLOAD else at
