"""openai-agents for Python, over the Responses API."""

from __future__ import annotations

import asyncio

from agents import Agent, Runner, RunResultStreaming, function_tool, set_tracing_disabled
from weather import PROMPT, SLOW_PROMPT, Tokens, get_weather, main, tell

set_tracing_disabled(True)  # its traces go to the provider's dashboard, at an address of their own
agent = Agent("forecaster", model="gpt-5.5", tools=[function_tool(get_weather)])


async def ask() -> RunResultStreaming:
    result = Runner.run_streamed(agent, PROMPT)
    async for _event in result.stream_events():
        pass
    return result


def loop(tokens: Tokens) -> str:
    result = asyncio.run(ask())
    usage = result.context_wrapper.usage
    tokens.add(usage.input_tokens, usage.output_tokens)
    return result.final_output


async def stream() -> None:
    async for event in Runner.run_streamed(agent, SLOW_PROMPT).stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            tell(event.data.delta)


def slow() -> None:
    asyncio.run(stream())


main(loop, slow)
