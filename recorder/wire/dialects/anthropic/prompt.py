"""The prompt of a request to Anthropic Messages, and its prompt cache.

Source: Anthropic's pages "Prompt caching" (its table "What invalidates the cache", its "Cache limitations"),
"Structured outputs" and "Thinking", as of October 2026. A change of the output's schema or of the speed is one of the
system prompt; a change of `tool_choice` or `thinking` leaves tools and system cached, and not the messages.
"""

from __future__ import annotations

import re

from recorder.wire.dialects.anthropic.conversation import BILLING
from recorder.wire.dialects.prompt import CachePolicy, PromptFormat, PromptPart

_TEXT = (b'[{"type":"text","text":', b"}]")

PROMPT = PromptFormat(
    generates=re.compile(r"/messages$|(?<!count-tokens):(?:streamR|r)awPredict$"),
    parts=(
        PromptPart(("tools",)),
        PromptPart(("output_format",), "parameter"),
        PromptPart(("output_config", "format"), "parameter"),
        PromptPart(("speed",), "parameter"),
        PromptPart(
            ("system",),
            text_as=_TEXT,
            no_content=re.compile(rb'\{"type":"text","text":"' + BILLING.encode()),
        ),
        PromptPart(("tool_choice",), "parameter"),
        PromptPart(("thinking",), "parameter"),
        PromptPart(("messages",), "conversation", blocks="content", blocks_text_as=_TEXT),
    ),
    marks=("cache_control",),
    suspects=(("output_config", "effort"), ("context_management",), ("mcp_servers",), ("container",)),
)

CACHE = CachePolicy(
    # Each pattern is searched in the name of the model; names on Bedrock and Vertex have more around it.
    minimums=(
        (r"(?:opus|fable|mythos)-5|(?:sonnet|haiku)-5[-.]5", 512),
        (r"opus-4[-.][56]|haiku-4[-.]5", 4096),
        (r"opus-4[-.]7|mythos|haiku", 2048),
        (r"", 1024),
    ),
    lapses_s=((r"", (300, 300)),),  # of a mark without `ttl`; each mark has its own
    needs_marks=True,
    reach=20,  # "the system checks at most 20 positions per breakpoint"
)
