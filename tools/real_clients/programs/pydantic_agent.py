"""pydantic-ai's agent over one of its models."""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, AgentRunResultEvent
from weather import PROMPT, SLOW_PROMPT, Tokens, get_weather, main, tell


def run(model: str) -> None:
    agent = Agent(model, tools=[get_weather])

    async def ask() -> AgentRunResultEvent:
        async with agent.run_stream_events(PROMPT) as events:
            return [event async for event in events][-1]

    def loop(tokens: Tokens) -> str:
        result = asyncio.run(ask()).result
        tokens.add(result.usage.input_tokens, result.usage.output_tokens)
        return result.output

    def slow() -> None:
        for text in agent.run_stream_sync(SLOW_PROMPT).stream_text(delta=True):
            tell(text)

    main(loop, slow)
