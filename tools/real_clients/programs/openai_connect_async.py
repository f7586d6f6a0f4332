"""openai-python over the Responses API, on one asynchronous WebSocket: the whole history with every
turn.
"""

from __future__ import annotations

import asyncio
import json

from openai import AsyncOpenAI
from weather import PARAMETERS, PROMPT, SLOW_PROMPT, Tokens, get_weather, main, tell

TOOL = {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": True}
END = "response.completed"


async def converse(tokens: Tokens) -> str:
    history = [{"role": "user", "content": PROMPT}]
    async with AsyncOpenAI() as client, client.responses.connect() as connection:
        while True:
            await connection.response.create(model="gpt-5.5", input=history, tools=[TOOL])
            response = await anext(
                event.response async for event in connection if event.type == END
            )
            tokens.add(response.usage.input_tokens, response.usage.output_tokens)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return response.output_text
            history += [item.to_dict() for item in response.output]
            for call in calls:
                output = get_weather(**json.loads(call.arguments))
                history.append(
                    {"type": "function_call_output", "call_id": call.call_id, "output": output}
                )


async def stream() -> None:
    async with AsyncOpenAI() as client, client.responses.connect() as connection:
        await connection.response.create(model="gpt-5.5", input=SLOW_PROMPT)
        async for event in connection:
            if event.type == "response.output_text.delta":
                tell(event.delta)
            elif event.type == END:
                return


def loop(tokens: Tokens) -> str:
    return asyncio.run(converse(tokens))


def slow() -> None:
    asyncio.run(stream())


main(loop, slow)
