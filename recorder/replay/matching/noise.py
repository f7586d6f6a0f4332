"""Requests with the noise taken out: the rest identifies the request. And the rules by which it is.

Rules of this file:

* Noise is put out of sight, never put right: the same comes out for both sides of a comparison, and nothing is sent.
* What may differ between two runs of the same thing is in rules: data, one line each, with the reason beside it. A text
  is noise only between a client's own words: a date in a question is the question.
* Pure; never raises on what a client sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from recorder.replay.matching.client_ids import any_of, finding, is_client_id
from recorder.wire.dialects import DIALECTS
from recorder.wire.dialects.anthropic.conversation import BILLING
from recorder.wire.redaction.bodies import BY_SHAPE, Redactor, words_of
from recorder.wire.redaction.headers import NEVER, REDACTED

Kind = Literal["fields", "texts", "ids", "directories", "handles", "headers", "parameters"]
How = Literal["exact", "noise", "position"]

RUNGS: tuple[How, ...] = ("exact", "noise", "position")
"""How a request may be matched, the surest way first."""


class Rule(msgspec.Struct, frozen=True):
    """One kind of noise.

    `what` is, of `fields`, a path into a JSON body (`metadata.user_id`, `input.*.id`); of `headers` and `parameters` a
    name, with `*` for any part of it; else a regular expression. All matches of `texts` are equal. A whole text that
    one of `ids` matches is an id: compared by identity, not by its letters. The group of `directories` is the path of
    one, and noise at every other place. The group of `handles` is what a tool returned for the model to hand back:
    noise likewise, and put into the answer in place of the recorded one (`recorder.replay.matching.client_ids`). Rules
    with `hint` are tried only on texts that hold it.
    """

    kind: Kind
    name: str
    what: str
    hint: str = ""


IN_TEXTS = ("texts", "ids", "directories", "handles")  # regular expressions

_UUID5, _UUID7 = (
    rf"[0-9a-f]{{8}}-[0-9a-f]{{4}}-{version}[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}-[0-9a-f]{{12}}" for version in (5, 7)
)
_DATE = r"(?:[^\n]{0,40}?\b\d{4}-\d\d-\d\d|[^\n]{0,40}?\b\d{4}\b)"

_ROWS: Mapping[Kind, Sequence[Sequence[str]]] = {
    "fields": (
        ("cache-key", "prompt_cache_key"),  # says where to cache, made again for each conversation
        # Codex tells its installation, session and turn there
        ("client-metadata", "client_metadata"),
        ("user-id", "metadata.user_id"),  # Claude Code tells its device and session there
        ("user", "user"),  # whom the provider counts the request for
        ("safety-identifier", "safety_identifier"),  # whom the provider counts the request for
        ("gemini-session", "request.session_id"),  # made again for each run of the Gemini CLI
        ("gemini-prompt", "user_prompt_id"),  # made again for each prompt by the Gemini CLI
        ("gemini-project", "project"),  # the account's project, which the Gemini CLI sends along
    ),
    "texts": (
        # Claude Code puts its version and a checksum at the top of its instructions
        ("billing", rf"{BILLING}[^\n]*", BILLING),
        # Claude Code and the Gemini CLI tell the day
        ("date", rf"Today's date(?: is now| is|:) {_DATE}", "Today's date"),
        # Codex tells the day
        ("codex-date", r"<current_date>[^<]{0,40}</current_date>", "<current_date>"),
        # Codex tells where the machine thinks it is
        ("codex-timezone", r"<timezone>[^<]{0,64}</timezone>", "<timezone>"),
        # Codex numbers the pieces of a command's output
        ("codex-chunk", r"Chunk ID: [0-9a-f]{1,16}\n", "Chunk ID: "),
        # Codex tells how long a command took
        ("codex-wall-time", r"Wall time:? \d+(?:\.\d+)? seconds", "Wall time"),
        # Codex draws a name for each agent
        ("codex-nickname", r'"nickname":"[^"\\\n]{0,64}"', '"nickname":"'),
        # Claude Code tells how long an agent took
        ("claude-duration", r"<duration_ms>\d{1,15}</duration_ms>", "<duration_ms>"),
        # Claude Code tells the state of the repository, and what a recording left there
        (
            "claude-git",
            r"\nStatus:\n(?:(?!Status:\n)[^\n]++\n)*+\nRecent commits:\n(?:[^\n]++\n)*+",
            "\nRecent commits:\n",
        ),
        # the Gemini CLI tells the numbers of processes
        ("gemini-process", r"(?:Process Group PGID|Background PIDs): \d[\d, ]*", "ID"),
        # the Gemini CLI lists the working directory, and what a recording left there
        (
            "gemini-files",
            r"\*\*Directory Structure:\*\*\n\n[^\n]*\n\n[^\n]*\n(?:[^\n├└│]*+[├└│][^\n]*+\n)*+",
            "**Directory Structure:**",
        ),
    ),
    "ids": (
        # pydantic-ai makes ids for calls that have none
        ("pydantic-ai-call", r"pyd_ai_[0-9a-f]{32}", "pyd_ai_"),
        # Codex makes ids for what it says itself: a prefix and a UUIDv7
        ("codex-item", rf"[a-z]{{2,8}}_{_UUID7}", "-7"),
        # the same for its instructions, and for what an agent inherits: a prefix and a UUIDv5
        ("codex-item-named", rf"[a-z]{{2,8}}_{_UUID5}", "-5"),
        # the Gemini CLI makes ids for calls that have none: the tool, the time, a number
        ("gemini-call", r"[\w.-]{1,64}-1\d{12}-[0-9a-f]{1,14}", "-1"),
        # the same, in its later versions
        ("gemini-call-underscored", r"[\w.-]{1,64}_1\d{12}_\d{1,9}", "_1"),
    ),
    "directories": (
        ("codex-directory", r"<cwd>([^<\n]+)</cwd>", "<cwd>"),  # Codex tells the working directory
        # Codex tells which directories it may write to
        ("codex-root", r"<root>([^<\n]+)</root>", "<root>"),
        # Codex tells where its instructions were found
        ("codex-instructions", r"# AGENTS\.md instructions for ([^\n]+)", "# AGENTS.md instructions for "),
        # Codex tells where its skills are, below its home
        ("codex-skills", r"- `r\d{1,3}` = `([^`\n]+)`", "### Skill roots"),
        # Claude Code tells where it keeps what it remembers, below its home
        ("claude-memory", r"memory at `([^`\n]+)`", "memory at `"),
        # Claude Code tells the working directory
        ("claude-directory", r"(?:Primary w|W)orking directory: ([^\n]+)", "orking directory: "),
        # the Gemini CLI tells the working directory
        ("gemini-directory", r"working in the director(?:y|ies): ([^\n]+)", "working in the director"),
        # the Gemini CLI tells where it keeps what it remembers, below its home
        ("gemini-memory", r"Memory\*\* \(`([^`\n]+)`\)", "Memory** (`"),
        # the Gemini CLI tells the working directory
        ("gemini-workspace", r"\*\*Workspace Directories:\*\*\n +- ([^\n]+)", "**Workspace Directories:**"),
        # the Gemini CLI tells where it keeps its files
        ("gemini-temporary", r"project's temporary directory is: ([^\n]+)", "project's temporary directory is: "),
    ),
    "handles": (
        # Codex makes ids for its agents (multi_agent_v1), to wait for and to write to
        ("codex-agent", rf'"agent_(?:id|path)":"({_UUID7})"', '"agent_'),
        # Codex draws a number for a command that goes on, to write to and to read from
        ("codex-process", r"Process running with session ID (\d{1,9})\n", "session ID "),
        # Claude Code makes ids for its agents, to send messages to
        ("claude-agent", r"\bagentId: ((?=[a-z]{0,39}\d)[0-9a-z]{8,40})\b", "agentId: "),
        # Claude Code makes ids for what goes on in the background
        ("claude-task", r"<task-id>([\w-]{4,64})</task-id>", "<task-id>"),
        # Claude Code makes ids for commands that go on
        ("claude-command", r"running in background with ID: ([\w-]{4,64})", "running in background with ID: "),
        # Claude Code writes outputs to files under its session's id, to be read
        ("claude-output", r"(?:\boutput_file: |<output-file>|is being written to: )([^\s<]+\.output)\b", ".output"),
        # opencode makes ids for its agents, to go on with them
        ("opencode-task", r'<task id="(ses_[0-9A-Za-z]{4,64})"', '<task id="ses_'),
    ),
    "headers": (
        ("codex", "x-codex-*"),  # ids of the session, the turn, the window
        ("codex-ids", "*session[-_]id"),  # made again for each run of an agent
        ("codex-thread", "thread-id"),  # made again for each run of Codex
        ("claude-code", "x-claude-code-*"),  # ids of the session and of its agents
        ("stainless", "x-stainless-*"),  # the SDK's version, platform, timeout and attempt
        ("request-id", "*request-id"),  # made again for each request
        ("trace", "trace*"),  # traceparent and tracestate: made again for each request
        ("agent", "user-agent"),  # names the client's version and machine
        ("recorder", "x-recorder-*"),  # meant for the recorder
        ("hop", "connection"),  # of the connection, not of the request
        ("websocket", "sec-websocket-*"),  # of the connection: a key made again, what it compresses
        ("host", "host"),  # where the recorder listens
        ("length", "content-length"),  # follows from the body
    ),
}
"""Of each kind the fields of its rules, from the name on; the comments are the reasons."""


def _rules() -> Iterator[Rule]:
    for kind, rows in _ROWS.items():
        for row in rows:
            yield Rule(kind, *row)
    for dialect in DIALECTS:
        for noise in dialect.request_noise:
            yield Rule(noise.kind, noise.name, noise.what)


DEFAULT = tuple(_rules())

_KEYS = (*get_args(Kind), "without", "until")
_GROUPED: Mapping[str, str] = {"directories": "directory", "handles": "handle"}


def read(table: Mapping[str, object]) -> tuple[list[Rule], How]:
    """The rules of a `[match]` table: the default ones less those that `without` names, and the user's own.

    Raises `ValueError` with one sentence that says what is wrong.
    """
    for key in table:
        if key not in _KEYS:
            raise ValueError(f"[match] has no setting {key!r}: it has {', '.join(_KEYS)}.")
    names = sorted({rule.name for rule in DEFAULT})
    without = words_of(table, "without", "match")
    if unknown := set(without).difference(names):
        raise ValueError(f"[match] without: there is no rule {min(unknown)!r}; the rules are {', '.join(names)}.")
    until = table.get("until", "noise")
    rungs: dict[str, How] = {rung: rung for rung in RUNGS}
    if not isinstance(until, str) or until not in rungs:
        raise ValueError(f"[match] until must be one of {', '.join(rungs)}, not {until!r}.")
    rules = [rule for rule in DEFAULT if rule.name not in without]
    for kind in get_args(Kind):
        rules += [_own(kind, what) for what in words_of(table, kind, "match")]
    return rules, rungs[until]


def _own(kind: Kind, what: str) -> Rule:
    if kind == "fields" and not all(what.split(".")):
        raise ValueError(
            f"[match] fields: {what!r} is not a path: write names with dots between, as in metadata.user_id."
        )
    if kind in IN_TEXTS:
        _check(kind, what)
    return Rule(kind, "own", what.lower() if kind == "headers" else what)


def _check(kind: Kind, what: str) -> None:
    try:
        pattern = re.compile(what)
    except re.error as error:
        raise ValueError(f"[match] {kind}: {what!r} is not a regular expression: {error}.") from None
    if pattern.fullmatch(""):
        raise ValueError(f"[match] {kind}: {what!r} matches nothing at all, which is everywhere.")
    if kind in _GROUPED and pattern.groups != 1:
        raise ValueError(f"[match] {kind}: {what!r} needs one group ( ) around the {_GROUPED[kind]}.")


TEXT_LIMIT = 2**20
"""Characters of a text that rules are tried on: what is longer is a file or an image, and no client's own words."""

TEXTS_LIMIT = 100_000
"""Texts of one body: an agent's longest history is far below it, and a body of 64 MiB could hold millions."""

ID_LIMIT = 200
"""Characters of an id."""

DIRECTORY_CHARACTERS = range(4, 4097)
"""The length of a directory's path: the longest that Linux takes, and no `/` nor `.`."""

NAMES_LIMIT = 64
"""Directories of one request, and client ids: each is looked for in every text."""


class QuietBody(NamedTuple):
    """A body without noise, and what it names itself, numbered in the order in which it does."""

    value: Any
    directories: Mapping[str, int]
    client_ids: Mapping[str, int]


class Rules:
    """Rules of noise, and how far down from `exact` a request may be matched."""

    def __init__(self, rules: Iterable[Rule] = DEFAULT, until: How = "noise", redactor: Redactor = BY_SHAPE) -> None:
        """`redactor` takes the secrets out of both requests, as when they are recorded.

        `until` is not `position` unless somebody asks for that: a test that passes with other instructions than the
        recorded ones tests nothing.
        """
        self.rules = tuple(rules)
        self.redactor = redactor
        self.until: How = until
        self._fields = [rule.what.split(".") for rule in self._of("fields")]
        self._patterns = [(rule, re.compile(rule.what)) for rule in self.rules if rule.kind in IN_TEXTS]

    def headers(self, headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the headers that matter for matching and whose values were kept, names in lower case, sorted.

        They are for comparisons that a person reads. They do not decide a match: of most, only the name was recorded.
        """
        given = ((name.lower(), value) for name, value in headers)
        return sorted((n, v) for n, v in given if not v.startswith(REDACTED) and not self._is("headers", n))

    def is_field(self, name: str) -> bool:
        """Return whether a member of the body is noise."""
        return [name] in self._fields

    def is_parameter(self, name: str) -> bool:
        """Return whether a query parameter of that name is noise, or a secret."""
        return self._is("parameters", name) or NEVER.search(name.lower()) is not None

    def quiet(self, body: Any, others: Mapping[str, int] | None = None) -> QuietBody:
        """Return a decoded body without noise; the given one may be changed.

        `others` are directories to look for too.
        """
        for path in self._fields:
            _remove(body, path)
        texts = list(islice(_texts(body), TEXTS_LIMIT + 1))
        if len(texts) > TEXTS_LIMIT:
            return QuietBody(body, {}, {})
        together = "\n".join(texts)
        at_work = [(rule, pattern) for rule, pattern in self._patterns if rule.hint in together]
        directories = _named(texts, _of_kind("directories", at_work), _directory)
        client_ids = _named(texts, _of_kind("handles", at_work), _client_id)
        hush = _NoiseFilter(at_work, {**(others or {}), **directories}, client_ids)
        return QuietBody(hush.value(body) if hush.has_work else body, directories, client_ids)

    def _of(self, kind: Kind) -> list[Rule]:
        return [rule for rule in self.rules if rule.kind == kind]

    def _is(self, kind: Kind, name: str) -> bool:
        return any(fnmatchcase(name, rule.what) for rule in self._of(kind))


DEFAULT_RULES = Rules()


def rules_from(table: Mapping[str, object]) -> Rules:
    """Parse the rules of a `[match]` table. Raises `ValueError` with one sentence."""
    return Rules(*read(table))


_Patterns = Sequence[tuple[Rule, re.Pattern[str]]]


class _NoiseFilter:
    """One body's texts, without noise."""

    def __init__(self, patterns: _Patterns, directories: Mapping[str, int], client_ids: Mapping[str, int]) -> None:
        self._texts = _of_kind("texts", patterns)
        self._made = _of_kind("ids", patterns)
        self._names = [
            (names, label, pattern)
            for names, label, pattern in (
                (directories, "directory", _anywhere(directories)),
                (client_ids, "handle", finding(client_ids)),
            )
            if pattern is not None
        ]
        self._ids: dict[str, int] = {}
        self.has_work = bool(self._texts or self._made or self._names)

    def value(self, value: Any) -> Any:
        """Return a JSON value without noise. Keys are visited in order: so are ids numbered."""
        if value.__class__ is str:
            return self._text(value)
        if value.__class__ is dict:
            return {name: self.value(each) for name, each in sorted(value.items())}
        return [self.value(each) for each in value] if value.__class__ is list else value

    def _text(self, text: str) -> str:
        if len(text) > TEXT_LIMIT:
            return text
        if len(text) <= ID_LIMIT and any(rule.hint in text and pattern.fullmatch(text) for rule, pattern in self._made):
            return f"<id {self._ids.setdefault(text, len(self._ids))}>"
        return _without(text, sorted(self._found(text), key=lambda each: (each[0], -each[1])))

    def _found(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the places of noise: each rule sees the text as it was sent, so that none hides it from another."""
        for names, label, pattern in self._names:
            if any(name in text for name in names):
                yield from ((*match.span(), f"<{label} {names[match[0]]}>") for match in pattern.finditer(text))
        for rule, pattern in self._texts:
            if rule.hint in text:
                yield from ((*match.span(), f"<{rule.name}>") for match in pattern.finditer(text))


def _without(text: str, found: Iterable[tuple[int, int, str]]) -> str:
    """Return a text with labels in place of what was found, in order; what overlaps is one, under the label of the
    first."""
    pieces: list[str] = []
    end = 0
    for start, stop, label in found:
        if start >= end:
            pieces += text[end:start], label
        end = max(end, stop)
    return "".join([*pieces, text[end:]])


def _of_kind(kind: Kind, patterns: _Patterns) -> _Patterns:
    return [each for each in patterns if each[0].kind == kind]


def _anywhere(directories: Mapping[str, int]) -> re.Pattern[str] | None:
    """Return a pattern of the directories, the longest first, where a path may begin and where a step of it ends."""
    return re.compile(rf"(?<![\w./\\-])(?:{any_of(directories)})(?![\w-])") if directories else None


def _named(texts: Sequence[str], patterns: _Patterns, name_of: Callable[[str], str | None]) -> dict[str, int]:
    """Return the groups of patterns, numbered."""
    found: dict[str, int] = {}
    for text in texts if patterns else ():
        for rule, pattern in patterns:
            for match in pattern.finditer(text) if rule.hint in text else ():
                name = name_of(match[1] or "")
                if name is not None and len(found) < NAMES_LIMIT:
                    found.setdefault(name, len(found))
    return found


def _directory(text: str) -> str | None:
    """Return the path of a directory, if it differs from other texts: not `/`, nor `.`."""
    name = text.strip().rstrip("/\\")
    return name if len(name) in DIRECTORY_CHARACTERS and ("/" in name or "\\" in name) else None


def _client_id(text: str) -> str | None:
    return text if is_client_id(text) else None


def _texts(value: Any) -> Iterator[str]:
    if value.__class__ is str:
        if len(value) <= TEXT_LIMIT:
            yield value
    elif value.__class__ is dict:
        for _, each in sorted(value.items()):
            yield from _texts(each)
    elif value.__class__ is list:
        for each in value:
            yield from _texts(each)


def _remove(value: Any, path: Sequence[str]) -> None:
    """Remove the value at `path`, and an object that is empty without it."""
    step, *rest = path
    if step == "*":
        members = list(value.values()) if isinstance(value, dict) else value
        for each in members if rest and isinstance(members, list) else ():
            _remove(each, rest)
    elif isinstance(value, dict) and step in value:
        if rest:
            _remove(value[step], rest)
        if not rest or value[step] == {}:
            del value[step]
