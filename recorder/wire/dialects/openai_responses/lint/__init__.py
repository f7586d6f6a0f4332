"""The rules of the Responses API (`RS…`), as OpenAI speaks it, as Codex reads it, as the SDKs read it.

Must not know: other APIs, and where recordings come from.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter

from recorder.lint.rule import Rule
from recorder.wire.dialects.openai_responses.lint import fields, items, lifecycle, numbers, outcome, texts

_MODULES = (lifecycle, numbers, fields, items, texts, outcome)

RULES: tuple[Rule, ...] = tuple(sorted(chain.from_iterable(module.RULES for module in _MODULES), key=attrgetter("id")))
