"""pydantic-ai over OpenAI's Chat Completions."""

from pydantic_agent import run

run("openai-chat:gpt-5.5")
