"""The rules of noise: what may differ between two runs of the same thing, one line each, with the
reason beside it.

A text is noise only between a client's own words: a date in a question is the question. What is of
one wire format is with its dialect (`Dialect.request_noise`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, get_args

import msgspec

from recorder.wire.dialects import DIALECTS
from recorder.wire.dialects.anthropic.conversation import BILLING
from recorder.wire.redaction.bodies import words_of

Kind = Literal[
    "fields", "references", "texts", "ids", "directories", "handles", "headers", "parameters"
]
How = Literal["exact", "noise", "stamps", "position"]

RUNGS: tuple[How, ...] = ("exact", "noise", "stamps", "position")
"""How a request may be matched, the surest way first."""


class Rule(msgspec.Struct, frozen=True):
    """One kind of noise.

    `what` is

    * of `fields` a path into a JSON body: `metadata.user_id`, `input.*.id`;
    * of `references` the path of an id, by which parts of a request refer to each other: whoever
      made it, only which of them are equal counts;
    * of `headers` and `parameters` a name, with `*` for any part of it;
    * else a regular expression. All matches of `texts` are equal. A whole text that one of `ids`
      matches is compared as a reference is. The group of `directories` is the path of one, and
      noise at every other place. The group of `handles` is what a tool returned for the model to
      hand back: noise likewise, and put into the answer in place of the recorded one
      (`recorder.replay.matching.client_ids`).

    Rules with `hint` are tried only on texts that hold it; those of `fields` only on bodies with
    these members, those of `references` only on ids that have these members beside them.
    """

    kind: Kind
    name: str
    what: str
    hint: str = ""
    found_by: str = ""  # of `references`: `RequestNoise.found_by`


AT_PATHS = ("fields", "references")
IN_TEXTS = ("texts", "ids", "directories", "handles")  # regular expressions

_UUID5, _UUID7 = (
    rf"[0-9a-f]{{8}}-[0-9a-f]{{4}}-{version}[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}-[0-9a-f]{{12}}"
    for version in (5, 7)
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
        # Codex makes ids for what it says itself: a prefix and a UUIDv7
        ("codex-item", rf"[a-z]{{2,8}}_{_UUID7}", "-7"),
        # the same for its instructions, and for what an agent inherits: a prefix and a UUIDv5
        ("codex-item-named", rf"[a-z]{{2,8}}_{_UUID5}", "-5"),
    ),
    "directories": (
        ("codex-directory", r"<cwd>([^<\n]+)</cwd>", "<cwd>"),  # Codex tells the working directory
        # Codex tells which directories it may write to
        ("codex-root", r"<root>([^<\n]+)</root>", "<root>"),
        # Codex tells where its instructions were found
        (
            "codex-instructions",
            r"# AGENTS\.md instructions for ([^\n]+)",
            "# AGENTS.md instructions for ",
        ),
        # Codex tells where its skills are, below its home
        ("codex-skills", r"- `r\d{1,3}` = `([^`\n]+)`", "### Skill roots"),
        # Claude Code tells where it keeps what it remembers, below its home
        ("claude-memory", r"memory at `([^`\n]+)`", "memory at `"),
        # Claude Code tells the working directory
        ("claude-directory", r"(?:Primary w|W)orking directory: ([^\n]+)", "orking directory: "),
        # the Gemini CLI tells the working directory
        (
            "gemini-directory",
            r"working in the director(?:y|ies): ([^\n]+)",
            "working in the director",
        ),
        # the Gemini CLI tells where it keeps what it remembers, below its home
        ("gemini-memory", r"Memory\*\* \(`([^`\n]+)`\)", "Memory** (`"),
        # the Gemini CLI tells the working directory
        (
            "gemini-workspace",
            r"\*\*Workspace Directories:\*\*\n +- ([^\n]+)",
            "**Workspace Directories:**",
        ),
        # the Gemini CLI tells where it keeps its files
        (
            "gemini-temporary",
            r"project's temporary directory is: ([^\n]+)",
            "project's temporary directory is: ",
        ),
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
        (
            "claude-command",
            r"running in background with ID: ([\w-]{4,64})",
            "running in background with ID: ",
        ),
        # Claude Code writes outputs to files under its session's id, to be read
        (
            "claude-output",
            r"(?:\boutput_file: |<output-file>|is being written to: )([^\s<]+\.output)\b",
            ".output",
        ),
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
            yield Rule(noise.kind, noise.name, noise.what, noise.beside, noise.found_by)


DEFAULT = tuple(_rules())

_KEYS = (*get_args(Kind), "without", "until")
_GROUPED: Mapping[str, str] = {"directories": "directory", "handles": "handle"}


def read(table: Mapping[str, object]) -> tuple[list[Rule], How]:
    """The rules of a `[match]` table: the default ones less those that `without` names, and the
    user's own.

    Raises `ValueError` with one sentence that says what is wrong.
    """
    for key in table:
        if key not in _KEYS:
            raise ValueError(f"[match] has no setting {key!r}: it has {', '.join(_KEYS)}.")
    names = sorted({rule.name for rule in DEFAULT})
    without = words_of(table, "without", "match")
    if unknown := set(without).difference(names):
        raise ValueError(
            f"[match] without: there is no rule {min(unknown)!r}; the rules are {', '.join(names)}."
        )
    until = table.get("until", "noise")
    rungs: dict[str, How] = {rung: rung for rung in RUNGS}
    if not isinstance(until, str) or until not in rungs:
        raise ValueError(f"[match] until must be one of {', '.join(rungs)}, not {until!r}.")
    rules = [rule for rule in DEFAULT if rule.name not in without]
    for kind in get_args(Kind):
        rules += [_own(kind, what) for what in words_of(table, kind, "match")]
    return rules, rungs[until]


def _own(kind: Kind, what: str) -> Rule:
    if kind in AT_PATHS and not all(what.split(".")):
        raise ValueError(
            f"[match] {kind}: {what!r} is not a path: write names with dots between, as in metadata.user_id."
        )
    if kind in IN_TEXTS:
        _check(kind, what)
    return Rule(kind, "own", what.lower() if kind == "headers" else what)


def _check(kind: Kind, what: str) -> None:
    try:
        pattern = re.compile(what)
    except re.error as error:
        raise ValueError(
            f"[match] {kind}: {what!r} is not a regular expression: {error}."
        ) from None
    if pattern.fullmatch(""):
        raise ValueError(f"[match] {kind}: {what!r} matches nothing at all, which is everywhere.")
    if kind in _GROUPED and pattern.groups != 1:
        raise ValueError(
            f"[match] {kind}: {what!r} needs one group ( ) around the {_GROUPED[kind]}."
        )
