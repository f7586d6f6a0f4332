"""All rules, in the order in which findings are given."""

from __future__ import annotations

from recorder.linting import chat, gemini, http, messages, responses, sse
from recorder.linting.rule import Rule

RULES: tuple[Rule, ...] = (*http.RULES, *sse.RULES, *responses.RULES, *chat.RULES, *messages.RULES, *gemini.RULES)
