"""LangChain's agent over one of its chat models."""

from __future__ import annotations

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.tools import tool
from weather import PROMPT, SLOW_PROMPT, Tokens, get_weather, main, tell


def run(model: str, **options: object) -> None:
    chat = init_chat_model(model, **options)

    def loop(tokens: Tokens) -> str:
        agent = create_agent(chat, [tool(get_weather)])
        question = {"messages": [{"role": "user", "content": PROMPT}]}
        for state in agent.stream(question, stream_mode="values"):
            messages = state["messages"]
        for message in messages:
            if message.type == "ai":
                usage = message.usage_metadata or {}
                tokens.add(usage.get("input_tokens"), usage.get("output_tokens"))
        return messages[-1].text

    def slow() -> None:
        for chunk in chat.stream(SLOW_PROMPT):
            tell(chunk.text)

    main(loop, slow)
