"""The rules of the Responses API (`RS…`), as OpenAI speaks it, as Codex reads it, as the SDKs read it.

Must not know: other APIs, and where recordings come from.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter

from recorder.lint.rule import Rule
from recorder.wire.dialects.openai_responses.lint import fields, items, lifecycle

_ALL = chain(lifecycle.RULES, fields.RULES, items.RULES)

RULES: tuple[Rule, ...] = tuple(sorted(_ALL, key=attrgetter("id")))
