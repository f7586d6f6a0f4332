"""curl over Anthropic's Messages API."""

from os import environ

from curl_request import run

run(
    f"{environ['ANTHROPIC_BASE_URL']}/v1/messages",
    f"x-api-key: {environ['ANTHROPIC_API_KEY']}",
    '{"model": "claude-sonnet-4-6", "max_tokens": 1024, "messages": [{"role": "user", "content": "PROMPT"}], '
    '"stream": true}',
    lambda event: event.get("delta", {}).get("text"),
)
