"""openai-python over the Responses API: the whole history with every turn."""

from __future__ import annotations

import json

from openai import OpenAI
from weather import PARAMETERS, PROMPT, SLOW_PROMPT, Tokens, get_weather, main, tell

client = OpenAI()
TOOL = {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": True}


def loop(tokens: Tokens) -> str:
    history = [{"role": "user", "content": PROMPT}]
    while True:
        with client.responses.stream(model="gpt-5.5", input=history, tools=[TOOL]) as stream:
            response = stream.get_final_response()
        tokens.add(response.usage.input_tokens, response.usage.output_tokens)
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return response.output_text
        history += response.output
        for call in calls:
            output = get_weather(**json.loads(call.arguments))
            history.append(
                {"type": "function_call_output", "call_id": call.call_id, "output": output}
            )


def slow() -> None:
    for event in client.responses.create(model="gpt-5.5", input=SLOW_PROMPT, stream=True):
        if event.type == "response.output_text.delta":
            tell(event.delta)


main(loop, slow)
