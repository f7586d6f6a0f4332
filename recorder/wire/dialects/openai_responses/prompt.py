"""The prompt of a request in the Responses format.

Source: OpenAI's guide "Prompt caching" of September 2026, "Which settings affect the cached prefix?".
"""

from __future__ import annotations

import re

from recorder.wire.dialects.openai import MARKS, SUSPECTS
from recorder.wire.dialects.openai_responses.continuation import OF_THE_RESPONSE
from recorder.wire.dialects.prompt import PromptFormat, PromptPart

PROMPT = PromptFormat(
    generates=re.compile(r"/responses/?$"),
    parts=(
        PromptPart(("tools",)),
        PromptPart(("text", "format"), "parameter"),
        PromptPart(("prompt",)),
        PromptPart(("instructions",)),
        PromptPart(("input",), "conversation", text_as=(b'[{"role":"user","content":', b"}]"), ignored=OF_THE_RESPONSE),
    ),
    marks=MARKS,
    suspects=(*SUSPECTS, ("reasoning", "effort"), ("reasoning", "summary"), ("text", "verbosity"), ("truncation",)),
    retention="prompt_cache_retention",
)
