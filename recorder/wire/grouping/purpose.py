"""The purpose of a request: a turn of the conversation, or one of the requests that a client makes on its own.

Rules as data, in order: the first that matches wins. Beside a person's turns clients ask for titles, for the model that
suits a question, for summaries, for how many tokens there are. Few clients name it in a header; of the others the words
that such a request begins with are known. What no rule knows is a turn: a new kind of request is one line of a table
here. Pure, and never raises.
"""

from __future__ import annotations

import re

import msgspec

from recorder.model.facts import Purpose, RequestFacts, RequestPurpose
from recorder.wire.dialects import other
from recorder.wire.grouping.probes import is_probe
from recorder.wire.grouping.rules import Claims, ValueRule, first

_COUNTS = re.compile(r"POST .*(?:[:/]count[-_]?tokens|/input_tokens)(?::rawPredict)?", re.I)
"""A request's method and path, if it asks for a number: nothing is generated."""


class Claim(msgspec.Struct, frozen=True):
    """A value that a client sends of itself, and what a request with it is for."""

    purpose: Purpose
    rule: ValueRule


class Opening(msgspec.Struct, frozen=True):
    """The beginning of a text that a client writes itself, and the purpose of a request with it."""

    purpose: Purpose
    pattern: str


_CODEX_KIND = "header.x-codex-turn-metadata.request_kind"
_CODEX_AGENT = "header.x-openai-subagent"
_CLAUDE_CLASS = "header.x-claude-code-request-class"

STEPS: tuple[Claim, ...] = (
    Claim("compaction", ValueRule("codex-kind", _CODEX_KIND, pattern="(compaction)")),
    Claim("memory", ValueRule("codex-kind", _CODEX_KIND, pattern="(memory)")),
    Claim("prewarm", ValueRule("codex-kind", _CODEX_KIND, pattern="(prewarm)")),
    Claim("compaction", ValueRule("codex-agent", _CODEX_AGENT, pattern="(compact.*)")),
    Claim("memory", ValueRule("codex-agent", _CODEX_AGENT, pattern="(memory.*)")),
    Claim("compaction", ValueRule("claude-code-class", _CLAUDE_CLASS, pattern="(compaction)")),
)
"""What stands above the words of a request."""

SYSTEM_PROMPTS: tuple[Opening, ...] = (
    Opening("title", r"You are a title generator\. You output ONLY a thread title\b"),  # opencode
    Opening("title", r"You are naming a coding session\b"),  # Claude Code
    Opening("title", r"Generate a concise, (?:sentence-case )?title\b"),
    Opening("title", r"Analyze if this message indicates a new conversation topic\b"),
    Opening("title", r"Summarize this coding conversation in under 50 characters\b"),
    Opening("router", r"You are a (?:specialized )?Task Routing AI\b"),  # Gemini CLI
    Opening("compaction", r"You are a specialized system component responsible for distilling chat history\b"),
    Opening("compaction", r"You are a helpful AI assistant tasked with summarizing conversations\b"),  # Claude Code
    Opening("compaction", r"\*Briefly\* summarize this partial conversation about programming\b"),  # aider
    Opening("helper", r"You are an expert software engineer that generates concise, one-line Git commit messages\b"),
    Opening(  # Gemini CLI, of an edit that failed
        "helper",
        r"You are an expert code-editing assistant(?: specializing in debugging and correcting failed"
        r"|\. Your task is to analyze a failed edit)\b",
    ),
    Opening("subagent", r"[^\n]{0,200}\bYou are a sub-agent within a larger development system\b"),
    Opening("subagent", r"You are a general-purpose subagent working for a parent agent\b"),  # qwen-code
    Opening("title", r"Generate concise conversation titles\."),  # gptme
)
"""How a system prompt, or a block of one, begins: as much of it as no program of a person's own begins with."""

QUESTIONS: tuple[Opening, ...] = (
    Opening("title", r"<session>.*</session>\s*Write the title in\b"),  # Claude Code
    Opening("title", r"Please write a 5-10 word title for the following conversation\b"),
    Opening("title", r"Generate a title for this conversation:"),  # opencode
    Opening(
        "compaction", r"Your task is to create a detailed summary of (?:the|this) (?:conversation|RECENT portion)\b"
    ),
    Opening("compaction", r"CRITICAL: Respond with TEXT ONLY\. Do NOT call any tools\b"),  # Claude Code
    Opening("compaction", r"You are performing a CONTEXT CHECKPOINT COMPACTION\b"),  # Codex
    Opening("compaction", r"Provide a detailed prompt for continuing our conversation above\b"),  # opencode
    Opening("title", r"Your task: Create a 2-4 word title for this conversation\b"),  # gptme
    Opening("title", r"Generate a descriptive name for this conversation\b"),
    Opening("title", r"### Task:\s*Generate a concise, 3-5 word title\b"),  # Open WebUI
    Opening("helper", r"### Task:\s*(?:Generate 1-3 broad tags|Suggest 3-5 relevant follow-up questions)\b"),
    Opening("helper", r"### Task:\s*You are an autocompletion system\b"),
    Opening("helper", r"### Task:\s.*<chat_history>"),  # also in words of its administrator
    Opening("helper", r"Please say 'hello, world'\Z"),  # inspect-ai looks whether a model tells its reasoning
    Opening("helper", r"Analyze \*only\* the content and structure of your immediately preceding response\b"),
)
"""How a user's message begins that is none, where a request ends with it."""

SENDERS: tuple[Claim, ...] = (
    Claim("subagent", ValueRule("codex-agent", _CODEX_AGENT)),
    Claim("subagent", ValueRule("codex-source", "header.x-codex-turn-metadata.thread_source", pattern="(subagent)")),
    Claim("subagent", ValueRule("claude-code-class", _CLAUDE_CLASS, pattern="(subagent|workflow)")),
    Claim("subagent", ValueRule("claude-code-agent", "header.x-claude-code-agent-id")),
    Claim("subagent", ValueRule("opencode", "header.x-parent-session-id")),
    Claim("helper", ValueRule("claude-code-class", _CLAUDE_CLASS, pattern="(auxiliary|side_reply)")),
)
"""What stands below them: a sub-agent's conversation is compacted too."""

PARENT_RULES: tuple[ValueRule, ...] = (
    ValueRule("codex", "header.x-codex-parent-thread-id"),
    ValueRule("codex-metadata", "header.x-codex-turn-metadata.parent_thread_id"),
    ValueRule("claude-code", "header.x-claude-code-parent-agent-id"),
    ValueRule("opencode", "header.x-parent-session-id"),
)
"""Where the thread stands that began the thread of a request."""

CLAIMED: tuple[ValueRule, ...] = (*(claim.rule for claim in (*STEPS, *SENDERS)), *PARENT_RULES)
"""All rules that look at headers: redaction must keep their values."""


def placed(api: str, method: str, path: str, claims: Claims, request: RequestFacts) -> RequestPurpose:
    """Return the purpose of a request, and the thread that began its own; `path` is without its query."""
    return RequestPurpose(_purpose(api, method, path, claims, request), first(PARENT_RULES, claims)[1])


def _purpose(api: str, method: str, path: str, claims: Claims, request: RequestFacts) -> Purpose | None:
    if is_probe(method, path) or _COUNTS.fullmatch(f"{method} {path}"):
        return "probe"
    if api == other.DIALECT.name:
        return None
    if not request.generates:
        return "prewarm"
    content = request.text or "" if request.is_turn else ""
    return (
        _claimed(STEPS, claims)
        or next((found for text in request.instructions if (found := _opened(SYSTEM_PROMPTS, text))), None)
        or _opened(QUESTIONS, content)
        or _claimed(SENDERS, claims)
        or "turn"
    )


def _claimed(table: tuple[Claim, ...], claims: Claims) -> Purpose | None:
    return next((claim.purpose for claim in table if claims.value(claim.rule)), None)


def _opened(table: tuple[Opening, ...], text: str) -> Purpose | None:
    text = text.lstrip()
    return next((each.purpose for each in table if re.match(each.pattern, text, re.DOTALL)), None)
