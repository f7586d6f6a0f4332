"""The conversation that a request repeats, as digests: of what was said before each answer, and of
the answers.

A client that has no name for its session sends all of it with every turn. So the next request
repeats the answer of the exchange before it. The digest of that answer, and that of the messages
before it, are in the log since then (`history`), and among those of the next request. Nothing is
compared but digests, and no body is read twice.

Rules of this file:

* A digest is a plain SHA-256 of what the log has anyway, redacted as it is there.
* What clients change between turns is left out: marks of what is cached, ids of calls and items,
  reasoning, which of the two ways to write a text is chosen. So are the model, the tools and the
  system prompt: an app has the time in it, or what it has looked up. They tell which of several
  candidates it is (`about`), and so do ids (`ids`).
* An answer may be sent back in pieces (a message for each chunk, an item for each part): it is one
  answer, all its text and the calls of the client's tools. Calls of the provider's own tools are
  not: few clients repeat them.
* An answer is found by itself if no other conversation has the same by chance, and by the words
  before it. A client may shorten its history, or put other words around a person's.
* An answer that a request repeats already, and gets again, is one of its examples: it is not found
  by itself.
* Where nothing of that is left, there are ids: of the calls whose results a request brings, and of
  items that it only refers to.
* Pure, and never raises: what cannot be read has no chain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from recorder.model.text import storable
from recorder.wire.dialects import by_name
from recorder.wire.dialects.canonical import (
    canonical,
    canonical_message,
    decoded_arguments,
    texts_of,
)
from recorder.wire.dialects.conversation import Conversation, Message
from recorder.wire.dialects.user_text import last_words

LOOK_BACK_ANSWERS = 8
"""How many of the last answers in a request may be those of the exchange before. The last one is,
as a rule; a client that drops turns which failed, or that nobody recorded, goes back some further.
Each costs three look-ups."""

LINKS = 8
"""How many ids of a request are looked for, the last first: one would do, unless its exchange was
not recorded.
"""

IDS = 32
"""How many ids of a request tell which of several equal conversations it continues, the last first:
those of a few turns."""

DISTINCTIVE = 16
"""Characters of an answer that no other conversation has by chance: "Done." and "Hello!" are said
every day.
"""

_LINK_CHARACTERS = range(8, 201)
"""The length of an id that no other conversation has by chance. Some servers number their calls:
`call_0`.
"""

_NUMBERED = re.compile(r"functions\..*:\d+|\D*\d{0,4}", re.DOTALL)
"""Ids that each conversation has: `functions.get_weather:0` of Kimi, `call_weather_1`, the name of
the tool.
"""


_REASONING = "rs_"
"""How ids of reasoning begin, to which few clients refer."""


class ModelAnswer(msgspec.Struct):
    """An answer of a model, as far as clients repeat it."""

    texts: list[str] = msgspec.field(default_factory=list)
    calls: list[tuple[str, str]] = msgspec.field(default_factory=list)  # name and arguments
    # ids of items that the provider keeps
    references: list[str] = msgspec.field(default_factory=list)
    # of its calls and items: not part of what it says
    ids: list[Any] = msgspec.field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.texts or self.calls or self.references)

    def add(self, other: ModelAnswer) -> None:
        self.texts += other.texts
        self.calls += other.calls
        self.references += other.references
        self.ids += other.ids

    def call(self, name: Any, arguments: Any) -> None:
        """Add a call of a tool.

        Its arguments are JSON, as text or decoded, in whatever order its fields are.
        """
        self.calls.append((str(name), storable(canonical(decoded_arguments(arguments)).decode())))


class Answered(NamedTuple):
    """An answer that a request repeats."""

    before: str  # the digest of the messages before it; empty if there are none
    alone: str  # the digest of the answer
    # one of them is the digest of the exchange that gave it, if it is in the log
    keys: Sequence[str]


class Chain(msgspec.Struct, frozen=True):
    """The digests of a request.

    `request_digest` is the digest of all its messages. If the last message is the beginning of an
    answer, which the model continues, `begun` is that beginning and `request_digest` excludes it.
    `words` is the digest of the last words before the answer to come, `answers` are the last ones,
    the last first, and `said` has the digests of all of them. `about` says which model, tools and
    system prompt it has. `ids`, the last first, are those of calls and items; `links` are the ones
    that lead to one conversation only.
    """

    request_digest: str
    begun: ModelAnswer
    words: str
    answers: tuple[Answered, ...]
    said: frozenset[str]
    about: str
    ids: tuple[str, ...] = ()
    links: tuple[str, ...] = ()

    def answered(self, answer: ModelAnswer) -> str:
        """Return the digest by which the exchange of this request is found, if that is its whole
        answer.
        """
        whole = ModelAnswer()
        whole.add(self.begun)
        whole.add(answer)
        alone = _alone(whole)
        return (
            alone if _is_distinctive(whole) and alone not in self.said else _next(self.words, alone)
        )


def broken_off(request_digest: str) -> str:
    """Return the digest of a request whose answer came in part: the client may have kept any of it."""
    return _next(request_digest, "broken off")


def unanswered(request_digest: str) -> str:
    """Return the digest of a request that got nothing: the client may send the same again."""
    return _next(request_digest, "unanswered")


def may_continue(request: Chain, ended: Chain) -> bool:
    """Return whether a request may continue one whose answer is unknown here: it repeats an answer
    that is new.
    """
    return bool(request.answers) and request.answers[0].alone not in ended.said


def likeness(one: str, other: str) -> int:
    """Return how many of model, tools and system prompt are the same, from two values of `about`."""
    return sum(mine == its for mine, its in zip(one.split(), other.split(), strict=False))


def chain(api: str, path: str, body: bytes) -> Chain | None:
    """Return the chain of a request, as it was recorded; `None` if it brings no conversation."""
    return chain_of(api, by_name(api).read_request(path, body))


def chain_of(api: str, conversation: Conversation | None) -> Chain | None:
    """Return the chain of a conversation; `None` if nothing is said in it."""
    if conversation is None:
        return None
    try:
        return _Reader(api).read(conversation)
    except (ValueError, TypeError, RecursionError):
        return None


class _RepeatedAnswer(NamedTuple):
    """An answer, and what was said before it: all, and since the answer before."""

    before: str
    messages: Sequence[Message]
    answer: ModelAnswer
    alone: str


class _Reader:
    """A request as it is read, turn by turn."""

    def __init__(self, api: str) -> None:
        self._seed = self._digest = _hashed(api.encode())
        self._messages: list[Message] = []  # since the last answer
        self._begun = ModelAnswer()
        self._steps: list[_RepeatedAnswer] = []
        self._ids: list[Any] = []
        self._links: list[Any] = []

    def read(self, conversation: Conversation) -> Chain | None:
        if not conversation.messages:
            return None
        model, tools, *system = conversation.about
        for message in conversation.messages:
            if message.role == "system":
                system.append(message.content)
            elif message.role == "assistant":
                self._answer(_answer_of(message))
            else:
                self._message(message)
        before = self._digest
        messages = self._messages
        if self._begun:
            self._end_answer()
        parts = [_hashed(canonical(part))[:8] for part in (model, tools, system)]
        return Chain(
            request_digest=before,
            begun=self._begun,
            words=_words(messages),
            answers=tuple(self._answers(messages)),
            said=frozenset(step.alone for step in self._steps),
            about=" ".join(parts),
            ids=_first(filter(None, reversed(self._ids)), IDS),
            links=_first(filter(_is_link, reversed(self._links)), LINKS),
        )

    def _message(self, message: Message) -> None:
        if isinstance(message.content, str):
            for quoted in quoted_turns(message.content):
                if isinstance(quoted, ModelAnswer):
                    self._answer(quoted)
                else:
                    self._say(quoted)
        self._say(message)

    def _say(self, message: Message) -> None:
        if self._begun:
            self._end_answer()
            self._begun = ModelAnswer()
            self._messages = []
        self._digest = _hashed(self._digest.encode() + _canonical(message))
        self._messages.append(message)
        answered = [part.id for part in message.parts]  # the calls whose results are in it
        self._links += answered
        self._ids += answered

    def _answer(self, turn: ModelAnswer) -> None:
        self._begun.add(turn)
        self._links += turn.references
        self._ids += turn.ids

    def _end_answer(self) -> None:
        alone = _alone(self._begun)
        before = "" if self._digest == self._seed else self._digest
        self._steps.append(_RepeatedAnswer(before, self._messages, self._begun, alone))
        self._digest = _next(self._digest, alone)

    def _answers(self, at_end: Sequence[Message]) -> Iterator[Answered]:
        """Yield the last answers, the last first.

        What a client sets behind each question ends this request, too.
        """
        for step in self._steps[: -LOOK_BACK_ANSWERS - 1 : -1]:
            before = [_words(step.messages)]
            if step is self._steps[-1] and at_end:
                before.append(_words(at_end[-1:]))
            keys = [_next(words, step.alone) for words in dict.fromkeys(before)]
            yield Answered(
                step.before,
                step.alone,
                (*keys, step.alone) if _is_distinctive(step.answer) else keys,
            )


def _canonical(message: Message) -> bytes:
    if message.is_item:
        return canonical([message.speaker, message.content])
    return canonical_message(message.speaker, message.content)


def _answer_of(message: Message) -> ModelAnswer:
    answer = ModelAnswer(texts_of(message.content), ids=[message.id])
    for part in message.parts:
        if part.kind == "reference":
            answer.references += [] if part.id.startswith(_REASONING) else [part.id]
        else:
            answer.ids.append(part.id)
        if part.kind == "call":
            answer.call(part.name, part.value)
    return answer


def _words(messages: Sequence[Message]) -> str:
    """Return the digest of the last words of a person in messages; of the last message if they have
    none.
    """
    words, _ = last_words([texts_of(message.content) for message in messages], len(messages))
    if words is None:
        return _hashed(_canonical(messages[-1])) if messages else ""
    return _hashed(storable(words.strip()).encode())


def _first(ids: Iterable[Any], count: int) -> tuple[str, ...]:
    """Return the first ids, each once."""
    texts = (storable(id) for id in ids if isinstance(id, str))
    return tuple(islice(dict.fromkeys(texts), count))


def _is_link(id: Any) -> bool:
    return isinstance(id, str) and len(id) in _LINK_CHARACTERS and _NUMBERED.fullmatch(id) is None


def _hashed(data: bytes) -> str:
    return sha256(data).hexdigest()


def _next(digest: str, turn: str) -> str:
    return sha256((digest + turn).encode()).hexdigest()


def _said(answer: ModelAnswer) -> str:
    """Return the text of an answer.

    White space around it is not always sent back, nor is an empty one.
    """
    return storable("".join(answer.texts).strip())


def _alone(answer: ModelAnswer) -> str:
    return _hashed(canonical(["answer", _said(answer), answer.calls, answer.references]))


def _is_distinctive(answer: ModelAnswer) -> bool:
    arguments = sum(len(arguments) for _, arguments in answer.calls)
    return len(_said(answer)) + arguments >= DISTINCTIVE


# -- conversations that a message quotes

# A request of a helper quotes one in its message, as Open WebUI asks for titles and tags. The
# quoted turns are read as if the request had them, so it joins the session that they are of.
_QUOTED = re.compile(r"<chat_history>\n?(.*?)\n?</chat_history>", re.DOTALL)
_SPEAKER = re.compile(r"^(USER|ASSISTANT): ", re.MULTILINE)


def quoted_turns(content: str) -> Iterator[Message | ModelAnswer]:
    """Yield the turns that a message quotes, mostly none."""
    found = _QUOTED.search(content)
    if found is None:
        return
    _, *pieces = _SPEAKER.split(found[1])
    for speaker, text in zip(pieces[::2], pieces[1::2], strict=True):
        said = text.removesuffix("\n")
        if speaker == "USER":
            yield Message("user", (), said, "user")
        else:
            yield ModelAnswer([said])
