"""LangChain over Anthropic's Messages API."""

from langchain_agent import run

run("anthropic:claude-sonnet-4-6", streaming=True)
