"""The conversation that a request repeats, as a chain of digests: one step for each message.

A client that has no name for its session sends all of it with every turn. So the next request begins with the messages
of the one before and its answer: the digest of those has been in the log since that answer (`history`), and is one of
the digests of the next request. Nothing is compared but digests, and no body is read twice.

Rules of this file:

* A digest is a plain SHA-256 of what the log has anyway, redacted as it is there.
* What clients change between turns is left out: marks of what is cached, ids of items, reasoning, which of the two ways
  to write a text is chosen. What is left must be equal: model, tools, system prompt, every message in order.
* An answer may be sent back in pieces (a message for each chunk, an item for each part): it is one step, all its text
  and the calls of the client's tools. Calls of the provider's own tools are not: few clients repeat them.
* Clients also change earlier messages: an agent hands on to another one, a framework shortens the history. What is left
  then are ids: of the calls whose results a request brings, and of items that it only refers to.
* Pure, and never raises: what cannot be read has no chain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from recorder.model.text import storable
from recorder.wire.dialects import by_name
from recorder.wire.dialects.conversation import ConversationTurn, ModelAnswer, canonical
from recorder.wire.dialects.json_values import request_object

LOOK_BACK_ANSWERS = 8
"""How many of the last answers in a request may be those of the exchange before. The last one is, as a rule; a client
that drops turns which failed, or that nobody recorded, goes back some further. Each costs two look-ups."""

LINKS = 8
"""How many ids of a request are looked for, the last first: one would do, unless its exchange was not recorded."""

_LINK_CHARACTERS = range(8, 201)
"""The length of an id that no other conversation has by chance. Some servers number their calls: `call_0`."""

_NUMBERED = re.compile(r"functions\..*:\d+|\D*\d{0,4}", re.DOTALL)
"""Ids that each conversation has: `functions.get_weather:0` of Kimi, `call_weather_1`, the name of the tool."""


class Chain(msgspec.Struct, frozen=True):
    """The digests of a request.

    `request_digest` is the digest of all its messages. If the last message is the beginning of an answer, which the
    model continues, `begun` is that beginning and `request_digest` excludes it. `answers`, the last first, has for each
    answer the digest before it and the digest with it. `links`, the last first, are ids that earlier answers gave.
    """

    request_digest: str
    begun: ModelAnswer
    answers: tuple[tuple[str, str], ...]
    links: tuple[str, ...] = ()

    def answered(self, answer: ModelAnswer) -> str:
        """Return the digest of a conversation that continues this request and its whole answer."""
        whole = ModelAnswer()
        whole.add(self.begun)
        whole.add(answer)
        return _with_answer(self.request_digest, whole)


def broken_off(request_digest: str) -> str:
    """Return the digest of a request whose answer came in part: the client may have kept any of it."""
    return _next(request_digest, b"broken off")


def unanswered(request_digest: str) -> str:
    """Return the digest of a request that got nothing: the client may send the same again."""
    return _next(request_digest, b"unanswered")


def chain(api: str, path: str, body: bytes) -> Chain | None:
    """Return the chain of a request, as it was recorded; `None` if it brings no conversation."""
    turns_of = by_name(api).turns
    request = request_object(body) if turns_of else {}
    try:
        found = turns_of(path, request) if turns_of and request else None
        return None if found is None else _chained(api, *found)
    except (ValueError, TypeError, RecursionError):
        return None


def _chained(api: str, about: Sequence[Any], turns: Iterable[ConversationTurn]) -> Chain | None:
    digest = sha256(canonical([api, *about])).hexdigest()
    answers: list[tuple[str, str]] = []
    begun, is_empty, links = ModelAnswer(), True, list[Any]()
    for turn in turns:
        is_empty = False
        if isinstance(turn, ModelAnswer):
            begun.add(turn)
            links += turn.references
            continue
        if begun:
            answers.append((digest, digest := _with_answer(digest, begun)))
            begun = ModelAnswer()
        digest = _next(digest, turn.canonical)
        links += turn.answers
    if is_empty:
        return None
    if begun:
        answers.append((digest, _with_answer(digest, begun)))
    return Chain(digest, begun, tuple(answers[: -LOOK_BACK_ANSWERS - 1 : -1]), _links(links))


def _links(ids: Sequence[Any]) -> tuple[str, ...]:
    """Return the last ids, each once."""
    found = (storable(each) for each in reversed(ids) if isinstance(each, str) and _is_link(each))
    return tuple(dict.fromkeys(found))[:LINKS]


def _is_link(id: str) -> bool:
    return len(id) in _LINK_CHARACTERS and _NUMBERED.fullmatch(id) is None


def _next(digest: str, turn: bytes) -> str:
    return sha256(digest.encode() + turn).hexdigest()


def _with_answer(digest: str, answer: ModelAnswer) -> str:
    """Return the digest with an answer. White space around a text is not always sent back, nor is an empty one."""
    parts = ["answer", storable("".join(answer.texts).strip()), answer.calls]
    return _next(digest, canonical([*parts, answer.references] if answer.references else parts))
