"""What may differ between two runs of the same thing: rules as data, one line each, with the reason.

A text is noise only between a client's own words: a date in a question is the question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

from recorder.wire.dialects import DIALECTS
from recorder.wire.dialects.anthropic.conversation import BILLING

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
    noise likewise, and put into the answer in place of the recorded one (`recorder.replay.matching.handles`). Rules
    with `hint` are tried only on texts that hold it.
    """

    kind: Kind
    name: str
    what: str
    reason: str
    hint: str = ""


IN_TEXTS = ("texts", "ids", "directories", "handles")  # regular expressions

_UUID5, _UUID7 = (
    rf"[0-9a-f]{{8}}-[0-9a-f]{{4}}-{version}[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}-[0-9a-f]{{12}}" for version in (5, 7)
)
_DATE = r"(?:[^\n]{0,40}?\b\d{4}-\d\d-\d\d|[^\n]{0,40}?\b\d{4}\b)"

DEFAULT: tuple[Rule, ...] = (
    Rule("fields", "cache-key", "prompt_cache_key", "says where to cache, made anew for each conversation"),
    Rule("fields", "client-metadata", "client_metadata", "Codex tells its installation, session and turn there"),
    Rule("fields", "user-id", "metadata.user_id", "Claude Code tells its device and session there"),
    Rule("fields", "user", "user", "whom the provider counts the request for"),
    Rule("fields", "safety-identifier", "safety_identifier", "whom the provider counts the request for"),
    Rule("fields", "gemini-session", "request.session_id", "made anew for each run of the Gemini CLI"),
    Rule("fields", "gemini-prompt", "user_prompt_id", "made anew for each prompt by the Gemini CLI"),
    Rule("fields", "gemini-project", "project", "the account's project, which the Gemini CLI sends along"),
    Rule(
        *("texts", "billing", rf"{BILLING}[^\n]*"),
        *("Claude Code puts its version and a checksum at the top of its instructions", BILLING),
    ),
    Rule(
        *("texts", "date", rf"Today's date(?: is now| is|:) {_DATE}"),
        *("Claude Code and the Gemini CLI tell the day", "Today's date"),
    ),
    Rule(
        *("texts", "codex-date", r"<current_date>[^<]{0,40}</current_date>"),
        *("Codex tells the day", "<current_date>"),
    ),
    Rule(
        *("texts", "codex-timezone", r"<timezone>[^<]{0,64}</timezone>"),
        *("Codex tells where the machine thinks it is", "<timezone>"),
    ),
    Rule(
        *("texts", "codex-chunk", r"Chunk ID: [0-9a-f]{1,16}\n"),
        *("Codex numbers the pieces of a command's output", "Chunk ID: "),
    ),
    Rule(
        *("texts", "codex-wall-time", r"Wall time:? \d+(?:\.\d+)? seconds"),
        *("Codex tells how long a command took", "Wall time"),
    ),
    Rule(
        *("texts", "codex-nickname", r'"nickname":"[^"\\\n]{0,64}"'),
        *("Codex draws a name for each agent", '"nickname":"'),
    ),
    Rule(
        *("texts", "claude-duration", r"<duration_ms>\d{1,15}</duration_ms>"),
        *("Claude Code tells how long an agent took", "<duration_ms>"),
    ),
    Rule(
        *("texts", "claude-git", r"\nStatus:\n(?:(?!Status:\n)[^\n]++\n)*+\nRecent commits:\n(?:[^\n]++\n)*+"),
        *("Claude Code tells the state of the repository, and what a recording left there", "\nRecent commits:\n"),
    ),
    Rule(
        *("texts", "gemini-process", r"(?:Process Group PGID|Background PIDs): \d[\d, ]*"),
        *("the Gemini CLI tells the numbers of processes", "ID"),
    ),
    Rule(
        *("texts", "gemini-files", r"\*\*Directory Structure:\*\*\n\n[^\n]*\n\n[^\n]*\n(?:[^\n├└│]*+[├└│][^\n]*+\n)*+"),
        *("the Gemini CLI lists the working directory, and what a recording left there", "**Directory Structure:**"),
    ),
    Rule(
        *("ids", "pydantic-ai-call", r"pyd_ai_[0-9a-f]{32}"),
        *("pydantic-ai makes ids for calls that have none", "pyd_ai_"),
    ),
    Rule(
        *("ids", "codex-item", rf"[a-z]{{2,8}}_{_UUID7}"),
        *("Codex makes ids for what it says itself: a prefix and a UUIDv7", "-7"),
    ),
    Rule(
        *("ids", "codex-item-named", rf"[a-z]{{2,8}}_{_UUID5}"),
        *("the same for its instructions, and for what an agent inherits: a prefix and a UUIDv5", "-5"),
    ),
    Rule(
        *("ids", "gemini-call", r"[\w.-]{1,64}-1\d{12}-[0-9a-f]{1,14}"),
        *("the Gemini CLI makes ids for calls that have none: the tool, the time, a number", "-1"),
    ),
    Rule(
        *("ids", "gemini-call-underscored", r"[\w.-]{1,64}_1\d{12}_\d{1,9}"),
        *("the same, in its later versions", "_1"),
    ),
    Rule(
        *("directories", "codex-directory", r"<cwd>([^<\n]+)</cwd>"),
        *("Codex tells the working directory", "<cwd>"),
    ),
    Rule(
        *("directories", "codex-root", r"<root>([^<\n]+)</root>"),
        *("Codex tells which directories it may write to", "<root>"),
    ),
    Rule(
        *("directories", "codex-instructions", r"# AGENTS\.md instructions for ([^\n]+)"),
        *("Codex tells where its instructions were found", "# AGENTS.md instructions for "),
    ),
    Rule(
        *("directories", "codex-skills", r"- `r\d{1,3}` = `([^`\n]+)`"),
        *("Codex tells where its skills are, below its home", "### Skill roots"),
    ),
    Rule(
        *("directories", "claude-memory", r"memory at `([^`\n]+)`"),
        *("Claude Code tells where it keeps what it remembers, below its home", "memory at `"),
    ),
    Rule(
        *("directories", "claude-directory", r"(?:Primary w|W)orking directory: ([^\n]+)"),
        *("Claude Code tells the working directory", "orking directory: "),
    ),
    Rule(
        *("directories", "gemini-directory", r"working in the director(?:y|ies): ([^\n]+)"),
        *("the Gemini CLI tells the working directory", "working in the director"),
    ),
    Rule(
        *("directories", "gemini-memory", r"Memory\*\* \(`([^`\n]+)`\)"),
        *("the Gemini CLI tells where it keeps what it remembers, below its home", "Memory** (`"),
    ),
    Rule(
        *("directories", "gemini-workspace", r"\*\*Workspace Directories:\*\*\n +- ([^\n]+)"),
        *("the Gemini CLI tells the working directory", "**Workspace Directories:**"),
    ),
    Rule(
        *("directories", "gemini-temporary", r"project's temporary directory is: ([^\n]+)"),
        *("the Gemini CLI tells where it keeps its files", "project's temporary directory is: "),
    ),
    Rule(
        *("handles", "codex-agent", rf'"agent_(?:id|path)":"({_UUID7})"'),
        *("Codex makes ids for its agents (multi_agent_v1), to wait for and to write to", '"agent_'),
    ),
    Rule(
        *("handles", "codex-process", r"Process running with session ID (\d{1,9})\n"),
        *("Codex draws a number for a command that goes on, to write to and to read from", "session ID "),
    ),
    Rule(
        *("handles", "claude-agent", r"\bagentId: ((?=[a-z]{0,39}\d)[0-9a-z]{8,40})\b"),
        *("Claude Code makes ids for its agents, to send messages to", "agentId: "),
    ),
    Rule(
        *("handles", "claude-task", r"<task-id>([\w-]{4,64})</task-id>"),
        *("Claude Code makes ids for what goes on in the background", "<task-id>"),
    ),
    Rule(
        *("handles", "claude-command", r"running in background with ID: ([\w-]{4,64})"),
        *("Claude Code makes ids for commands that go on", "running in background with ID: "),
    ),
    Rule(
        *("handles", "claude-output", r"(?:\boutput_file: |<output-file>|is being written to: )([^\s<]+\.output)\b"),
        *("Claude Code writes outputs to files under its session's id, to be read", ".output"),
    ),
    Rule(
        *("handles", "opencode-task", r'<task id="(ses_[0-9A-Za-z]{4,64})"'),
        *("opencode makes ids for its agents, to go on with them", '<task id="ses_'),
    ),
    Rule("headers", "codex", "x-codex-*", "ids of the session, the turn, the window"),
    Rule("headers", "codex-ids", "*session[-_]id", "made anew for each run of an agent"),
    Rule("headers", "codex-thread", "thread-id", "made anew for each run of Codex"),
    Rule("headers", "claude-code", "x-claude-code-*", "ids of the session and of its agents"),
    Rule("headers", "stainless", "x-stainless-*", "the SDK's version, platform, timeout and attempt"),
    Rule("headers", "request-id", "*request-id", "made anew for each request"),
    Rule("headers", "trace", "trace*", "traceparent and tracestate: made anew for each request"),
    Rule("headers", "agent", "user-agent", "names the client's version and machine"),
    Rule("headers", "recorder", "x-recorder-*", "meant for the recorder"),
    Rule("headers", "hop", "connection", "of the connection, not of the request"),
    Rule("headers", "websocket", "sec-websocket-*", "of the connection: a key made anew, what it compresses"),
    Rule("headers", "host", "host", "where the recorder listens"),
    Rule("headers", "length", "content-length", "follows from the body"),
    *(Rule(each.kind, each.name, each.what, each.reason) for dialect in DIALECTS for each in dialect.request_noise),
)

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
    without = _words(table, "without")
    if unknown := set(without).difference(names):
        raise ValueError(f"[match] without: there is no rule {min(unknown)!r}; the rules are {', '.join(names)}.")
    until = table.get("until", "position")
    rungs: dict[str, How] = {rung: rung for rung in RUNGS}
    if not isinstance(until, str) or until not in rungs:
        raise ValueError(f"[match] until must be one of {', '.join(rungs)}, not {until!r}.")
    own = [_own(kind, what) for kind in get_args(Kind) for what in _words(table, kind)]
    return [*(rule for rule in DEFAULT if rule.name not in without), *own], rungs[until]


def _words(table: Mapping[str, object], key: str) -> list[str]:
    words = table.get(key, [])
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise ValueError(f'[match] {key} must be a list of texts, for example {key} = ["…"].')
    return words


def _own(kind: Kind, what: str) -> Rule:
    if kind == "fields" and not all(what.split(".")):
        raise ValueError(
            f"[match] fields: {what!r} is not a path: write names with dots between, as in metadata.user_id."
        )
    if kind in IN_TEXTS:
        _check(kind, what)
    return Rule(kind, "own", what.lower() if kind == "headers" else what, "set by the user")


def _check(kind: Kind, what: str) -> None:
    try:
        pattern = re.compile(what)
    except re.error as error:
        raise ValueError(f"[match] {kind}: {what!r} is not a regular expression: {error}.") from None
    if pattern.fullmatch(""):
        raise ValueError(f"[match] {kind}: {what!r} matches nothing at all, which is everywhere.")
    if kind in _GROUPED and pattern.groups != 1:
        raise ValueError(f"[match] {kind}: {what!r} needs one group ( ) around the {_GROUPED[kind]}.")
