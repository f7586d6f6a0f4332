"""google-genai for Python: a chat that calls the function itself."""

from __future__ import annotations

from google import genai
from google.genai import types
from weather import PROMPT, SLOW_PROMPT, Tokens, get_weather, main, tell

client = genai.Client()
MODEL = "gemini-3-flash-preview"


def loop(tokens: Tokens) -> str:
    chat = client.chats.create(model=MODEL, config={"tools": [get_weather]})
    texts, usages = {}, {}  # by response: the chat goes from one to the next without a word
    for chunk in chat.send_message_stream(PROMPT):
        name = chunk.response_id
        texts[name] = texts.get(name, "") + text_of(chunk)
        usages[name] = chunk.usage_metadata
    for usage in usages.values():
        thoughts, said = usage.thoughts_token_count or 0, usage.candidates_token_count or 0
        tokens.add(usage.prompt_token_count, thoughts + said)
    return list(texts.values())[-1]


def slow() -> None:
    for chunk in client.models.generate_content_stream(model=MODEL, contents=SLOW_PROMPT):
        tell(text_of(chunk))


def text_of(chunk: types.GenerateContentResponse) -> str:
    parts = chunk.candidates[0].content.parts or ()
    return "".join(part.text for part in parts if part.text and not part.thought)


main(loop, slow)
