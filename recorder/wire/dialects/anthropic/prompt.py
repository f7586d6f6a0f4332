"""The prompt of a request to Anthropic Messages, and its prompt cache.

Source: Anthropic's pages "Prompt caching" (its table "What invalidates the cache", its "Cache limitations"),
"Structured outputs" and "What's new in Claude Opus 5", read on 2026-11-23. A change of the output's schema or of the
speed is one of the system prompt; a change of `tool_choice` or `thinking` leaves tools and system cached, and not the
messages.
"""

from __future__ import annotations

import re

from recorder.wire.dialects.prompt import CachePolicy, PromptFormat, PromptPart

_TEXT = (b'[{"type":"text","text":', b"}]")

PROMPT = PromptFormat(
    generates=re.compile(r"/messages$|(?<!count-tokens):(?:streamR|r)awPredict$"),
    parts=(
        PromptPart(("tools",)),
        PromptPart(("output_format",), "parameter"),
        PromptPart(("output_config", "format"), "parameter"),
        PromptPart(("speed",), "parameter"),
        PromptPart(("system",), text_as=_TEXT),
        PromptPart(("tool_choice",), "parameter"),
        PromptPart(("thinking",), "parameter"),
        PromptPart(("messages",), "conversation", blocks="content", blocks_text_as=_TEXT),
    ),
    # Claude Code puts it before its system prompt, with another value in each request, which then hits all the same.
    no_content=re.compile(rb'\{"type":"text","text":"x-anthropic-billing-header:'),
    mark="cache_control",
    suspects=(("output_config", "effort"), ("context_management",), ("mcp_servers",), ("container",)),
)

CACHE = CachePolicy(
    # Each pattern is searched in the name of the model; names on Bedrock and Vertex have more around it.
    minimums=(
        (r"opus-5", 512),
        (r"opus-4-[567]|haiku-4-5", 4096),
        (r"sonnet-4-6|haiku", 2048),
        (r"", 1024),
    ),
    lapses_s=(300, 300),  # of a mark without `ttl`; each mark has its own
    needs_marks=True,
    reach=20,  # "the system checks at most 20 positions per breakpoint"
)
