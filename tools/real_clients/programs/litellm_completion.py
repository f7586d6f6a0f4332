"""litellm over one of its providers."""

from __future__ import annotations

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches prices when it is imported

import litellm
from weather import PARAMETERS, PROMPT, SLOW_PROMPT, Tokens, get_weather, main, tell

TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}


def run(model: str) -> None:
    def loop(tokens: Tokens) -> str:
        messages = [{"role": "user", "content": PROMPT}]
        options = {"include_usage": True}
        while True:
            chunks = list(
                litellm.completion(
                    model, messages=messages, tools=[TOOL], stream=True, stream_options=options
                )
            )
            completion = litellm.stream_chunk_builder(chunks, messages=messages)
            tokens.add(completion.usage.prompt_tokens, completion.usage.completion_tokens)
            message = completion.choices[0].message
            if not message.tool_calls:
                return message.content
            messages.append(message.model_dump())
            for call in message.tool_calls:
                content = get_weather(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})

    def slow() -> None:
        messages = [{"role": "user", "content": SLOW_PROMPT}]
        for chunk in litellm.completion(model, messages=messages, stream=True):
            tell(chunk.choices[0].delta.content or "")

    main(loop, slow)
