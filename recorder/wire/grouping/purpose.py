"""The purpose of a request: a turn of the conversation, or one of the requests that a client makes
on its own.

Rules as data, in order: the first that matches wins. Beside a person's turns clients ask for
titles, for the model that suits a question, for summaries, for how many tokens there are. Few
clients name it in a header; of the others the words that such a request begins with are known. What
no rule knows is a turn: a new kind of request is one line of a table here. Pure, and never raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from recorder.model.facts import Purpose, RequestFacts, RequestPurpose
from recorder.model.text import rows
from recorder.wire.dialects import by_name
from recorder.wire.grouping.probes import is_probe
from recorder.wire.grouping.rules import Claims, ValueRule, first, value_rules

_COUNTS = re.compile(r"POST .*(?:[:/]count[-_]?tokens|/input_tokens)(?::rawPredict)?", re.I)
"""A request's method and path, if it asks for a number: nothing is generated."""


def _by_purpose(table: str) -> list[tuple[Purpose, str]]:
    """Return the rows of a table: a purpose each, and what follows it."""
    pairs = (row.split(maxsplit=1) for row in rows(table))
    return [(msgspec.convert(purpose, Purpose), rest) for purpose, rest in pairs]


def _claims(table: str) -> list[tuple[Purpose, ValueRule]]:
    """Return the values that a client sends of itself, as rules, and what a request with one is
    for.
    """
    return [(purpose, value_rules(rule)[0]) for purpose, rule in _by_purpose(table)]


STEPS = _claims("""
compaction codex-kind header.x-codex-turn-metadata.request_kind pattern=(compaction)
memory codex-kind header.x-codex-turn-metadata.request_kind pattern=(memory)
prewarm codex-kind header.x-codex-turn-metadata.request_kind pattern=(prewarm)
compaction codex-agent header.x-openai-subagent pattern=(compact.*)
memory codex-agent header.x-openai-subagent pattern=(memory.*)
compaction claude-code-class header.x-claude-code-request-class pattern=(compaction)
""")
"""What stands above the words of a request."""

SYSTEM_PROMPTS = _by_purpose(r"""
# opencode
title You are a title generator\. You output ONLY a thread title\b
# Claude Code
title You are naming a coding session\b
title Generate a concise, (?:sentence-case )?title\b
title Analyze if this message indicates a new conversation topic\b
title Summarize this coding conversation in under 50 characters\b
# Gemini CLI
router You are a (?:specialized )?Task Routing AI\b
compaction You are a specialized system component responsible for distilling chat history\b
# Claude Code
compaction You are a helpful AI assistant tasked with summarizing conversations\b
# aider
compaction \*Briefly\* summarize this partial conversation about programming\b
helper You are an expert software engineer that generates concise, one-line Git commit messages\b
# Gemini CLI, of an edit that failed
helper You are an expert code-editing assistant(?: specializing in debugging and correcting
 failed|\. Your task is to analyze a failed edit)\b
subagent [^\n]{0,200}\bYou are a sub-agent within a larger development system\b
# qwen-code
subagent You are a general-purpose subagent working for a parent agent\b
# gptme
title Generate concise conversation titles\.
""")
"""How a system prompt, or a block of one, begins: as much of it as no program of a person's own
begins with.
"""

QUESTIONS = _by_purpose(r"""
# Claude Code
title <session>.*</session>\s*Write the title in\b
title Please write a 5-10 word title for the following conversation\b
# opencode
title Generate a title for this conversation:
compaction Your task is to create a detailed summary of (?:the|this) (?:conversation|RECENT portion)\b
# Claude Code
compaction CRITICAL: Respond with TEXT ONLY\. Do NOT call any tools\b
# Codex
compaction You are performing a CONTEXT CHECKPOINT COMPACTION\b
# opencode
compaction Provide a detailed prompt for continuing our conversation above\b
# gptme
title Your task: Create a 2-4 word title for this conversation\b
title Generate a descriptive name for this conversation\b
# Open WebUI
title ### Task:\s*Generate a concise, 3-5 word title\b
helper ### Task:\s*(?:Generate 1-3 broad tags|Suggest 3-5 relevant follow-up questions)\b
helper ### Task:\s*You are an autocompletion system\b
# Also in words of its administrator
helper ### Task:\s.*<chat_history>
# inspect-ai looks whether a model tells its reasoning
helper Please say 'hello, world'\Z
helper Analyze \*only\* the content and structure of your immediately preceding response\b
""")
"""How a user's message begins that is none, where a request ends with it."""

SENDERS = _claims("""
subagent codex-agent header.x-openai-subagent
subagent codex-source header.x-codex-turn-metadata.thread_source pattern=(subagent)
subagent claude-code-class header.x-claude-code-request-class pattern=(subagent|workflow)
subagent claude-code-agent header.x-claude-code-agent-id
subagent opencode header.x-parent-session-id
helper claude-code-class header.x-claude-code-request-class pattern=(auxiliary|side_reply)
""")
"""What stands below them: a sub-agent's conversation is compacted too."""

PARENT_RULES = value_rules("""
codex header.x-codex-parent-thread-id
codex-metadata header.x-codex-turn-metadata.parent_thread_id
claude-code header.x-claude-code-parent-agent-id
opencode header.x-parent-session-id
""")
"""Where the thread stands that began the thread of a request."""

CLAIMED: tuple[ValueRule, ...] = (*(rule for _, rule in (*STEPS, *SENDERS)), *PARENT_RULES)
"""All rules that look at headers: redaction must keep their values."""


def placed(
    api: str, method: str, path: str, claims: Claims, request: RequestFacts
) -> RequestPurpose:
    """Return the purpose of a request, and the thread that began its own; `path` is without its
    query.
    """
    return RequestPurpose(
        _purpose(api, method, path, claims, request), first(PARENT_RULES, claims)[1]
    )


def _purpose(
    api: str, method: str, path: str, claims: Claims, request: RequestFacts
) -> Purpose | None:
    if is_probe(method, path) or _COUNTS.fullmatch(f"{method} {path}"):
        return "probe"
    if by_name(api).conversation is None:
        return None
    if not request.generates:
        return "prewarm"
    content = request.text or "" if request.is_turn else ""
    return (
        _claimed(STEPS, claims)
        or next(
            (found for text in request.instructions if (found := _opened(SYSTEM_PROMPTS, text))),
            None,
        )
        or _opened(QUESTIONS, content)
        or _claimed(SENDERS, claims)
        or _hosted_thread(api, path)
        or "turn"
    )


def _hosted_thread(api: str, path: str) -> Purpose | None:
    """Return whose conversation the path names, if that is one of a sub-agent that a provider
    hosts.
    """
    hosted = by_name(api).hosted
    match = hosted.path.search(path) if hosted else None
    return "subagent" if match and match["thread"] else None


def _claimed(table: Iterable[tuple[Purpose, ValueRule]], claims: Claims) -> Purpose | None:
    return next((purpose for purpose, rule in table if claims.value(rule)), None)


def _opened(table: Iterable[tuple[Purpose, str]], text: str) -> Purpose | None:
    text = text.lstrip()
    return next((purpose for purpose, pattern in table if re.match(pattern, text, re.DOTALL)), None)
