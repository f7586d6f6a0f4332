"""claude-agent-sdk for Python, which starts the Claude Code that it brings along."""

from __future__ import annotations

import asyncio

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, StreamEvent, query
from weather import SLOW_PROMPT, Tokens, main, tell

# it cannot be given a function of the name get_weather
PROMPT = "Use the shell to count the bottles."


async def ask() -> ResultMessage:
    messages = query(prompt=PROMPT, options=ClaudeAgentOptions(allowed_tools=["Bash"]))
    return [message async for message in messages if isinstance(message, ResultMessage)][-1]


def loop(tokens: Tokens) -> str:
    result = asyncio.run(ask())
    usage = result.usage
    cached = usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
    tokens.add(usage["input_tokens"] + cached, usage["output_tokens"])
    return result.result


async def stream() -> None:
    async for message in query(
        prompt=SLOW_PROMPT, options=ClaudeAgentOptions(include_partial_messages=True)
    ):
        if isinstance(message, StreamEvent):
            tell(message.event.get("delta", {}).get("text", ""))


def slow() -> None:
    asyncio.run(stream())


main(loop, slow)
