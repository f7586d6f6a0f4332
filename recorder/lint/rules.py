"""All rules, in the order in which findings are given."""

from __future__ import annotations

from recorder.lint import anthropic, gemini, http, openai_chat, openai_errors, openai_responses, sse
from recorder.lint.rule import Rule

RULES: tuple[Rule, ...] = (
    *http.RULES,
    *openai_errors.RULES,
    *sse.RULES,
    *openai_responses.RULES,
    *openai_chat.RULES,
    *anthropic.RULES,
    *gemini.RULES,
)
