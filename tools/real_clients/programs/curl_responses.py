"""curl over OpenAI's Responses API."""

from os import environ

from curl_request import run

run(
    f"{environ['OPENAI_BASE_URL']}/responses",
    f"authorization: Bearer {environ['OPENAI_API_KEY']}",
    '{"model": "gpt-5.5", "input": "PROMPT", "stream": true}',
    lambda event: event["delta"] if event["type"] == "response.output_text.delta" else "",
)
