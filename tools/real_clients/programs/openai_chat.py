"""openai-python over Chat Completions."""

from __future__ import annotations

import json

from openai import OpenAI
from weather import PARAMETERS, PROMPT, SLOW_PROMPT, Tokens, get_weather, main, tell

client = OpenAI()
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": PARAMETERS, "strict": True},
}


def loop(tokens: Tokens) -> str:
    messages = [{"role": "user", "content": PROMPT}]
    options = {"include_usage": True}
    while True:
        with client.chat.completions.stream(
            model="gpt-5.5", messages=messages, tools=[TOOL], stream_options=options
        ) as stream:
            completion = stream.get_final_completion()
        tokens.add(completion.usage.prompt_tokens, completion.usage.completion_tokens)
        message = completion.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message)
        for call in message.tool_calls:
            content = get_weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


def slow() -> None:
    messages = [{"role": "user", "content": SLOW_PROMPT}]
    for chunk in client.chat.completions.create(model="gpt-5.5", messages=messages, stream=True):
        for choice in chunk.choices:
            tell(choice.delta.content or "")


main(loop, slow)
