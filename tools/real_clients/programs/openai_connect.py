"""openai-python over the Responses API, on one WebSocket: each turn has only what is new."""

from __future__ import annotations

import json

from openai import OpenAI
from weather import PARAMETERS, PROMPT, SLOW_PROMPT, Tokens, get_weather, main, tell

client = OpenAI()
TOOL = {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": True}
END = "response.completed"


def loop(tokens: Tokens) -> str:
    with client.responses.connect() as connection:
        new, more = [{"role": "user", "content": PROMPT}], {}
        while True:
            connection.response.create(model="gpt-5.5", input=new, tools=[TOOL], **more)
            response = next(event.response for event in connection if event.type == END)
            tokens.add(response.usage.input_tokens, response.usage.output_tokens)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return response.output_text
            outputs = [(call.call_id, get_weather(**json.loads(call.arguments))) for call in calls]
            new = [
                {"type": "function_call_output", "call_id": id, "output": output}
                for id, output in outputs
            ]
            more = {"previous_response_id": response.id}


def slow() -> None:
    with client.responses.connect() as connection:
        connection.response.create(model="gpt-5.5", input=SLOW_PROMPT)
        for event in connection:
            if event.type == "response.output_text.delta":
                tell(event.delta)
            elif event.type == END:
                return


main(loop, slow)
