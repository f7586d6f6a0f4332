"""LangChain over OpenAI's Chat Completions."""

from langchain_agent import run

run("openai:gpt-5.5", streaming=True)
