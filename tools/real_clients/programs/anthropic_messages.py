"""anthropic-python over the Messages API."""

from __future__ import annotations

from anthropic import Anthropic
from weather import PARAMETERS, PROMPT, SLOW_PROMPT, Tokens, get_weather, main, tell

client = Anthropic()
TOOL = {"name": "get_weather", "input_schema": PARAMETERS}


def loop(tokens: Tokens) -> str:
    messages = [{"role": "user", "content": PROMPT}]
    while True:
        with client.messages.stream(
            model="claude-sonnet-4-6", max_tokens=1024, messages=messages, tools=[TOOL]
        ) as stream:
            message = stream.get_final_message()
        usage = message.usage
        cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
        tokens.add(usage.input_tokens + cached, usage.output_tokens)
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in message.content if block.type == "text")
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": get_weather(**call.input)}
            for call in calls
        ]
        messages += [
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": results},
        ]


def slow() -> None:
    messages = [{"role": "user", "content": SLOW_PROMPT}]
    with client.messages.stream(
        model="claude-sonnet-4-6", max_tokens=1024, messages=messages
    ) as stream:
        for text in stream.text_stream:
            tell(text)


main(loop, slow)
