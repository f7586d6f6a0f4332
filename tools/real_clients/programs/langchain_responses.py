"""LangChain over OpenAI's Responses API."""

from langchain_agent import run

run("openai:gpt-5.5", streaming=True, use_responses_api=True)
