"""The prompt of a request to Gemini, and its implicit cache.

Source: Google's page "Context caching": minimums of 1,024 tokens (2.5 Flash, 3 Flash) and 4,096 (2.5 Pro, 3 Pro). It
names no time for which an implicit cache is kept; people of Google have named a few minutes.
"""

from __future__ import annotations

import re

from recorder.wire.dialects.prompt import CachePolicy, PromptFormat, PromptPart

PROMPT = PromptFormat(
    generates=re.compile(r"(?::|%3[Aa])(?:streamGenerateContent|generateContent)$"),
    parts=(
        PromptPart(("cachedContent",), "parameter"),
        PromptPart(("tools",)),
        PromptPart(("systemInstruction",)),
        PromptPart(("system_instruction",)),
        PromptPart(("contents",), "conversation"),
    ),
    suspects=(
        ("toolConfig",),
        ("tool_config",),
        ("generationConfig", "responseSchema"),
        ("generationConfig", "responseJsonSchema"),
        ("generationConfig", "thinkingConfig"),
    ),
    wrappers=("request",),
)

CACHE = CachePolicy(
    minimums=((r"pro", 4096), (r"", 1024)),
    lapses_s=((r"", (180, 24 * 3600)),),
    step_tokens=256,  # not documented
    omits_zero=True,  # proto3
)
