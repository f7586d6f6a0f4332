"""pydantic-ai over Anthropic's Messages API."""

from pydantic_agent import run

run("anthropic:claude-sonnet-4-6")
