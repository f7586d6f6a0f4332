"""pydantic-ai over OpenAI's Responses API."""

from pydantic_agent import run

run("openai-responses:gpt-5.5")
