"""curl over OpenAI's Chat Completions."""

from os import environ

from curl_request import run

run(
    f"{environ['OPENAI_BASE_URL']}/chat/completions",
    f"authorization: Bearer {environ['OPENAI_API_KEY']}",
    '{"model": "gpt-5.5", "messages": [{"role": "user", "content": "PROMPT"}], "stream": true}',
    lambda chunk: "".join(choice["delta"].get("content") or "" for choice in chunk["choices"]),
)
