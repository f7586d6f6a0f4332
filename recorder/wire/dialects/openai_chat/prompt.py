"""The prompt of a request to Chat Completions, or to legacy completions. Source: OpenAI's guide "Prompt caching"."""

from __future__ import annotations

import re

from recorder.wire.dialects.openai import MARKS, SUSPECTS
from recorder.wire.dialects.prompt import PromptFormat, PromptPart

PROMPT = PromptFormat(
    generates=re.compile(r"/completions/?$"),
    parts=(
        PromptPart(("tools",)),
        PromptPart(("functions",)),
        PromptPart(("response_format",), "parameter"),
        PromptPart(("prompt",)),
        PromptPart(("messages",), "conversation"),
    ),
    marks=MARKS,
    suspects=(*SUSPECTS, ("reasoning_effort",), ("verbosity",)),
    retention="prompt_cache_retention",
)
