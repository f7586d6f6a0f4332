"""magentic, which makes ids of its own for the calls of a model."""

from __future__ import annotations

from magentic import Chat, OpenaiChatModel, ParallelFunctionCall, StreamedStr, UserMessage
from weather import PROMPT, SLOW_PROMPT, Tokens, get_weather, main, tell

MODEL = OpenaiChatModel("gpt-5.5")


def loop(tokens: Tokens) -> str:
    wanted = [str, ParallelFunctionCall]
    chat = Chat(
        [UserMessage(PROMPT)], functions=[get_weather], output_types=wanted, model=MODEL
    ).submit()
    while isinstance(chat.last_message.content, ParallelFunctionCall):
        chat = chat.exec_function_call().submit()
    return chat.last_message.content


def slow() -> None:
    for text in (
        Chat([UserMessage(SLOW_PROMPT)], output_types=[StreamedStr], model=MODEL)
        .submit()
        .last_message.content
    ):
        tell(text)


main(loop, slow)
